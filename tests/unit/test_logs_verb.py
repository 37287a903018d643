"""`logs` of jobs that have not begun, or have written nothing so far."""

import os
from collections.abc import Callable

import pytest

from jobtop.cli.app import App
from jobtop.cli.verbs.logs import NO_OUTPUT_HINT, follow_output, wait_for_start
from jobtop.core.model import Job, JobSpec, Queued, Status
from jobtop.core.record import replace
from jobtop.lifecycle.queue import Queue
from records import assert_one_line, call, made_job, running_job, this_process


@pytest.fixture
def waiting(queue: Queue) -> Job:
    job = running_job(start_time=None, recorder=None)
    return queue.submit(job, JobSpec(job.id, job.command, "/", {}), Queued())


def listening(then: Callable[[int], None], said: list[str]) -> App:
    """A call of jobtop that keeps every message, with something done after each."""

    class Listening(App):
        def warn(self, text: str) -> None:
            said.append(text)
            then(len(said))

    return Listening((), False, "auto", os.environ)


def changed(queue: Queue, job: Job, **values: object) -> None:
    queue.jobs.change(job.id, lambda row: (replace(row, **values), ()))


def test_a_job_that_waits_has_written_nothing_and_says_so(waiting: Job) -> None:
    answer = call("logs", waiting.id)
    assert (answer.returncode, answer.stdout) == (0, "")
    assert_one_line(answer.stderr, f"job {waiting.id[:8]} ", "queued", "jobtop queue")


@pytest.mark.parametrize("words", [(), ("--follow",)], ids=["once", "following"])
def test_a_job_that_was_cancelled_before_its_turn_has_no_output(
    queue: Queue, waiting: Job, words: tuple[str, ...]
) -> None:
    queue.cancel(waiting.id, "enough")
    answer = call("logs", *words, waiting.id)
    assert (answer.returncode, answer.stdout) == (0, "")
    assert_one_line(answer.stderr, f"job {waiting.id[:8]} ", "not run", "enough")


def test_following_a_job_that_waits_goes_on_when_it_begins(queue: Queue, waiting: Job) -> None:
    said: list[str] = []
    directory = queue.paths.job(waiting.id)

    def begin(times: int) -> None:
        if times == 2:
            directory.mkdir(parents=True)
            changed(queue, waiting, status=Status.RUNNING, start_time=1.0, recorder=this_process())

    assert wait_for_start(listening(begin, said), queue.jobs, waiting, directory, follow=True)
    queued, no_agent = said
    assert all(f"job {waiting.id[:8]} " in text for text in said)
    assert "jobtop queue" in queued
    assert "jobtop agent start" in no_agent


@pytest.mark.parametrize("output", [b"", b"hi\n"], ids=["silent", "heard"])
def test_who_follows_a_job_that_writes_nothing_is_told_once_what_may_hold_it_back(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, output: bytes
) -> None:
    monkeypatch.setattr("jobtop.cli.verbs.logs.NO_OUTPUT_SECONDS", 0.0)
    job = queue.jobs.insert(running_job(recorder=this_process()))
    directory = queue.paths.job(job.id)
    directory.mkdir(parents=True)
    (directory / "stdout.log").write_bytes(output)
    looked: list[str] = []

    class Reader:
        def print(self, until: None) -> None:
            looked.append("")
            if len(looked) == 2:
                changed(queue, job, status=Status.SUCCESS, settled=True)

    said: list[str] = []
    follow_output(listening(lambda _: None, said), queue.jobs, job, directory, [Reader()])  # type: ignore[list-item]
    assert said == ([] if output else [NO_OUTPUT_HINT])


def test_a_job_that_wrote_nothing_says_so(queue: Queue) -> None:
    job = queue.jobs.insert(made_job())
    queue.paths.job(job.id).mkdir(parents=True)
    answer = call("logs", job.id)
    assert (answer.returncode, answer.stdout) == (0, "")
    assert_one_line(answer.stderr, job.id[:8], "no output")
    (queue.paths.job(job.id) / "stdout").write_text("")
    assert_one_line(call("logs", job.id, "--json").stderr, "no output")
