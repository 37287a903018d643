"""A process that reads one container for a tracked block, so that the block does not pay for it.

`python -m jobtop.core.track.container_process watch NAME SECONDS PID`, with a socket as standard input, reads until the
process closes its side or exits, then answers with the `container_stats` as JSON; `info NAME` answers with what the
engine says about the container.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
from contextlib import suppress

from jobtop.core.errors import JobtopError
from jobtop.core.measure.collectors.docker.finding import close_engines, find_container, open_engines
from jobtop.core.measure.collectors.docker.monitor import ContainerMonitor
from jobtop.core.procfs import start_ticks
from jobtop.core.track.container_profile import ContainerTally, container_info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from jobtop.core.measure.collectors.docker.snapshot import Containers

SETTLE_SECONDS = 1.5  # that the last reading may take if there was none: a very short block


def watch(name: str, interval_seconds: float, pid: int) -> dict[str, Any]:
    """What a container used until standard input ends, or why that is not known (`problem`)."""
    tally, started = ContainerTally(_host_memory_bytes()), start_ticks(pid)
    with ContainerMonitor(interval_seconds=interval_seconds) as monitor:
        while True:
            # A forked child may hold the socket open when the process has exited.
            is_over = bool(select.select([0], [], [], interval_seconds)[0]) or start_ticks(pid) != started
            if is_over and not tally.stats():
                monitor.settle(SETTLE_SECONDS)
            snapshot = monitor.snapshot()
            for row in snapshot.rows:
                if is_meant(row.container.name, row.container.id, row.container.engine, name):
                    tally.add(row)
            if is_over:
                return {"stats": tally.stats(), "problem": problem(snapshot, name) if not tally.stats() else None}


def is_meant(container: str, container_id: str, engine: str, name: str) -> bool:
    """Whether a container has this name, NAME or ENGINE/NAME, or this beginning of its id."""
    wanted = name.removeprefix("/")
    return wanted in (container, f"{engine}/{container}") or (len(wanted) >= 4 and container_id.startswith(wanted))


def problem(snapshot: Containers, name: str) -> str:
    """Why nothing is known of a container."""
    silent = [engine.problem for engine in snapshot.engines if engine.problem is not None]
    if not snapshot.engines:
        return "no container engine found"
    return "; ".join(silent) or f'no container "{name}" ran'


def info(name: str) -> dict[str, Any]:
    """What the engine says about a container now, or why nothing."""
    try:
        engines = open_engines(os.environ)
        try:
            engine, listed = find_container(engines, name)
            return {"info": container_info(engine.inspect(listed.id), engine.endpoint.name), "problem": None}
        finally:
            close_engines(engines)
    except JobtopError as error:
        return {"info": {}, "problem": str(error)}


def _host_memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def main() -> None:
    verb, name, *rest = sys.argv[1:]
    answer = info(name) if verb == "info" else watch(name, float(rest[0]), int(rest[1]))
    with suppress(OSError), socket.socket(fileno=os.dup(0)) as connection:
        connection.sendall(json.dumps(answer).encode())
    os._exit(0)  # threads of an engine that hangs would delay the end


if __name__ == "__main__":
    main()
