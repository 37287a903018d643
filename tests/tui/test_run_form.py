"""The run form reads input like a shell, reports wrong fields, and starts the job."""

import json
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import TextArea

from jobtop.core.config import load
from jobtop.core.model import Job, Limits
from jobtop.core.paths import StatePaths
from jobtop.core.run.request import Request
from jobtop.core.run.tools import Tool
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.submit import QueueOptions, submit_to
from jobtop.lifecycle.tools import with_tool
from jobtop.store.database import open_to_read, open_to_write
from jobtop.store.jobs import Jobs, Query
from jobtop.tui.dialogs.fields import FormField, Tick
from jobtop.tui.dialogs.form_values import filled_form, read_form
from jobtop.tui.dialogs.run_form import CommandLine, RunForm, past_commands
from jobtop.tui.screens.dashboard import Dashboard
from jobtop.tui.widgets.table import Table
from records import HOSTILE_TEXTS, call, holds_controls, kept_jobs, made_job
from running import nothing_is_left
from support import wait_for
from visiting import Visitor, own_store, visit

__all__ = ["nothing_is_left"]

EMPTY = dict.fromkeys("command name tool cwd env params tags cpus memory runtime timeout gpus interval".split(), "")


def all_jobs(paths: StatePaths) -> list[Job]:
    database = open_to_read(paths.store)
    try:
        return Jobs(database).select(Query(limit=None))
    finally:
        database.close()


async def opened(visitor: Visitor) -> RunForm:
    await visitor.press("n")
    await visitor.until(lambda: isinstance(visitor.console.screen, RunForm))
    form = visitor.console.screen
    assert isinstance(form, RunForm)
    return form


def fill(form: RunForm, **texts: str) -> None:
    for key, text in texts.items():
        editor = form.query_one(f"#{key}", FormField).editor
        if isinstance(editor, TextArea):
            editor.text = text
        else:
            editor.value = text


def problems(form: RunForm) -> dict[str, str]:
    return {str(field.id): field.problem for field in form.query(FormField) if field.problem}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("python train.py --lr 0.1", ("python", "train.py", "--lr", "0.1")),
        ("  echo 'a b' \"c d\" e\\ f  ", ("echo", "a b", "c d", "e f")),
        ("echo 'a | b' \"x > y;\" 'z&'", ("echo", "a | b", "x > y;", "z&")),
        ("echo # no comment", ("echo", "#", "no", "comment")),
        ("echo [/b] *.txt $HOME", ("echo", "[/b]", "*.txt", "$HOME")),
    ],
)
def test_a_command_line_is_split_as_a_shell_would(text: str, words: tuple[str, ...]) -> None:
    new_job, wrong = read_form(EMPTY | {"command": text}, {})
    assert (new_job and new_job.request.command, wrong) == (words, {})


def test_every_field_of_the_form_is_in_the_request(tmp_path: Path) -> None:
    texts = {
        "command": "seq 3 | wc -l",
        "name": " n ",
        "tool": "t",
        "cwd": str(tmp_path),
        "env": "A=1\nB=x,y",
        "params": "lr=0.1, on=true",
        "tags": "project=ocr",
        "cpus": "0.5",
        "memory": "2G",
        "runtime": "1h",
        "timeout": "90",
        "gpus": "2",
        "interval": "5s",
    }
    new_job, wrong = read_form(texts, {"shell": True})
    assert wrong == {}
    assert new_job is not None
    request = new_job.request
    assert (request.command, request.is_shell, request.detached) == (("seq 3 | wc -l",), True, True)
    assert (request.name, request.tool, request.cwd) == ("n", "t", str(tmp_path))
    assert (request.env, request.tags) == ({"A": "1", "B": "x,y"}, {"project": "ocr"})
    assert request.params == {"lr": 0.1, "on": True}
    assert request.limits == Limits(
        cpus=0.5, memory_bytes=2 << 30, runtime_seconds=3600.0, gpus=2, timeout_seconds=90.0
    )
    assert new_job.interval == 5.0


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("command", " ", "command"),
        ("command", "echo 'a", "quote"),
        ("command", "echo a | wc", "| shell"),
        ("command", "sleep 9 &", "& shell"),
        ("command", "a && b", "&& shell"),
        ("cwd", "/no/such/place", "directory"),
        ("cwd", "/dev/null", "directory"),
        ("env", "A", "KEY=VALUE"),
        ("params", "=1", "KEY=VALUE"),
        ("tags", "=1", "KEY=VALUE"),
        ("cpus", "many", "CPUs"),
        ("memory", "8 bananas", "size"),
        ("runtime", "soon", "duration"),
        ("timeout", "-1", "duration"),
        ("interval", "1ms", "shortest"),
    ],
)
def test_a_wrong_value_is_reported_at_its_field(key: str, text: str, words: str) -> None:
    new_job, wrong = read_form(EMPTY | {"command": "true", key: text}, {})
    assert new_job is None
    assert list(wrong) == [key]
    assert [word for word in words.split() if word not in wrong[key]] == []


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("sweep", {"sweep": ""}),
        ("sweep,nightly", {"sweep": "", "nightly": ""}),
        ("project=ocr, sweep", {"project": "ocr", "sweep": ""}),
        ("sweep,project=ocr", {"sweep": "", "project": "ocr"}),
        ("gpus=0,1,project=ocr", {"gpus": "0,1", "project": "ocr"}),
        (" a=1 ,\tb\nc=x y,", {"a": "1", "b": "", "c": "x y"}),
    ],
)
def test_a_tag_may_have_no_value_and_a_value_may_have_commas(text: str, tags: dict[str, str]) -> None:
    new_job, _ = read_form(EMPTY | {"command": "true", "cwd": "/", "tags": text}, {})
    assert new_job is not None
    assert new_job.request.tags == tags


