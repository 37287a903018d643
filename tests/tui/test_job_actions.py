"""The console's operations on real jobs: they ask first, and never touch jobs that they may not."""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from jobtop.core.config import load
from jobtop.core.model import Identity, Job, Limits, Status
from jobtop.core.paths import StatePaths
from jobtop.core.run.request import Request
from jobtop.lifecycle.reconcile import current
from jobtop.lifecycle.start import start_and_stay
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from jobtop.tui.app import Console
from jobtop.tui.data.view import JobRow
from jobtop.tui.dialogs.confirm import Confirm
from jobtop.tui.dialogs.export_form import default_path
from jobtop.tui.dialogs.fields import FormField, Tick
from jobtop.tui.dialogs.run_form import RunForm
from jobtop.tui.preferences import Preferences
from jobtop.tui.screens.dashboard import Dashboard
from jobtop.tui.widgets.table import Table
from records import (
    HOSTILE_TEXTS,
    call,
    holds_controls,
    kept_jobs,
    leave_started,
    made_job,
    running_job,
    this_process,
)
from running import is_alive, nothing_is_left, pids_in, state
from support import wait_for
from visiting import Visitor, own_store, visit

__all__ = ["nothing_is_left"]

LASTING = "echo $$ >> pids; exec sleep 600"


def start_job(paths: StatePaths, *command: str, **values: Any) -> Job:
    """Start a job without a console."""
    config = load((), os.environ, paths.root.parent)
    return start_and_stay(paths, config, Request(command, str(paths.root.parent), **values), pytest.fail)[0]


def start_lasting_job(paths: StatePaths, **values: Any) -> tuple[Job, int]:
    """Start a job that runs until it is stopped; return it and the pid of its process."""
    known = len(pids_in(paths.root.parent / "pids"))
    job = start_job(paths, "sh", "-c", LASTING, **values)
    pids = wait_for(lambda: found if len(found := pids_in(paths.root.parent / "pids")) > known else None)
    return job, pids[-1]


def current_record(paths: StatePaths, job: Job) -> Job:
    """The current record of the job, finished if its recorder is gone."""
    database = open_to_write(paths)
    try:
        return current(Jobs(database), paths, job)
    finally:
        database.close()


class Notifications(list[str]):
    """The notifications shown so far."""

    def count_of(self, words: str) -> int:
        return sum(text.count(words) for text in self)


@pytest.fixture
def notifications(monkeypatch: pytest.MonkeyPatch) -> Notifications:
    shown = Notifications()
    notify = Console.notify

    def listen(self: Console, message: str, **how: Any) -> None:
        shown.append(message)
        notify(self, message, **how)

    monkeypatch.setattr(Console, "notify", listen)
    return shown


async def wait_for_notification(visitor: Visitor, notifications: Notifications, words: str, count: int = 1) -> None:
    """Wait until this text was shown `count` times."""
    await visitor.until(lambda: notifications.count_of(words) == count, f"waited for {words} in {notifications}")


async def confirm(visitor: Visitor, key: str, words: str) -> None:
    """Press a key that asks, wait for the question, and answer yes."""
    await visitor.press(key)
    await visitor.until(lambda: isinstance(visitor.console.screen, Confirm))
    await visitor.shows(words)
    await visitor.press("y")


async def select_job(visitor: Visitor, job: Job) -> None:
    """Put the cursor of the dashboard on a job."""
    page = visitor.console.screen
    assert isinstance(page, Dashboard)
    await visitor.until(lambda: page.query_one("#jobs", Table).select(job.id), "the job is not there")


def test_a_job_is_paused_resumed_and_stopped_after_a_question_each(
    paths: StatePaths, notifications: Notifications
) -> None:
    job, pid = start_lasting_job(paths, name="[/b]hostile[red]")

    async def scene(visitor: Visitor) -> None:
        await select_job(visitor, job)
        await confirm(visitor, "p", "Pause this job?")
        await visitor.until(lambda: state(pid) == "T")
        await visitor.shows("paused")
        await confirm(visitor, "p", "Resume this job?")
        await visitor.until(lambda: state(pid) == "S")
        await wait_for_notification(visitor, notifications, "resumed")
        await confirm(visitor, "x", "Stop this job?")
        await visitor.until(lambda: not is_alive(pid))
        await wait_for_notification(visitor, notifications, "stopped by jobtop console")
        await visitor.shows("cancelled")
        assert notifications.count_of(f"[/b]hostile[red] ({job.id[:8]})")

    visit(paths.root, scene, (90, 28), own_store(paths))
    done = current_record(paths, job)
    assert done.status is Status.CANCELLED
    assert [word for word in ("jobtop console", "SIGTERM") if word not in str(done.reason)] == []


