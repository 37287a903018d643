"""How an engine judges its batches: open alerts of an earlier engine, a suspended machine, another engine's host."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from alerting import sample

from jobtop.core.alerts.model import State
from jobtop.core.config import load
from jobtop.core.measure.collectors.host.reading import HostSample
from jobtop.core.measure.sampler import Batch, Sampler
from jobtop.core.model import Job
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.lifecycle.alerts.watching import AlertWatch
from jobtop.store.alerts.alert_rows import AlertStore
from jobtop.store.alerts.marks import MarkKind, Marks
from jobtop.store.database import Database, open_to_read
from jobtop.store.samples.sink import StoreSink
from records import call, kept_jobs, running_job
from support import wait_for

RULES = """
[[alert]]
name = "much"
metric = "mem.used"
above = 100
for = "10s"

[[alert]]
name = "many"
metric = "proc.count"
above = 5

[[alert]]
name = "host"
scope = "host"
metric = "load.1"
above = 5
"""


STEPS = '[[alert]]\nname = "many"\nmetric = "proc.count"\nabove = 5\nsteps = [{}]\n'


def configure(text: str) -> None:
    directory = Path(os.environ["HOME"]) / ".config/jobtop"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.toml").write_text(text)


@pytest.fixture
def job(paths: StatePaths) -> Job:
    configure(RULES)
    return kept_jobs(paths.root, running_job())[0]


class Engine:
    """The parts of an engine that judge batches and store them."""

    def __init__(self, paths: StatePaths, job: Job) -> None:
        self.sink = StoreSink(paths, network=False)
        self.watch = AlertWatch(paths, load((), os.environ, paths.root), lambda _: job)
        self.sampler = SimpleNamespace(records_host=True)
        self.watch.connect(self.sink, cast("Sampler", self.sampler))
        self.sink.may_record_host()

    def take(self, batch: Batch) -> list[tuple[str, State]]:
        changes = self.watch.see(batch)
        self.sink.keep([replace(batch, alerts=changes)])
        return [(change.rule.name, change.state) for change in changes]


@pytest.fixture
def engine(paths: StatePaths, job: Job) -> Iterator[Engine]:
    made = Engine(paths, job)
    yield made
    made.sink.close()


def host(second: float, load_1: float) -> Batch:
    samples = [HostSample(moment, {"load.1": load_1}) for moment in (second - 1, second)]
    return Batch(host=(second, samples[0], samples[1]))


def test_a_rule_that_raises_is_inactive_and_says_why(engine: Engine, job: Job, paths: StatePaths) -> None:
    def fail(*_: object) -> list[tuple[str, float]]:
        raise ValueError("no such thing")

    engine.watch.evaluator._watches["many", None].tripped = fail
    samples = [(job.id, sample(1.0, mem__used=50, proc__count=9))]
    assert engine.take(replace(host(1.0, 9.0), samples=samples)) == [("host", State.FIRING)]

    def listed() -> tuple[str, str | None]:
        rows = {row["name"]: row for row in json.loads(call("alerts", "rules", "--json").stdout)}
        return rows["many"]["state"], rows["many"]["reason"]

    state, reason = listed()
    assert (state, "ValueError: no such thing" in str(reason)) == ("inactive", True)
    assert "no such thing" in paths.log.read_text()
    configure(RULES.replace('"proc.count"\nabove = 5', '"proc.count"\nabove = 6'))
    assert listed() == ("active", None)


def states(paths: StatePaths) -> list[tuple[str, State]]:
    database = open_to_read(paths.store)
    try:
        return [(alert.rule, alert.state) for alert in AlertStore(database).listing()]
    finally:
        database.close()


def test_a_suspended_machine_is_known_before_its_samples_are_judged(engine: Engine, job: Job) -> None:
    for second in (1.0, 2.0, 3.0):
        assert engine.take(Batch([(job.id, sample(second, mem__used=101))])) == []
    asleep = Batch([(job.id, sample(20.0, mem__used=101))], events=[(job.id, 0.0, "suspended", {"seconds": 16.0})])
    assert engine.take(asleep) == []
    assert engine.take(Batch([(job.id, sample(29.0, mem__used=101))])) == []
    assert engine.take(Batch([(job.id, sample(30.0, mem__used=101))])) == [("much", State.FIRING)]


def test_an_alert_of_a_removed_rule_ends_with_the_next_engine(paths: StatePaths, job: Job) -> None:
    first = Engine(paths, job)
    assert first.take(Batch([(job.id, sample(1.0, proc__count=9))])) == [("many", State.FIRING)]
    first.sink.close()
    configure(RULES.replace("many", "more"))
    second = Engine(paths, job)
    changes = second.take(Batch([(job.id, sample(2.0, proc__count=9))]))
    assert changes == [("many", State.RESOLVED), ("more", State.FIRING)]
    second.sink.close()
    assert states(paths) == [("more", State.FIRING), ("many", State.RESOLVED)]


def test_the_next_engine_goes_on_with_open_alerts(paths: StatePaths, job: Job) -> None:
    first = Engine(paths, job)
    assert first.take(Batch([(job.id, sample(1.0, proc__count=9))])) == [("many", State.FIRING)]
    first.sink.close()
    second = Engine(paths, job)
    assert second.take(Batch([(job.id, sample(2.0, proc__count=9))])) == []
    assert second.take(Batch([(job.id, sample(3.0, proc__count=1))])) == []
    assert second.take(Batch([(job.id, sample(4.0, proc__count=1))])) == [("many", State.RESOLVED)]
    second.sink.close()


def test_alerts_of_the_host_stay_open_when_another_engine_records_it(engine: Engine, paths: StatePaths) -> None:
    assert engine.take(host(10.0, 9.0)) == [("host", State.FIRING)]
    engine.sampler.records_host = False
    assert engine.take(Batch()) == []
    engine.sampler.records_host = True
    assert engine.take(host(20.0, 9.0)) == [], "it goes on with the stored one"
    assert states(paths) == [("host", State.FIRING)]
    assert engine.take(host(21.0, 1.0)) == []
    assert engine.take(host(22.0, 1.0)) == [("host", State.RESOLVED)]


@pytest.mark.parametrize(
    ("steps", "deeds"),
    [
        ('{after = "0s", do = "stop"}', ["stop"]),
        ('{after = "0s"}, {after = "0.5s", do = "kill"}', ["kill"]),
        ('{after = "0s"}, {after = "1h", do = "kill"}', []),
    ],
)
def test_the_first_step_of_an_armed_rule_acts_too(paths: StatePaths, job: Job, steps: str, deeds: list[str]) -> None:
    configure(STEPS.format(steps))
    engine = Engine(paths, job)
    engine.sink.tell_of = engine.watch.tell_of
    engine.sink.write(lambda database: Marks(database).set(MarkKind.ARMED, "many"))
    engine.take(Batch([(job.id, sample(1.0, proc__count=9))]))
    for _ in range(2):  # a step is taken once
        engine.sink.write(lambda database: engine.watch._take_steps(database, time.time() + 1))
    assert [word for _, word, _ in engine.watch.dispatch.deeds] == deeds
    engine.sink.close()


def test_a_step_is_taken_with_the_first_batch_after_its_time(
    paths: StatePaths, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(STEPS.format('{after = "0s"}, {after = "0.1s", do = "stop"}, {after = "0.2s", do = "kill"}'))
    done: list[str] = []
    monkeypatch.setattr(AlertWatch, "_perform", lambda _, deeds: done.extend(word for _, word, _ in deeds))
    engine = Engine(paths, job)
    engine.sink.tell_of = engine.watch.tell_of
    engine.sink.write(lambda database: Marks(database).set(MarkKind.ARMED, "many"))
    looks: list[float] = []
    take_steps = engine.watch._take_steps

    def counted(database: Database, at: float) -> None:
        looks.append(at)
        take_steps(database, at)

    monkeypatch.setattr(engine.watch, "_take_steps", counted)
    assert engine.take(Batch([(job.id, sample(1.0, proc__count=9))])) == [("many", State.FIRING)]
    wait_for(lambda: (engine.take(Batch()), len(done) == 2)[1], 8.0)  # detectors look every ten seconds only
    for _ in range(20):
        engine.take(Batch())
    assert (done, len(looks) < 5) == (["stop", "kill"], True), "the store is used only when a step is due"
    engine.sink.close()
