"""Whatever stands in a filter line: jobs are found, by SQLite and by Python the same, or one word is named as wrong."""

import random
from contextlib import suppress
from pathlib import Path

from fuzzing import ODD_NUMBERS, ODD_WORDS, fuzz, fuzzed, mutated_text
from jobtop.core.errors import JobtopError
from jobtop.core.paths import StatePaths
from jobtop.core.query.completion import complete, word_at
from jobtop.core.query.filter import line_of, parse, quoted, split
from jobtop.core.query.keys import KEYS
from jobtop.store.database import open_to_read
from jobtop.store.jobs import Jobs, Query
from records import HERE, HOSTILE_TEXTS, kept_jobs, made_job, running_job

NOW = 1_800_000_000.0
VALUES = (
    *ODD_WORDS,
    *ODD_NUMBERS,
    *HOSTILE_TEXTS.values(),
    *("train*", "*a*a*a*a*a*b", "?", "success,failed", "7d", "today", "4G", "50%", "SIGKILL", "9", "a=b", "a", "yes"),
    *("2026-01-02", "12:30", "-", "!", '"', "'", "\\", "a" * 3000, "*" * 300, "'a b", "(a+)+$", "last", "#1", "@2"),
    *("4G..", "..4G", "1m..5m", "5m..1m", "..", "...", "1..2..3", "9..KILL", "0%..5%", "7d..", "..2026-01-02"),
    *("0.1..0.5", "-1..", "..1e309", "2026-01-02..7d", "0x1..", "a..b", "../x"),
)
OPERATORS = (":", ">", "<", "=", "!=", ">=", "<=", "::", "")


def written(dice: random.Random) -> str:
    """A line of some words, in order or not."""
    words = []
    for _ in range(dice.randint(1, 4)):
        value = dice.choice(VALUES)
        value = quoted(value) if dice.random() < 0.3 else value
        key = dice.choice([*KEYS, "", "nam", "NAME", "tag.x", "param.lr", "param.s", "params.lr", "tag.", "ключ"])
        words.append(dice.choice(["", "", "-", "!"]) + key + dice.choice(OPERATORS) + value)
    line = dice.choice([" ", "\t", "\n", " OR "]).join(words)
    line = mutated_text(dice, line) if dice.random() < 0.5 else line
    return line * dice.choice((1,) * 20 + (10,))


@fuzzed("filters", inputs=600)
def test_a_filter_finds_the_same_jobs_in_sql_and_in_python(home: Path, count: int) -> None:
    jobs = [
        made_job(name="train", tags={"a": "b", "x": ""}, params={"lr": 0.1, "n": None, "s": "9"}, note="7d \\ 'x'"),
        made_job(name="*a*", command=("sh", "-c", "a\nb ★ \udce9"), exit_code=9, signal=9, external_id="#1"),
        made_job(name="", tool="", start_time=None, submitted_at=None, duration_seconds=None),
        *(made_job(name=text, note=text, command=(text,)) for text in HOSTILE_TEXTS.values()),
        running_job(),
    ]
    kept_jobs(home, *jobs)
    database = open_to_read(StatePaths(home, HERE).store)
    stored = Jobs(database)
    everything = stored.select(Query(limit=None))
    assert len(everything) == len(jobs)

    def check(line: str) -> None:
        with suppress(JobtopError):
            parse(line_of([line, line[: len(line) // 2]]), NOW)
        for word in split(line):
            assert 0 <= word.start < word.end <= len(line)
        middle = len(line) // 2
        begin, end = word_at(line, middle)
        assert begin <= middle <= end
        complete(line, middle, {"name": VALUES})
        wanted = parse(line, NOW)
        found = {job.id for job in stored.select(Query(limit=None, filter=wanted))}
        assert found == {job.id for job in everything if wanted.matches(job)}

    try:
        fuzz("filters", written, check, count)
    finally:
        database.close()
