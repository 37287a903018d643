"""Jobs that wait their turn, with an agent that starts them: submit, retry, stop, pause, wait, group."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jobtop.lifecycle.queue import NO_AGENT
from nvml import three_gpus
from records import assert_one_line, call
from running import nothing_is_left, show
from support import Jobtop, wait_for

__all__ = ["nothing_is_left"]
pytestmark = pytest.mark.usefixtures("home", "nothing_is_left")


def submitted(*words: str) -> str:
    """The id of a job that was queued."""
    code, out, err = call("submit", *words)
    assert (code, err) == (0, "")
    return out.strip()


def begun(*ids: str) -> list[dict[str, Any]]:
    """The records of jobs in the order they began."""
    shapes = json.loads(call("history", "--all", "--json").stdout)
    return sorted((shape for shape in shapes if shape["id"] in ids), key=lambda shape: str(shape["start_time"]))


def test_a_submitted_job_runs_where_and_as_it_was_submitted(jobtop: Jobtop) -> None:
    words = ("submit", "--wait", "--env", "B=2", "--shell", "--", 'echo "$PWD $A $B"; cat; exit 3')
    done = jobtop(*words, stdin="not for it", env={"A": "1"})
    assert done.returncode == 3
    assert_one_line(done.stderr, "failed", "exit code 3")
    job = done.stdout.strip()
    assert jobtop("logs", job).stdout == f"{jobtop.home} 1 2\n"
    record = show(jobtop, job)
    assert (record["status"], record["exit_code"]) == ("failed", 3)
    assert record["submitted_at"] <= record["start_time"]


def test_jobs_run_by_priority_then_age_in_the_slots_of_their_group() -> None:
    call("group", "g", "--slots", "0")
    ids = [submitted("--group", "g", "--priority", number, "--", "true") for number in ("0", "0", "5", "-1")]
    call("group", "g", "--slots", "1")
    assert call("wait", *ids).returncode == 0
    records = begun(*ids)
    assert [ids.index(record["id"]) for record in records] == [2, 0, 1, 3]
    ends = [record["end_time"] for record in records]
    assert all(end <= following["start_time"] for end, following in zip(ends, records[1:], strict=False))


def test_a_job_is_tried_again_and_what_comes_after_waits_for_that(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    first = submitted(
        "--retries", "2", "--external-id", "task", "--shell", "--", f"rm {flag} 2>&1 || {{ touch {flag}; exit 4; }}"
    )
    last = submitted("--after", first, "--", "true")
    doomed = submitted("--after", submitted("--", "false"), "--", "true")
    assert call("wait", first, last).returncode == 0
    failed, again, after = begun(
        first, last, *[json.loads(call("show", first, "--json").stdout)["queue"]["retried_by"]]
    )
    assert (failed["id"], failed["exit_code"], again["status"], after["id"]) == (first, 4, "success", last)
    assert again["queue"]["attempt"] == 2
    assert call("wait", doomed).returncode == 1
    (record,) = json.loads(call("history", "--json", "--status", "cancelled").stdout)
    assert record["reason"].endswith(", which had to succeed first, failed")
    assert record["start_time"] is None


def test_a_held_job_waits_until_it_is_resumed_and_a_stopped_one_for_ever() -> None:
    call("group", "g", "--slots", "0")
    held, stopped = (submitted("--group", "g", "--", "true") for _ in range(2))
    call("pause", held)
    assert call("stop", stopped) == (0, f"cancelled true {stopped[:8]}\n", "")
    call("group", "g", "--unlimited")
    other = submitted("--wait", "--group", "g", "--", "true")
    assert call("resume", held) == (0, f"resumed true {held[:8]}\n", "")
    assert call("wait", held).returncode == 0
    assert [record["id"] for record in begun(held, other)] == [other, held]
    assert begun(stopped)[0]["reason"] == "cancelled before it started by jobtop stop"


def test_a_job_gets_its_turn_whoever_reads_its_id(jobtop: Jobtop) -> None:
    with open("/dev/full", "w") as full:
        subprocess.run(jobtop.command("submit", "--external-id", "x", "--", "true"), env=jobtop.env, stdout=full)
    assert jobtop("wait", "x").returncode == 0


def test_a_job_inside_a_job_that_submits_another_has_an_agent_that_is_no_part_of_either(
    jobtop: Jobtop, tmp_path: Path
) -> None:
    run = jobtop.command("run", "--no-ui", "--quiet", "--cpus", "0", "--")
    words = [*run[3:], *run, *jobtop.command("submit", "--wait", "--cpus", "0", "--", "sh", "-c", "exit 5")]
    done = jobtop(*words, env={"JOBTOP_AGENT_IDLE": "5m"})
    assert done.returncode == 5
    assert_one_line(done.stderr, "failed", "exit code 5")
    records = json.loads(jobtop("history", "--all", "--json").stdout)
    assert [(record["status"], record["flags"]) for record in records] == [("failed", [])] * 3
    assert jobtop("agent", "status").returncode == 0
    assert jobtop("agent", "stop").returncode == 0


def test_who_submits_from_a_job_whose_run_is_gone_is_told_who_can_start_it(jobtop: Jobtop) -> None:
    inside = jobtop("submit", "--", "true", env={"JOBTOP_JOB_ID": "00000000-0000-4000-8000-000000000000"})
    assert inside.returncode == 0
    assert inside.stderr == f"jobtop: {NO_AGENT}\n"
    assert "jobtop agent start" in NO_AGENT


def test_a_job_that_cannot_start_stops_no_other_job() -> None:
    wrong = call("submit", "--force", "--wait", "--", "/no/such/program")
    assert wrong.returncode == 127
    assert wrong.stderr.startswith("jobtop: job ")
    assert call("submit", "--wait", "--", "true").returncode == 0


def test_a_job_is_retried_by_hand_as_it_was(tmp_path: Path) -> None:
    before = call("run", "--no-ui", "--quiet", "--name", "n", "--", "sh", "-c", f"test -e {tmp_path}/flag")
    assert before.returncode == 1
    (old,) = json.loads(call("history", "--json").stdout)
    (tmp_path / "flag").touch()
    code, out, err = call("retry", old["id"])
    assert (code, err) == (0, "")
    assert call("wait", out.strip()).returncode == 0
    assert call("wait", old["id"]).returncode == 0, "the last attempt counts"


def test_gpus_are_given_out_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in three_gpus(tmp_path).items():
        monkeypatch.setenv(key, value)  # for the agent: this process has looked for libraries already
    wanted = ("2", "1", "3")
    waits = f"echo $CUDA_VISIBLE_DEVICES; until test -e {tmp_path}/go; do sleep 0.02; done"
    ids = [submitted("--force", "--cpus", "0", "--gpus", count, "--shell", "--", waits) for count in wanted]
    wait_for(lambda: statuses(ids) == ["running", "running", "queued"], 20)
    (tmp_path / "go").touch()
    assert call("wait", *ids).returncode == 0
    assert [call("logs", job).stdout for job in ids] == ["0,1\n", "2\n", "0,1,2\n"]


def statuses(ids: list[str]) -> list[str]:
    shapes = {shape["id"]: shape["status"] for shape in json.loads(call("history", "--all", "--json").stdout)}
    return [shapes[job] for job in ids]


def test_one_word_means_all_jobs_of_an_array() -> None:
    """It waits for them, lists them and stops them."""
    words = ("--cpus", "0", "--name", "t-{index}", "--shell", "--", 'echo "{lr} $JOBTOP_PARAM_LR $JOBTOP_ARRAY_INDEX"')
    array = submitted("--sweep", "lr=0.1,0.2", *words)
    assert array.startswith("array:")
    assert call("wait", array).returncode == 0
    listed = json.loads(call("history", array, "--json").stdout)
    assert sorted((job["name"], job["params"]["lr"]) for job in listed) == [("t-1", 0.1), ("t-2", 0.2)]
    assert {job["tags"]["array"] for job in listed} == {array.removeprefix("array:")}
    assert call("logs", "t-2").stdout == "0.2 0.2 2\n"
    waiting = submitted("--array", "1-3", "--at", "2099-01-01T00:00", "--", "true")
    assert [job["params"]["index"] for job in json.loads(call("queue", waiting, "--json").stdout)] == [1, 2, 3]
    assert call("stop", "--yes", waiting).returncode == 0
    assert json.loads(call("queue", "--json").stdout) == []


def test_a_bad_array_queues_nothing() -> None:
    for words in (("--array", "3-1"), ("--sweep", "lr"), ("--sweep", "a=1..200", "--sweep", "b=1..200")):
        code, out, err = call("submit", *words, "--", "true")
        assert (code, out) == (2, "")
        assert_one_line(err)
    assert json.loads(call("queue", "--json").stdout) == []


def test_an_array_that_is_waited_for_fails_if_one_of_its_jobs_does() -> None:
    code, out, err = call("submit", "--wait", "--array", "0-1", "--cpus", "0", "--shell", "--", "exit {index}")
    assert (code, out[:6]) == (1, "array:")
    assert_one_line(err, "exit code 1")
