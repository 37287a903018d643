"""What submit refuses, how queue and group list, what retry, rm, stop, pause say of jobs that wait."""

import csv
import io
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from jobtop.cli.app import App
from jobtop.cli.run.submission import wait_for_end
from jobtop.core.config import load
from jobtop.core.errors import UsageError
from jobtop.core.measure.collectors.proc import cpus_allowed
from jobtop.core.model import Job, JobSpec, Limits, Queued, Status
from jobtop.core.record import replace
from jobtop.core.run.request import Request
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.submit import QueueOptions, submit_to
from jobtop.lifecycle.wait import await_ends
from jobtop.store.agents import register
from records import HOSTILE_TEXTS, assert_one_line, call, holds_controls, made_job, running_job, this_process


def submitted(queue: Queue, queued: Queued | None = None, **values: Any) -> Job:
    job = running_job(**{"start_time": None, "recorder": None} | values)
    return queue.submit(job, JobSpec(job.id, job.command, "/", {}), queued or Queued())


def failed(queue: Queue, job: Job) -> Job:
    over = {"status": Status.FAILED, "settled": True, "start_time": 1.0}
    return queue.jobs.change(job.id, lambda row: (replace(row, **over), ()))


def is_agent_there(queue: Queue) -> bool:
    return os.path.exists(queue.paths.agent)


# What submit refuses.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cpus", "999", "--", "true"], ["999 CPUs", f"this host has {cpus_allowed():g}"]),
        (["--memory", "9999T", "--", "true"], ["memory", "this host has "]),
        (["--after", "3f8a21b2", "--", "true"], ['"3f8a21b2" is not a job']),
        (["--after", "3f", "--", "true"], ['"3f"', "4 or more characters"]),
        (["--at", "25:00", "--", "true"], ['--at: "25:00" ', "not a time"]),
        (["--at", "2001-01-01", "--", "true"], ['--at: "2001-01-01" ', "past"]),
        (["--priority", "high", "--", "true"], ['--priority: "high" ', "whole number"]),
        (["--priority", "9" * 5000, "--", "true"], [f'--priority: "{"9" * 40}" ', "too large", " 1000000"]),
        (["--priority", "-1000001", "--", "true"], ['--priority: "-1000001" ', "too small"]),
        (["--retries", "-1", "--", "true"], ['--retries: "-1" ', "number of times"]),
        (["--retries", "1.5", "--", "true"], ['--retries: "1.5" ', "such as 3"]),
        (["--timeout", "0s", "--", "true"], ['--timeout: "0s" ', "no limit"]),
        (["--memory", "0", "--", "true"], ['--memory: "0" ', "no limit"]),
        (["--group", " ", "--", "true"], ['--group: " " ', "name"]),
        (["--group", "a\x1b[2J", "--", "true"], ["--group: ", "name"]),
        (["--pty", "--", "true"], ["no such option", "--pty"]),
        (["--"], ["no command", "jobtop submit"]),
        (["--cwd", "/nowhere", "--", "true"], ["/nowhere", "no such directory"]),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_kept(
    queue: Queue, arguments: list[str], words: list[str]
) -> None:
    code, out, err = call("submit", *arguments)
    assert (code, out) == (2, "")
    assert_one_line(err, *words)
    assert not holds_controls(err)
    assert call("queue").stdout.startswith("No queued jobs.")
    assert not is_agent_there(queue)


@pytest.mark.parametrize(
    ("status", "words"),
    [(Status.FAILED, "failed"), (Status.CANCELLED, "was cancelled"), (Status.LOST, "was lost")],
)
def test_what_has_failed_cannot_be_waited_for(queue: Queue, status: Status, words: str) -> None:
    job = queue.jobs.insert(made_job(status=status))
    code, out, err = call("submit", "--after", job.id[:8], "--", "true")
    assert (code, out) == (2, "")
    assert_one_line(err, f"--after {job.id[:8]}", words)