def test_no_is_no_and_several_marked_jobs_are_killed_at_once(paths: StatePaths, notifications: Notifications) -> None:
    jobs, pids = zip(*(start_lasting_job(paths, grace_seconds=600.0) for _ in range(2)), strict=True)

    async def scene(visitor: Visitor) -> None:
        await select_job(visitor, jobs[0])
        await visitor.press("g", "space", "space", "X")
        await visitor.shows("Kill 2 jobs?", jobs[0].id[:8], jobs[1].id[:8])
        await visitor.press("n")
        await visitor.until(lambda: isinstance(visitor.console.screen, Dashboard))
        assert all(map(is_alive, pids))
        await confirm(visitor, "X", "Kill 2 jobs?")
        await wait_for_notification(visitor, notifications, "killed by SIGKILL", 2)

    visit(paths.root, scene, (90, 28), own_store(paths))
    assert not any(map(is_alive, pids))
    assert {(current_record(paths, job).status, current_record(paths, job).signal) for job in jobs} == {
        (Status.CANCELLED, signal.SIGKILL)
    }


def test_a_console_that_only_reads_changes_nothing(paths: StatePaths, notifications: Notifications) -> None:
    job, pid = start_lasting_job(paths)

    async def scene(visitor: Visitor) -> None:
        await select_job(visitor, job)
        for count, key in enumerate(("x", "X", "p", "r", "n"), 1):
            await visitor.press(key)
            await wait_for_notification(visitor, notifications, "--readonly", count)
            assert isinstance(visitor.console.screen, Dashboard)

    visit(paths.root, scene, (90, 28), own_store(paths, is_readonly=True))
    assert state(pid) == "S"
    call("kill", job.id)


def test_an_impossible_operation_is_refused_without_a_question(paths: StatePaths, notifications: Notifications) -> None:
    expected = {
        "runs on atlas": running_job(host="atlas", shim=this_process()),
        "(success)": made_job(),
        "(lost)": running_job(shim=Identity("another boot", 1, 1)),
    }
    kept_jobs(paths.root, *expected.values())

    async def scene(visitor: Visitor) -> None:
        for words, job in expected.items():
            await select_job(visitor, job)
            for count, key in enumerate(("x", "X", "p"), 1):
                await visitor.press(key)
                await wait_for_notification(visitor, notifications, words, count)
                assert isinstance(visitor.console.screen, Dashboard)

    leave_started(paths.job(expected["(lost)"].id), "another boot", (1, 1))
    visit(paths.root, scene, (90, 28), own_store(paths))


def test_a_job_of_another_user_is_refused(
    paths: StatePaths, monkeypatch: pytest.MonkeyPatch, notifications: Notifications
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: os.stat("/proc/self").st_uid + 1)
    (job,) = kept_jobs(paths.root, running_job(shim=this_process(), recorder=this_process(), user="grace"))

    async def scene(visitor: Visitor) -> None:
        await select_job(visitor, job)
        await visitor.press("x")
        await wait_for_notification(visitor, notifications, f"job {job.id[:8]} belongs to grace")
        assert isinstance(visitor.console.screen, Dashboard)

    visit(paths.root, scene, (90, 28), own_store(paths))


def test_a_store_under_another_name_is_only_read(paths: StatePaths, notifications: Notifications) -> None:
    (job,) = kept_jobs(paths.root, running_job(shim=this_process(), recorder=this_process()))
    copy = paths.store.rename(paths.root / "backup.db")

    async def scene(visitor: Visitor) -> None:
        await select_job(visitor, job)
        await visitor.press("x")
        await wait_for_notification(visitor, notifications, str(copy))

    visit(paths.root, scene, (90, 28), own_store(paths, stores=[copy]))
    assert not paths.store.exists()


def test_hostile_names_are_harmless_in_questions(paths: StatePaths) -> None:
    names = [HOSTILE_TEXTS[kind] for kind in ("escapes", "markup", "bytes that are no UTF-8", "long")]
    us = this_process()
    jobs = kept_jobs(paths.root, *(running_job(name=name, shim=us, recorder=us) for name in names))

    async def scene(visitor: Visitor) -> None:
        for job in jobs:
            await select_job(visitor, job)
            await visitor.press("x")
            assert not holds_controls(await visitor.shows("Stop this job?", job.id[:8]))
            await visitor.press("escape")
            await visitor.until(lambda: isinstance(visitor.console.screen, Dashboard))

    visit(paths.root, scene, size=(80, 24), options=own_store(paths))


