"""The container monitor on real engines: its numbers are those of a known load, and its events come."""

from collections.abc import Callable, Iterator

import pytest

from container_jobs import PYTHON, engine
from engines import PYTHON_BINDS, RealEngine
from jobtop.core.measure.collectors.docker.monitor import ContainerMonitor
from jobtop.core.measure.collectors.docker.snapshot import CGROUP, ContainerRow
from support import wait_for

__all__ = ["engine"]

MIB = 1 << 20
# Holds 100 MiB and uses half of a core.
HALF = """
import time
held = b"x" * (100 << 20)
print("ready", flush=True)
while True:
    until = time.process_time() + 0.02
    before = time.monotonic()
    while time.process_time() < until: pass
    time.sleep(time.monotonic() - before)
"""


@pytest.fixture
def monitor(engine: RealEngine) -> Iterator[ContainerMonitor]:
    with ContainerMonitor(engine.env, 0.3, every=True) as found:
        yield found


def row_of(monitor: ContainerMonitor, container: str) -> ContainerRow | None:
    return next((row for row in monitor.snapshot().rows if row.container.id == container), None)


def seen(monitor: ContainerMonitor, container: str, condition: Callable[[ContainerRow], bool]) -> ContainerRow:
    """Wait for a row that fulfils the condition."""
    return wait_for(lambda: row if (row := row_of(monitor, container)) and condition(row) else None, 20)


def test_a_known_load_is_seen(monitor: ContainerMonitor, engine: RealEngine) -> None:
    host = {"network_mode": "none", "binds": PYTHON_BINDS, "mem_limit": 200 * MIB, "pids_limit": 30}
    with engine.container(*PYTHON, HALF, host=host) as container:
        counted = seen(monitor, container, lambda row: (row.memory_bytes or 0) > 100 * MIB)
        assert counted.source == CGROUP
        assert counted.memory_bytes == pytest.approx(107 * MIB, rel=0.05)
        assert counted.values["proc.threads"] == 1
        seen(monitor, container, lambda row: 20 < (row.cpu_percent or 0) < 80)


def test_events_and_the_end_of_a_container_are_seen(monitor: ContainerMonitor, engine: RealEngine) -> None:
    wait_for(lambda: monitor.snapshot().engines and monitor.snapshot().engines[0].info, 10)
    host = {"network_mode": "none", "binds": PYTHON_BINDS, "mem_limit": 32 * MIB, "memswap_limit": 32 * MIB}
    with engine.container(*PYTHON, "held = b'x' * (100 << 20)", host=host) as container:
        ended = seen(monitor, container, lambda row: row.container.state == "exited")
        assert ended.container.exit_code == 137
        if engine.kind == "docker":  # Podman 4.3 does not notice it on cgroup version 1
            assert ended.container.is_oom_killed
        seen(monitor, container, lambda row: {"start", "die"} <= {event.action for event in row.events})