def test_an_ambiguous_dependency_names_the_candidates(queue: Queue) -> None:
    for number in range(2):
        queue.jobs.insert(made_job(id=f"abcd{number}000-0000-4000-8000-000000000000"))
    code, _, err = call("submit", "--after", "abcd", "--", "true")
    assert code == 2
    assert "abcd0000-0000" in err
    assert "abcd1000-0000" in err


# The line.


def test_the_queue_is_listed_in_order_with_reasons(queue: Queue) -> None:
    first = submitted(queue, limits=Limits(cpus=0.0, memory_bytes=1 << 62), name="huge")
    second = submitted(queue, Queued(priority=7, group="g"), name="eager")
    queue.set_slots("g", 0)
    third = submitted(queue, Queued(after=(first.id,)), name="late")
    claimed = submitted(queue)
    queue.claim(claimed.id, this_process())
    code, out, _ = call("queue")
    assert code == 0
    head, *rows = out.splitlines()
    assert head.split() == ["#", "ID", "NAME", "PRIORITY", "GROUP", "NEEDS", "WAITING", "WHY"]
    assert [row.split()[:4] for row in rows] == [
        ["1", second.id[:8], "eager", "7"],
        ["2", first.id[:8], "huge", "0"],
        ["3", third.id[:8], "late", "0"],
    ]
    assert rows[0].endswith(" slots")
    assert "group g" in rows[0]
    assert "0 CPUs, " in rows[1]
    assert f"job {first.id[:8]} " in rows[2]


def test_that_there_is_no_agent_is_said_whatever_each_job_waits_for(queue: Queue) -> None:
    first = submitted(queue, limits=Limits(cpus=0.0, memory_bytes=1 << 62))
    submitted(queue, Queued(after=(first.id,)))
    for words in ((), ("--json",)):
        assert_one_line(call("queue", *words).stderr, "no agent", "jobtop agent start")
    register(queue.jobs.database, this_process())
    assert call("queue").stderr == ""


def test_an_agent_that_was_called_a_moment_ago_is_not_missed(queue: Queue) -> None:
    submitted(queue, submitted_at=time.time())
    code, out, err = call("queue")
    assert (code, err) == (0, "")
    assert "the agent is starting" in out


