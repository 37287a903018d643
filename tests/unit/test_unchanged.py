"""Samples with the values of those before are one row for all owners, and read as if each had a row of its own."""

import random
import struct

import pytest

from jobtop.core.model import Sample
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs
from jobtop.store.samples import head
from jobtop.store.samples.head import JOBS
from jobtop.store.samples.live import LiveTails
from jobtop.store.samples.sealed import BLOCK_SAMPLES, MOST_UNCHANGED
from jobtop.store.samples.series import SeriesStore
from records import running_job
from sampled import sample

OWNERS = 8
Model = dict[int, list[Sample]]


@pytest.fixture
def owners(database: Database) -> list[int]:
    return [seq for _ in range(OWNERS) if (seq := Jobs(database).insert(running_job()).seq) is not None]


def rows_of(database: Database) -> tuple[int, int]:
    """How many rows of the head have values, and how many list owners."""
    with database.reading() as connection:
        return tuple(connection.execute("SELECT total(job_seq <> 0), total(job_seq = 0) FROM head").fetchone())


def tick(store: SeriesStore, model: Model, moment: float, values: dict[int, float]) -> None:
    """One sample of each owner."""
    rows = [(owner, sample(moment + owner / 1000, mem_used=value)) for owner, value in values.items()]
    store.append(rows)
    for owner, one in rows:
        model.setdefault(owner, []).append(one)


