"""The history for tables: filters in SQL, the order of many jobs, visible lines, groups, vocabularies."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobtop.core.analysis.statistics import group_json
from jobtop.core.errors import StoreError
from jobtop.core.model import Job, Status, Usage
from jobtop.core.paths import StatePaths
from jobtop.core.query.conditions import Filter
from jobtop.core.query.filter import parse, quoted
from jobtop.core.record import replace
from jobtop.store import search
from jobtop.store.database import Database, open_to_read, open_to_write
from jobtop.store.jobs import Jobs, Query
from jobtop.store.listing import (
    TREND_RUNS,
    Group,
    group_by_name,
    job_number,
    merge_orders,
    merge_vocabularies,
    read_lines,
    read_order,
    read_runs,
    store_and_seq,
    vocabulary,
)
from jobtop.store.ordering import SORT_KEYS
from jobtop.store.schema import V3
from records import HERE, HOSTILE_TEXTS, made_job, running_job

NOW = 1_700_100_000.0
TEXTS = [
    *HOSTILE_TEXTS.values(),
    *("", "train", "TRAIN_77", "a, b", "[x]", '["', "100%_\\", "\x7f", "a\0b", "\\u00e9", "nfoo\nfoo", "é", "É"),
    *("\u212aelvin", "kelvin", "\u0130stanbul", "straße", "\ud800 alone", "*", "a?c", "--lr=0.1", "=", "true", "7"),
]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A store with the jobs of `kept`."""
    history = open_to_write(StatePaths(tmp_path_factory.mktemp("listing") / "state", HERE))
    yield history
    history.close()


@pytest.fixture(scope="module")
def kept(history: Database) -> list[Job]:
    """Jobs of all sorts, in which anything may be absent and any text may stand, as the store gives them back."""
    chance = random.Random(11)
    jobs = Jobs(history)
    with history.writing():
        for _ in range(120):
            jobs.insert(made_up(chance))
    return jobs.select(Query(limit=None, reverse=True))


@pytest.fixture(scope="module")
def parts(kept: list[Job], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Database]]:
    """The same jobs in three stores."""
    root = tmp_path_factory.mktemp("parts")
    databases = [open_to_write(StatePaths(root, f"host-{place}")) for place in range(3)]
    chance = random.Random(13)
    for job in kept:
        Jobs(chance.choice(databases)).insert(job)
    yield databases
    for database in databases:
        database.close()


def groups_of(database: Database, wanted: Filter | None = None) -> list[Group]:
    return group_by_name([read_runs(database, wanted)])


def made_up(chance: random.Random) -> Job:
    def text() -> str:
        return chance.choice(TEXTS) + chance.choice(["", "", chance.choice(TEXTS)[:30]])

    def maybe(value: Any) -> Any:
        return chance.choice([None, value, value])

    scale = chance.choice([0, 1, 1000, 2**33])
    return made_job(
        name=text(),
        tool=maybe(text()),
        note=maybe(text()),
        script=maybe(text()),
        user=text(),
        external_id=maybe(text()),
        command=tuple(text() for _ in range(chance.randrange(4))),
        tags={text(): text() for _ in range(chance.randrange(3))},
        params={text(): chance.choice([text(), 7, 0.1, True, None, 1e400]) for _ in range(chance.randrange(3))},
        flags=tuple(chance.sample(["oom_killed", "left_running", "impossible_cpu"], chance.randrange(3))),
        status=chance.choice(list(Status)),
        exit_code=maybe(chance.randrange(3)),
        signal=maybe(9),
        submitted_at=maybe(NOW - chance.randrange(100)),
        start_time=maybe(NOW - chance.randrange(100)),
        duration_seconds=maybe(chance.random() * 100),
        usage=Usage(
            cpu_total_seconds=maybe(chance.random() * 100),
            cpu_efficiency=maybe(chance.random()),
            memory_peak_bytes=maybe(chance.randrange(4) * scale),
            io_read_bytes=maybe(chance.randrange(4) * scale),
            io_write_bytes=maybe(chance.randrange(4) * scale),
        ),
    )