def ended(paths: StatePaths, job: Job) -> Job:
    return wait_for(lambda: found if (found := current_record(paths, job)).status.ended else None)


@pytest.mark.parametrize(("key", "done"), [("y", "runs"), ("w", "is queued")])
def test_a_job_runs_again_as_it_was_after_a_question(
    paths: StatePaths, notifications: Notifications, key: str, done: str
) -> None:
    job = ended(paths, start_job(paths, "sh", "-c", "echo $WORD >> words", env={"WORD": "again"}))

    async def scene(visitor: Visitor) -> None:
        await select_job(visitor, job)
        await visitor.press("R")
        await visitor.shows("Run this job again?", job.id[:8])
        await visitor.press(key)
        table = visitor.console.screen.query_one("#jobs", Table)
        await visitor.until(lambda: table.cursor_key not in (None, job.id))
        await wait_for_notification(visitor, notifications, f"({str(table.cursor_key)[:8]}) {done}")

    visit(paths.root, scene, (90, 28), own_store(paths))
    words = paths.root.parent / "words"
    wait_for(lambda: words.read_text() == "again\nagain\n" or None)
    call("history")


def test_a_job_runs_again_with_changes(paths: StatePaths) -> None:
    (paths.root.parent / "below").mkdir(parents=True, exist_ok=True)
    command = "echo $WORD $OTHER --token hush $MORE >> words"
    job = start_job(
        *(paths, "/bin/sh", "-c", command),
        name="echoing",
        env={"WORD": "one", "OTHER": "two", "MORE": "a,b=c"},
        params={"lr": 0.1},
        tags={"project": "ocr", "sweep": ""},
        limits=Limits(cpus=0.5, memory_bytes=1 << 30, runtime_seconds=5400.0, timeout_seconds=60.0),
    )
    ended(paths, job)

    async def scene(visitor: Visitor) -> None:
        await select_job(visitor, job)
        await visitor.press("r")
        await visitor.until(lambda: isinstance(visitor.console.screen, RunForm))
        form = visitor.console.screen
        texts = {str(field.id): field.value for field in form.query(FormField)}
        assert texts["command"] == command
        assert form.query_one("#shell", Tick).value
        assert (texts["name"], texts["params"], texts["tags"]) == ("echoing", "lr=0.1", "project=ocr, sweep")
        assert (texts["cpus"], texts["memory"], texts["runtime"], texts["timeout"]) == ("0.5", "1G", "1h30m", "1m")
        assert texts["env"].splitlines() == ["OTHER=two", "WORD=one"]
        form.query_one("#params", FormField).value = "lr=0.2"
        form.query_one("#env", FormField).value = "WORD=three"
        form.query_one("#name Input").focus()
        await visitor.press("enter")
        await visitor.until(lambda: isinstance(visitor.console.screen, Dashboard))
        table = visitor.console.screen.query_one("#jobs", Table)
        await visitor.until(lambda: table.cursor_key not in (None, job.id))
        again.append(str(table.cursor_key))

    again: list[str] = []
    visit(paths.root, scene, (90, 40), own_store(paths))
    words = paths.root.parent / "words"
    wait_for(lambda: words.read_text().splitlines()[1:] == ["three --token hush a,b=c"] or None)
    record = json.loads(call("show", again[0], "--json").stdout)
    assert (record["name"], record["params"], record["tags"]) == (
        "echoing",
        {"lr": 0.2},
        {"project": "ocr", "sweep": ""},
    )
    assert record["limits"]["memory_bytes"] == 1 << 30


def test_a_command_with_line_breaks_runs_again_unchanged(paths: StatePaths) -> None:
    job = ended(paths, start_job(paths, "sh", "-c", "echo one >> words\necho two >> words"))

    async def scene(visitor: Visitor) -> None:
        await select_job(visitor, job)
        await visitor.press("r")
        await visitor.until(lambda: isinstance(visitor.console.screen, RunForm))
        form = visitor.console.screen
        line = form.query_one("#command", FormField)
        before = line.value
        line.value = before + " # more"
        await visitor.press("enter")
        await visitor.until(lambda: "line breaks" in line.problem)
        line.value = before
        await visitor.press("enter")
        await visitor.until(lambda: isinstance(visitor.console.screen, Dashboard))

    visit(paths.root, scene, (90, 28), own_store(paths))
    words = paths.root.parent / "words"
    wait_for(lambda: words.read_text() == "one\ntwo\none\ntwo\n" or None)
    call("history")


