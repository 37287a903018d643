"""`history` and `show`: what is selected, how it is ordered and printed, and the shape of a job as JSON."""

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import click
import pytest

from jobtop.cli.selection import complete_filter
from jobtop.cli.text.history_columns import COLUMNS
from jobtop.cli.verbs.history import history
from jobtop.core.model import Limits, Status, Usage
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Event, Jobs
from jobtop.store.ordering import SORT_KEYS
from records import HERE, assert_one_line, call, kept_jobs, made_job
from running import nothing_is_left
from support import Jobtop

__all__ = ["nothing_is_left"]

# The contract: keys only get added.
JOB_KEYS = (
    "schema_version id seq external_id parent_id name tool script command params tags note host user cwd pid status"
    " reason flags exit_code signal error submitted_at start_time end_time duration_seconds limits resource_usage"
    " sources incomplete monitor"
).split()
LIMIT_KEYS = "cpus memory_bytes runtime_seconds gpus timeout_seconds enforced pids".split()
USAGE_KEYS = (
    "cpu_user_seconds cpu_system_seconds cpu_total_seconds cpu_efficiency cpu_percent_mean cpu_percent_min"
    " cpu_percent_peak memory_peak_bytes memory_mean_bytes memory_min_bytes memory_cgroup_peak_bytes io_read_bytes"
    " io_write_bytes io_read_chars io_write_chars processes_peak threads_peak samples gpu_util_mean gpu_util_peak"
    " gpu_memory_peak_bytes energy_gpu_joules energy_cpu_joules net_rx_bytes net_tx_bytes"
).split()
MONITOR_KEYS = "interval_seconds cpu_seconds rss_bytes longest_interval_seconds thinned".split()


def listed(*args: str) -> list[Any]:
    """The names that `history` lists, in its order."""
    answer = call("--set", "cost.kwh=0.3", "history", "--format", "jsonl", *args)
    assert (answer.returncode, answer.stderr) == (0, "")
    return [json.loads(line)["name"] for line in answer.stdout.splitlines()]


@pytest.fixture
def varied(home: Path) -> Path:
    """Twelve jobs, `j0` the oldest, begun an hour apart; the last one half an hour ago."""
    now = time.time()
    statuses = [Status.SUCCESS, Status.FAILED, Status.TIMEOUT]
    jobs = [
        made_job(
            name=f"j{number}",
            tool="torch" if number % 2 else "jax",
            status=statuses[number % 3],
            tags={"team": "xyz"[number % 3], "odd": "é=ß"} if number % 2 else {"team": "xyz"[number % 3]},
            start_time=now - 3600 * (11.5 - number),
            duration_seconds=float(number * 7 % 12),
            usage=Usage(cpu_total_seconds=float(number * 5 % 12), memory_peak_bytes=number * 11 % 12 << 20),
        )
        for number in range(12)
    ]
    kept_jobs(home, *jobs)
    return home


@pytest.mark.parametrize("words", [(), ("--json",), ("--format", "jsonl"), ("--format", "csv")], ids=str)
def test_history_lists_the_ten_newest_the_newest_first_and_says_that_there_are_more(
    varied: Path, words: tuple[str, ...]
) -> None:
    limited, short = call("history", "--limit", "10", *words), call("history", *words)
    assert (short.returncode, short.stdout) == (0, limited.stdout)
    assert limited.stderr == ""
    assert_one_line(short.stderr, "10 of 12 jobs", "--all", "--limit N")
    assert listed("--limit", "10") == [f"j{number}" for number in range(11, 1, -1)]
    assert call("history", "!status:failed").stderr == "", "there are but eight"


def test_a_job_that_never_began_has_no_start(home: Path) -> None:
    kept_jobs(home, made_job(status=Status.CANCELLED, start_time=None, end_time=None, duration_seconds=None))
    assert call("history").stdout.splitlines()[1].split()[-5:] == ["–"] * 4 + ["0"]


