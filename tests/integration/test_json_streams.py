"""What programs follow: the lines of `logs --json` and the changes of `queue --watch --json`."""

import csv
import io
import json
import signal
import subprocess
import time
from typing import Any

import pytest

from running import nothing_is_left, running
from support import Jobtop

__all__ = ["nothing_is_left"]
pytestmark = pytest.mark.usefixtures("nothing_is_left")
LATER = ("--at", "2099-01-01T00:00")


def texts(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(record["stream"], record["text"]) for record in records]


def test_each_line_of_the_output_is_json_with_its_stream_and_time(jobtop: Jobtop) -> None:
    jobtop(
        "run", "--external-id", "j", "--", "sh", "-c", r"printf 'a\033[31mb\033[0m\r\n'; echo err >&2; printf 'no end'"
    )
    job = json.loads(jobtop("show", "j", "--json").stdout)
    records = json.loads(jobtop("logs", "j", "--json").stdout)
    assert sorted(texts(records)) == [("stderr", "err"), ("stdout", "ab"), ("stdout", "no end")]
    for record in records:
        assert (record["schema_version"], record["job_id"], record["left_out_bytes"]) == (1, job["id"], None)
        assert 0 <= record["elapsed"] <= job["duration_seconds"] + 0.001
        assert job["start_time"] <= record["timestamp"]
    lines = jobtop("logs", "j", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == records
    rows = list(csv.DictReader(io.StringIO(jobtop("logs", "j", "--format", "csv").stdout)))
    assert [(row["stream"], row["text"]) for row in rows] == texts(records)
    assert texts(json.loads(jobtop("logs", "j", "--stderr", "--json").stdout)) == [("stderr", "err")]
    assert texts(json.loads(jobtop("logs", "j", "--stdout", "--tail", "1", "--json").stdout)) == [("stdout", "no end")]
    assert json.loads(jobtop("logs", "j", "--stdout", "--raw", "--json").stdout)[0]["text"] == "a\x1b[31mb\x1b[0m"


def test_what_was_dropped_from_a_long_log_is_a_number(jobtop: Jobtop) -> None:
    jobtop("--set", "run.log_max=64KiB", "run", "--external-id", "j", "--", "sh", "-c", "seq 100000")
    records = json.loads(jobtop("logs", "j", "--json").stdout)
    (hole,) = [record for record in records if record["left_out_bytes"]]
    assert (hole["text"], records[0]["text"], records[-1]["text"]) == ("", "1", "100000")
    kept = sum(len(record["text"]) + 1 for record in records if record is not hole)
    assert hole["left_out_bytes"] + kept >= sum(len(str(number)) + 1 for number in range(1, 100001))


def test_followed_lines_come_while_the_job_runs_and_only_when_they_are_whole(jobtop: Jobtop) -> None:
    with running(jobtop, "--", "sh", "-c", "printf up; read x; echo ' and done'", stdin=subprocess.PIPE) as run:
        assert run.process.stdin
        assert run.process.stdout
        assert run.process.stdout.read(2) == b"up"
        follower = jobtop.start("logs", run.reference, "-f", "--json")
        run.process.stdin.write(b"x\n")
        run.process.stdin.close()
        assert run.end() == 0
        out, _ = follower.communicate(timeout=30)
    assert texts([json.loads(line) for line in out.splitlines()]) == [("stdout", "up and done")]


def test_a_list_has_to_end(jobtop: Jobtop) -> None:
    jobtop("run", "--external-id", "j", "--", "true")
    for words in (("logs", "j", "-f", "--format", "json"), ("queue", "--watch", "--format", "json")):
        refused = jobtop(*words)
        assert (refused.returncode, "jsonl" in refused.stderr) == (2, True)


def test_changes_of_the_queue_are_lines(jobtop: Jobtop) -> None:
    first = jobtop("submit", *LATER, "--", "true").stdout.strip()
    watcher = jobtop.start("queue", "--watch", "--json")
    assert watcher.stdout
    seen = json.loads(watcher.stdout.readline())
    assert (seen["id"], seen["position"]) == (first, 1)
    assert "2099" in seen["waits_for"]
    second = jobtop("submit", *LATER, "--", "true").stdout.strip()
    seen = json.loads(watcher.stdout.readline())
    assert (seen["id"], seen["position"]) == (second, 2)
    jobtop("stop", first)
    changes = [json.loads(watcher.stdout.readline()) for _ in range(2)]
    assert {(change["id"], change["position"]) for change in changes} == {(first, None), (second, 1)}
    assert {change["status"] for change in changes} == {"cancelled", "queued"}
    watcher.send_signal(signal.SIGINT)
    watcher.communicate(timeout=30)
    jobtop("stop", second)


def test_a_watched_queue_is_printed_again_when_it_changes(jobtop: Jobtop) -> None:
    watcher = jobtop.start("queue", "--watch")
    assert watcher.stdout
    assert time.strptime(watcher.stdout.readline().strip(), "%Y-%m-%d %H:%M:%S")
    assert "jobtop submit" in watcher.stdout.readline()
    job = jobtop("submit", *LATER, "--", "true").stdout.strip()
    lines = [watcher.stdout.readline() for _ in range(4)]
    assert time.strptime(lines[1].strip(), "%Y-%m-%d %H:%M:%S")
    assert job[:8] in lines[-1]
    watcher.send_signal(signal.SIGINT)
    watcher.communicate(timeout=30)
    jobtop("stop", job)
