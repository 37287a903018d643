"""Samples go into the head, are sealed into blocks and trimmed, and read the same all the while."""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.series import samples
from jobtop.core.errors import BadValue
from jobtop.core.measure.derive import derive
from jobtop.core.metrics import JOB_COLUMNS, Scope, metrics_of, steps
from jobtop.core.model import Job, Sample, Status
from jobtop.core.record import replace
from jobtop.store.database import Database, open_to_read
from jobtop.store.jobs import Jobs
from jobtop.store.samples import head, sealed
from jobtop.store.samples.head import HOSTS, JOBS, LAYOUTS, Layout
from jobtop.store.samples.sealed import BLOCK_SAMPLES, MERGED_BLOCKS, SMALL_BLOCKS
from jobtop.store.samples.series import SeriesStore
from records import running_job
from support import ROOT

USED = JOB_COLUMNS.index("mem.used")
NOTHING: tuple[None, ...] = (None,) * len(JOB_COLUMNS)


@pytest.fixture
def store(database: Database) -> SeriesStore:
    return SeriesStore(database)


def new_job(database: Database) -> int:
    seq = Jobs(database).insert(running_job()).seq
    assert seq is not None
    return seq


def numbered(start: int, count: int) -> list[Sample]:
    """Samples that say in mem.used which they are."""
    return [
        Sample(float(number), (*NOTHING[:USED], number, *NOTHING[USED + 1 :])) for number in range(start, start + count)
    ]


def keep(store: SeriesStore, job: int, *kept: Sample) -> None:
    store.append([(job, sample) for sample in kept])


def count(database: Database, table: str) -> int:
    with database.reading() as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def read(store: SeriesStore, job: int) -> list[float | int | None]:
    return store.series(job, ["mem.used"]).values["mem.used"]


def resolved(sample: Sample) -> Sample:
    values = (
        None if value is None else round(value * steps(key)) / steps(key)
        for key, value in zip(JOB_COLUMNS, sample.values, strict=True)
    )
    return Sample(sample.elapsed, tuple(values))


