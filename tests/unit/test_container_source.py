"""Jobs that only their engine counts: one source asks it, and no other source is given such a job."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fake_engine import container_id, container_row, fake_engine
from jobtop.core.errors import UsageError
from jobtop.core.measure.collectors.docker.source import ContainerSource
from jobtop.core.measure.sampler import Sampler
from jobtop.core.measure.sources import Options
from jobtop.core.measure.target import Target, live_target, target_in
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Identity
from jobtop.core.record import replace
from jobtop.core.run.containers.file import ContainerFile, Told, write_container
from processes import FakeProc, below
from records import made_job
from support import ROOT, wait_for

RUNNER = 60


def stats() -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((ROOT / "tests/data/docker/stats-cgroupv2.json").read_text())
    return answer


def elsewhere(url: str, number: int = 1) -> Target:
    return Target(Identity("boot", RUNNER, None), 0.0, engine=url, container_id=container_id(number))


def test_a_container_of_another_machine_is_sampled_by_its_engine_alone(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path / "proc")
    for pid, parent in ((1, 0), (RUNNER, 1), (61, RUNNER)):
        proc.put(pid, parent, cpu=9.0)
    sampler = Sampler(lambda _: None, 100.0, options=Options(proc=str(proc.root)))
    sampler.table.clock = proc.clock

    def values() -> dict[str, float] | None:
        sampler.tick()
        row = sampler.watches["far"].row
        found = {key: value for key, value in zip(JOB_COLUMNS, row, strict=True) if value is not None}
        return found if "cpu.user" in found else None

    with fake_engine(tmp_path / "s", [container_row("far", 1)]) as engine, closing(sampler.collecting):
        sampler.watch("here", below(RUNNER))
        sampler.tick()
        assert not [each.name for each in threading.enumerate() if each.name == "jobtop-containers"]
        assert [status.problem for status in sampler.source_statuses() if status.name == "containers"] == [None]
        engine.stats[container_id(1)] = stats()
        sampler.watch("far", elsewhere(engine.url))
        found = wait_for(values)
        assert found["mem.used"] == 57344
        assert round(found["cpu.user"] + found["cpu.system"], 6) == 4.13
        assert not {"proc.count", "net.rx_bytes", "mem.rss"} & found.keys()
        remarks = sampler.watches["far"].remarks["containers"]
        assert remarks.sources["cpu"] == "stats API"
        assert remarks.incomplete


def test_an_engine_that_fails_is_asked_once_in_a_round_and_costs_the_values_of_its_jobs(tmp_path: Path) -> None:
    source = ContainerSource()
    with fake_engine(tmp_path / "s", [container_row("far", 1)]) as engine, closing(source):
        engine.stats[container_id(1)] = stats()
        jobs = {"a": elsewhere(engine.url), "b": elsewhere(engine.url, 7), "c": elsewhere(engine.url)}
        found = source.collect(jobs).jobs
        assert found["a"]["mem.used"] == 57344
        assert (found["b"], found["c"]) == ({}, {})
        asked = [path for path in engine.asked if "/stats" in path]
        assert len(asked) == 2


def test_a_container_without_a_process_here_is_a_target_of_its_engine(tmp_path: Path) -> None:
    shim, runner = Identity("boot", 5, 1), Identity("boot", 6, 2)
    record = replace(made_job(), kind="container", shim=shim, start_boottime=7.0)
    file = ContainerFile(engine="tcp://far:2375", id="a" * 64, runner=runner)
    write_container(tmp_path, file)
    assert target_in(tmp_path, record) is None
    with pytest.raises(UsageError, match="not started"):
        live_target(tmp_path, record)
    write_container(tmp_path, replace(file, started_at=1.0))
    found = target_in(tmp_path, record)
    assert found is not None
    assert (found.engine, found.container_id, found.root, found.awaited) == ("tcp://far:2375", "a" * 64, runner, shim)
    with pytest.raises(UsageError, match="another machine"):
        live_target(tmp_path, record)
    write_container(tmp_path, replace(file, started_at=1.0, told=Told(exit_code=0)))
    assert target_in(tmp_path, record) is None
