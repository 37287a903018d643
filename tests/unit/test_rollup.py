"""One-minute roll-ups of old samples keep what the samples said, and replace their blocks."""

import itertools
import random
from pathlib import Path

import pytest

from jobtop.core.measure.derive import derive
from jobtop.core.measure.observation import seen_in
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Sample
from jobtop.core.series.blocks import open_block
from jobtop.core.series.readings import SampleReader, sample_json
from jobtop.store.database import Database
from jobtop.store.samples.curves import Curves
from jobtop.store.samples.head import JOBS
from jobtop.store.samples.rollup import drop_some, roll_some
from jobtop.store.samples.series import SeriesStore
from records import made_job
from sampled import damage_samples, kept_sampled, sample

HOUR = 3600


def restless(count: int, interval: float = 1.0) -> list[Sample]:
    """A job that uses more and less of everything in turn."""
    chance = random.Random(count)
    user = system = read = 0.0
    made = []
    for number in range(1, count + 1):
        user += chance.random() * interval
        system += chance.random() * interval / 10
        read += chance.choice((0, 0, 0, 5_000_000))
        made.append(
            sample(
                round(number * interval + chance.randrange(20) / 1000, 3),
                cpu_user=round(user, 6),
                cpu_system=round(system, 6),
                mem_used=chance.randrange(10**9),
                mem_rss=5 << 20,
                io_read_bytes=round(read),
                proc_count=chance.randrange(1, 9),
            )
        )
    return made


def value(one: Sample, key: str) -> float:
    found = one.values[JOB_COLUMNS.index(key)]
    assert found is not None
    return found


def rolled(home: Path, database: Database, samples: list[Sample]) -> Job:
    job = kept_sampled(home, made_job(), samples, sealed=True)
    assert job.seq is not None
    total = 0
    while done := roll_some(database, JOBS, job.seq):
        total += done
    assert total == len(samples)
    return job


def stored(database: Database) -> list[tuple[int, int, bytes]]:
    with database.reading() as connection:
        rows = connection.execute("SELECT samples, last_id, data FROM blocks ORDER BY last_id").fetchall()
    return [tuple(row) for row in rows]


def test_a_minute_has_the_mean_of_gauges_and_the_last_value_of_counters(home: Path, database: Database) -> None:
    samples = restless(600)
    job = rolled(home, database, samples)
    assert job.seq is not None
    minutes = SeriesStore(database).follow(job.seq).samples
    assert len(minutes) <= 12
    begin = 0
    for minute in minutes:
        members = [one for one in samples[begin:] if one.elapsed <= minute.elapsed]
        begin += len(members)
        assert minute.elapsed == members[-1].elapsed
        for key in ("cpu.user", "io.read_bytes"):
            assert value(minute, key) == value(members[-1], key)
        used = [value(one, "mem.used") for one in members]
        assert value(minute, "mem.used") == pytest.approx(sum(used) / len(used), rel=0.02)
        assert value(minute, "mem.rss") == 5 << 20
    assert begin == len(samples)


def test_curves_keep_their_extremes_their_ends_and_their_sums(home: Path, database: Database) -> None:
    samples = restless(600)
    keys = ["cpu.percent", "mem.used", "io.read_bytes", "proc.count", "mem.swap"]
    job = kept_sampled(home, made_job(), samples, sealed=True)
    assert job.seq is not None
    before = Curves(database).series(job, keys)
    while roll_some(database, JOBS, job.seq):
        pass
    after = Curves(database).series(job, keys)
    assert after.times == sorted(after.times)
    assert len(after.times) < len(before.times) / 10
    for key in ("mem.used", "proc.count"):
        was, now = ([one for one in series.values[key] if one is not None] for series in (before, after))
        assert (min(was), max(was)) == (min(now), max(now))
    was, now = ([one for one in series.values["cpu.percent"] if one is not None] for series in (before, after))
    assert max(now) == pytest.approx(max(was), abs=0.01)
    assert min(now) == pytest.approx(min(was), abs=0.01)
    reads = [(time, read) for time, read in zip(after.times, after.values["io.read_bytes"], strict=True) if read]
    assert reads[-1][1] == value(samples[-1], "io.read_bytes")
    speeds = [(b - a) / (later - sooner) for (sooner, a), (later, b) in itertools.pairwise(reads)]
    rates = [derive(a, b).values["io.read_bytes"] or 0.0 for a, b in itertools.pairwise(samples)]
    assert min(speeds) == min(rates) == 0
    assert max(speeds) == pytest.approx(max(rates), rel=0.05)
    assert set(after.values["mem.swap"]) == {None}