def test_several_marked_jobs_are_not_changed_at_once(paths: StatePaths, notifications: Notifications) -> None:
    kept_jobs(paths.root, made_job(), made_job())

    async def scene(visitor: Visitor) -> None:
        await visitor.until(lambda: visitor.console.view is not None and len(visitor.console.view.rows) == 2)
        await visitor.press("space", "space", "r")
        await wait_for_notification(visitor, notifications, "2 jobs are marked")
        await visitor.press("R")
        await visitor.shows("Run 2 jobs again?")
        await visitor.press("escape")

    visit(paths.root, scene, (90, 28), own_store(paths))


def test_a_job_without_its_spec_is_not_run_again(paths: StatePaths, notifications: Notifications) -> None:
    (job,) = kept_jobs(paths.root, made_job())

    async def scene(visitor: Visitor) -> None:
        await select_job(visitor, job)
        await visitor.press("r")
        await wait_for_notification(visitor, notifications, "cannot be run again")

    visit(paths.root, scene, (90, 28), own_store(paths))


def test_marked_jobs_are_compared_and_their_ids_copied(
    paths: StatePaths, monkeypatch: pytest.MonkeyPatch, notifications: Notifications
) -> None:
    one, other = kept_jobs(paths.root, made_job(), made_job())
    compared: list[Sequence[str]] = []

    async def open_compare(self: Console, job_ids: Sequence[str]) -> None:
        compared.append(job_ids)

    monkeypatch.setattr(Console, "open_compare", open_compare)

    async def scene(visitor: Visitor) -> None:
        await select_job(visitor, one)
        await visitor.press("c", "y")
        assert notifications.count_of("2 to 6") == 1
        assert visitor.console.clipboard == one.id
        await visitor.press("g", "space", "space", "c", "y")
        assert set(visitor.console.clipboard.split()) == {one.id, other.id}

    visit(paths.root, scene, (90, 28), own_store(paths))
    assert [set(ids) for ids in compared] == [{one.id, other.id}]


def test_samples_are_written_as_export_writes_them_and_over_no_file(
    paths: StatePaths, notifications: Notifications
) -> None:
    job = ended(paths, start_job(paths, "true"))
    path = paths.root.parent / "samples.csv"

    async def write(visitor: Visitor) -> None:
        await visitor.press("e")
        await visitor.shows("Export samples")
        editor = visitor.console.screen.query_one(FormField).editor
        assert isinstance(editor, Input)
        editor.value = str(path)
        await visitor.press("enter")

    async def scene(visitor: Visitor) -> None:
        await select_job(visitor, job)
        await write(visitor)
        await wait_for_notification(visitor, notifications, f"{path}: 2 samples")
        await write(visitor)
        await visitor.shows("✗", "exists")
        await visitor.press("escape")
        await visitor.until(lambda: isinstance(visitor.console.screen, Dashboard))

    visit(paths.root, scene, (90, 28), own_store(paths))
    assert path.read_text() == call("export", job.id).stdout
    assert [entry.name for entry in path.parent.glob("*.part")] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a b/../c", "a-b-..-c-00000000.csv"), ("日本", "job-00000000.csv"), ("", "job-00000000.csv")],
)
def test_a_name_makes_a_file_name_that_can_be_typed(name: str, expected: str) -> None:
    assert default_path([JobRow(made_job(id="0" * 36, name=name), Path("x.db"))]) == expected


def test_hidden_columns_stay_hidden_until_they_are_wanted_again(paths: StatePaths) -> None:
    kept_jobs(paths.root, made_job())
    preferences = paths.root / "console.json"
    Preferences(preferences).keep_hidden("dashboard.jobs", {"state", "time"})

    async def scene(visitor: Visitor) -> None:
        assert "STATE" not in await visitor.shows("NAME")
        await visitor.press("o")
        await visitor.shows("[ ] STATE", "[x] NAME")
        await visitor.press("down", "space", "down", "space", "enter")
        await visitor.shows("STATE", "CPU%")
        assert "NAME" not in visitor.screen()

    visit(paths.root, scene, (90, 28), own_store(paths, preferences=preferences))
    assert Preferences(preferences).hidden("dashboard.jobs") == {"name", "time"}
