"""Bad input: one clear line, exit code 2, no traceback, nothing run and nothing written."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobtop.cli.main import VERBS
from records import HERE, Answer, assert_one_line, call, kept_jobs, made_job
from running import nothing_is_left
from support import Jobtop

__all__ = ["nothing_is_left"]


def refused(done: Answer | subprocess.CompletedProcess[str], *words: str) -> None:
    """Exactly one line on standard error, for a person, with these words in it, and exit code 2."""
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert_one_line(done.stderr, *words)
    assert len(done.stderr) < 600
    assert "Traceback" not in done.stderr
    assert "bug in jobtop" not in done.stderr


@pytest.fixture
def untouched(jobtop: Jobtop) -> Iterator[Path]:
    """The home directory, in which nothing may be new at the end."""
    before = set(jobtop.home.rglob("*"))
    yield jobtop.home
    assert set(jobtop.home.rglob("*")) == before
    assert not jobtop.state.exists()


RAN = ("--", "touch", "it-ran")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), ["no command", "jobtop run"]),
        (("--",), ["no command"]),
        (("--name", "x", "--"), ["no command"]),
        (("--bogus", *RAN), ["no such option", "--bogus", "jobtop run --help"]),
        (("--memroy", "8G", *RAN), ["--memroy", "did you mean '--memory'"]),
        (("--memory", "0", *RAN), ["--memory", '"0"']),
        (("--timeout", "0", *RAN), ["--timeout", '"0"']),
        (("--name",), ["--name"]),
        (("--quiet=yes", *RAN), ["--quiet"]),
        (("--memory", "8X", *RAN), ["--memory", "8X", "512M"]),
        (("--memory", "-1", *RAN), ["--memory", "-1"]),
        (("--memory", "9999999T", *RAN), ["--memory", "9999999T"]),
        (("--memory", "\x1b[31m\n", *RAN), ["--memory", "\\x1b[31m\\n"]),
        (("--timeout", "soon", *RAN), ["--timeout", "soon", "1h30m"]),
        (("--runtime", "1h30x", *RAN), ["--runtime", "1h30x"]),
        (("--grace", "", *RAN), ["--grace"]),
        (("--cpus", "many", *RAN), ["--cpus", "many"]),
        (("--cpus", "nan", *RAN), ["--cpus", "nan"]),
        (("--cpus", "-1", *RAN), ["--cpus", "-1"]),
        (("--gpus", "1.5", *RAN), ["--gpus", "1.5"]),
        (("--gpus", "9" * 30, *RAN), ["--gpus", "9" * 30]),
        (("--tag", "=value", *RAN), ["--tag", "=value", "KEY=VALUE"]),
        (("--tag", "sweep,nightly", *RAN), ["--tag", "sweep,nightly", "repeat"]),
        (("--param", "=x", *RAN), ["--param", "=x"]),
        (("--env", "A", *RAN), ["--env", "A=VALUE"]),
        (("--after-exit", "maybe", *RAN), ["--after-exit", "maybe", "leave"]),
        (("--cwd", "no/where", *RAN), ["--cwd", "no/where"]),
        (("--record", "no/where/r.json", *RAN), ["--record", "no/where/r.json"]),
        (("--record", ".", *RAN), ["--record"]),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_a_run_that_makes_no_sense_is_refused_before_anything_is_run_or_written(
    jobtop: Jobtop, untouched: Path, args: tuple[str, ...], words: list[str]
) -> None:
    refused(jobtop("run", *args), *words)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("hisotry",), ['"hisotry"', '"history"']),
        (("train.py",), ['"train.py"', "jobtop help"]),
        (("\x1b[2J\n",), ["\\x1b[2J\\n"]),
        (("--bogus",), ["--bogus"]),
        (("--color", "pink", "history"), ["--color", "pink"]),
        (("history", "--bogus"), ["--bogus", "jobtop history --help"]),
        (("history", "statu:x"), ["statu", "status"]),
        (("history", "--limit", "0"), ["--limit"]),
        (("history", "--limit", "ten"), ["--limit", "ten"]),
        (("history", "--limit", "9" * 30), ["--limit"]),
        (("history", "--status", "done"), ["--status", "done", "success"]),
        (("history", "--since", "lately"), ["--since", "lately"]),
        (("history", "--sort", "memroy"), ["--sort", '"memroy"', '"memory"']),
        (("history", "--format", "xml"), ["--format", "xml", "jsonl"]),
        (("attach", "abc"), ["PID", '"abc"', "whole number"]),
        (("show",), ["ID"]),
        (("show", "abcd", "efgh"), ["efgh"]),
        (("logs", "abcd", "--tail", "-1"), ["--tail"]),
        (("stop",), ["no job given"]),
        (("completion", "tcsh"), ["tcsh", "bash"]),
        (("config", "trsut"), ["trsut"]),
        (("--set", "run.garce=1s", "history"), ["--set", "run.garce", '"run.grace"']),
        (("--set", "run.grace", "history"), ["--set", "KEY=VALUE"]),
        (("--set", "run.grace=soon", "history"), ["--set", "run.grace", '"soon"']),
        (("--set", "run.garce=1s", "run", "--", "true"), ["--set", "run.garce"]),
        (("-v", "run", "--memory", "8X", "--", "true"), ["--memory", "8X"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_verb_that_makes_no_sense_is_refused(home: Path, args: tuple[str, ...], words: list[str]) -> None:
    refused(call(*args), *words)
    assert not home.exists()


@pytest.mark.parametrize("verb", ["show", "logs", "stop", "kill", "pause", "resume", "wait", "rm", "job-details"])
@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("abcd", ["abcd", "abcd1111", "abcd2222", "first", "sec\\x1bond"]),
        ("ffff", ['"ffff"', "jobtop history"]),
        ("ff", ['"ff"', "4", "last:failed"]),
        ("@99", ['"@99"', "3 jobs"]),
        ("#99", ['"#99"', "number"]),
        ("frist", ['"frist" is not a job', "first"]),
        ("", ['""']),
        ("\x1b[2J\n!", ['"\\x1b[2J\\n!"']),
        ("\udcff\udcfe\udcfd\udcfc", ["\\udcff"]),
    ],
    ids=["ambiguous", "unknown", "short", "place", "number", "name", "empty", "hostile", "not UTF-8"],
)
def test_a_wrong_id_is_named_and_nothing_is_done(home: Path, verb: str, reference: str, words: list[str]) -> None:
    made = [("abcd1111", "first"), ("abcd2222", "sec\x1bond"), ("eeee3333", "third")]
    kept_jobs(home, *(made_job(id=f"{start}-0000-4000-8000-000000000000", name=name) for start, name in made))
    refused(call(verb, reference), *words)
    if verb in ("stop", "kill", "pause", "resume", "wait", "rm"):
        refused(call(verb, "eeee", reference), *words)
    assert call("history", "--format", "jsonl").stdout.count("\n") == 3


@pytest.mark.parametrize("verb", ["show", "logs", "stop", "kill", "pause", "resume", "wait", "rm"])
def test_an_id_before_the_first_job_is_unknown_and_no_store_is_made(home: Path, verb: str) -> None:
    refused(call(verb, "abcd"), str(home / f"{HERE}.db"))
    assert not home.exists()


BAD_FILES = [
    ("[run]\ngarce = 1\n", "run.garce"),
    ("[rnu]\n", "rnu"),
    ("[run]\ngrace = 'x'\n", "run.grace"),
    ("[", "line 1"),
]


@pytest.mark.parametrize(("content", "word"), BAD_FILES)
def test_a_wrong_configuration_file_is_named_and_nothing_is_run(jobtop: Jobtop, content: str, word: str) -> None:
    file = jobtop.home / ".config/jobtop/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    refused(jobtop("run", *RAN), str(file), word)
    assert not jobtop.state.exists()
    assert not (jobtop.home / "it-ran").exists()


@pytest.mark.parametrize(("content", "word"), BAD_FILES)
def test_a_wrong_file_of_a_project_that_is_not_trusted_is_named_and_stops_nothing(
    jobtop: Jobtop, content: str, word: str
) -> None:
    file = jobtop.home / "jobtop.toml"
    file.write_text(content)
    done = jobtop("run", *RAN)
    assert (done.returncode, str(file) in done.stderr) == (0, True)
    assert (jobtop.home / "it-ran").exists()


def test_a_wrong_variable_is_named_and_nothing_is_run(jobtop: Jobtop, untouched: Path) -> None:
    refused(jobtop("run", *RAN, env={"JOBTOP_RUN_GRACE": "soon"}), "JOBTOP_RUN_GRACE", "soon")


def test_a_wrong_configuration_of_the_machine_is_named(jobtop: Jobtop, root: None) -> None:
    etc = jobtop.home / "etc"
    (etc / "jobtop").mkdir(parents=True)
    (etc / "jobtop/config.toml").write_text("[run]\ngarce = 1\n")
    script = 'mount --bind "$0" /etc && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, str(etc), *jobtop.command("run", *RAN)]
    done = subprocess.run(command, env=jobtop.env, cwd=jobtop.home, capture_output=True, text=True)
    refused(done, "/etc/jobtop/config.toml", "run.garce", '"run.grace"')
    assert not jobtop.state.exists()


def test_from_a_directory_that_was_removed_history_works_and_run_says_what_to_give(jobtop: Jobtop) -> None:
    script = 'mkdir gone && cd gone && rmdir ../gone && "$@"'
    for args in (("history",), ("run", "--", "true")):
        command = ["sh", "-c", script, "sh", *jobtop.command(*args)]
        done = subprocess.run(command, env=jobtop.env, cwd=jobtop.home, capture_output=True, text=True)
        if args == ("history",):
            assert (done.returncode, done.stderr) == (0, "")
        else:
            refused(done, "--cwd")
    command = ["sh", "-c", script, "sh", *jobtop.command("run", "--quiet", "--cwd", "/", "--", "pwd")]
    done = subprocess.run(command, env=jobtop.env, cwd=jobtop.home, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "/\n")


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (("no-such-command",), 127, "no-such-command: command not found"),
        (("./no/such/file",), 127, "./no/such/file: command not found"),
        (("",), 127, "'': command not found"),
        (("./plain",), 126, "./plain: Permission denied"),
        (("/",), 126, "/: Permission denied"),
        (("\x1b[31mx\n",), 127, "\\x1b[31mx\\n: command not found"),
    ],
    ids=["not found", "no file", "empty", "not executable", "directory", "hostile"],
)
def test_a_command_that_cannot_be_started_is_recorded_as_an_error(
    jobtop: Jobtop, command: tuple[str, ...], code: int, words: str
) -> None:
    (jobtop.home / "plain").write_text("text")
    done = jobtop("run", *(("--detach",) if code == 126 else ()), "--", *command)
    assert (done.returncode, done.stdout) == (code, "")
    assert_one_line(done.stderr, words)
    listed = jobtop("history", "--status", "error")
    assert "! error" in listed.stdout
    assert f" {code}\n" in listed.stdout


@pytest.mark.parametrize("args", [(), ("--help",), ("-h",), ("run", "--help"), ("history", "--help"), ("--version",)])
def test_help_is_given_on_standard_output(home: Path, args: tuple[str, ...]) -> None:
    answer = call(*args)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "jobtop" in answer.stdout
    assert not home.exists()


def test_a_mistake_of_our_own_is_one_line_and_its_traceback_goes_to_the_log(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_jobs(home, made_job())

    def fail(*_: object) -> None:
        raise ZeroDivisionError("deep\ninside")

    monkeypatch.setattr("jobtop.store.jobs.Jobs.select", fail)
    answer = call("history")
    assert (answer.returncode, answer.stdout) == (125, "")
    assert answer.stderr.count("\n") == 1
    assert "ZeroDivisionError: deep\\ninside" in answer.stderr
    log = home / "jobtop.log"
    assert str(log) in answer.stderr
    assert "Traceback" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_words_that_standard_output_cannot_encode_are_escaped(jobtop: Jobtop) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    done = jobtop("run", "--name", "naïve", "--", "sh", "-c", "exit 3", env=ascii_only)
    assert done.returncode == 3
    for style in ("table", "csv"):
        shown = jobtop("history", "--format", style, env=ascii_only)
        assert shown.returncode == 0
        assert "na\\xefve" in shown.stdout
        assert shown.stderr == ""


@pytest.mark.parametrize("verb", [("run",), ("submit", "--wait"), ("-v", "run")])
def test_an_option_behind_the_command_is_passed_on_and_warned_about(jobtop: Jobtop, verb: tuple[str, ...]) -> None:
    done = jobtop(*verb, "sh", "-c", 'echo "$@"', "sh", "--memory", "8G", "--no-ui")
    warnings = [line for line in done.stderr.splitlines() if "--memory" in line and "before the command" in line]
    assert (done.returncode, len(warnings)) == (0, 1)
    record = json.loads(jobtop("history", "--json").stdout)[0]
    assert record["limits"]["memory_bytes"] is None
    assert jobtop("logs", record["id"]).stdout == "--memory 8G --no-ui\n"


@pytest.mark.parametrize(
    "words",
    [
        ("--", "echo", "--memory", "8G"),
        ("--memory", "1G", "echo", "hi"),
        ("echo", "--name", "x", "--verbose", "--timeout", "3", "memory", "--memories"),
    ],
)
def test_options_of_the_command_itself_are_not_warned_about(jobtop: Jobtop, words: tuple[str, ...]) -> None:
    done = jobtop("run", "--quiet", *words)
    assert (done.returncode, done.stderr) == (0, "")


def test_programs_that_have_such_options_are_not_warned_about(jobtop: Jobtop, tmp_path: Path) -> None:
    (docker := tmp_path / "docker").write_text("#!/bin/sh\n")
    docker.chmod(0o755)
    done = jobtop("run", "--quiet", str(docker), "run", "--memory", "8G")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", [("rerun",), ("store", "check"), ("job-history",), ("help",)])
def test_help_of_a_verb_is_what_the_verb_itself_prints(home: Path, words: tuple[str, ...]) -> None:
    asked = call("help", *words)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert asked.stdout == call(*words, "--help").stdout


def test_help_without_a_verb_lists_all_and_help_filters_has_the_words(home: Path) -> None:
    listed = call("help").stdout
    assert all(f"\n  {verb} " in listed for verb in VERBS)
    assert "jobtop help filters" in listed
    words = call("help", "filters").stdout
    assert all(key in words for key in ("status:", "since:", "param.", "tag:"))


@pytest.mark.parametrize("topic", ["ids", "show", "logs", "metrics", "top", "rerun", "stop", "retry", "plot", "export"])
def test_help_says_how_to_name_a_job(home: Path, topic: str) -> None:
    text = call("help", topic).stdout
    forms = (" last ", "last:failed", "@2", "'#15'", "4 or more characters", "id:", "name:")
    assert [form for form in forms if form not in text] == []


@pytest.mark.parametrize("verb", ["show", "logs", "rerun"])
def test_a_missing_id_is_answered_with_the_forms_of_an_id(home: Path, verb: str) -> None:
    refused(call(verb), "last:failed", "@2", "--help")


def test_a_word_like_no_verb_gets_no_suggestion(home: Path) -> None:
    for words in (("help", "bogus"), ("bogus",)):
        assert "did you mean" not in call(*words).stderr


def test_help_of_an_unknown_verb_names_the_nearest_one(home: Path) -> None:
    refused(call("help", "histroy"), "histroy", "history")
    refused(call("help", "store", "chekc"), "chekc", "check")
    refused(call("help", "run", "x"), '"x"')


@pytest.mark.parametrize("content", ["[[alert]]\nname = 'x'\nmetric = 'gpu.utl'\nabove = 1", "[keys]\nquit = 1"])
def test_a_wrong_alert_or_key_is_one_warning_and_the_job_runs(jobtop: Jobtop, content: str) -> None:
    (folder := Path(jobtop.env["HOME"]) / ".config/jobtop").mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(f"{content}\n[run]\nredact = ['secret']\n")
    done = jobtop("run", "--quiet", "--", "sh", "-c", "exit 3", "sh", "secret")
    assert (done.returncode, done.stdout) == (3, "")
    assert_one_line(done.stderr, "config.toml", "ignored")
    assert "secret" not in jobtop("show", json.loads(jobtop("history", "--json").stdout)[0]["id"], "--json").stdout