def test_the_timeline_of_an_attached_job_begins_when_it_did(home: Path) -> None:
    database = open_to_write(StatePaths(home, HERE))
    job = made_job(submitted_at=102.5, start_time=100.0, end_time=107.2, duration_seconds=7.2, flags=("attached",))
    events = [Event(100.0, "started", {"pid": 7}), Event(102.5, "attached", {}), Event(107.2, "exited", {})]
    Jobs(database).insert(job, *events)
    database.close()
    lines = call("show", job.id).stdout.splitlines()[-3:]
    assert [line.removeprefix("  timeline").split()[0] for line in lines] == ["+0s", "+2.5s", "+7.2s"]


@pytest.mark.parametrize(("word", "key"), [("mem", "memory"), ("time", "duration")])
def test_what_a_filter_calls_a_number_it_can_be_sorted_by(varied: Path, word: str, key: str) -> None:
    assert listed("--all", "--sort", word) == listed("--all", "--sort", key) != listed("--all")


@pytest.mark.parametrize(
    ("args", "numbers"),
    [
        (("--limit", "3"), [11, 10, 9]),
        (("--limit", "100"), range(11, -1, -1)),
        (("--all",), range(11, -1, -1)),
        (("--reverse", "--limit", "2"), [0, 1]),
        (("--tool", "jax"), [10, 8, 6, 4, 2, 0]),
        (("--tool", "none"), []),
        (("--status", "failed"), [10, 7, 4, 1]),
        (("--status", "failed", "--status", "timeout"), [11, 10, 8, 7, 5, 4, 2, 1]),
        (("--name", "j1*"), [11, 10, 1]),
        (("--name", "j?"), range(9, -1, -1)),
        (("--tag", "odd"), [11, 9, 7, 5, 3, 1]),
        (("--tag", "team=y"), [10, 7, 4, 1]),
        (("--tag", "odd=é=ß", "--tool", "torch", "--limit", "1"), [11]),
        (("--since", "2h"), [11, 10]),
        (("--since", "4h", "--tool", "jax"), [10, 8]),
        (("--sort", "duration", "--limit", "3"), [5, 10, 3]),
        (("--sort", "cpu", "--reverse", "--limit", "3"), [0, 5, 10]),
        (("--sort", "memory", "--limit", "2"), [1, 2]),
    ],
    ids=str,
)
def test_history_selects_and_orders(varied: Path, args: tuple[str, ...], numbers: list[int]) -> None:
    assert listed(*args) == [f"j{number}" for number in numbers]


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (("name:j1*",), [11, 10, 1]),
        (("j1",), [11, 10, 1]),
        (("J1", "tool:jax"), [10]),
        (("status:failed,timeout", "since:4h"), [11, 10, 8]),
        (("tag:xyz",), []),
        (("tag:y",), [10, 7, 4, 1]),
        (("name:j? mem>8M",), [3, 2, 1]),
        (("time<3s", "--sort", "duration"), [2, 7, 0]),
        (("name:j1*", "--tool", "torch", "--limit", "1"), [11]),
        (("--", "-tool:jax", "!status:failed", "-j1"), [9, 5, 3]),
        (("command:python train.py", "--limit", "1"), [11]),
        (("", "--limit", "10"), range(11, 1, -1)),
    ],
    ids=str,
)
def test_history_lists_the_jobs_that_fit_every_word(varied: Path, words: tuple[str, ...], numbers: list[int]) -> None:
    assert listed(*words) == [f"j{number}" for number in numbers]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("j1", "nmae:x", "mem:4G.."), 'Unknown filter "nmae" (did you mean name?)'),
        (("mem>4Q",), 'mem: "4Q" '),
        (("name>\x1b[2J x",), "name is not compared"),
        (("time:5m..1m",), "time: "),
        (("status:faild",), 'status: "faild" '),
        (("--since", "soon"), "invalid value for '--since': "),
        (("--status", "faild"), "invalid value for '--status': "),
    ],
)
def test_a_wrong_word_is_named_on_one_line(home: Path, words: tuple[str, ...], message: str) -> None:
    answer = call("history", *words)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith(f"jobtop: {message}")
    assert answer.stderr.count("\n") == 1
    assert not home.exists()