def test_a_wait_for_a_job_without_an_agent_says_so_once(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    job = submitted(queue)
    monkeypatch.setattr("jobtop.lifecycle.wait.LOOK_SECONDS", 0.0)
    said: list[str] = []

    def heard(text: str) -> None:
        said.append(text)
        queue.cancel(job.id, "no")

    (ended,) = await_ends(queue, [job], warn=heard)
    assert ended.status is Status.CANCELLED
    (warning,) = said
    assert f"job {job.id[:8]} " in warning
    assert "jobtop agent start" in warning


@pytest.mark.parametrize(
    ("values", "code", "said"),
    [
        ({"signal": 9, "exit_code": None, "reason": "over its memory limit"}, 137, "failed (over its memory limit)"),
        ({"status": Status.TIMEOUT, "exit_code": 0, "reason": "over its 1s"}, 124, "timeout (over its 1s)"),
        ({"exit_code": 3, "reason": "exit code 3"}, 3, "failed (exit code 3)"),
        ({"status": Status.SUCCESS, "exit_code": 0}, 0, None),
    ],
    ids=["killed", "timeout", "exit code", "success"],
)
def test_submit_and_wait_says_why_a_job_did_not_succeed(
    queue: Queue, capsys: pytest.CaptureFixture[str], values: dict[str, Any], code: int, said: str | None
) -> None:
    job = queue.jobs.insert(made_job(**{"status": Status.FAILED} | values))
    assert wait_for_end(App((), False, "auto", {}), queue, job) == code
    message = capsys.readouterr().err
    if said is None:
        assert message == ""
    else:
        assert_one_line(message, job.id[:8], said)


@pytest.mark.parametrize(
    ("verb", "printed", "said"),
    [
        ("plot", "◌ queued, ", "no samples"),
        ("top", "no processes yet (jobtop queue)\n", ""),
    ],
)
def test_a_job_that_waits_is_not_said_to_have_run(queue: Queue, verb: str, printed: str, said: str) -> None:
    job = submitted(queue)
    code, out, err = call(verb, job.id)
    assert (code, said in err) == (0, True)
    assert (printed in out, bool(err)) == (True, bool(said))


def test_the_queue_as_data_is_jobs_with_their_place_and_reason(queue: Queue) -> None:
    job = submitted(queue)
    (shape,) = json.loads(call("queue", "--json").stdout)
    assert (shape["id"], shape["position"], shape["schema_version"]) == (job.id, 1, 1)
    assert "jobtop agent start" in shape["waits_for"]
    (row,) = csv.DictReader(io.StringIO(call("queue", "--format", "csv").stdout))
    assert row["position"] == "1"
    queue.cancel(job.id, "no")
    assert json.loads(call("queue", "--json").stdout) == []
    assert call("queue", "--format", "csv").stdout.split(",")[0] == "schema_version"


def test_a_cancelled_dependency_is_announced(queue: Queue) -> None:
    first = failed(queue, submitted(queue))
    submitted(queue, Queued(after=(first.id,)))
    (shape,) = json.loads(call("queue", "--json").stdout)
    assert all(word in shape["waits_for"] for word in ("will be cancelled", f"job {first.id[:8]}", "failed"))


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_a_hostile_name_or_group_is_one_harmless_line(queue: Queue, text: str) -> None:
    submitted(queue, Queued(group=text.encode("utf-8", "replace").decode()), name=text)
    for verb in ("queue", "group"):
        code, out, _ = call(verb)
        assert code == 0
        assert len(out.splitlines()) == 2
        assert not holds_controls(out)


def test_without_a_store_nothing_waits(home: Path) -> None:
    empty = call("queue")
    assert (empty.returncode, empty.stderr) == (0, "")
    assert "jobtop submit" in empty.stdout
    assert call("group").returncode == 0
    assert json.loads(call("queue", "--json").stdout) == json.loads(call("group", "--json").stdout) == []
    assert not home.exists()


def test_groups_are_listed_with_what_they_have(queue: Queue) -> None:
    assert call("group", "nightly", "--slots", "8") == (0, "group nightly: at most 8 jobs at once\n", "")
    submitted(queue, Queued(group="nightly"))
    submitted(queue, Queued(group="loose"))
    shape = {"schema_version": 1, "name": "loose", "slots": None, "running": 0, "waiting": 1}
    assert json.loads(call("group", "--json").stdout) == [shape, shape | {"name": "nightly", "slots": 8}]
    assert call("group", "loose").stdout.splitlines()[1].split() == ["loose", "–", "0", "1"]
    assert call("group", "nightly", "--unlimited") == (0, "group nightly: no limit\n", "")
    assert queue.groups() == {}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--slots", "3"], "no group given"),
        (["g", "--slots", "-1"], "--slots"),
        (["g", "--slots", "3", "--unlimited"], "--slots and --unlimited"),
        (["g"], 'no group "g" has slots'),
        ([" ", "--slots", "3"], "name"),
    ],
)
def test_a_wrong_group_is_refused(queue: Queue, words: list[str], complaint: str) -> None:
    submitted(queue)
    code, out, err = call("group", *words)
    assert (code, out) == (2, "")
    assert complaint in err


# Acting on what waits.


@pytest.mark.parametrize("verb", ["stop", "kill"])
def test_a_waiting_job_is_cancelled_by_whom_is_kept(queue: Queue, verb: str) -> None:
    job = submitted(queue)
    assert call(verb, job.id) == (0, f"cancelled train {job.id[:8]}\n", "")
    kept = queue.jobs.find(job.id)
    assert (kept.status, f"jobtop {verb}" in (kept.reason or "")) == (Status.CANCELLED, True)
    assert call("wait", job.id).returncode == 1
    assert_one_line(call(verb, job.id).stderr, f"job {job.id[:8]} ", "not running", "cancelled")


