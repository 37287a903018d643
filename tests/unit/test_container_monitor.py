"""The container monitor: engines that come, hang and go, events, and numbers by the stats API."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_engine import FakeEngine, container_id, container_row, fake_engine, is_client
from jobtop.core.measure.collectors.docker import engine_watch
from jobtop.core.measure.collectors.docker.model import Endpoint
from jobtop.core.measure.collectors.docker.monitor import ContainerMonitor
from jobtop.core.measure.collectors.docker.snapshot import STATS_API, ContainerRow, EngineState
from support import ROOT, wait_for

DATA = ROOT / "tests/data/docker"
JOB = "0123abcd-0000-4000-8000-000000000001"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[FakeEngine]:
    with fake_engine(tmp_path / "a", [container_row("web", 1), container_row("old", 2, State="exited")]) as made:
        yield made


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., ContainerMonitor]]:
    """Start a monitor of these engines; this machine sees no process of their containers."""
    started: list[ContainerMonitor] = []
    (tmp_path / "proc").mkdir()

    def start(*engines: FakeEngine, every: bool = False) -> ContainerMonitor:
        def find() -> list[Endpoint]:
            return [Endpoint(each.path.name, each.url, "test") for each in engines]

        started.append(ContainerMonitor({}, 0.05, every, str(tmp_path / "proc"), find).start())
        return started[-1]

    yield start
    for monitor in started:
        monitor.close()


def row(monitor: ContainerMonitor, name: str) -> ContainerRow | None:
    return next((row for row in monitor.snapshot().rows if row.container.name == name), None)


def state(monitor: ContainerMonitor, name: str = "a") -> EngineState | None:
    return next((engine for engine in monitor.snapshot().engines if engine.name == name), None)


def listens(engine: FakeEngine) -> None:
    wait_for(lambda: engine.listeners)


def stats(second: int, cpu_seconds: float) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((DATA / "stats-cgroupv2.json").read_text())
    answer["read"] = f"2026-11-16T01:29:{second:02}Z"
    answer["cpu_stats"]["cpu_usage"]["total_usage"] = round(cpu_seconds * 1e9)
    return answer


def test_an_engine_that_hangs_while_it_is_watched_is_noticed_until_it_answers(
    engine: FakeEngine, watch: Callable[..., ContainerMonitor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_watch, "PULSE_SECONDS", 0.05)
    monkeypatch.setattr(engine_watch, "ANSWER_SECONDS", 0.3)
    monitor = watch(engine)
    wait_for(lambda: row(monitor, "web"))
    listens(engine)
    engine.hang()
    wait_for(lambda: (found := state(monitor)) and "does not answer" in (found.problem or ""))
    engine.released.set()
    wait_for(lambda: (found := state(monitor)) and found.problem is None)
    wait_for(lambda: row(monitor, "web"))


def test_events_change_the_rows_without_another_list(
    engine: FakeEngine, watch: Callable[..., ContainerMonitor]
) -> None:
    monitor = watch(engine)
    assert wait_for(lambda: row(monitor, "web")).container.restarts == 2
    assert row(monitor, "old") is None
    listens(engine)
    new, web = container_row("new", 3, Labels={"jobtop.job": JOB}), engine.rows[0]
    engine.rows.append(new)
    engine.emit("start", new["Id"])
    assert wait_for(lambda: row(monitor, "new")).job_id == JOB
    engine.emit("health_status: unhealthy", web["Id"])
    wait_for(lambda: (found := row(monitor, "web")) and found.container.health == "unhealthy")
    engine.details[web["Id"]] = {
        "State": {"Status": "exited", "ExitCode": 137, "OOMKilled": True, "FinishedAt": "2026-11-18T04:01:00Z"}
    }
    engine.emit("oom", web["Id"])
    engine.emit("die", web["Id"], exitCode="137")
    ended = wait_for(lambda: found if (found := row(monitor, "web")) and not found.container.is_alive else None)
    assert (ended.container.exit_code, ended.container.is_oom_killed) == (137, True)
    assert [event.action for event in ended.events] == ["health_status", "oom", "die"]
    engine.emit("exec_create: sh", new["Id"])
    engine.emit("destroy", web["Id"])
    wait_for(lambda: row(monitor, "web") is None)
    assert sum(asked.startswith("GET /containers/json") for asked in engine.asked) == 1
    assert sum(asked == f"GET /containers/{new['Id']}/json" for asked in engine.asked) == 1


def test_every_container_is_listed_where_that_is_wanted(
    engine: FakeEngine, watch: Callable[..., ContainerMonitor]
) -> None:
    monitor = watch(engine, every=True)
    assert wait_for(lambda: row(monitor, "old")).why_absent is not None


def test_numbers_come_from_the_engine_where_no_cgroup_is_seen(
    engine: FakeEngine, watch: Callable[..., ContainerMonitor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobtop.core.measure.collectors.docker.stats_reader.INTERVAL_SECONDS", 0.05)
    engine.stats[container_id(1)] = stats(2, 4.0)
    monitor = watch(engine)
    first = wait_for(lambda: found if (found := row(monitor, "web")) and found.source else None)
    assert (first.source, first.values["mem.used"], first.cpu_percent) == (STATS_API, 57344, None)
    engine.stats[container_id(1)] = stats(4, 5.0)
    assert monitor.settle(20)
    second = wait_for(lambda: found if (found := row(monitor, "web")) and found.cpu_percent else None)
    assert second.cpu_percent == pytest.approx(50.0)
    engine.stats[container_id(1)] = {"read": "0001-01-01T00:00:00Z"}
    lost = wait_for(lambda: found if (found := row(monitor, "web")) and found.why_absent else None)
    assert "cpu.percent" not in lost.values


def test_an_engine_that_hangs_disturbs_no_other_one_and_snapshot_never_waits(
    engine: FakeEngine, watch: Callable[..., ContainerMonitor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobtop.core.measure.collectors.docker.engine_watch.ANSWER_SECONDS", 0.3)
    with fake_engine(tmp_path / "b", [container_row("other", 5)]) as second:
        engine.hang()
        began = time.monotonic()
        monitor = watch(engine, second)
        monitor.snapshot()
        assert time.monotonic() - began < 1.0
        wait_for(lambda: row(monitor, "other"))
        hanging = wait_for(lambda: found if (found := state(monitor)) and found.problem else None)
        assert "does not answer" in (hanging.problem or "")
        began = time.monotonic()
        monitor.close()
        assert time.monotonic() - began < 2.0


def test_an_engine_is_found_when_it_appears_and_again_after_it_closed_the_connection(
    engine: FakeEngine, watch: Callable[..., ContainerMonitor], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("jobtop.core.measure.collectors.docker.monitor.DISCOVERY_SECONDS", 0.05)
    monkeypatch.setattr("jobtop.core.measure.collectors.docker.engine_watch.FIRST_PAUSE_SECONDS", 0.2)
    engines: list[FakeEngine] = []
    monitor = ContainerMonitor(
        {}, 0.05, proc=str(tmp_path), find=lambda: [Endpoint("a", each.url, "test") for each in engines]
    )
    with monitor:
        assert monitor.settle(5)
        assert monitor.snapshot().engines == ()
        engines.append(engine)
        wait_for(lambda: row(monitor, "web"))
        listens(engine)
        engine.disconnect()
        wait_for(lambda: (found := state(monitor)) and found.problem)
        wait_for(lambda: (found := state(monitor)) and found.problem is None)
        wait_for(lambda: row(monitor, "web"))


def test_an_absent_engine_says_what_to_do(tmp_path: Path) -> None:
    missing = Endpoint("docker", f"unix://{tmp_path}/absent", "DOCKER_HOST")
    with ContainerMonitor({}, 0.05, find=lambda: [missing]) as monitor:
        assert monitor.settle(5)
        found = monitor.snapshot().engines[0]
    assert found.info is None
    assert found.problem is not None
    assert "does not run" in found.problem
    assert found.endpoint == missing


def test_a_container_that_cannot_be_inspected_costs_only_its_own_details(
    engine: FakeEngine, watch: Callable[..., ContainerMonitor]
) -> None:
    engine.rows.append(container_row("broken", 7))
    engine.details[container_id(7)] = {"Id": None}
    monitor = watch(engine)
    assert wait_for(lambda: row(monitor, "web")).container.restarts == 2
    assert wait_for(lambda: row(monitor, "broken")).container.restarts is None


def test_no_thread_is_left(engine: FakeEngine, watch: Callable[..., ContainerMonitor]) -> None:
    before = set(threading.enumerate())  # threads that another test left
    monitor = watch(engine)
    wait_for(lambda: row(monitor, "web"))
    listens(engine)
    monitor.close()
    wait_for(lambda: not [each.name for each in threading.enumerate() if is_client(each, before)])