@pytest.mark.parametrize(
    ("before", "typed", "candidates"),
    [
        ((), "stat", ["status:"]),
        ((), "me", ["mem:"]),
        (("x",), "tool:", ["tool:torch", "tool:jax"]),
        (("tool", ":"), "j", ["jax"]),  # bash parts words at colons
        (("tool",), ":", ["torch", "jax"]),
        ((), "name:j11", ["name:j11"]),
    ],
)
def test_a_shell_completes_the_words_of_a_filter(
    varied: Path, before: tuple[str, ...], typed: str, candidates: list[str]
) -> None:
    context = click.Context(history)
    context.params["words"] = before
    assert complete_filter(context, history.params[0], typed) == candidates


def test_without_a_store_a_shell_completes_what_needs_none(home: Path) -> None:
    context = click.Context(history)
    assert complete_filter(context, history.params[0], "status:f") == ["status:failed"]
    assert complete_filter(context, history.params[0], "tool:") == []


@pytest.mark.parametrize("key", SORT_KEYS)
def test_history_sorts_by_every_key_both_ways(varied: Path, key: str) -> None:
    ordered = listed("--sort", key, "--all")
    assert sorted(ordered) == sorted(f"j{number}" for number in range(12))
    assert listed("--sort", key, "--all", "--reverse") == ordered[::-1]


def test_history_prints_a_table_with_a_row_a_job(varied: Path) -> None:
    answer = call("history", "--limit", "2")
    head, *rows = answer.stdout.splitlines()
    assert head.split() == ["ID", "NAME", "STATUS", "STARTED", "TIME", "CPU", "MEMORY", "EXIT"]
    assert [row.split()[1:4] for row in rows] == [["j11", "◷", "timeout"], ["j10", "✗", "failed"]]


def test_every_format_tells_the_same(varied: Path) -> None:
    whole = json.loads(call("history", "--json").stdout)
    assert json.loads(call("history", "--format", "json").stdout) == whole
    assert [json.loads(line) for line in call("history", "--format", "jsonl").stdout.splitlines()] == whole
    rows = list(csv.DictReader(io.StringIO(call("history", "--format", "csv").stdout)))
    assert [row["id"] for row in rows] == [job["id"] for job in whole]
    assert [float(row["resource_usage.cpu_total_seconds"]) for row in rows] == [
        job["resource_usage"]["cpu_total_seconds"] for job in whole
    ]
    assert [json.loads(row["tags"]) for row in rows] == [job["tags"] for job in whole]
    assert json.loads(call("job-history", "--json").stdout) == whole
    one = json.loads(call("show", whole[0]["id"], "--json").stdout)
    assert one == whole[0] | {"error_lines": None, "alerts": [], "captures": []}, "only `show` reads these"
    assert json.loads(call("job-details", whole[0]["id"], "--format", "jsonl").stdout) == one


@pytest.mark.parametrize("made", [False, True], ids=["no store", "an empty store"])
def test_an_empty_history_names_the_store_it_looked_in(home: Path, made: bool) -> None:
    if made:
        kept_jobs(home)
    answer = call("history")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert str(home / f"{HERE}.db") in answer.stdout
    assert home.exists() is made
    assert json.loads(call("history", "--json").stdout) == []
    assert call("history", "--format", "jsonl").stdout == ""


def test_a_history_of_which_nothing_fits_does_not_say_that_there_are_no_jobs(varied: Path) -> None:
    for words in (("--name", "zzz"), ("zzz",)):
        answer = call("history", *words)
        assert answer.returncode == 0
        assert "j1" not in answer.stdout
        assert not answer.stdout.startswith("No jobs in ")