def test_past_commands_are_listed_once_newest_first_and_without_redacted_ones(paths: StatePaths) -> None:
    commands: list[tuple[str, ...]] = [
        ("echo", "a b"),
        ("/bin/sh", "-c", "seq 3 | wc -l"),
        ("train", "--token", "***"),
        *(("echo", text) for text in HOSTILE_TEXTS.values()),
        ("echo", "a b"),
        ("sh", "-c", "true"),
    ]
    kept_jobs(paths.root, *(made_job(command=command) for command in commands))
    database = open_to_read(paths.store)
    past = past_commands(database)
    database.close()
    assert past[:2] == [("sh -c true", False), ("echo 'a b'", False)]
    assert past[-1] == ("seq 3 | wc -l", True)
    assert not any("***" in line or len(line) > 1000 or holds_controls(line) for line, _ in past)
    assert len(past) == 5  # three, the markup and the quotes


def test_a_job_runs_as_the_form_says_and_is_selected(paths: StatePaths, tmp_path: Path) -> None:
    async def scene(visitor: Visitor) -> None:
        form = await opened(visitor)
        fill(form, command='sh -c "echo $WORD >> words"', name="[/b]n", cwd=str(tmp_path))
        fill(form, env="WORD=here", tags="a=b", memory="1G", interval="5s")
        await visitor.press("ctrl+s", "ctrl+s")  # the second one must not start another job
        await visitor.until(lambda: isinstance(visitor.console.screen, Dashboard))
        await visitor.shows("[/b]n")
        table = visitor.console.screen.query_one("#jobs", Table)
        await visitor.until(lambda: table.cursor_key == all_jobs(paths)[0].id)

    visit(paths.root, scene, size=(80, 24), options=own_store(paths))
    wait_for(lambda: (tmp_path / "words").exists() or None)
    assert (tmp_path / "words").read_text() == "here\n"
    (job,) = all_jobs(paths)
    assert call("wait", job.id).returncode == 0
    record: dict[str, Any] = json.loads(call("show", job.id, "--json").stdout)
    assert (record["name"], record["tags"], record["cwd"]) == ("[/b]n", {"a": "b"}, str(tmp_path))
    assert record["limits"]["memory_bytes"] == 1 << 30
    assert record["monitor"]["interval_seconds"] == 5.0


def test_a_job_waits_in_the_queue_as_the_form_says(paths: StatePaths) -> None:
    async def session(visitor: Visitor) -> None:
        form = await opened(visitor)
        assert not form.query_one("#group").parent.display  # type: ignore[union-attr]
        form.query_one("#queue", Tick).value = True
        fill(form, command="true", group="nightly", priority="7", at="2999-01-01", retries="2")
        await visitor.until(lambda: form.query_one("#group").parent.display)  # type: ignore[union-attr]
        await visitor.press("ctrl+s")
        await visitor.until(lambda: visitor.console.screen is not form)

    visit(paths.root, session, size=(100, 40), options=own_store(paths))
    (job,) = all_jobs(paths)
    assert job.queue is not None
    assert (job.status, job.queue.group, job.queue.priority, job.queue.retries) == ("queued", "nightly", 7, 2)
    database = open_to_write(paths)
    Queue(Jobs(database), paths).cancel(job.id, "the test is over")
    database.close()


def test_a_job_of_a_tool_gets_the_parameters_of_the_form(queue: Queue, paths: StatePaths, tmp_path: Path) -> None:
    (tmp_path / "a.sh").touch()
    params = {"mesh": 1, "api_key": "s3cr3t"}
    request = with_tool(Request((), str(tmp_path), params=params), Tool("a", ("sh",)), "a.sh", {})
    job = submit_to(queue, load((), {}, tmp_path), request, QueueOptions())
    filled = filled_form(paths, job, {})
    assert "JOBTOP_PARAMS" not in filled.texts["env"]
    for text, expected in (("mesh=1", params), ("mesh=2, n=3", {"mesh": 2, "n": 3, "api_key": "s3cr3t"})):
        new, wrong = read_form({**filled.texts, "params": text}, {}, filled)
        assert new is not None, wrong
        environment = (new.request.environment or {}) | new.request.env
        assert json.loads(environment["JOBTOP_PARAMS"]) == expected