def test_minutes_give_the_same_peaks_and_means_as_their_samples(home: Path, database: Database) -> None:
    samples = restless(600)
    job = rolled(home, database, samples)
    assert job.seq is not None
    before, after = (seen_in(some).tally.spreads() for some in (samples, SeriesStore(database).samples(job.seq)))
    for key in ("mem.used", "proc.count", "cpu.percent"):
        was, now = before[key], after[key]
        assert (now.least, now.greatest) == pytest.approx((was.least, was.greatest), rel=0.001)
        assert now.mean == pytest.approx(was.mean, rel=0.015)


def test_a_minute_as_json_has_its_extremes_and_last_values(home: Path, database: Database) -> None:
    samples = restless(600)
    job = rolled(home, database, samples)
    assert job.seq is not None
    readings = list(SampleReader().read(SeriesStore(database).follow(job.seq).samples))
    line = sample_json(job, readings[1], ("mem.used", "mem.rss", "cpu.percent"))
    used = [value(one, "mem.used") for one in samples if 60 <= one.elapsed < 120]
    minute = line["minute"]
    assert minute["samples"] == len(used) == 60
    assert (minute["min"]["mem.used"], minute["max"]["mem.used"]) == (min(used), max(used))
    assert minute["last"] == {"mem.used": used[-1]}
    assert minute["min"]["cpu.percent"] < line["cpu"]["percent"] < minute["max"]["cpu.percent"]
    assert max(reading.memory_peak or 0 for reading in readings) == max(value(one, "mem.used") for one in samples)


def test_hours_of_seconds_shrink_to_a_tenth_in_few_blocks(home: Path, database: Database) -> None:
    samples = restless(2 * HOUR)
    job = kept_sampled(home, made_job(), samples, sealed=True)
    assert job.seq is not None
    before = sum(len(data) for _, _, data in stored(database))
    steps = 0
    while roll_some(database, JOBS, job.seq):
        steps += 1
    after = stored(database)
    assert steps <= 13
    assert sum(len(data) for _, _, data in after) < before / 10
    assert len(after) == 1
    assert SeriesStore(database).count(job.seq) == after[0][0] <= 135


def test_only_samples_that_are_old_enough_become_minutes(home: Path, database: Database) -> None:
    samples = restless(600)
    job = kept_sampled(home, made_job(), samples, sealed=True)
    assert job.seq is not None
    assert roll_some(database, JOBS, job.seq, until=300.0) == 240
    assert roll_some(database, JOBS, job.seq, until=300.0) == 0
    counts = [open_block(data).is_rolled for _, _, data in stored(database)]
    assert counts == [True, False, False, False]
    found = Curves(database).series(job, ["mem.used"], start=400.0)
    expected = [value(one, "mem.used") for one in samples if one.elapsed >= 400]
    assert found.values["mem.used"][: len(expected)] == expected


def test_samples_of_a_short_job_stay_as_they_are(home: Path, database: Database) -> None:
    samples = restless(4)
    job = rolled(home, database, samples)
    assert job.seq is not None
    assert SeriesStore(database).samples(job.seq) == samples
    assert roll_some(database, JOBS, job.seq) == 0


def test_a_damaged_block_stays_and_the_others_become_minutes(home: Path, database: Database) -> None:
    samples = restless(360)
    job = kept_sampled(home, made_job(), samples[:120], sealed=True)
    damage_samples(home)
    assert job.seq is not None
    store = SeriesStore(database)
    store.append([(job.seq, one) for one in samples[120:]])
    store.seal(job.seq)
    while roll_some(database, JOBS, job.seq):
        pass
    blocks = stored(database)
    assert next(count for count, _, _ in blocks) == 120
    assert open_block(blocks[1][2]).is_rolled
    assert len(blocks) == 2
    assert Curves(database).series(job, ["mem.used"]).damaged == 120


def test_a_follower_of_a_live_job_gets_no_minute_of_samples_it_has(home: Path, database: Database) -> None:
    samples = restless(480)
    job = kept_sampled(home, made_job(), samples[:240])
    assert job.seq is not None
    store = SeriesStore(database)
    store.seal(job.seq)
    cursor = store.follow(job.seq).cursor
    assert roll_some(database, JOBS, job.seq) == 240
    store.append([(job.seq, one) for one in samples[240:]])
    assert store.follow(job.seq, cursor).samples == samples[240:]


def test_the_oldest_minutes_are_deleted_first(home: Path, database: Database) -> None:
    samples = restless(600)
    job = kept_sampled(home, made_job(), samples, sealed=True)
    assert job.seq is not None
    assert drop_some(database, JOBS, job.seq, until=300.0) == 2
    assert SeriesStore(database).samples(job.seq) == samples[240:]
    assert drop_some(database, JOBS, job.seq) == 3
    assert drop_some(database, JOBS, job.seq) == 0
    assert SeriesStore(database).samples(job.seq) == []