def test_a_job_as_json_has_every_key_and_what_is_absent_is_null(home: Path) -> None:
    (bare,) = kept_jobs(home, made_job(exit_code=None, end_time=None, duration_seconds=None, start_time=None))
    shape = json.loads(call("show", bare.id, "--json").stdout)
    assert list(shape)[: len(JOB_KEYS)] == JOB_KEYS
    assert shape["schema_version"] == 1
    assert shape["limits"] == dict.fromkeys(LIMIT_KEYS) | {"enforced": False}
    assert set(shape["resource_usage"]) >= set(USAGE_KEYS)
    assert set(shape["resource_usage"].values()) == {None}
    assert shape["monitor"] == dict.fromkeys(MONITOR_KEYS)
    assert [shape[key] for key in ("params", "tags", "flags", "sources", "incomplete")] == [{}, {}, [], {}, []]
    absent = ("external_id", "parent_id", "tool", "script", "note", "pid", "reason", "exit_code", "signal", "error")
    assert {shape[key] for key in (*absent, "start_time", "end_time", "duration_seconds")} == {None}


def test_a_job_as_json_tells_what_it_was_and_did(home: Path) -> None:
    limits = Limits(4.0, 8 << 30, 7200.0, 1, 60.0)
    usage = Usage(cpu_user_seconds=1.5, memory_peak_bytes=4096)
    (job,) = kept_jobs(home, made_job(limits=limits, usage=usage, tags={"a": "b"}, params={"lr": 0.1}, signal=9))
    shape = json.loads(call("show", job.id, "--json").stdout)
    assert shape["command"] == ["python", "train.py"]
    assert (shape["submitted_at"], shape["start_time"]) == (
        "2023-11-14T22:13:20.250000Z",
        "2023-11-14T22:13:20.500000Z",
    )
    assert shape["end_time"] == "2023-11-14T22:13:22.500000Z"
    assert (shape["seq"], shape["signal"], shape["status"]) == (1, 9, "success")
    assert (shape["tags"], shape["params"]) == ({"a": "b"}, {"lr": 0.1})
    assert list(shape["limits"].values()) == [4.0, 8 << 30, 7200.0, 1, 60.0, False, None]
    assert shape["resource_usage"]["cpu_user_seconds"] == 1.5


@pytest.mark.parametrize("verb", ["show", "job-details"])
def test_show_finds_a_job_by_id_prefix_or_external_id(home: Path, verb: str) -> None:
    job, _ = kept_jobs(home, made_job(external_id="slurm-17", name="wanted"), made_job(name="other"))
    for reference in (job.id, job.id[:8], job.id[:4].upper(), "slurm-17"):
        answer = call(verb, reference)
        assert (answer.returncode, answer.stderr) == (0, "")
        assert answer.stdout.startswith("wanted  ✓ success  ")


def test_a_job_that_ran_is_shown_with_its_timeline_and_sources(jobtop: Jobtop) -> None:
    tags = ("--tag", "team=x", "--param", "lr=0.1", "--note", "a word", "--external-id", "task-1", "--memory", "8G")
    done = jobtop("run", "--name", "real", *tags, "--", "sh", "-c", "echo hi; exit 3")
    assert done.returncode == 3
    shown = jobtop("show", "task-1")
    lines = [line.split(None, 1) for line in shown.stdout.splitlines()]
    facts = {line[0]: line[1] for line in lines if len(line) == 2}
    assert facts["reason"] == "exit code 3"
    assert facts["command"] == "sh -c 'echo hi; exit 3'"
    assert facts["exit"] == "3"
    assert facts["tags"] == "team=x"
    assert facts["params"] == "lr=0.1"
    assert facts["note"] == "a word"
    assert facts["declared"] == "8.0 GiB memory"
    assert "memory_peak from" in facts["sources"]
    assert "submitted" in facts["timeline"]
    assert "ended: failed (exit code 3)" in shown.stdout
    shape = json.loads(jobtop("show", "task-1", "--json").stdout)
    assert set(shape["resource_usage"]) >= set(USAGE_KEYS)
    assert all(shape["resource_usage"][key] is not None for key in ("cpu_total_seconds", "memory_peak_bytes"))


