"""An engine with a slow, busy or broken store: sampling waits for nothing, nothing is lost or there twice."""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial

import pytest

from jobtop.core.clock import BOOTTIME
from jobtop.core.errors import StoreBusy, StoreUnavailable
from jobtop.core.measure import engine as engine_module
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.measure.derive import Frame
from jobtop.core.measure.engine import Engine, Settings, Watched
from jobtop.core.measure.sampler import Batch
from jobtop.core.measure.tally import Tally
from jobtop.core.measure.target import Target
from sampled import sample
from support import wait_for

PATIENCE = 5.0
NEVER = 3600.0  # seconds between samples: only what a test hands over comes after the first


class FakeSink:
    """Keeps batches in a list; `trouble` is asked before each attempt and may raise or wait."""

    def __init__(self, trouble: Callable[[], None] = lambda: None, pace_seconds: float = 0.0) -> None:
        self.trouble, self.pace_seconds = trouble, pace_seconds
        self.calls: list[list[Batch]] = []
        self.lost: dict[str, float] = {}
        self.watched: Collection[str] = ()
        self.attempts = 0
        self.finished: list[str] = []
        self.closed = 0
        self.records_host = False
        self.host_asked = 0
        self.threads: set[int] = set()

    def keep(self, batches: list[Batch]) -> None:
        self.attempts += 1
        self.threads.add(threading.get_ident())
        self.trouble()
        self.calls.append(list(batches))

    def may_record_host(self) -> bool:
        self.host_asked += 1
        return self.records_host

    def step(self) -> bool:
        return False

    def finish(self, key: str) -> None:
        self.finished.append(key)

    def close(self) -> None:
        self.closed += 1

    def elapsed(self) -> list[float]:
        """The moments of all samples kept, in the order they were."""
        return [one.elapsed for call in self.calls for batch in call for _, one in batch.samples]


def batch(elapsed: float) -> Batch:
    return Batch([("job", sample(elapsed, cpu_user=elapsed / 2, cpu_system=0.0, mem_used=7))])


def this_process() -> Target:
    return Target(identify(os.getpid()), time.clock_gettime(BOOTTIME), includes_root=True)


def tallied(engine: Engine, report: Callable[[Frame], None] | None = None, report_seconds: float = 0.0) -> Tally:
    """The sums of a job of which only what a test hands over is seen."""
    watched = engine.watched["job"] = Watched(Tally(), report, report_seconds)
    return watched.tally


Make = Callable[..., Engine]


@pytest.fixture
def make() -> Iterator[Make]:
    """Engines that are closed at the end, and leave no thread and no descriptor."""
    threads, descriptors = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
    made: list[Engine] = []

    def start(sink: FakeSink, settings: Settings | None = None) -> Engine:
        engine = Engine(sink, settings or Settings(interval=NEVER, without=frozenset({"host"})))
        made.append(engine)
        engine.start()
        return engine

    yield start
    for engine in made:
        engine.close(PATIENCE)
    wait_for(lambda: set(threading.enumerate()) <= threads)
    wait_for(lambda: len(os.listdir("/proc/self/fd")) <= descriptors)


def fail_first(times: int, error: Exception) -> Callable[[], None]:
    """Trouble that passes."""
    left = [error] * times

    def trouble() -> None:
        if left:
            raise left.pop()

    return trouble


def has_tried(sink: FakeSink, times: int) -> bool:
    return sink.attempts > times


def test_while_the_store_is_busy_batches_wait_in_order_none_lost_none_twice(make: Make) -> None:
    sink = FakeSink(fail_first(3, StoreBusy("held")))
    engine = make(sink)
    for tries in (0, 1, 2):
        for moment in range(30 * tries + 1, 30 * tries + 31):
            engine.sampler.sink(batch(moment))
        wait_for(partial(has_tried, sink, tries))
    assert engine.flush(PATIENCE)
    assert sink.elapsed() == [float(moment) for moment in range(1, 91)]
    assert engine.problem is None


def test_a_store_held_for_ever_keeps_the_newest(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "MOST_HELD", 5)
    held = threading.Event()

    def trouble() -> None:
        if not held.is_set():
            raise StoreBusy("held")

    sink = FakeSink(trouble)
    engine = make(sink)
    for moment in range(1, 21):
        engine.sampler.sink(batch(moment))
    tried = sink.attempts
    # The next attempt may have begun without the newest, the one after it has failed with all of them.
    wait_for(lambda: not engine.flush(0.01) and has_tried(sink, tried + 2))
    held.set()
    assert engine.flush(PATIENCE)
    assert sink.elapsed() == [16.0, 17.0, 18.0, 19.0, 20.0]


