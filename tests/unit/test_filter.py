"""The filter line: which jobs its words mean, what is wrong with one and where, and what it can be completed to."""

import re
import time
import tracemalloc
from datetime import datetime
from typing import Any

import pytest

from jobtop.core.errors import ExitCode
from jobtop.core.model import Kept, Status, Usage
from jobtop.core.query.completion import complete, word_at
from jobtop.core.query.conditions import _regex
from jobtop.core.query.filter import LANGUAGE, FilterError, line_of, parse, quoted
from jobtop.core.query.keys import FLAGS, KEYS
from records import HERE, HOSTILE_TEXTS, made_job, running_job
from support import ROOT

NOW = 1_800_000_000.0
HOUR, DAY = 3600.0, 86400.0


def fits(line: str, **values: Any) -> bool:
    """Whether a job with these values is among those the line wants."""
    return parse(line, NOW).matches(made_job(**values))


def used(**usage: Any) -> dict[str, Any]:
    return {"usage": Usage(**usage)}


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("", {}),
        ("name:train", {}),
        ("name:t*n", {}),
        ("name:tr??n", {}),
        ("name:*", {"name": ""}),
        ("name:*a*b*c", {"name": "xaxbxabc"}),
        ("name:eval[1]", {"name": "eval[1]"}),
        ("name:'my job'*", {"name": "my job 7"}),
        ('name:"say \\"hi\\""', {"name": 'say "hi"'}),
        ("name:my\\ job", {"name": "my job"}),
        ("name:'a\n'*", {"name": "a\nb\n"}),
        ("name=a*", {"name": "a*"}),
        ("NAME:train", {}),
        ("tool:py*", {"tool": "pytorch"}),
        (f"host:{HERE}", {}),
        ("user:ad?", {}),
        ("script:*.py", {"script": "train.py"}),
        ("note:*word*", {"note": "a word"}),
        ("word train", {"note": "a Word"}),
        ("'a w?rd' -other", {"note": "this is a word"}),
        ("id:AB12", {"id": "ab12cdef-0000-4000-8000-000000000000"}),
        ("id:*-8000-*", {"id": "ab12cdef-0000-4000-8000-000000000000"}),
        ("id:slurm-1?", {"external_id": "slurm-17"}),
        ("command:'python *.py'", {}),
        ("command:python\\ train.py", {}),
        ("status:success", {}),
        ("status:failed,success", {}),
        ("status=success", {}),
        ("flag:oom*", {"flags": ("left_running", "oom_killed")}),
        ("flag:x,left_running", {"flags": ("left_running",)}),
        ("tag:team", {"tags": {"team": "x"}}),
        ("tag:vis*", {"tags": {"team": "vision"}}),
        ("tag:team=v*", {"tags": {"team": "vision"}}),
        ("tag:a=b=c", {"tags": {"a": "b=c"}}),
        ("param:lr=0.1", {"params": {"lr": 0.1}}),
        ("param:lr=1e-1", {"params": {"lr": 0.1}}),
        ("param:l*=.10", {"params": {"lr": 0.1}}),
        ("param:deep=true", {"params": {"deep": True}}),
        ("param:mode=fast", {"params": {"mode": "fast"}}),
        ("param:lr", {"params": {"lr": 0.1}}),
        ("since:1h", {"start_time": NOW - HOUR}),
        ("since:7d", {"start_time": None, "submitted_at": NOW - DAY}),
        ("before:1h", {"start_time": NOW - HOUR - 1}),
        ("mem>4G", used(memory_peak_bytes=(4 << 30) + 1)),
        ("mem>=4G mem<=4G mem=4GiB mem:4096M.. mem:..4G mem:4G..4G", used(memory_peak_bytes=4 << 30)),
        ("mem:1G..4G", used(memory_peak_bytes=2 << 30)),
        ("time:1m..5m", {"duration_seconds": 60.0}),
        ("time:1m..5m", {"duration_seconds": 300.0}),
        ("-time:1m..5m", {"duration_seconds": 300.5}),
        ("cpu:1h.. efficiency:10%..20%", used(cpu_total_seconds=3600.0, cpu_efficiency=0.2)),
        ("read:1G.. write:..1k", used(io_read_bytes=2 << 30, io_write_bytes=0)),
        ("exit:1..127", {"exit_code": 127}),
        ("!exit:1..127", {"exit_code": 0}),
        ("signal:HUP..KILL", {"signal": 9}),
        ("started:2h..1h", {"start_time": NOW - HOUR}),
        ("started:2h..", {"start_time": NOW}),
        ("ended:..1h", {"end_time": NOW - 2 * HOUR}),
        ("ended>=2h ended<1h", {"end_time": NOW - 2 * HOUR}),
        ("param.lr:0.3", {"params": {"lr": 0.3}}),
        ("param.lr:3e-1", {"params": {"lr": 0.3}}),
        ("param.lr:0.1..0.5", {"params": {"lr": 0.3}}),
        ("param.lr:..0.5", {"params": {"lr": -1}}),
        ("param.lr>0.1", {"params": {"lr": 1}}),
        ("param.lr!=0.1", {"params": {"lr": 1}}),
        ("PARAM.LR:1", {"params": {"LR": 1}}),
        ("param.file:../x..y", {"params": {"file": "../x..y"}}),
        ("param.opt:ad*", {"params": {"opt": "adam"}}),
        ("param.layers.0:64", {"params": {"layers.0": 64}}),
        ("tag.team:vis*", {"tags": {"team": "vision"}}),
        ("tag.team:vision", {"tags": {"team": "vision"}}),
        ("train.py:12", {"command": ("vim", "train.py:12")}),
        ("command:resnet", {"command": ("python", "train.py", "ResNet50")}),
        ("note:word", {"note": "a Word"}),
        ("cpu>1h", used(cpu_total_seconds=3601.0)),
        ("time<10m", {"duration_seconds": 599.0}),
        ("efficiency<20%", used(cpu_efficiency=0.19)),
        ("energy:..1.5kJ", used(energy_cpu_joules=1500.0)),
        ("energy>2kWh", used(energy_cpu_joules=3.6e6, energy_gpu_joules=3.7e6)),
        ("energy>=100J", used(energy_gpu_joules=100.0)),
        ("!energy:0J..", used()),
        ("efficiency>=12.5%", used(cpu_efficiency=0.125)),
        ("read>1G write<1k", used(io_read_bytes=2 << 30, io_write_bytes=0)),
        ("exit=137", {"exit_code": 137}),
        ("exit:0", {"exit_code": 0}),
        ("signal:KILL signal=9 signal=sigkill", {"signal": 9}),
        ("kept:whole,minutes pinned:no", {}),
        ("kept:minutes pinned:yes", {"kept": Kept.MINUTES, "pinned": True}),
        ("stale:yes", {"status": Status.RUNNING, "host": "far", "last_heard": NOW - 61}),
        ("stale:no", {"status": Status.SUCCESS, "host": "far", "last_heard": NOW - 61}),
        ("TRAI", {}),
        ("thon\\ tra", {}),
        ("'thon tra'", {}),
        ("PY*train*", {}),
        ("t?a", {}),
        ("*", {"name": "", "command": ()}),
        ("what?", {"name": "so what?"}),
        ("ПОЕЗД", {"name": "поезд"}),
        ("-eval !tool:make -status:failed", {"tool": "bash"}),
        ("-tool:make", {"tool": None}),
        ("!mem>4G", used(memory_peak_bytes=None)),
        ("exit!=0", {"exit_code": 1}),
        ("exit!=0", {"exit_code": None}),
        ("tool!=make", {"tool": "bash"}),
        ("!exit!=0", {"exit_code": 0}),
        ('"name:x"', {"command": ("echo", "name:x")}),
        ("'-x'", {"command": ("rm", "-x")}),
        ("-", {"command": ("a", "-")}),
    ],
)
def test_a_word_means_the_jobs_that_have_it(line: str, values: dict[str, Any]) -> None:
    assert fits(line, **values)


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("name:trai", {}),
        ("name:Train", {}),
        ("name:tr?n", {}),
        ("name=tr*", {}),
        ("name:*a*b*c", {"name": "xaxcxb"}),
        ("name:eval[1]", {"name": "eval1"}),
        ("-word", {"note": "a word"}),
        ("tool:*", {"tool": None}),
        ("id:b12c", {"id": "ab12cdef-0000-4000-8000-000000000000"}),
        ("status:failed,timeout", {}),
        ("kept:record", {}),
        ("stale:yes", {"status": Status.RUNNING, "host": "far", "last_heard": NOW - 59}),
        ("stale:no", {"status": Status.RUNNING, "host": "far", "last_heard": None}),
        ("pinned:yes", {}),
        ("pinned:no", {"pinned": True}),
        ("flag:oom_killed", {"flags": ("oom_kill",)}),
        ("tag:team=x", {"tags": {"team": "y", "x": "team"}}),
        ("param:lr=0.1", {"params": {"lr": "0.10"}}),
        ("param:lr=1", {"params": {"lr": True}}),
        ("since:1h", {"start_time": NOW - HOUR - 1}),
        ("since:1h", {"start_time": None, "submitted_at": None}),
        ("before:1h", {"start_time": NOW - HOUR}),
        ("mem>4G", used(memory_peak_bytes=4 << 30)),
        ("mem<4G", used(memory_peak_bytes=None)),
        ("exit=0", {"exit_code": None}),
        ("mem:4G..", used(memory_peak_bytes=(4 << 30) - 1)),
        ("mem:..4G", used(memory_peak_bytes=(4 << 30) + 1)),
        ("mem:..4G", used(memory_peak_bytes=None)),
        ("time:1m..5m", {"duration_seconds": 59.9}),
        ("started:2h..1h", {"start_time": None}),
        ("param.lr:0.1..0.5", {"params": {"lr": "0.3"}}),
        ("param.lr:0.3", {"params": {"rate": 0.3}}),
        ("param.lr:0.3", {}),
        ("param.LR:1", {"params": {"lr": 1}}),
        ("tag.team:x", {"tags": {"x": "team"}}),
        ("command=python", {}),
        ("train -py", {}),
        ("train eval", {}),
        ("train*eval", {}),
        ("'train  py'", {}),
        ("-train", {}),
        ("!name:tr*", {}),
    ],
)
def test_a_word_does_not_mean_the_jobs_that_lack_it(line: str, values: dict[str, Any]) -> None:
    assert not fits(line, **values)


