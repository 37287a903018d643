"""Curves begin with nothing at the start and end with the totals of the record, whatever was sampled between."""

import random
from collections.abc import Callable

import pytest

from benchmarks.series import samples
from jobtop.core.measure.derive import derive
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Sample, Status, Usage
from jobtop.core.record import replace
from jobtop.core.series.endpoints import FIRST_SAMPLE, TOTALS, end_sample
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs
from jobtop.store.samples.curves import Curves
from jobtop.store.samples.series import SeriesStore
from records import running_job

USAGE = Usage(cpu_user_seconds=1000.0, cpu_system_seconds=100.0, io_read_bytes=10**12, faults_minor=10**9)
CPU = ("cpu.user", "cpu.system")


@pytest.fixture
def curves(database: Database) -> Curves:
    return Curves(database)


@pytest.fixture
def job(database: Database) -> Job:
    return Jobs(database).insert(running_job())


def ended(job: Job, seconds: float = 300.0, usage: Usage = USAGE) -> Job:
    return replace(job, status=Status.SUCCESS, duration_seconds=seconds, usage=usage)


def keep(database: Database, job: Job, *kept: Sample) -> SeriesStore:
    store = SeriesStore(database)
    assert job.seq is not None
    store.append([(job.seq, sample) for sample in kept])
    return store


def sample(elapsed: float, **values: float | int | None) -> Sample:
    """A sample with some values, by key with an underscore for the first dot."""
    return Sample(elapsed, tuple(values.get(key.replace(".", "_", 1)) for key in JOB_COLUMNS))


def by_key(made: Sample) -> dict[str, float | int | None]:
    return dict(zip(JOB_COLUMNS, made.values, strict=True))


def test_a_job_that_was_never_sampled_has_its_two_ends_once_it_has_ended(curves: Curves, job: Job) -> None:
    brief = ended(job, 0.05, Usage(cpu_user_seconds=0.03, cpu_system_seconds=0.01))
    found = curves.series(brief, ["cpu.percent", "cpu.user", "mem.used", "net.errors"])
    assert found.times == [0.0, 0.05]
    assert found.values["cpu.percent"] == [None, pytest.approx(80)]
    assert found.values["cpu.user"] == [0, 0.03]
    assert found.values["mem.used"] == found.values["net.errors"] == [None, None]
    assert curves.series(brief, ["io.read_bytes"]).values["io.read_bytes"] == [0, None]
    frame = curves.frame_at(brief, 1.0)
    assert frame is not None
    assert frame.elapsed == 0.05
    assert frame.values["cpu.percent"] == pytest.approx(80)
    news = curves.follow(brief, None)
    assert news.samples == [FIRST_SAMPLE, end_sample(brief)]
    assert (news.over, curves.count(brief)) == (True, 2)


@pytest.mark.parametrize("status", [Status.RUNNING, Status.QUEUED, Status.LOST, Status.ERROR])
def test_a_job_of_which_nothing_is_known_has_no_curve(curves: Curves, job: Job, status: Status) -> None:
    unknown = replace(job, status=status, duration_seconds=None)
    found = curves.series(unknown, ["mem.used", "cpu.percent"], 0.0, 9.0, 5)
    assert (found.times, found.values) == ([], {"mem.used": [], "cpu.percent": []})
    assert (curves.frame_at(unknown, 1.0), curves.count(unknown)) == (None, 0)
    news = curves.follow(unknown, None)
    assert (news.samples, news.over) == ([], status.ended)
    assert curves.count(replace(unknown, seq=None)) == 0


def test_ends_are_joined_to_what_was_sampled(database: Database, curves: Curves, job: Job) -> None:
    made = [sample(number + 0.25, cpu_user=number * 1.0, cpu_system=0.0, mem_used=7) for number in range(200)]
    keep(database, job, *made).seal_due(1)
    running, over = curves.series(job, ["cpu.percent", "mem.used"]), curves.series(ended(job), ["cpu.percent"])
    assert running.times == [0.0, *(made.elapsed for made in made)]
    assert running.values["mem.used"] == [None] + [7] * 200
    assert running.values["cpu.percent"][:3] == [None, 0.0, pytest.approx(100)]
    assert over.times == [*running.times, 300.0]
    assert over.values["cpu.percent"][-1] == pytest.approx(100 * (1100 - 199) / (300 - 199.25))
    assert (curves.count(job), curves.count(ended(job))) == (201, 202)


@pytest.mark.parametrize("sealed", [True, False])
def test_a_time_is_cut_out_of_the_whole(database: Database, curves: Curves, job: Job, sealed: bool) -> None:
    store = keep(database, job, *samples(290))
    if sealed:
        store.seal_due(1)
        store.seal_due(1)
    keys = ("cpu.percent", "cpu.user", "mem.used")
    whole = curves.series(ended(job), keys)
    for start in (None, 0.0, 0.1, 50.0, 121.5, 250.0, 299.0, 300.0, 400.0):
        for end in (None, 0.0, 60.0, 122.0, 299.5, 300.0):
            inside = [
                position
                for position, time in enumerate(whole.times)
                if (start is None or time >= start) and (end is None or time <= end)
            ]
            found = curves.series(ended(job), keys, start, end)
            assert found.times == [whole.times[position] for position in inside]
            for key in keys:
                assert found.values[key] == pytest.approx([whole.values[key][position] for position in inside])