def check(database: Database, model: Model) -> None:
    """Every way to read gives what every sample as a row of its own would give."""
    store = SeriesStore(database)
    for owner, samples in model.items():
        assert store.samples(owner) == samples
        assert store.follow(owner).samples == samples
        assert store.count(owner) == len(samples)
        assert store.newest(owner, 3) == samples[-3:]
        middle = samples[len(samples) // 2].elapsed
        assert store.newest(owner, 2, middle) == [one for one in samples if one.elapsed <= middle][-2:]
        found = store.series(owner, ["mem.used"], middle)
        assert found.times == [one.elapsed for one in samples if one.elapsed >= middle]


@pytest.mark.parametrize("seed", range(6))
def test_any_mixture_reads_as_it_was_written(database: Database, owners: list[int], seed: int) -> None:
    chance = random.Random(seed)
    store, model = SeriesStore(database), dict[int, list[Sample]]()
    values = dict.fromkeys(owners, 0.0)
    cursors: dict[int, int | None] = dict.fromkeys(owners)
    seen: Model = {owner: [] for owner in owners}
    restless = chance.choice((0.0, 0.01, 0.3))
    for number in range(chance.choice((30, 200, 500))):
        for owner in owners:
            values[owner] = number if chance.random() < restless else values[owner]
        tick(store, model, float(number), {owner: values[owner] for owner in owners if chance.random() < 0.97})
        for _ in range(chance.choice((0, 0, 1, 20))):
            store.step()
        if chance.random() < 0.02:
            store.seal(chance.choice(owners))
        if chance.random() < 0.02:
            store.trim(chance.choice((3, 50, 5000)))
        if chance.random() < 0.02:
            store = SeriesStore(database)  # as after a kill
        follower = chance.choice(owners)
        news = store.follow(follower, cursors[follower])
        cursors[follower] = news.cursor
        seen[follower] += news.samples
        if chance.random() < 0.02:
            check(database, model)
    check(database, model)
    for owner in owners:
        seen[owner] += store.follow(owner, cursors[owner]).samples
        assert seen[owner] == model[owner]


def test_idle_owners_take_one_row_a_tick_and_one_each_now_and_then(database: Database, owners: list[int]) -> None:
    store, model = SeriesStore(database), dict[int, list[Sample]]()
    for number in range(MOST_UNCHANGED + 1):
        tick(store, model, float(number), dict.fromkeys(owners, 7.0))
    assert rows_of(database) == (OWNERS, MOST_UNCHANGED)
    tick(store, model, 100.0, dict.fromkeys(owners, 7.0))
    assert rows_of(database) == (2 * OWNERS, MOST_UNCHANGED)
    tick(store, model, 101.0, dict.fromkeys(owners[:3], 7.0))
    assert rows_of(database) == (2 * OWNERS + 3, MOST_UNCHANGED), "so few have a row each"
    check(database, model)


def test_several_ticks_at_once_are_kept_in_order(database: Database, owners: list[int]) -> None:
    store = SeriesStore(database)
    made = [(owner, sample(float(number), mem_used=number // 10)) for number in range(40) for owner in owners]
    store.append(made)
    check(database, {owner: [one for other, one in made if other == owner] for owner in owners})
    assert rows_of(database) == (4 * OWNERS, 36)


def test_lists_are_trimmed_once_all_their_owners_are_sealed_or_gone(database: Database, owners: list[int]) -> None:
    store, model = SeriesStore(database), dict[int, list[Sample]]()
    for number in range(50):
        tick(store, model, float(number), dict.fromkeys(owners, 7.0))
    for owner in owners[:-1]:
        store.seal(owner)
    store.trim(10_000)
    assert rows_of(database) == (1, 49)
    check(database, model)
    Jobs(database).delete(Jobs(database).by_seq(owners[-1:])[owners[-1]])
    SeriesStore(database).trim(10_000)
    assert rows_of(database) == (0, 0)
    del model[owners[-1]]
    check(database, model)


def test_a_block_ends_where_the_head_goes_on_with_values(database: Database, owners: list[int]) -> None:
    store, model = SeriesStore(database), dict[int, list[Sample]]()
    for number in range(3 * BLOCK_SAMPLES + 10):
        tick(store, model, float(number), dict.fromkeys(owners, 7.0))
        if number % 10 == 0:
            store.seal_due(1)
        with database.reading() as connection:
            for owner in owners:
                sql = "SELECT sealed_until FROM series WHERE job_seq = ?"
                (last,) = connection.execute(sql, (owner,)).fetchone()
                unsealed = head.select(connection, JOBS, owner, last, ["mem.used"])
                assert not unsealed or unsealed[0][2] is not None
    store.trim(10_000)
    check(database, model)


def test_values_that_another_writer_has_sealed_are_found_in_the_block(database: Database, owners: list[int]) -> None:
    """Two writers of one owner, as when a job ended and another engine looks after it."""
    store, other, model = SeriesStore(database), SeriesStore(database), dict[int, list[Sample]]()
    for number in range(10):
        tick(store, model, float(number), dict.fromkeys(owners, 7.0))
    for owner in owners:
        other.seal(owner)
    other.trim(10_000)
    tick(store, model, 10.0, dict.fromkeys(owners, 7.0))
    assert rows_of(database) == (0, 1)
    check(database, model)
    assert SeriesStore(database).follow(owners[0], 10_000).samples == []
    for owner in owners:
        assert SeriesStore(database).seal(owner) == 1
    check(database, model)


def test_ended_owners_whose_writer_was_killed_are_sealed(database: Database, owners: list[int]) -> None:
    store, model = SeriesStore(database), dict[int, list[Sample]]()
    for number in range(10):
        tick(store, model, float(number), dict.fromkeys(owners, 7.0))
    with database.writing() as connection:
        connection.execute("UPDATE jobs SET status = 'failed'")
    later = SeriesStore(database)
    assert later.seal_ended(3) == 30
    assert later.seal_ended(100) == 10 * (OWNERS - 3)
    later.trim(10_000)
    assert rows_of(database) == (0, 0)
    check(database, model)


def test_a_failed_write_leaves_nothing_remembered(
    database: Database, owners: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, model = SeriesStore(database), dict[int, list[Sample]]()
    tick(store, model, 1.0, dict.fromkeys(owners, 7.0))

    def full(*_: object) -> int:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(head, "insert_unchanged", full)
        with pytest.raises(OSError, match="space"):
            tick(store, {}, 2.0, dict.fromkeys(owners, 7.0) | {owners[0]: 8.0})
    tick(store, model, 3.0, dict.fromkeys(owners, 7.0))
    check(database, model)


@pytest.mark.parametrize("wanted", [3, OWNERS])
def test_tails_of_idle_jobs_go_on(
    database: Database, owners: list[int], wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobtop.store.samples.live.FEW", 5)
    store, model, tails = SeriesStore(database), dict[int, list[Sample]](), LiveTails(database)
    for number in range(10):
        tick(store, model, float(number), dict.fromkeys(owners, 7.0))
    assert tails.poll(owners[:wanted]) == set(owners[:wanted])
    for number in range(10, 20):
        tick(store, model, float(number), dict.fromkeys(owners, 7.0) | {owners[0]: number})
        assert tails.poll(owners[:wanted]) == set(owners[:wanted])
    for owner in owners[:wanted]:
        assert list(tails.tails[owner].times) == [one.elapsed for one in model[owner]]
        assert tails.tails[owner].now.memory_bytes == (19 if owner == owners[0] else 7)


def test_idle_jobs_that_are_asked_for_late_show_their_values_at_once(
    database: Database, owners: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobtop.store.samples.live.FEW", 2)
    store, model, tails = SeriesStore(database), dict[int, list[Sample]](), LiveTails(database)
    tick(store, model, 0.0, dict.fromkeys(owners, 7.0))
    tails.poll(owners[:2])
    for number in range(1, 9):
        tick(store, model, float(number), dict.fromkeys(owners, 7.0))
        tails.poll(owners[:2])
    with_values = []
    for number in range(9, 13):
        tick(store, model, float(number), dict.fromkeys(owners, 7.0))
        tails.poll(owners)
        with_values.append(sum(tail.now.memory_bytes == 7 for tail in tails.tails.values()))
    assert with_values == [4, 6, 8, 8], "two more at each poll"
    for owner in owners:
        assert list(tails.tails[owner].times) == [one.elapsed for one in model[owner]]


def test_very_many_unchanged_owners_are_several_lists(
    database: Database, owners: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head, "MOST_LISTED", 3)
    store, model = SeriesStore(database), dict[int, list[Sample]]()
    for number in range(3):
        tick(store, model, float(number), dict.fromkeys(owners, 7.0))
    assert rows_of(database) == (OWNERS, 2 * 3)
    check(database, model)


@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"\0" * 24, struct.pack("<qd", 1, float("nan")), struct.pack("<qd", 1, 1e300), "text", None, 5],
)
def test_a_list_that_jobtop_never_wrote_says_nothing(database: Database, owners: list[int], data: object) -> None:
    store = SeriesStore(database)
    store.append([(owners[0], sample(1.0, mem_used=1))])
    with database.writing() as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        blob = data if isinstance(data, bytes) else None
        connection.execute("INSERT INTO head (job_seq, elapsed, unchanged) VALUES (0, 2.0, ?)", (blob,))
        assert head.elapsed_in(data, 1) is None
        owners_in, moments = head.unchanged_in(data)
        assert len(owners_in) == len(moments)
    assert store.samples(owners[0]) == [sample(1.0, mem_used=1)]
    tails = LiveTails(database)
    tails.poll(owners)
    assert list(tails.tails[owners[0]].times) == [1.0]
    store.trim(100)


def test_an_owner_is_found_where_its_number_begins(database: Database) -> None:
    numbers = [1 << 8, 1, 1 << 56, 3]
    data = struct.pack("<4q4d", *numbers, 0.5, 1.5, 2.5, 3.5)
    assert [head.elapsed_in(data, number) for number in numbers] == [0.5, 1.5, 2.5, 3.5]
    assert [head.elapsed_in(data, number) for number in (0, 2, 1 << 16, 4)] == [None] * 4
    assert head.unchanged_in(data) == (tuple(numbers), (0.5, 1.5, 2.5, 3.5))