def test_a_job_that_runs_has_taken_the_time_since_its_start() -> None:
    running = running_job(start_time=NOW - HOUR)
    assert parse("time>59m time<61m", NOW).matches(running)
    lost = running_job(start_time=NOW - HOUR, status=Status.LOST)
    assert not parse("time>59m", NOW).matches(lost)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31", datetime(2026, 1, 31).astimezone()),
        ("2026-01-31T09:30", datetime(2026, 1, 31, 9, 30).astimezone()),
        ("2026-01-31T09:30:00Z", datetime.fromisoformat("2026-01-31T09:30:00+00:00")),
    ],
)
def test_a_date_is_local_unless_it_says_otherwise(text: str, moment: datetime) -> None:
    begun = moment.timestamp()
    assert fits(f"since:{text}", start_time=begun)
    assert not fits(f"before:{text}", start_time=begun)
    assert fits(f"before:{text}", start_time=begun - 1)


def test_a_date_in_a_range_is_the_whole_day() -> None:
    noon, next_day = (datetime.fromisoformat(text).timestamp() for text in ("2026-01-31T12:00", "2026-02-01"))
    for line in ("started:2026-01-31", "started:2026-01-30..2026-01-31", "started:..2026-01-31", "ended<=2026-01-31"):
        assert fits(line, start_time=noon, end_time=noon)
        assert fits(line, start_time=next_day - 0.001, end_time=next_day - 0.001)
        assert not fits(line, start_time=next_day, end_time=next_day)
    assert fits("started>2026-01-31", start_time=next_day)
    assert not fits("started>2026-01-31", start_time=noon)