def damage_block(database: Database, number: int) -> None:
    with database.writing() as connection:
        row = connection.execute("SELECT id, data FROM blocks ORDER BY id LIMIT 1 OFFSET ?", (number,)).fetchone()
        changed = bytearray(row["data"])
        changed[len(changed) // 2] ^= 4
        connection.execute("UPDATE blocks SET data = ? WHERE id = ?", (bytes(changed), row["id"]))


def test_what_is_read_is_the_same_before_and_after_sealing_and_trimming(database: Database, store: SeriesStore) -> None:
    job, other = new_job(database), new_job(database)
    kept = [resolved(sample) for sample in samples(300)]
    for sample in kept:
        store.append([(job, sample), (other, sample)])
    views = []
    steps_taken: list[Callable[[], object]] = [
        lambda: 0,
        lambda: store.seal_due(1),
        store.trim,
        lambda: store.seal(job),
    ]
    for step in (*steps_taken, store.trim):
        step()
        views.append((store.series(job, JOB_COLUMNS), store.follow(job).samples, store.frame_at(job, 150.5)))
    assert all(view == views[0] for view in views)
    assert views[0][1] == kept
    assert views[0][0].times == [sample.elapsed for sample in kept]
    assert [*zip(*views[0][0].values.values(), strict=True)] == [sample.values for sample in kept]


def test_a_job_is_due_at_120_samples_and_one_block_is_sealed_of_it_at_a_time(
    database: Database, store: SeriesStore
) -> None:
    job = new_job(database)
    keep(store, job, *numbered(0, BLOCK_SAMPLES - 1))
    assert store.seal_due(9) == 0
    keep(store, job, *numbered(BLOCK_SAMPLES - 1, 150))
    assert [store.seal_due(9) for _ in range(3)] == [BLOCK_SAMPLES, BLOCK_SAMPLES, 0]
    assert store.seal(job) == 29
    assert (store.seal(job), count(database, "blocks")) == (0, 3)
    assert read(store, job) == list(range(269))


def test_jobs_that_began_together_are_not_sealed_together(database: Database, store: SeriesStore) -> None:
    jobs = [new_job(database) for _ in range(100)]
    for sample in numbered(0, BLOCK_SAMPLES):
        store.append([(job, sample) for job in jobs])
    for tick in range(BLOCK_SAMPLES):
        before = count(database, "blocks")
        while store.step():
            pass
        assert count(database, "blocks") - before <= 2
        store.append([(job, numbered(BLOCK_SAMPLES + tick, 1)[0]) for job in jobs])
    assert count(database, "blocks") == len(jobs)
    assert count(database, "head") < 2.5 * BLOCK_SAMPLES * len(jobs)


def test_housekeeping_ends_and_leaves_few_blocks_and_a_short_head(database: Database, store: SeriesStore) -> None:
    jobs = [new_job(database) for _ in range(2)]
    for sample in numbered(0, 41 * BLOCK_SAMPLES + 60):
        store.append([(job, sample) for job in jobs])
        for _ in range(3):
            store.step()
    while store.step():
        pass
    assert not store.step()
    with database.reading() as connection:
        sizes = [row[0] for row in connection.execute("SELECT samples FROM blocks WHERE job_seq = ?", (jobs[0],))]
    assert sizes == [MERGED_BLOCKS * BLOCK_SAMPLES] * 3 + [BLOCK_SAMPLES] * 26
    assert count(database, "head") == 2 * 60
    assert all(read(store, job) == list(range(41 * BLOCK_SAMPLES + 60)) for job in jobs)


def seal_small_blocks(database: Database, job: int, start: int, blocks: int) -> None:
    """So many blocks of five samples, each by another writer."""
    for number in range(blocks):
        writer = SeriesStore(database)
        keep(writer, job, *numbered(start + 5 * number, 5))
        writer.seal(job)


def test_a_successor_merges_what_others_have_sealed(database: Database, store: SeriesStore) -> None:
    job = new_job(database)
    seal_small_blocks(database, job, 0, SMALL_BLOCKS - 1)
    keep(store, job, *numbered(5 * (SMALL_BLOCKS - 1), 3))
    store.seal(job)

    def views() -> tuple[object, ...]:
        cursors = [store.follow(job, cursor).samples for cursor in range(0, 160, 3)]
        return store.series(job, JOB_COLUMNS), cursors, store.frame_at(job, 12.5), store.frame_at(job, 30.0)

    before = views()
    assert store.merge()
    assert not store.merge()
    assert count(database, "blocks") == SMALL_BLOCKS - MERGED_BLOCKS + 1
    assert views() == before
    assert read(store, job) == list(range(5 * (SMALL_BLOCKS - 1) + 3))


def test_blocks_that_another_process_has_merged_are_not_merged_again(database: Database, store: SeriesStore) -> None:
    job = new_job(database)
    seal_small_blocks(database, job, 0, SMALL_BLOCKS)
    with database.reading() as connection:
        large = sealed.merged(connection, JOBS, job)
    assert large is not None
    for _ in range(2):
        with database.writing() as connection:
            sealed.store_merged(connection, JOBS, large)
        assert count(database, "blocks") == SMALL_BLOCKS - MERGED_BLOCKS + 1
        assert read(store, job) == list(range(5 * SMALL_BLOCKS))


def test_a_damaged_block_is_not_merged_and_stops_nothing(database: Database, store: SeriesStore) -> None:
    job = new_job(database)
    seal_small_blocks(database, job, 0, SMALL_BLOCKS)
    damage_block(database, 2)
    for number in range(2 * MERGED_BLOCKS):
        keep(store, job, *numbered(5 * (SMALL_BLOCKS + number), 5))
        store.seal(job)
        while store.step():
            pass
    assert len(read(store, job)) == 5 * (SMALL_BLOCKS + 2 * MERGED_BLOCKS - 1)
    assert count(database, "blocks") < SMALL_BLOCKS + 2 * MERGED_BLOCKS


def test_trimming_leaves_what_is_not_sealed(database: Database, store: SeriesStore) -> None:
    slow, fast = new_job(database), new_job(database)
    for number in range(600):
        store.append([(fast, numbered(number, 1)[0])] + ([(slow, numbered(number, 1)[0])] if number % 10 == 0 else []))
        store.seal_due(1)
        store.trim(limit=50)
    for _ in range(30):
        store.trim(limit=50)
    assert read(store, fast) == list(range(600))
    assert read(store, slow) == list(range(0, 600, 10))
    assert count(database, "head") == 60
    assert store.trim() == 0


def test_an_id_is_never_given_twice(database: Database, store: SeriesStore) -> None:
    job = new_job(database)
    keep(store, job, *numbered(0, 10))
    cursor = store.follow(job).cursor
    store.seal(job)
    assert store.trim() == 10
    keep(store, job, *numbered(10, 1))
    assert [sample.elapsed for sample in store.follow(job, cursor).samples] == [10.0]


@pytest.mark.parametrize("seed", range(4))
def test_a_follower_has_no_gap_and_nothing_twice_whatever_is_done_meanwhile(
    database: Database, store: SeriesStore, seed: int
) -> None:
    chance = random.Random(seed)
    job, other = new_job(database), new_job(database)
    actions: list[Callable[[], int]] = [store.step, store.trim, lambda: store.seal(job), lambda: store.seal_due(9)]
    made, seen = 0, []
    cursor: int | None = None
    for _ in range(150):
        amount = chance.choice((1, 1, 1, 5, 130))
        for sample in numbered(made, amount):
            store.append([(other, sample), (job, sample)])
        made += amount
        chance.choice(actions)()
        if chance.random() < 0.3:
            news = store.follow(job, cursor)
            cursor = news.cursor
            seen += [sample.values[USED] for sample in news.samples]
    seen += [sample.values[USED] for sample in store.follow(job, cursor).samples]
    assert seen == list(range(made))


def test_another_writer_goes_on_where_the_first_was_killed(database: Database, store: SeriesStore) -> None:
    job = new_job(database)
    keep(store, job, *numbered(0, 170))
    store.seal_due(1)
    successor = SeriesStore(database)
    keep(successor, job, *numbered(170, 80))
    assert successor.seal_due(1) == BLOCK_SAMPLES
    assert successor.seal(job) == 10
    assert read(store, job) == list(range(250))


def test_what_another_process_has_sealed_is_not_sealed_again(database: Database, store: SeriesStore) -> None:
    job = new_job(database)
    keep(store, job, *numbered(0, 130))
    assert SeriesStore(database).seal(job) == 130
    assert store.seal_due(1) == 0
    keep(store, job, *numbered(130, 5))
    assert store.seal(job) == 5
    assert read(store, job) == list(range(135))


def test_jobs_whose_writer_was_killed_are_sealed_once_they_ended(database: Database, store: SeriesStore) -> None:
    ended, running = new_job(database), new_job(database)
    store.append([(job, sample) for job in (ended, running) for sample in numbered(0, 30)])

    def end(job: Job) -> tuple[Job, tuple[()]]:
        return replace(job, status=Status.LOST), ()

    jobs = Jobs(database)
    with database.reading() as connection:
        identifier = connection.execute("SELECT id FROM jobs WHERE seq = ?", (ended,)).fetchone()[0]
    jobs.change(identifier, end)
    successor = SeriesStore(database)
    assert (successor.seal_ended(10), successor.seal_ended(10)) == (30, 0)
    successor.trim()
    assert (count(database, "blocks"), count(database, "head")) == (1, 30)
    assert read(store, ended) == read(store, running) == list(range(30))


def test_a_job_that_is_deleted_takes_its_samples_along_and_stops_no_other(
    database: Database, store: SeriesStore
) -> None:
    job, other = new_job(database), new_job(database)
    for sample in numbered(0, 150):
        store.append([(job, sample), (other, sample)])
    store.seal_due(limit=1)
    store.merge()
    with database.writing() as connection:
        connection.execute("DELETE FROM jobs WHERE seq = ?", (job,))
    store.append([(job, numbered(150, 1)[0]), (other, numbered(150, 1)[0])])
    store.seal_due(9)
    assert store.seal(job) == 0
    store.append([(job, numbered(151, 1)[0]), (other, numbered(151, 1)[0])])
    store.seal(other)
    while store.trim():
        pass
    assert (read(store, job), count(database, "head")) == ([], 0)
    assert read(store, other) == list(range(152))


def test_samples_with_different_gaps_keep_their_order(database: Database, store: SeriesStore) -> None:
    job, other = new_job(database), new_job(database)
    chance = random.Random(0)
    kept = [Sample(float(number), tuple(chance.choice((None, 1, 2.5)) for _ in JOB_COLUMNS)) for number in range(100)]
    kept += [Sample(100.0, NOTHING), Sample(101.0, (5, *NOTHING[1:]))]
    store.append([(seq, sample) for sample in kept for seq in (job, other)])
    assert store.follow(job).samples == store.follow(other).samples == kept


def test_a_time_is_cut_out_with_both_ends(database: Database, store: SeriesStore) -> None:
    job = new_job(database)
    keep(store, job, *numbered(0, 400))
    store.seal_due(9)
    store.seal_due(9)
    for start, end in ((100, 140), (0, 0), (239, 241), (240, 399), (390, 1000), (500, 600)):
        found = store.series(job, ["mem.used"], float(start), float(end))
        expected = list(range(start, min(end, 399) + 1))
        assert (found.times, found.values["mem.used"]) == (expected, expected)


def test_the_first_rate_of_a_time_comes_from_the_sample_before_it(database: Database, store: SeriesStore) -> None:
    job = new_job(database)
    kept = list(samples(300))
    keep(store, job, *kept)
    store.seal_due(9)
    store.seal_due(9)
    for start in (50, 120, 240, 270):
        found = store.series(job, ["cpu.percent"], kept[start].elapsed).values["cpu.percent"]
        assert found[0] == pytest.approx(derive(kept[start - 1], kept[start]).values["cpu.percent"], rel=1e-4)
    assert store.series(job, ["cpu.percent"]).values["cpu.percent"][0] is None


@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_frame_is_the_last_sample_before_a_moment_with_rates(
    database: Database, store: SeriesStore, is_sealed: bool
) -> None:
    job = new_job(database)
    kept = [resolved(sample) for sample in samples(250)]
    keep(store, job, *kept)
    if is_sealed:
        store.seal(job)
    assert store.frame_at(job, -1.0) is None
    assert store.frame_at(job, kept[0].elapsed) == derive(None, kept[0])
    for number in (1, 119, 120, 121, 240, 249):
        assert store.frame_at(job, kept[number].elapsed + 0.5) == derive(kept[number - 1], kept[number])


def test_thinning_keeps_the_peaks(database: Database, store: SeriesStore) -> None:
    job = new_job(database)
    kept = numbered(0, 3000)
    kept[1234] = Sample(1234.0, (*NOTHING[:USED], 10**9, *NOTHING[USED + 1 :]))
    keep(store, job, *kept)
    found = store.series(job, ["mem.used"], max_points=60)
    assert len(found.times) <= 60
    assert found.times == sorted(found.times)
    assert (1234.0, 10**9) in zip(found.times, found.values["mem.used"], strict=True)
    assert (found.times[0], found.times[-1]) == (0.0, 2999.0)


def test_a_damaged_block_is_left_out_and_counted(database: Database, store: SeriesStore) -> None:
    job = new_job(database)
    keep(store, job, *numbered(0, 300))
    store.seal(job)
    damage_block(database, 1)
    found, news = store.series(job, ["mem.used"]), store.follow(job)
    expected = [*range(120), *range(240, 300)]
    assert (found.values["mem.used"], found.damaged) == (expected, 120)
    assert ([sample.values[USED] for sample in news.samples], news.damaged) == (expected, 120)
    assert store.follow(job, news.cursor).samples == []
    frame = store.frame_at(job, 200.0)
    assert frame is not None
    assert frame.values["mem.used"] == 119


def test_an_unknown_metric_is_refused(database: Database, store: SeriesStore) -> None:
    with pytest.raises(BadValue, match=r"mem\.usd"):
        store.series(new_job(database), ["mem.usd"])


def test_a_job_without_samples_has_an_empty_series(database: Database, store: SeriesStore) -> None:
    job = new_job(database)
    found = store.series(job, ["mem.used", "cpu.percent"], 1.0, 2.0, 10)
    assert (found.times, found.values) == ([], {"mem.used": [], "cpu.percent": []})
    assert (store.frame_at(job, 1.0), store.follow(job).samples, store.seal(job)) == (None, [], 0)
    store.append([])


def test_a_store_that_cannot_be_migrated_is_read_as_one_without_samples(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    path.write_bytes((ROOT / "tests/data/store-v1.db").read_bytes())
    database = open_to_read(path)
    store = SeriesStore(database)
    assert store.series(1, ["mem.used"]).times == []
    assert (store.frame_at(1, 1.0), store.follow(1, 5).cursor) == (None, 5)
    database.close()


def test_a_new_metric_gets_a_column_with_the_first_sample_and_old_samples_stay(
    database: Database, store: SeriesStore
) -> None:
    job = new_job(database)
    keep(store, job, *numbered(0, 3))
    grown = replace(JOBS, keys=(*JOB_COLUMNS, "gpu.temp"))
    successor = SeriesStore(database, grown)
    assert successor.series(job, ["gpu.temp"]).values["gpu.temp"] == [None] * 3
    with database.reading() as connection:
        assert (head.missing_columns(connection), head.missing_columns(connection, grown)) == ([], ["gpu.temp"])
    keep(successor, job, Sample(3.0, (*numbered(3, 1)[0].values, 61.5)))
    keep(store, job, *numbered(4, 1))
    successor.seal(job)
    found = successor.series(job, ["gpu.temp", "mem.used"]).values
    assert found == {"gpu.temp": [None, None, None, 61.5, None], "mem.used": [0, 1, 2, 3, 4]}


def test_a_column_that_could_not_be_added_is_added_next_time(database: Database, tmp_path: Path) -> None:
    job = new_job(database)
    successor = SeriesStore(database, replace(JOBS, keys=(*JOB_COLUMNS, "gpu.temp")))
    with pytest.raises(OverflowError):
        keep(successor, job, Sample(0.0, (*NOTHING, 2**64)))
    keep(successor, job, Sample(1.0, (*NOTHING, 2)))
    assert successor.series(job, ["gpu.temp"]).values["gpu.temp"] == [2]


def test_the_host_is_kept_beside_the_jobs_and_has_what_it_has(database: Database, store: SeriesStore) -> None:
    job = new_job(database)
    keep(store, job, *numbered(0, 5))
    with database.writing() as connection:
        connection.execute("INSERT INTO hosts (seq, boot, boot_time) VALUES (1, 'before', 0.0), (2, 'now', 9.0)")
    host = SeriesStore(database, HOSTS)
    keys = HOSTS.keys
    for number in range(130):
        values = tuple(number if key != "cpu.percent" else 12.5 for key in keys)
        host.append([(1, Sample(float(number), values)), (2, Sample(float(number), values))])
    assert host.seal_due(limit=2) == 2 * BLOCK_SAMPLES
    assert (host.seal_ended(5), host.seal_ended(5)) == (10, 0)
    assert host.trim() == 250
    for boot in (1, 2):
        found = host.series(boot, ["cpu.percent", "mem.available"], max_points=1000).values
        assert found == {"cpu.percent": [12.5] * 130, "mem.available": list(range(130))}
    frame = host.frame_at(2, 129.0)
    assert frame is not None
    assert (frame.values["cpu.percent"], frame.values["disk.busy"], frame.values["mem.used"]) == (12.5, 1.0, 129)
    assert set(frame.values) == {metric.key for metric in metrics_of(Scope.HOST)}
    assert read(store, job) == list(range(5))


def test_all_samples_are_counted_and_given_whole(database: Database, store: SeriesStore) -> None:
    job, other = new_job(database), new_job(database)
    store.append([(seq, sample) for seq in (job, other) for sample in numbered(0, 130)])
    store.seal_due(limit=1)
    assert [store.count(seq) for seq in (job, other, 999)] == [130, 130, 0]
    assert store.samples(job) == store.samples(other) == numbered(0, 130)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.head)
def test_a_head_has_a_column_for_every_key(database: Database, layout: Layout) -> None:
    with database.reading() as connection:
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({layout.head})")]
    assert set(names) == {"id", layout.owner, "elapsed", "unchanged", *map(head.column, layout.keys)}
    with closing(sqlite3.connect(":memory:")) as empty:
        assert head.missing_columns(empty) == []