def test_sampling_does_not_wait_for_a_store_that_hangs(make: Make) -> None:
    hanging, let_go = threading.Event(), threading.Event()

    def hang() -> None:
        hanging.set()
        let_go.wait(60.0)

    sink = FakeSink(hang)
    engine = make(sink)
    engine.sampler.sink(batch(1))
    assert hanging.wait(PATIENCE)
    for moment in range(2, 1000):
        engine.sampler.sink(batch(moment))
    assert sink.calls == [], "the store hangs still"
    assert not engine.flush(0.01)
    let_go.set()
    assert engine.flush(PATIENCE)
    assert sink.elapsed() == [float(moment) for moment in range(1, 1000)]


def test_a_job_that_ends_while_another_process_holds_the_store_is_packed_later(make: Make) -> None:
    sink = FakeSink()
    tries: list[str] = []

    def finish(key: str) -> None:
        tries.append(key)
        if len(tries) < 3:
            raise StoreBusy("h.db is busy")
        sink.finished.append(key)

    sink.finish = finish  # type: ignore[method-assign]
    engine = make(sink)
    engine.finish("job")
    engine.close(PATIENCE)
    assert (sink.finished, len(tries)) == (["job"], 3)
    assert engine.problem is None


def test_what_a_full_disk_could_not_take_is_kept_when_there_is_room(make: Make) -> None:
    sink = FakeSink(fail_first(2, StoreUnavailable("h.db: the disk is full")))
    engine = make(sink)
    for moment in range(1, 4):
        engine.sampler.sink(batch(moment))
        assert engine.flush(PATIENCE)
        assert engine.problem == "h.db: the disk is full"
    assert sink.elapsed() == [1.0, 2.0, 3.0]


def test_a_mistake_of_the_store_is_noted_and_harms_no_sum(make: Make) -> None:
    words = "ValueError: odd"
    sink = FakeSink(fail_first(2, ValueError("odd")))
    engine = make(sink)
    tally = tallied(engine)
    for moment in range(1, 4):
        engine.sampler.sink(batch(moment))
        assert engine.flush(PATIENCE)
    assert engine.problem == words
    assert tally.samples == 4
    assert tally.spreads()["cpu.percent"].mean == pytest.approx(50)
    assert sink.elapsed() == [3.0], "what comes after the trouble is kept"
    engine.watch("real", this_process())
    seen = engine.conclude("real", PATIENCE)
    assert seen is not None
    assert seen.problem == words


def test_the_first_problem_is_the_one_that_is_told(make: Make) -> None:
    sink = FakeSink(fail_first(1, StoreUnavailable("first")))
    engine = make(sink)
    engine.sampler.sink(batch(1))
    assert engine.flush(PATIENCE)
    sink.trouble = fail_first(1, StoreUnavailable("second"))
    engine.sampler.sink(batch(2))
    assert engine.flush(PATIENCE)
    assert engine.problem == "first"


def test_flush_and_close_end_within_their_patience_though_the_store_stays_busy() -> None:
    sink = FakeSink(fail_first(10**6, StoreBusy("held")))
    engine = Engine(sink, Settings(interval=NEVER, without=frozenset({"host"})))
    engine.start()
    engine.sampler.sink(batch(1))
    began = time.monotonic()
    assert not engine.flush(0.05)
    engine.close(0.05)
    assert time.monotonic() - began < 1.0
    assert sink.closed == 0
    sink.trouble = lambda: None  # and a store that comes back gets what waited
    wait_for(lambda: sink.closed)
    assert sink.elapsed() == [1.0]


def test_flush_says_whether_all_is_kept(make: Make) -> None:
    sink = FakeSink()
    engine = make(sink)
    assert engine.flush(PATIENCE), "nothing is kept at once"
    engine.sampler.sink(batch(1))
    assert engine.flush(PATIENCE)
    assert sink.elapsed() == [1.0]


def test_what_comes_close_together_is_kept_together(make: Make) -> None:
    sink = FakeSink(pace_seconds=NEVER)
    engine = make(sink)
    engine.sampler.sink(batch(1))
    wait_for(lambda: sink.calls)
    for moment in (2, 3, 4):
        engine.sampler.sink(batch(moment))
    assert engine.flush(PATIENCE)
    assert [len(call) for call in sink.calls] == [1, 3]


