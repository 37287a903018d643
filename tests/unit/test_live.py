"""The last minute of live jobs: what is new comes once, with rates, and only of those that are wanted."""

import pytest

from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Sample
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs
from jobtop.store.samples.live import FEW, KEPT_SAMPLES, LiveTails
from jobtop.store.samples.series import SeriesStore
from records import running_job


def sample(elapsed: float, cpu: float, memory: int | None = 100, read: int = 0) -> Sample:
    known = {"cpu.user": cpu, "cpu.system": 0.0, "mem.used": memory, "io.read_bytes": read, "io.write_bytes": 0}
    return Sample(elapsed, tuple(known.get(key) for key in JOB_COLUMNS))


def new_job(database: Database) -> int:
    seq = Jobs(database).insert(running_job()).seq
    assert seq is not None
    return seq


def test_rates_are_since_the_look_before_and_each_sample_comes_once(database: Database) -> None:
    job, store = new_job(database), SeriesStore(database)
    tails = LiveTails(database)
    store.append([(job, sample(1.0, 0.5)), (job, sample(2.0, 1.0, read=1000))])
    assert tails.poll([job]) == {job}
    tail = tails.tails[job]
    assert list(tail.cpu) == [None, pytest.approx(50)]
    assert (tail.now.read_rate, tail.now.memory_bytes) == (1000, 100)
    assert tails.poll([job]) == set()
    store.append([(job, sample(4.0, 3.0, memory=None, read=1000))])
    assert tails.poll([job]) == {job}
    assert list(tail.times) == [1.0, 2.0, 4.0]
    assert tail.now.cpu_percent == pytest.approx(100)
    assert (tail.now.read_rate, tail.now.memory_bytes) == (0, None)


def test_what_was_sealed_before_the_first_look_is_there(database: Database) -> None:
    job, store = new_job(database), SeriesStore(database)
    store.append([(job, sample(float(moment), moment / 2)) for moment in range(1, 101)])
    store.seal(job)
    tails = LiveTails(database)
    tails.poll([job])
    assert list(tails.tails[job].times) == [float(moment) for moment in range(101 - KEPT_SAMPLES, 101)]


def test_many_jobs_are_found_in_one_query_and_unused_ones_are_dropped(database: Database) -> None:
    store = SeriesStore(database)
    jobs = [new_job(database) for _ in range(FEW + 1)]
    store.append([(job, sample(1.0, 0.1)) for job in jobs])
    store.append([(job, sample(2.0, 0.2)) for job in jobs])
    tails = LiveTails(database)
    assert tails.poll(jobs) == set(jobs)
    assert {len(tail.times) for tail in tails.tails.values()} == {2}
    tails.poll(jobs[:3])
    assert set(tails.tails) == set(jobs[:3])


@pytest.mark.parametrize("is_busy", [True, False])
def test_what_was_sealed_of_many_jobs_before_the_first_look_is_there(database: Database, is_busy: bool) -> None:
    """Idle jobs share a row of the head; its values are in the row before."""
    store, jobs = SeriesStore(database), [new_job(database) for _ in range(FEW + 10)]
    for moment in range(1, 131):
        store.append([(job, sample(float(moment), moment / 2 if is_busy else 7.0)) for job in jobs])
        if moment == 100:
            for job in jobs:
                store.seal(job)
    while store.trim():
        pass
    tails = LiveTails(database)
    tails.poll(jobs)
    minute = [float(moment) for moment in range(131 - KEPT_SAMPLES, 131)]
    assert {tuple(tail.times) for tail in tails.tails.values()} == {tuple(minute)}
    assert {tail.cpu[0] for tail in tails.tails.values()} == {50.0 if is_busy else 0.0}


def test_a_change_before_the_first_row_that_is_read_is_not_missed(database: Database) -> None:
    """Busy jobs write so many rows that the last row with values of an idle job is not among those that are read."""
    store, jobs = SeriesStore(database), [new_job(database) for _ in range(3 * FEW)]
    idle = set(jobs[: FEW + 10])
    for moment in range(1, 251):
        memory = 100 if moment <= 100 else 200
        store.append([(job, sample(float(moment), 7.0 if job in idle else moment / 2, memory=memory)) for job in jobs])
        if moment == 100:
            for job in jobs:
                store.seal(job)
    tails = LiveTails(database)
    tails.poll(jobs)
    tails.poll(jobs)
    assert {len(tail.times) for tail in tails.tails.values()} == {KEPT_SAMPLES}
    assert {tail.times[-1] for tail in tails.tails.values()} == {250.0}
    assert {value for tail in tails.tails.values() for value in tail.memory} == {200}


def test_many_jobs_that_are_wanted_later_get_their_last_minute_too(database: Database) -> None:
    store, jobs = SeriesStore(database), [new_job(database) for _ in range(FEW + 10)]
    tails = LiveTails(database)
    tails.poll([])
    for moment in range(1, 101):
        store.append([(job, sample(float(moment), moment / 2)) for job in jobs])
    tails.poll([])
    tails.poll(jobs)
    tails.poll(jobs)
    assert {len(tail.times) for tail in tails.tails.values()} == {KEPT_SAMPLES}