def in_quotes(text: str) -> str:
    """A word to look for, whatever it looks like."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def asked(chance: random.Random, job: Job) -> str:
    """A word about a job, which may or may not be true of it."""
    text = chance.choice([job.name, *job.command, *job.tags, *map(str, job.params), job.tool or "", job.note or ""])
    begin, end = sorted(chance.randrange(len(text) + 1) for _ in range(2))
    part = text[begin : min(end, begin + 40)]
    pattern = chance.choice([text, f"{text[:begin]}*", f"*{part}*", text.replace("a", "?"), part, "*"])
    plain_key = next((key for key in job.params if key.isalnum()), "x")
    key = chance.choice("name tool host user script note id command tag param flag".split())
    return chance.choice(
        [
            in_quotes(chance.choice([part, part.upper(), part.lower(), pattern])),
            f"{key}{chance.choice(':=')}{quoted(pattern or '*')}",
            f"param:{quoted(chance.choice([*job.params, 'x']))}={chance.choice([7, '7.0', 0.1, 'true', 'inf'])}",
            f"status:{job.status},{chance.choice(list(Status))}",
            f"{chance.choice(['since', 'before'])}:{chance.randrange(100)}s",
            f"{chance.choice(['time', 'cpu'])}{chance.choice(['<', '>=', '='])}{chance.random() * 100:.2f}s",
            f"{chance.choice(['mem', 'read', 'write'])}{chance.choice(['<', '<=', '>', '=', '!='])}{2**33}",
            f"efficiency>{chance.randrange(100)}%",
            f"{chance.choice(['time', 'cpu'])}:{chance.randrange(50)}s..{chance.choice(['', '50s', '80s'])}",
            f"{chance.choice(['mem', 'read'])}:{chance.choice(['0', '1000', ''])}..{chance.choice([1000, 2**34])}",
            f"{chance.choice(['started', 'ended'])}:{chance.choice(['', '80s'])}..{chance.randrange(80)}s",
            f"param.{plain_key}:{chance.choice(['7', '0..9', '..0.5', 't*'])}",
            f"{chance.choice(['exit', 'signal'])}{chance.choice(['=', '!=', '>'])}{chance.choice([0, 1, 9])}",
        ]
    )


@pytest.mark.parametrize(("is_indexed", "turns"), [(False, 300), (True, 150)])
def test_sql_and_python_filters_select_the_same_jobs(
    history: Database, kept: list[Job], is_indexed: bool, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MANY_CHANGES", 1 if is_indexed else 10**9)
    chance = random.Random(12)
    seen = set()
    for turn in range(turns):
        word = asked(chance, chance.choice(kept))
        negated = word if word[:1] in "-!" else f"!{word}"
        for line in (word, negated, f"{word} {asked(chance, chance.choice(kept))}"):
            wanted = parse(line, NOW)
            expected = [job.seq for job in reversed(kept) if wanted.matches(job)]
            found = read_order(history, Query(filter=wanted, limit=None)).seqs.tolist()
            assert found == expected, f"{turn}: {line!r}"
            seen.add(len(expected))
    assert {0, 1, len(kept)} <= seen
    assert len(seen) > 50
    with history.reading() as connection:
        assert bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'search'").fetchone()) is is_indexed


@pytest.mark.parametrize(
    "text", ["train", "é", "É", "\u212a", "k", "0%_", ",", "[", "o\nf", "nfoo", "\\u00e9", " ", "?"]
)
def test_any_part_of_a_command_is_found(history: Database, kept: list[Job], text: str) -> None:
    wanted = parse(in_quotes(text), NOW)
    expected = [job.seq for job in reversed(kept) if wanted.matches(job)]
    assert read_order(history, Query(filter=wanted, limit=None)).seqs.tolist() == expected
    assert expected
    assert len(expected) < len(kept) or text == "?"


@pytest.mark.parametrize(
    ("line", "argument"),
    [
        ("'\x7f'", "a\x7fb"),
        ("a?c", "abc"),
        ("a*d", "abcd"),
        ("command:a?c", "abc"),
        ("command:*b*", "abc"),
        ("a_%", "A_%"),
    ],
)
def test_a_command_without_escapes_is_found_too(database: Database, line: str, argument: str) -> None:
    Jobs(database).insert(made_job(command=(argument,)))
    Jobs(database).insert(made_job(command=("other",)))
    assert read_order(database, Query(filter=parse(line, NOW), limit=None)).seqs.tolist() == [1]


def test_a_word_and_its_negation_divide_the_jobs(history: Database, kept: list[Job]) -> None:
    for word in ("tool:*", "mem>0", "exit=0", "tag:*", "time<50s", "since:50s", "flag:oom*", "status:failed", "train"):
        halves = [read_order(history, Query(filter=parse(line, NOW), limit=None)) for line in (word, f"!{word}")]
        numbers = sorted([*halves[0].seqs, *halves[1].seqs])
        assert numbers == [job.seq for job in kept]
        assert all(half.seqs for half in halves)


@pytest.mark.parametrize("sort", SORT_KEYS)
@pytest.mark.parametrize("reverse", [False, True])
def test_read_order_has_the_order_of_select(history: Database, kept: list[Job], sort: str, reverse: bool) -> None:
    for filter_line in ("", "status:success,failed"):
        wanted = parse(filter_line, NOW) if filter_line else None
        query = Query(filter=wanted, sort=sort, reverse=reverse, limit=None)
        expected = [job.seq for job in Jobs(history).select(query)]
        assert read_order(history, query).seqs.tolist() == expected
        assert [job.seq for job in Jobs(history).select(replace(query, limit=5))] == expected[:5]


def test_a_filter_adds_to_the_other_conditions_of_a_query(history: Database, kept: list[Job]) -> None:
    query = Query(statuses=("success", "failed"), since=NOW - 50, filter=parse("mem>0", NOW), limit=None)
    expected = {
        job.seq
        for job in kept
        if job.status in ("success", "failed")
        and (job.start_time or job.submitted_at or 0.0) >= NOW - 50
        and (job.usage.memory_peak_bytes or 0) > 0
    }
    assert expected
    assert {job.seq for job in Jobs(history).select(query)} == expected


def test_lines_have_the_values_of_their_jobs(history: Database, kept: list[Job]) -> None:
    order = read_order(history, Query(limit=None, reverse=True))
    for line, job in zip(read_lines(history, order.seqs), kept, strict=True):
        for name in (
            "seq",
            "id",
            "name",
            "status",
            "host",
            "user",
            "tool",
            "flags",
            "tags",
            "start_time",
            "limited_by",
        ):
            assert getattr(line, name) == getattr(job, name)
        for name in ("cpu_total_seconds", "cpu_efficiency", "memory_peak_bytes", "io_read_bytes", "io_write_bytes"):
            assert getattr(line, name) == getattr(job.usage, name)
        assert (line.exit_code, line.signal, line.duration_seconds) == (job.exit_code, job.signal, job.duration_seconds)
        assert (line.last_heard, line.interval_seconds) == (job.last_heard, job.monitor.interval_seconds)
        assert (line.io_bytes is None) == (None in (line.io_read_bytes, line.io_write_bytes))


def test_a_line_says_that_a_peak_is_only_a_bound(database: Database) -> None:
    for source in ("pss", "rusage_floor"):
        Jobs(database).insert(made_job(sources={"memory_peak": source}))
    lines = read_lines(database, [2, 1])
    assert [line.memory_is_bound for line in lines] == [True, False]


def test_the_percentiles_of_a_group_are_bounds_if_a_peak_is(database: Database) -> None:
    for name, source in (("one", "pss"), ("two", "pss"), ("two", "rusage_floor")):
        usage = Usage(memory_peak_bytes=7)
        Jobs(database).insert(made_job(name=name, usage=usage, sources={"memory_peak": source}))
    memory = {group.name: group.summary.memory for group in groups_of(database)}
    assert {name: known.is_bound(known.p95) for name, known in memory.items()} == {"one": False, "two": True}


@pytest.mark.parametrize("sort", SORT_KEYS)
@pytest.mark.parametrize("reverse", [False, True])
def test_jobs_of_several_stores_are_in_the_order_they_would_have_in_one(
    history: Database, kept: list[Job], parts: list[Database], sort: str, reverse: bool
) -> None:
    query = Query(sort=sort, reverse=reverse, limit=None)
    orders = [read_order(part, query, with_keys=True) for part in parts]
    ids = [{job.seq: job.id for job in Jobs(part).select(Query(limit=None))} for part in parts]
    found = [ids[place][seq] for place, seq in map(store_and_seq, merge_orders(orders))]
    assert len(found) == len(kept)
    whole = read_order(history, query, with_keys=True)
    assert whole.keys is not None
    by_number = {job.seq: job.id for job in kept}
    keys = {by_number[seq]: key for seq, key in zip(whole.seqs, whole.keys, strict=True)}
    assert [keys[job_id] for job_id in found] == whole.keys
    assert set(found) == set(keys)


def test_job_numbers_of_a_single_store_are_its_own(database: Database) -> None:
    Jobs(database).insert(made_job())
    order = read_order(database, Query(limit=None))
    assert merge_orders([order]) is order.seqs
    assert store_and_seq(job_number(3, 2**40)) == (3, 2**40)
    assert job_number(0, 7) == 7


def test_a_store_that_could_not_be_read_is_left_out_of_the_order(parts: list[Database]) -> None:
    orders = [None, *(read_order(part, Query(limit=None), with_keys=True) for part in parts[1:])]
    places = {place for place, _ in map(store_and_seq, merge_orders(orders))}
    assert places == set(range(1, len(parts)))
    assert not merge_orders([None, None])


def test_groups_and_vocabularies_of_several_stores_are_merged(
    history: Database, kept: list[Job], parts: list[Database]
) -> None:
    assert merge_vocabularies(map(vocabulary, parts)).keys() == vocabulary(history).keys()
    for key, words in merge_vocabularies(map(vocabulary, parts)).items():
        assert set(words) == set(vocabulary(history)[key])
    apart = {group.name: group_json(group.summary) for group in group_by_name([read_runs(part) for part in parts])}
    assert apart == {group.name: group_json(group.summary) for group in groups_of(history)}


def test_an_order_is_read_again_only_after_a_change(database: Database, tmp_path: Path) -> None:
    jobs, query = Jobs(database), Query(filter=parse("status:running", NOW), limit=None)
    first, second = jobs.insert(running_job()), jobs.insert(running_job())
    order = read_order(database, query)
    assert order.seqs.tolist() == [2, 1]
    assert read_order(database, query, order) is order
    assert read_order(database, replace(query, reverse=True), order).seqs.tolist() == [1, 2]
    jobs.change(second.id, lambda row: (replace(row, status=Status.SUCCESS), ()))
    order = read_order(database, query, order)
    assert order.seqs.tolist() == [1]
    # The newest is removed and another comes: as many jobs as before, and the same greatest number of a change.
    jobs.delete(second)
    third = jobs.insert(running_job())
    order = read_order(database, query, order)
    assert order.seqs.tolist() == [third.seq, first.seq]
    other = open_to_read(database.path)
    assert read_order(other, query, order) is order
    jobs.delete(first)
    assert read_order(other, query, order).seqs.tolist() == [third.seq]
    other.close()


def test_a_job_that_was_removed_leaves_its_line_until_the_order_is_read_again(database: Database) -> None:
    jobs = Jobs(database)
    kept = [jobs.insert(made_job(name=name)) for name in "abc"]
    seqs = read_order(database, Query(limit=None)).seqs
    jobs.delete(kept[1])
    assert [line.name for line in read_lines(database, seqs)] == ["c", "(removed)", "a"]
    assert [line.seq for line in read_lines(database, seqs)] == [3, 2, 1]


def test_a_store_of_an_older_version_is_listed_too(database: Database) -> None:
    jobs = Jobs(database)
    jobs.insert(made_job(name="old"))
    with database.writing() as connection:
        connection.execute("DROP INDEX jobs_by_touch")
        connection.execute("DROP INDEX jobs_in_short")
        for column in ("limited_by", "energy_cpu_joules"):
            connection.execute(f"ALTER TABLE jobs DROP COLUMN {column}")
        for column in ("touched", "metrics", "start_boottime"):
            assert f"ADD COLUMN {column} " in V3
            connection.execute(f"ALTER TABLE jobs DROP COLUMN {column}")
        connection.execute("PRAGMA user_version = 2")
    older = open_to_read(database.path)
    query = Query(filter=parse("old", NOW), limit=None)
    order = read_order(older, query)
    assert [line.name for line in read_lines(older, order.seqs)] == ["old"]
    assert read_order(older, query, order) is order
    for sort in ("energy", "cost"):
        assert list(read_order(older, Query(sort=sort, limit=None)).seqs) == [1]
    assert not read_order(older, Query(filter=parse("cost>1", NOW), limit=None)).seqs
    older.close()


@pytest.mark.parametrize(
    "line",
    ["name:train*", "train", "mem>4G", "status:failed", "since:7d", "tag:x", "param:x", "id:a", "note:x", "flag:x"],
)
def test_jobs_are_selected_with_an_index_without_reading_the_table(database: Database, line: str) -> None:
    query = Query(filter=parse(line, NOW), sort="duration", limit=None)
    steps: list[str] = []
    with database.reading() as connection:
        connection.set_trace_callback(steps.append)
    read_order(database, query)
    with database.reading() as connection:
        connection.set_trace_callback(None)
    asked_for = next(step for step in steps if step.startswith("SELECT seq FROM jobs"))
    calls = [name for name in ("fits_0", "fits_1") if name in asked_for]
    with database.reading() as connection:
        for name in calls:
            connection.create_function(name, 1, bool, deterministic=True)
        plan = [row["detail"] for row in connection.execute(f"EXPLAIN QUERY PLAN {asked_for}").fetchall()]
    assert re.fullmatch("SCAN jobs USING COVERING INDEX (jobs_in_short|jobs_by_duration)", plan[0])


def test_the_sql_functions_of_a_filter_are_removed_afterwards(database: Database) -> None:
    Jobs(database).insert(made_job())
    read_order(database, Query(filter=parse("name:t* tool:x", NOW), limit=None))
    with pytest.raises(StoreError, match="function"), database.reading() as connection:
        connection.execute("SELECT fits_0(X'61')")


def test_groups_have_the_totals_and_the_trend_of_their_jobs(database: Database) -> None:
    jobs = Jobs(database)
    for number in range(30):
        jobs.insert(
            made_job(
                name="train" if number % 3 else "eval",
                status=Status.SUCCESS if number % 2 else Status.FAILED,
                start_time=1000.0 - number,
                duration_seconds=float(number),
                usage=Usage(memory_peak_bytes=number << 20),
            )
        )
    jobs.insert(running_job(name="train", start_time=2000.0))
    train, evaluation = groups_of(database)
    assert (train.name, evaluation.name) == ("train", "eval")
    assert (train.summary.jobs, train.summary.running, evaluation.summary.jobs) == (21, 1, 10)
    assert evaluation.summary.success_rate == 0.5
    assert (evaluation.summary.duration.p50, evaluation.summary.duration.p95) == (12.0, 27.0)
    assert evaluation.summary.memory.p95 == 27 << 20
    newest_last = [float(number) for number in range(29, -1, -1) if number % 3]
    assert train.trend == tuple(newest_last[-TREND_RUNS:])
    assert evaluation.trend == tuple(float(number) for number in range(27, -1, -3))


def test_a_trend_has_the_newest_runs_only(database: Database) -> None:
    jobs = Jobs(database)
    for number in range(TREND_RUNS + 5):
        jobs.insert(made_job(start_time=float(number), duration_seconds=float(number)))
    (group,) = groups_of(database)
    assert group.trend == tuple(float(number) for number in range(5, TREND_RUNS + 5))


def test_groups_have_only_the_jobs_that_a_filter_selects(database: Database) -> None:
    jobs = Jobs(database)
    for name, status in (("a", Status.FAILED), ("a", Status.SUCCESS), ("b", Status.SUCCESS)):
        jobs.insert(made_job(name=name, status=status))
    groups = groups_of(database, parse("status:failed", NOW))
    assert [(group.name, group.summary.jobs) for group in groups] == [("a", 1)]
    assert groups_of(database, parse("name:zzz", NOW)) == []


def test_the_vocabulary_has_the_words_of_the_newest_jobs_first(database: Database) -> None:
    jobs = Jobs(database)
    jobs.insert(made_job(name="a", tool="x", tags={"team": "v"}, params={"lr": 0.1}, flags=("oom_killed",)))
    jobs.insert(made_job(name="b", tool=None, tags={"team": "w"}, params={"deep": True}))
    jobs.insert(made_job(name="a", tool="y"))
    known = vocabulary(database)
    assert (known["name"], known["tool"], known["flag"]) == (["a", "b"], ["y", "x"], ["oom_killed"])
    assert known["tag"] == ["team", "team=w", "team=v"]
    assert known["param"] == ["deep", "deep=true", "lr", "lr=0.1"]
    assert (known["host"], known["user"]) == ([HERE], ["ada"])
    assert json.dumps(known)
