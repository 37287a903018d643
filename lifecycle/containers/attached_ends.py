"""How an attached container ended: asked of its engine, and kept in the directory of the job until it is recorded."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress

from jobtop.core.errors import NoSuchContainer
from jobtop.core.measure.collectors import cgroup
from jobtop.core.measure.collectors.docker.model import RESTARTING
from jobtop.core.procfs import read_text
from jobtop.core.record import replace
from jobtop.core.run.containers.end import ContainerEnd, end_from
from jobtop.core.run.containers.facts import FINDING
from jobtop.core.state_files import read_state_file
from jobtop.lifecycle.containers.silence import ENGINE_SECONDS, SILENCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from jobtop.core.measure.collectors.docker.client import Engine
    from jobtop.core.measure.collectors.docker.model import Container, ContainerEvent, Endpoint
    from jobtop.core.model import Job

FILE = "container-end"
MOST_BYTES = 1 << 20
DEATHS = frozenset({"die", "died"})  # what Docker and Podman call the end of a container
EXIT_CODES = ("exitCode", "containerExitCode")
SAME_SECONDS = 0.005  # two readings of one moment, rounded differently
PAST_SECONDS = 0.5  # without an event: an engine tells at once what it remembers
EARLY_SECONDS = 1.0  # the event of a start may be a moment older than the time of the start
NOTE_SECONDS, NOTE_PAUSE_SECONDS = 1.0, 0.05  # for an engine to note an end that it has not noted yet
REMOVED = "the engine has removed the container, and has forgotten its end"
NOT_NOTED = "its engine has not noted its end"
STARTED_ANEW = "the container was started again, and the engine has forgotten its earlier end"
LOCAL = ("unix://", "tcp://", "http://", "https://")  # an engine behind ssh has its processes elsewhere


def endpoint_of(job: Job) -> Endpoint | None:
    """The engine of an attached container, by its record; None if the record does not say."""
    from jobtop.core.measure.collectors.docker.model import Endpoint

    found = job.findings.get(FINDING)
    url, name = (found.get("engine"), found.get("engine_name")) if isinstance(found, dict) else (None, None)
    if not isinstance(url, str) or not url.startswith(LOCAL):
        return None
    return Endpoint(name if isinstance(name, str) else "engine", url, "socket")


def container_id_of(job: Job) -> str:
    found = job.findings.get(FINDING)
    return str(found.get("id", "")) if isinstance(found, dict) else ""


def started_at_of(job: Job) -> float:
    """When the container was started, as its engine says."""
    found = job.findings.get(FINDING)
    at = found.get("started_at") if isinstance(found, dict) else None
    return float(at) if isinstance(at, int | float) else job.start_time or 0.0


def read_evidence(directories: Iterable[str]) -> dict[str, str]:
    """What the cgroups of a container have counted, while they exist."""
    texts: dict[str, str] = {}
    for directory in directories:
        for name in {name for names in cgroup.EVIDENCE.values() for name in names} - texts.keys():
            # In hybrid systems cpu.stat is in more than one hierarchy: only that of version 2 has times.
            if (text := read_text(f"{directory}/{name}")) and (name != "cpu.stat" or "usage_usec" in text):
                texts[name] = text
    return texts


def read_end(directory: Path) -> ContainerEnd:
    """What is kept of the end of a container; empty if nothing is."""
    try:
        return end_from(json.loads(read_state_file(directory / FILE, MOST_BYTES)))
    except (OSError, ValueError, RecursionError):
        return ContainerEnd()


def write_end(directory: Path, end: ContainerEnd) -> None:
    """Keep what is known of the end, so that a kill of this process loses nothing; a full disk costs only that."""
    new = directory / f"{FILE}.new"
    with suppress(OSError):
        with open(new, "w", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600)) as file:
            json.dump(end.to_json(), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, directory / FILE)


def ask_end(engine: Engine, container_id: str, started_at: float, asks_for_events: bool = True) -> ContainerEnd | None:
    """How the run of a container that began at a moment has ended; None if the engine has not noted its end.

    A container that was removed, or started again, is looked for among the events that the engine remembers.
    """
    why = REMOVED
    try:
        container = engine.inspect(container_id)
    except NoSuchContainer:
        container = None
    if container is not None:
        is_same = container.started_at is None or abs(container.started_at - started_at) < SAME_SECONDS
        if is_same and container.exit_code is not None:
            return end_of(container)
        if is_same and not container.is_over and container.state != RESTARTING:
            return None
        why = STARTED_ANEW
    told = _remembered(engine, container_id, started_at) if asks_for_events else None
    return told or ContainerEnd(why_unknown=why)


def end_of(container: Container) -> ContainerEnd:
    """How a container ended that still exists."""
    return ContainerEnd(
        container.exit_code,
        container.finished_at,
        container.is_oom_killed,
        container.error,
        container.restarts,
        container.health,
    )


def _remembered(engine: Engine, container_id: str, started_at: float) -> ContainerEnd | None:
    """The end of a run, from the events that the engine remembers."""
    was_killed = False
    # Without an end of the time: Podman 4.3 tells nothing if that has a fraction. The stream ends when all is told.
    for event in engine.events(started_at - EARLY_SECONDS, PAST_SECONDS):
        if event.container_id != container_id or event.at < started_at:
            continue
        was_killed |= event.action == "oom"
        if event.action in DEATHS:
            return replace(end_in(event), is_oom_killed=was_killed or None)
    return None


def end_in(event: ContainerEvent) -> ContainerEnd:
    """The exit code that an event tells; without one, the end is not known."""
    texts = [event.attributes[name] for name in EXIT_CODES if name in event.attributes]
    if not texts or not texts[0].isdecimal():
        return ContainerEnd(finished_at=event.at, why_unknown="the engine does not tell it")
    return ContainerEnd(int(texts[0][:9]), event.at)


def ask_end_of(job: Job) -> ContainerEnd | None:
    """The same for a job, by a connection of its own, after a moment; EngineError if its engine does not answer."""
    from jobtop.core.measure.collectors.docker.client import Engine

    endpoint = endpoint_of(job)
    if endpoint is None:
        return ContainerEnd(why_unknown="its record does not name its engine")
    container_id, started_at = container_id_of(job), started_at_of(job)
    due = time.monotonic() + NOTE_SECONDS
    with Engine(endpoint, ENGINE_SECONDS) as engine:
        SILENCE.check(engine)
        while (end := ask_end(engine, container_id, started_at)) is None and time.monotonic() < due:
            time.sleep(NOTE_PAUSE_SECONDS)
        return end or _remembered(engine, container_id, started_at)
