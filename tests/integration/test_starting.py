"""Detached jobs, started by a program that lives on."""

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from jobtop.core.config import Config, load
from jobtop.core.errors import StoreUnavailable, UsageError
from jobtop.core.model import Job, Status
from jobtop.core.paths import StatePaths
from jobtop.core.run.request import Request
from jobtop.core.units import printable
from jobtop.lifecycle.reconcile import current
from jobtop.lifecycle.start import request_again, start_and_stay
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from records import HOSTILE_TEXTS, made_job
from running import nothing_is_left
from support import wait_for

__all__ = ["nothing_is_left"]


@pytest.fixture
def config(home: Path, tmp_path: Path) -> Config:
    return load((), os.environ, tmp_path)


def ended(paths: StatePaths, job: Job) -> Job:
    """The job once it is over."""
    database = open_to_write(paths)
    try:
        return wait_for(lambda: found if (found := current(Jobs(database), paths, job)).status.ended else None, 30)
    finally:
        database.close()


def children() -> set[int]:
    """Our children, dead ones included."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {int(pid) for path in tasks for pid in path.read_text().split()}


def pipes() -> set[str]:
    """The pipes we have open."""
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the directory itself
            found.add(os.readlink(path))
    return {name for name in found if name.startswith("pipe:")}


def test_a_job_that_is_started_runs_is_kept_and_leaves_nothing_with_us(paths: StatePaths, config: Config) -> None:
    before, opened, warned = children(), pipes(), list[str]()
    request = Request(("sh", "-c", 'echo "$WORD in $PWD"; exit 3'), str(paths.root.parent), env={"WORD": "here"})
    job = start_and_stay(paths, config, request, warned.append)[0]
    assert (job.status, job.recorder, warned) == (Status.RUNNING, None, [])
    done = ended(paths, job)
    assert (done.status, done.exit_code) == (Status.FAILED, 3)
    assert (paths.job(job.id) / "stdout.log").read_text() == f"here in {paths.root.parent}\n"
    wait_for(lambda: children() == before or None)
    assert pipes() <= opened


def test_what_cannot_be_executed_is_an_error_with_its_reason(paths: StatePaths, config: Config) -> None:
    before, opened = children(), pipes()
    job = start_and_stay(paths, config, Request(("no-such-program",), "/"), print)[0]
    assert (job.status, job.reason) == (Status.ERROR, "no-such-program: command not found")
    wait_for(lambda: children() == before or None)
    assert pipes() <= opened


def test_without_a_place_for_its_output_no_job_is_started(paths: StatePaths, config: Config) -> None:
    before = children()
    paths.root.write_text("a file where a directory should be")
    with pytest.raises(StoreUnavailable, match="a detached job needs a place for its output"):
        start_and_stay(paths, config, Request(("true",), "/"), print)
    wait_for(lambda: children() == before or None)


def test_jobs_that_several_threads_start_at_once_inherit_nothing_of_each_other(
    paths: StatePaths, config: Config
) -> None:
    request = Request(("sh", "-c", "ls /proc/self/fd | wc -l"), "/")
    alone = start_and_stay(paths, config, request, print)[0]
    together: list[Job] = []
    threads = [
        threading.Thread(target=lambda: together.append(start_and_stay(paths, config, request, print)[0]))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [ended(paths, job).status for job in (alone, *together)] == [Status.SUCCESS] * 9
    assert len({(paths.job(job.id) / "stdout.log").read_text() for job in (alone, *together)}) == 1


def test_a_job_is_run_again_as_it_ran(paths: StatePaths, config: Config) -> None:
    text = HOSTILE_TEXTS["bytes that are no UTF-8"]
    script = 'printf "%s" "$1 $TEXT" | od -An -tx1 | tr -d " \\n"'
    first_request = Request(
        ("sh", "-c", script, "sh", "--token=s3cret"), "/tmp", name="n", tool="t", env={"TEXT": text}, tags={"a": "b"}
    )
    first = ended(paths, start_and_stay(paths, config, first_request, print)[0])
    second = ended(paths, start_and_stay(paths, config, request_again(paths, first), print)[0])
    assert first.id != second.id
    for name in ("status", "name", "tool", "tags", "cwd", "command", "limits", "grace_seconds"):
        assert getattr(first, name) == getattr(second, name), name
    outputs = {(paths.job(job.id) / "stdout.log").read_text() for job in (first, second)}
    assert outputs == {f"--token=s3cret {text}".encode("utf-8", "surrogateescape").hex()}
    assert "s3cret" not in printable(str(second))


def test_a_job_whose_order_is_gone_or_damaged_is_not_run_again(paths: StatePaths) -> None:
    job = made_job()
    with pytest.raises(UsageError, match=r"cannot be run again: .*store\.spec_days"):
        request_again(paths, job)
    paths.specs.mkdir(parents=True)
    for content in ("", "[]", "{}", '{"command": 5}'):
        paths.spec(job.id).write_text(content)
        with pytest.raises(UsageError, match="cannot be run again"):
            request_again(paths, job)