def test_enforcing_needs_a_limit() -> None:
    new_job, wrong = read_form(EMPTY | {"command": "true"}, {"enforce": True})
    assert new_job is None
    assert list(wrong) == ["memory"]
    new_job, wrong = read_form(EMPTY | {"command": "true", "memory": "1G"}, {"enforce": True})
    assert new_job is not None
    assert new_job.request.limits.enforced


def test_in_a_small_terminal_fields_scroll_and_problems_appear_at_them(paths: StatePaths) -> None:
    async def scene(visitor: Visitor) -> None:
        form = await opened(visitor)
        assert "Interval" not in await visitor.shows("Command", "^s Run")
        await visitor.press("shift+tab")
        assert "Command" not in await visitor.shows("Interval", "^s Run")
        fill(form, command="echo 'a", cwd="/no/such/place", memory="much")
        await visitor.press("ctrl+s")
        await visitor.until(lambda: set(problems(form)) == {"command", "cwd", "memory"})
        screen = await visitor.shows("quote", "no such directory", "esc Cancel")
        assert screen.index("quote") < screen.index("shell") < screen.index("no such directory")
        assert screen.count("✗") >= 2
        assert isinstance(form.focused, CommandLine)
        fill(form, command="no-such-program", cwd="/", memory="")
        await visitor.until(lambda: not problems(form))
        await visitor.press("ctrl+s")
        await visitor.until(lambda: list(problems(form)) == ["command"])
        assert [word for word in ("no-such-program", "not found") if word not in problems(form)["command"]] == []
        await visitor.press("escape")
        await visitor.until(lambda: isinstance(visitor.console.screen, Dashboard))

    visit(paths.root, scene, size=(60, 13), options=own_store(paths))
    assert [job.status for job in all_jobs(paths)] == ["error"]


def test_a_store_that_cannot_be_created_is_reported_in_the_form(paths: StatePaths) -> None:
    paths.root.parent.mkdir(exist_ok=True)
    paths.root.write_text("a file where a directory should be")

    async def scene(visitor: Visitor) -> None:
        form = await opened(visitor)
        fill(form, command="true")
        await visitor.press("ctrl+s")
        await visitor.until(lambda: "output" in problems(form).get("command", ""))

    visit(paths.root, scene, (90, 28), own_store(paths))


def test_earlier_commands_are_completed_and_stepped_through(paths: StatePaths) -> None:
    kept_jobs(
        paths.root,
        made_job(command=("echo", "one")),
        made_job(command=("/bin/sh", "-c", "echo two | wc")),
        made_job(command=("train", "x")),
    )

    async def scene(visitor: Visitor) -> None:
        form = await opened(visitor)
        line, shell = form.query_one(CommandLine), form.query_one("#shell", Tick)
        await visitor.until(lambda: line.past)
        await visitor.press(*"echo")
        await visitor.until(lambda: line._suggestion == "echo two | wc")
        await visitor.press("up")
        assert (line.value, shell.value) == ("echo two | wc", True)
        await visitor.press("up", "up")
        assert line.value == "echo one"
        await visitor.press("down", "down")
        assert line.value == "echo"
        await visitor.press("right")
        assert line.value == "echo two | wc"

    visit(paths.root, scene, (90, 28), own_store(paths))


@pytest.mark.parametrize("where", ["#command Input", "#tags Input", "#interval Input", "#enforce"])
def test_enter_runs_the_job_from_every_field_of_one_line(paths: StatePaths, where: str) -> None:
    async def scene(visitor: Visitor) -> None:
        form = await opened(visitor)
        fill(form, command="true")
        form.query_one(where).focus()
        await visitor.press("enter")
        await visitor.until(lambda: isinstance(visitor.console.screen, Dashboard))

    visit(paths.root, scene, (90, 40), own_store(paths))
    (job,) = all_jobs(paths)
    assert call("wait", job.id).returncode == 0


def test_enter_in_a_field_of_several_lines_begins_a_line(paths: StatePaths) -> None:
    async def scene(visitor: Visitor) -> None:
        form = await opened(visitor)
        fill(form, command="true")
        form.query_one("#env TextArea").focus()
        await visitor.press("A", "equals_sign", "1", "enter", "B", "equals_sign", "2")
        assert form.query_one("#env", FormField).value == "A=1\nB=2"
        assert visitor.console.screen is form

    visit(paths.root, scene, (90, 40), own_store(paths))
    assert not paths.store.exists() or all_jobs(paths) == []


def test_the_form_says_which_keys_it_has(paths: StatePaths) -> None:
    async def scene(visitor: Visitor) -> None:
        await opened(visitor)
        await visitor.shows("^s Run", "esc Cancel", "↑ earlier commands", "tab next field")

    visit(paths.root, scene, (90, 40), own_store(paths))


def test_a_command_that_takes_over_the_terminal_is_named_at_its_field(paths: StatePaths) -> None:
    async def scene(visitor: Visitor) -> None:
        form = await opened(visitor)
        await visitor.type("vim x")
        await visitor.until(lambda: "jobtop run -- vim x" in problems(form).get("command", ""))
        fill(form, command="python train.py")
        await visitor.until(lambda: not problems(form))

    visit(paths.root, scene, (90, 40), own_store(paths))