def test_the_known_flags_are_those_of_the_page() -> None:
    page = (ROOT / "docs/history.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"(?m)^\| `flags` \|.*$", page)
    assert set(re.findall(r"`([a-z_]+)`", row)) - {"flags"} <= set(FLAGS)


def test_the_short_description_names_keys_that_exist() -> None:
    words = re.findall(r"[a-z]+(?:\.[a-z]+)?:[^\s;'\x08]+", LANGUAGE)
    assert len(words) > 10
    for word in words:
        parse(word, NOW)


@pytest.mark.parametrize(
    ("line", "marked", "problem"),
    [
        ("name:x nmae:y z", "nmae:y", 'Unknown filter "nmae" (did you mean name?)'),
        ("stauts:failed", "stauts:failed", "did you mean status?). Quote it"),
        ("memory>4G", "memory>4G", "did you mean mem?"),
        ("params.lr:0.3", "params.lr:0.3", "did you mean param?"),
        ("http://x", "http://x", "there are name, tool"),
        ("mem:4G", "mem:4G", "mem:4G.."),
        ("since:7d time:5m..1m", "time:5m..1m", 'did you mean "1m..5m"?'),
        ("mem:..", "mem:..", "bounds"),
        ("mem:1G..2Q", "mem:1G..2Q", '"2Q" is not a size'),
        ("mem:1G..2G..3G", "mem:1G..2G..3G", "is not a size"),
        ("started:1h..2h", "started:1h..2h", "nothing is in the range"),
        ("started:7d", "started:7d", "started:7d.."),
        ("since:7d..1d", "since:7d..1d", "started:7d..1d"),
        ("mem<0", "mem<0", "no job"),
        ("signal=99", "signal=99", "not a signal"),
        ("param.lr>x", "param.lr>x", "not a number"),
        ("tag.team>1", "tag.team>1", "not compared by >"),
        ("a mem>4Q", "mem>4Q", '"4Q" is not a size'),
        ("cpu>soon b", "cpu>soon", '"soon" is not a duration'),
        ("efficiency<20", "efficiency<20", "use 20%"),
        ("energy>20", "energy>20", "500J"),
        ("exit=-1", "exit=-1", "exit code"),
        ("signal=NOPE", "signal=NOPE", "KILL"),
        ("status:failed,tmeout", "status:failed,tmeout", 'did you mean "timeout"'),
        ("flag:x,oomkilled", "flag:x,oomkilled", 'did you mean "oom_killed"'),
        ("alert:critcal", "alert:critcal", 'did you mean "critical"'),
        ("alert>critical", "alert>critical", "not compared by >"),
        ("kept:minute", "kept:minute", 'did you mean "minutes"'),
        ("pinned:1", "pinned:1", "use yes, no"),
        ("since:soon", "since:soon", "2026-01-31"),
        ("since:0001-01-01", "since:0001-01-01", "neither"),
        ("-name:", "-name:", "name: needs a value"),
        ("name>x", "name>x", "not compared by >"),
        ("status<=failed", "status<=failed", "not compared by <="),
        ("a 'b c", "'b c", "quote is not closed"),
        ('name:"b c', 'name:"b c', "quote is not closed"),
    ],
)
def test_a_wrong_word_is_marked_and_explained(line: str, marked: str, problem: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(line, NOW)
    error = caught.value
    assert line[error.start : error.end] == marked
    assert problem in error.problem
    assert str(error) == error.problem
    assert error.exit_code is ExitCode.USAGE


def test_without_a_store_no_alerts_are_known() -> None:
    with pytest.raises(FilterError) as caught:
        parse("name:x -alert:any", NOW, in_memory=True)
    assert (caught.value.start, caught.value.end) == (7, 17)
    assert "history" in caught.value.problem
    assert parse("name:x", NOW, in_memory=True) == parse("name:x", NOW)


def test_the_line_of_an_error_stays_short() -> None:
    with pytest.raises(FilterError) as caught:
        parse(f"{'a' * 500} {'q' * 500}:{'x' * 500} {'z' * 500}", NOW)
    assert len(str(caught.value)) < 600
    assert (caught.value.start, caught.value.end) == (501, 1502)


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_any_text_can_be_quoted(text: str) -> None:
    for line in (f"name:{quoted(text)}", f"name={quoted(text)}", f"tag:{quoted(text)}", f"command:{quoted(text)}"):
        assert fits(line, name=text, tags={text: text}, command=(text,))
        assert not fits(line, name="other", command=("other",))


def test_a_pattern_of_many_stars_does_not_take_for_ever() -> None:
    begun = time.process_time()
    assert not fits(f"name:{'*a' * 40}*b", name="a" * 2000)
    assert time.process_time() - begun < 1.0


def test_a_pattern_that_is_longer_than_the_text_is_not_compiled() -> None:
    compiled = _regex.cache_info().misses
    assert not fits(f"id:{'x' * 200_000}", external_id="x")
    assert _regex.cache_info().misses == compiled
    assert fits("name:ab*?*c", name="abxc")
    assert not fits("name:ab*?*c", name="abc")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), ""),
        (("name:train*", "mem>4G"), "name:train* mem>4G"),
        (("name:train* mem>4G",), "name:train* mem>4G"),
        (("my job",), '"my job"'),
        (("name:my job",), 'name:"my job"'),
        (("!name:my job", "x"), '!name:"my job" x'),
        (("-my job",), '-"my job"'),
        (('name:"my job"',), 'name:"my job"'),
        (('name:say "hi"',), 'name:"say \\"hi\\""'),
        (("it's",), '"it\'s"'),
        (("it's mem>4G",), '"it\'s mem>4G"'),
    ],
)
def test_arguments_of_a_command_line_make_a_line(arguments: tuple[str, ...], line: str) -> None:
    assert line_of(arguments) == line
    parse(line, NOW)