def test_the_ends_survive_thinning(database: Database, curves: Curves, job: Job) -> None:
    keep(database, job, *samples(1000))
    found = curves.series(ended(job, 2000.0), ["io.read_bytes", "cpu.percent"], max_points=50)
    assert len(found.times) <= 50
    assert (found.times[0], found.times[-1]) == (0.0, 2000.0)
    assert (found.values["io.read_bytes"][0], found.values["io.read_bytes"][-1]) == (0, 10**12)


def test_the_last_counters_are_never_below_what_was_seen(database: Database, curves: Curves, job: Job) -> None:
    seen = sample(9.0, cpu_user=6.0, cpu_system=2.0, io_read_bytes=500, net_rx_bytes=77, mem_used=1, mem_faults_minor=3)
    keep(database, job, seen)
    over = ended(job, 10.0, Usage(cpu_user_seconds=5.0, cpu_system_seconds=3.5, io_read_bytes=400, faults_minor=9))
    last = by_key(curves.follow(over, None).samples[-1])
    assert (last["cpu.user"], last["cpu.system"]) == (6.0, 2.5)
    assert (last["io.read_bytes"], last["net.rx_bytes"], last["mem.faults_minor"]) == (500, None, 9)
    assert (last["mem.used"], last["io.write_bytes"]) == (None, None)
    for key in JOB_COLUMNS:
        assert curves.series(over, [key]).values[key][-1] == last[key]


def test_the_end_is_not_before_the_newest_sample(database: Database, curves: Curves, job: Job) -> None:
    keep(database, job, sample(9.0, cpu_user=1.0), sample(10.0004, cpu_user=2.0))
    over = ended(job, 10.0)
    assert curves.series(over, ["cpu.user"]).times == [0.0, 9.0, 10.0004, 10.0004]
    assert [made.elapsed for made in curves.follow(over, None).samples] == [0.0, 9.0, 10.0004, 10.0004]
    frame = curves.frame_at(over, 11.0)
    assert frame is not None
    assert (frame.elapsed, frame.values["cpu.user"]) == (10.0004, None)


def test_a_frame_at_any_moment_is_that_of_the_samples_one_by_one(database: Database, curves: Curves, job: Job) -> None:
    keep(database, job, *(replace(made, elapsed=made.elapsed + 0.5) for made in samples(130)))
    for state in (job, ended(job, 140.0)):
        every = curves.follow(state, None).samples
        assert curves.frame_at(state, -0.1) is None
        for number, made in enumerate(every):
            expected = derive(every[number - 1] if number else None, made)
            assert curves.frame_at(state, made.elapsed) == curves.frame_at(state, made.elapsed + 0.01) == expected


def test_what_went_on_after_the_end_has_no_last_sample(database: Database, curves: Curves, job: Job) -> None:
    keep(database, job, sample(1.0, cpu_user=1.0))
    left = replace(ended(job), flags=("left_running",))
    news = curves.follow(left, None)
    assert ([made.elapsed for made in news.samples], news.over) == ([0.0, 1.0], True)
    assert curves.series(left, ["cpu.user"]).times == [0.0, 1.0]
    assert curves.count(left) == 2


def test_a_follower_gets_the_first_with_the_first_and_the_last_once(
    database: Database, curves: Curves, job: Job
) -> None:
    nothing = curves.follow(job, None)
    assert (nothing.samples, nothing.cursor, nothing.over) == ([], None, False)
    store = keep(database, job, sample(1.0, cpu_user=1.0))
    begun = curves.follow(job, nothing.cursor)
    assert ([made.elapsed for made in begun.samples], begun.over) == ([0.0, 1.0], False)
    assert curves.follow(job, begun.cursor).samples == []
    assert job.seq is not None
    store.append([(job.seq, sample(2.0, cpu_user=2.0))])
    rest = curves.follow(ended(job), begun.cursor)
    assert ([made.elapsed for made in rest.samples], rest.over) == ([2.0, 300.0], True)
    after = curves.follow(ended(job), rest.cursor)
    assert (after.samples, after.over) == ([], True)
    late = curves.follow(ended(job), store.follow(job.seq).cursor)
    assert [by_key(made)["cpu.user"] for made in late.samples] == [1000.0]


@pytest.mark.parametrize("seed", range(3))
def test_a_follower_has_no_gap_and_nothing_twice_across_writers_and_seals(
    database: Database, curves: Curves, job: Job, seed: int
) -> None:
    chance = random.Random(seed)
    assert job.seq is not None
    seq = job.seq
    store, cursor, made = SeriesStore(database), None, 0
    seen: list[Sample] = []
    actions: list[Callable[[SeriesStore], int]] = [
        lambda store: store.seal_due(1),
        lambda store: store.step(),
        lambda store: store.trim(),
        lambda store: store.seal(seq),
    ]
    for _ in range(60):
        if chance.random() < 0.1:
            store = SeriesStore(database)
        for _ in range(chance.choice((0, 1, 5, 130))):
            made += 1
            store.append([(seq, sample(float(made), cpu_user=made))])
        chance.choice(actions)(store)
        if chance.random() < 0.4:
            news = curves.follow(job, cursor)
            cursor, seen = news.cursor, seen + news.samples
    last = curves.follow(ended(job, 10**6), cursor)
    seen += last.samples
    assert [made.elapsed for made in seen] == [*map(float, range(made + 1)), 10**6]
    assert curves.follow(ended(job, 10**6), last.cursor).samples == []


def test_the_first_sample_knows_exactly_what_a_job_counts_from_nothing() -> None:
    assert {key for key, value in by_key(FIRST_SAMPLE).items() if value == 0} == set(TOTALS)
    assert set(CPU) <= set(TOTALS)