def test_without_a_series_nothing_is_kept_and_the_sums_are_made(make: Make) -> None:
    sink = FakeSink()
    engine = make(sink, Settings(interval=NEVER, keeps_series=False))
    tally = tallied(engine)
    for moment in (1, 2):
        engine.sampler.sink(batch(moment))
    assert engine.flush(PATIENCE)
    assert (sink.attempts, sink.host_asked) == (0, 0)
    assert (tally.samples, tally.spreads()["mem.used"].greatest) == (3, 7)


def test_a_report_has_the_rates_of_its_whole_time(make: Make) -> None:
    frames: list[Frame] = []
    engine = make(FakeSink())
    tallied(engine, frames.append, 2.0)
    for half_seconds in range(1, 10):
        engine.sampler.sink(batch(half_seconds / 2))
    assert engine.flush(PATIENCE)
    assert [frame.elapsed for frame in frames] == [2.0, 4.0]
    assert [frame.values["cpu.percent"] for frame in frames] == [pytest.approx(50), pytest.approx(50)]
    assert frames[0].values["mem.used"] == 7


def test_a_job_that_is_over_is_packed_once_and_the_store_closed_once(make: Make) -> None:
    sink = FakeSink()
    engine = make(sink)
    engine.watch("job", this_process())
    assert engine.conclude("job", PATIENCE) is not None
    assert engine.conclude("job", PATIENCE) is None
    engine.finish("job")
    engine.close(PATIENCE)
    assert (sink.finished, sink.closed) == (["job"], 1)


def test_jobs_that_end_at_a_time_wait_for_the_writer_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make(FakeSink())
    for name in ("one", "two", "three"):
        engine.watch(name, this_process())
    flush, waits = engine.flush, []

    def counted(seconds: float) -> bool:
        waits.append(seconds)
        return flush(seconds)

    monkeypatch.setattr(engine, "flush", counted)
    assert engine.conclude_all(("one", "two", "unknown"), PATIENCE).keys() == {"one", "two"}
    assert engine.conclude_all(("one", "two"), PATIENCE) == {}
    assert waits == [PATIENCE]
    assert engine.conclude("three", PATIENCE) is not None


def test_all_that_touches_the_store_is_one_thread_and_not_the_sampling_one(make: Make) -> None:
    sink = FakeSink()
    engine = make(sink)
    engine.watch("job", this_process())
    for moment in range(1, 20):
        engine.sampler.sink(batch(moment))
        assert engine.flush(PATIENCE)
    sampling = {thread.ident for thread in threading.enumerate() if thread.name == "jobtop-sampler"}
    assert len(sink.threads) == 1
    assert not sink.threads & {*sampling, threading.get_ident()}


def test_what_a_job_came_to_has_its_first_sample_and_who_was_in_it(make: Make) -> None:
    sink = FakeSink()
    engine = make(sink)
    engine.watch("job", this_process())
    wait_for(sink.elapsed)
    seen = engine.conclude("job", PATIENCE)
    assert seen is not None
    assert (seen.interval_seconds, seen.longest_interval_seconds, seen.problem) == (NEVER, NEVER, None)
    assert seen.tally.samples == 2


def test_the_host_is_asked_for_with_the_first_batch_after_a_short_job(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine_module.SHORT_SECONDS < 1.0, "the sample of the first second asks for it"
    monkeypatch.setattr(engine_module, "HOST_LEASE_SECONDS", NEVER)
    monkeypatch.setattr(engine_module, "SHORT_SECONDS", -1.0)
    sink = FakeSink()
    engine = make(sink, Settings(interval=NEVER))
    for elapsed in (1, 2):
        engine.sampler.sink(batch(elapsed))
        assert engine.flush(PATIENCE)
        wait_for(lambda: sink.host_asked > 0)
    engine.close(PATIENCE)
    assert sink.host_asked == 1


@pytest.mark.parametrize(("without", "asked"), [(frozenset(), True), (frozenset({"host"}), False)])
def test_the_machine_is_only_looked_at_where_it_is_wanted(
    make: Make, monkeypatch: pytest.MonkeyPatch, without: frozenset[str], asked: bool
) -> None:
    monkeypatch.setattr(engine_module, "HOST_LEASE_SECONDS", -1.0)
    sink = FakeSink()
    sink.records_host = True
    engine = make(sink, Settings(interval=NEVER, without=without))
    engine.sampler.sink(batch(1))
    assert engine.flush(PATIENCE)
    if asked:
        wait_for(lambda: engine.sampler.records_host)
    engine.close(PATIENCE)
    assert bool(sink.host_asked) is asked