KNOWN = {
    "name": ["train-1", "train-2", "my job", "train-1"],
    "tool": ["make"],
    "tag": ["team", "team=x"],
    "flag": ["left_running", "oom_killed"],
}


@pytest.mark.parametrize(
    ("typed", "candidates"),
    [
        ("na", ["name:"]),
        ("x m", ["mem:"]),
        ("STAT", ["status:"]),
        ("!to", ["!tool:"]),
        ("name:tr", ["name:train-1", "name:train-2"]),
        ("name:TR", ["name:train-1", "name:train-2"]),
        ("-name:my", ['-name:"my job"']),
        ('name:"my ', ['name:"my job"']),
        ("name=my", ['name="my job"']),
        ("status:can", ["status:cancelled"]),
        ("status:failed,ti", ["status:failed,timeout"]),
        ("flag:", ["flag:left_running", "flag:oom_killed"]),
        ("tag:team=", ["tag:team=x"]),
        ("tag.team:", ["tag.team:x"]),
        ("mem>4", []),
        ("nosuch:x", []),
        ("zzz", []),
        ('"na', []),
    ],
)
def test_the_word_before_the_cursor_is_completed(typed: str, candidates: list[str]) -> None:
    assert complete(typed, len(typed), KNOWN) == candidates
    for candidate in candidates:
        if not candidate.endswith((":", ">", "<", "=")):
            parse(candidate, NOW)