def test_a_store_whose_directory_may_not_be_written_is_read_and_said_so_once(unprivileged: Jobtop) -> None:
    assert unprivileged("run", "--quiet", "--name", "first", "--", "true").returncode == 0
    unprivileged.state.chmod(0o555)
    try:
        for verb in (("history",), ("show", json.loads(unprivileged("history", "--json").stdout)[0]["id"])):
            answer = unprivileged(*verb)
            assert answer.returncode == 0
            assert "first" in answer.stdout
            assert answer.stderr.startswith("jobtop: ")
            assert answer.stderr.count("\n") == 1
    finally:
        unprivileged.state.chmod(0o700)
    assert unprivileged("history").stderr == ""


def test_a_job_inside_a_job_names_its_parent(jobtop: Jobtop) -> None:
    inner = jobtop.command("run", "--quiet", "--name", "inner", "--", "true")
    assert jobtop("run", "--quiet", "--name", "outer", "--", *inner).returncode == 0
    jobs = {job["name"]: job for job in json.loads(jobtop("history", "--json").stdout)}
    assert jobs["inner"]["parent_id"] == jobs["outer"]["id"]
    assert jobs["outer"]["parent_id"] is None


def test_columns_choose_what_the_table_and_the_csv_have(home: Path) -> None:
    job = made_job(
        params={"lr": 0.3, "opt": "adam"}, tags={"team": "vision"}, usage=Usage(memory_peak_bytes=3 << 20, samples=7)
    )
    kept_jobs(home, job, made_job(name="bare", signal=9, exit_code=None))
    names = "name,params,time,mem,param.lr,tag.team,exit,resource_usage.samples"
    header, bare, train = call("history", "--columns", names, "--sort", "seq").stdout.splitlines()
    assert header.split() == "NAME PARAMS TIME MEMORY param.lr tag.team EXIT resource_usage.samples".split()
    assert train.split() == [*"train lr=0.3 opt=adam".split(), *train.split()[3:]]
    assert "3.0 MiB" in train
    assert train.split()[-4:] == ["0.3", "vision", "0", "7"]
    assert bare.split()[-4:] == ["–", "–", "SIGKILL", "–"]
    rows = list(csv.reader(io.StringIO(call("history", "--columns", names, "--format", "csv").stdout)))
    assert rows[0] == names.split(",")
    assert ["train", '{"lr": 0.3, "opt": "adam"}', "2.0", str(3 << 20), "0.3", "vision", "0", "7"] in rows
    assert call("history", "name:none", "--columns", "name,mem", "--format", "csv").stdout == "name,mem\n"


def test_every_column_can_be_listed(home: Path) -> None:
    kept_jobs(home, made_job())
    listed_names = call("history", "--columns", "help").stdout
    for name in COLUMNS:
        assert name in listed_names
        answer = call("history", "--columns", name)
        assert (answer.returncode, len(answer.stdout.splitlines())) == (0, 2)


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("--columns", "nmae"), 'did you mean "name"'),
        (("--columns", ","), "external_id"),
        (("--columns", "\x1b[2J"), "\\x1b[2J"),
        (("--columns", "param."), "param.KEY"),
        (("--columns", "name", "--json"), "JSON"),
    ],
)
def test_a_wrong_column_is_named(home: Path, args: tuple[str, ...], word: str) -> None:
    code, out, err = call("history", *args)
    assert (code, out) == (2, "")
    assert_one_line(err, word)


def test_a_tag_without_a_value_is_shown_as_given_and_found(jobtop: Jobtop) -> None:
    assert jobtop("run", "--name", "tagged", "--tag", "sweep", "--tag", "team=x", "--", "true").returncode == 0
    assert json.loads(jobtop("history", "tag:sweep", "--json").stdout)[0]["tags"] == {"sweep": "", "team": "x"}
    assert jobtop("history", "--tag", "sweep", "--columns", "tags").stdout.split() == ["TAGS", "sweep", "team=x"]
    tags = [line.split(maxsplit=1)[1] for line in jobtop("show", "last").stdout.splitlines() if " tags " in line]
    assert tags == ["sweep, team=x"]