def test_a_waiting_job_is_paused_in_the_store(queue: Queue) -> None:
    job = submitted(queue)
    assert call("pause", job.id) == (0, f"paused train {job.id[:8]}\n", "")
    assert queue.jobs.find(job.id).status is Status.PAUSED
    assert call("queue").stdout.splitlines()[1].endswith("paused")


def test_a_job_that_was_to_be_tried_again_is_not_once_it_is_stopped(queue: Queue) -> None:
    job = failed(queue, submitted(queue, Queued(retries=3)))
    assert call("stop", job.id) == (0, f"cancelled the retry of train {job.id[:8]}\n", "")
    assert queue.jobs.find(job.id).queue == Queued(retries=0)
    assert call("wait", job.id).returncode == 1


def test_to_stop_a_job_is_to_stop_its_last_attempt(queue: Queue) -> None:
    first = failed(queue, submitted(queue, Queued(retries=3)))
    second = queue.retry(first, 1.0)
    assert call("stop", first.id) == (0, f"cancelled train {second.id[:8]}\n", "")
    assert queue.jobs.find(second.id).status is Status.CANCELLED


def test_a_waiting_job_can_be_forgotten_but_not_one_that_is_waited_for(queue: Queue) -> None:
    first = queue.jobs.insert(made_job())
    second = submitted(queue, Queued(after=(first.id,)))
    code, _, err = call("rm", first.id)
    assert code == 2
    assert_one_line(err, f"job {first.id[:8]} ", f"job {second.id[:8]} waits for it")
    said = "".join(f"deleted train {job.id[:8]}\n" for job in (first, second))
    assert call("rm", first.id, second.id) == (0, said, "")
    assert not queue.paths.spec(second.id).exists()
    assert call("history").stdout.startswith("No jobs")


def test_what_cannot_be_retried_is_refused_before_anything_is_done(queue: Queue) -> None:
    good = failed(queue, submitted(queue))
    waiting = submitted(queue)
    never = queue.cancel(submitted(queue, Queued(after=(good.id,))).id, "no")
    assert never is not None
    gone = queue.jobs.insert(made_job())
    elsewhere = queue.jobs.insert(made_job(host="elsewhere"))
    for job, complaint in (
        (waiting, "queued"),
        (never, f"job {good.id[:8]}, "),
        (elsewhere, "ran on elsewhere"),
        (gone, "store.spec_days"),
    ):
        others = () if job is never else (good.id,)
        code, out, err = call("retry", *others, job.id)
        assert (code, out) == (2, "")
        assert_one_line(err, complaint)
    assert queue.jobs.find(good.id).queue == Queued()
    assert not is_agent_there(queue)


def queue_command(queue: Queue, cwd: Path, *command: str, is_forced: bool = False, **values: Any) -> Job:
    """Queue a command without an agent that would start it."""
    request = Request(command, str(cwd), **values)
    return submit_to(queue, load((), os.environ, cwd), request, QueueOptions(is_forced=is_forced))


@pytest.mark.parametrize("command", ["no-such-program", "./none", "/", ".", "plain.txt", ""])
def test_a_command_that_cannot_run_is_refused_unless_forced(queue: Queue, tmp_path: Path, command: str) -> None:
    (tmp_path / "plain.txt").write_text("text")
    code, out, err = call("submit", "--cwd", str(tmp_path), "--", command)
    assert (code, out) == (2, "")
    assert "--force" in err
    assert queue_command(queue, tmp_path, command, is_forced=True).status is Status.QUEUED


def test_a_command_is_looked_for_in_its_own_directory_and_path(queue: Queue, tmp_path: Path) -> None:
    (tool := tmp_path / "tool").write_text("#!/bin/sh\n")
    refused = call("submit", "--cwd", str(tmp_path), "--", "./tool")
    assert (refused.returncode, "chmod" in refused.stderr) == (2, True)
    tool.chmod(0o755)
    queue_command(queue, tmp_path, "./tool")
    queue_command(queue, tmp_path, "tool", env={"PATH": str(tmp_path)})
    queue_command(queue, tmp_path, "no-such-program | cat", is_shell=True)
    with pytest.raises(UsageError):
        queue_command(queue, tmp_path, "tool")