def test_every_key_is_explained() -> None:
    page = (ROOT / "docs/history.md").read_text(encoding="utf-8").partition("## Filters")[2].partition("## Status")[0]
    examples = [word for row in re.findall(r"(?m)^\| (`.*?`) \|", page) for word in re.findall(r"`([^`]+)`", row)]
    assert {re.split("[:<>=.]", word)[0] for word in examples} == set(KEYS)
    for word in examples:
        parse(word if not word.endswith(":") else f"{word}x", NOW)


def test_where_no_word_is_begun_every_key_is_offered() -> None:
    assert complete("mem>4G ", 7, KNOWN) == [f"{name}:" for name in KEYS]
    assert complete("-", 1, {}) == [f"-{name}:" for name in KEYS]


def test_only_the_word_at_the_cursor_is_replaced() -> None:
    line = "name:tr  'a b' x"
    assert [line[slice(*word_at(line, cursor))] for cursor in (0, 3, 7, 8, 12, 16)] == [
        *("name:tr", "name:tr", "name:tr", "", "'a b'", "x")
    ]
    assert complete(line, 7, KNOWN) == ["name:train-1", "name:train-2"]


@pytest.mark.parametrize("text", ["'" + "x" * 300_000 + "'", '"' + "x" * 300_000 + '"', "name:" + "x" * 300_000])
def test_a_huge_word_takes_memory_in_proportion(text: str) -> None:
    parse("name:'x'", NOW)
    tracemalloc.start()
    parse(text, NOW)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 32 * len(text)
