"""The run form runs jobs in containers: it completes local images, and says at the field why one cannot be had."""

import json
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from engines import IMAGE, RealEngine
from fake_engine import FakeEngine, fake_engine
from jobtop.core.measure.collectors.docker.client import Engine
from jobtop.core.measure.collectors.docker.finding import open_engines
from jobtop.core.model import Job, Limits
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_read
from jobtop.store.jobs import Jobs, Query
from jobtop.tui.dialogs.fields import FormField, Tick
from jobtop.tui.dialogs.form_values import Filled, filled_form, read_form
from jobtop.tui.dialogs.run_form import ImageLine, RunForm
from jobtop.tui.screens.dashboard import Dashboard
from records import call
from running import nothing_is_left
from support import wait_for
from visiting import Visitor, own_store, visit

__all__ = ["nothing_is_left"]

KEYS = "command name tool cwd image env params tags cpus memory runtime timeout gpus interval"
EMPTY = dict.fromkeys(KEYS.split(), "")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEngine]:
    with tempfile.TemporaryDirectory(prefix="jt-", dir="/tmp") as name, fake_engine(Path(name) / "d.sock", []) as found:
        monkeypatch.setenv("DOCKER_HOST", found.url)
        yield found


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
        form.query_one(f"#{key}", FormField).value = text


def problem(form: RunForm, key: str) -> str:
    return form.query_one(f"#{key}", FormField).problem


def test_an_image_makes_a_container_in_which_limits_always_hold() -> None:
    texts = EMPTY | {"command": "python t.py", "image": " box:1 ", "env": "A=1", "memory": "1G", "gpus": "1"}
    new_job, wrong = read_form(texts, {})
    assert wrong == {}
    assert new_job is not None
    request = new_job.request
    assert request.container is not None
    assert (request.kind, request.command) == ("container", ("python", "t.py"))
    assert (request.container.image, request.container.env, request.container.gpus) == ("box:1", {"A": "1"}, 1)
    assert request.env == {}  # the environment of the console stays outside
    assert request.limits == Limits(memory_bytes=1 << 30, gpus=1, enforced=True)


def test_the_command_may_be_that_of_the_image() -> None:
    new_job, wrong = read_form(EMPTY | {"image": "box:1"}, {"shell": True})
    assert wrong == {}
    assert new_job is not None
    assert (new_job.request.command, new_job.request.is_shell) == ((), False)
    assert not new_job.request.limits.enforced
    new_job, wrong = read_form(EMPTY, {})
    assert (new_job, list(wrong)) == (None, ["command"])


@pytest.mark.parametrize("text", ["two words", "[/b]", "-v", "a\\x1b", "http://x/?y"])
def test_what_is_no_name_of_an_image_is_reported_at_its_field(text: str) -> None:
    new_job, wrong = read_form(EMPTY | {"image": text}, {})
    assert (new_job, list(wrong)) == (None, ["image"])


def test_local_images_are_completed(paths: StatePaths, fake: FakeEngine) -> None:
    fake.images = ["python:3.12", "box:1", "<none>:<none>", "bad\x1b[31m:1"]

    async def scene(visitor: Visitor) -> None:
        form = await opened(visitor)
        assert fake.asked == []  # a form without an image asks no engine
        line = form.query_one(ImageLine)
        line.focus()
        await visitor.until(lambda: "box:1, python:3.12" in line.placeholder)
        assert "31m" not in line.placeholder
        await visitor.type("py")
        await visitor.until(lambda: line._suggestion == "python:3.12")
        await visitor.press("right")
        assert line.value == "python:3.12"
        await visitor.shows("always hold in a container")

    visit(paths.root, scene, (90, 40), own_store(paths))


def test_a_form_does_not_wait_for_an_engine_that_hangs(
    paths: StatePaths, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.hang()

    def patient_engines(environ: Mapping[str, str], root: str) -> list[Engine]:
        """Those that give up later than this test."""
        engines = open_engines(environ, root=root)
        for engine in engines:
            engine.timeout_seconds = 600.0
        return engines

    def is_asking() -> bool:
        return "jobtop-images" in {thread.name for thread in threading.enumerate()}

    monkeypatch.setattr("jobtop.lifecycle.containers.images.open_engines", patient_engines)

    async def scene(visitor: Visitor) -> None:
        form = await opened(visitor)
        form.query_one(ImageLine).focus()
        await visitor.until(lambda: fake.asked)
        await visitor.type("box:1")
        assert (form.query_one(ImageLine).value, is_asking()) == ("box:1", True)
        await visitor.press("escape")
        await visitor.until(lambda: isinstance(visitor.console.screen, Dashboard))
        assert is_asking()

    visit(paths.root, scene, (90, 40), own_store(paths))


def test_without_an_engine_the_field_is_an_ordinary_one(paths: StatePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///tmp/no-such-engine.sock")

    async def scene(visitor: Visitor) -> None:
        form = await opened(visitor)
        form.query_one(ImageLine).focus()
        await visitor.type("box:1")
        assert problem(form, "image") == ""
        await visitor.press("enter")
        await visitor.until(lambda: "DOCKER_HOST" in problem(form, "image"))
        assert form.focused is form.query_one(ImageLine)

    visit(paths.root, scene, (90, 40), own_store(paths))
    assert not paths.store.exists() or all_jobs(paths) == []


def test_a_missing_image_is_named_at_its_field_with_the_remedy(paths: StatePaths, fake: FakeEngine) -> None:
    async def scene(visitor: Visitor) -> None:
        form = await opened(visitor)
        fill(form, image="nope:1", command="true")
        await visitor.press("ctrl+s")
        await visitor.until(lambda: "nope:1" in problem(form, "image"))
        assert "docker images" in problem(form, "image")
        assert problem(form, "command") == form.query_one("#image", FormField).note == ""
        fill(form, image="box:1")
        await visitor.until(lambda: problem(form, "image") == "")

    visit(paths.root, scene, (90, 40), own_store(paths))
    assert not paths.store.exists() or all_jobs(paths) == []


def test_a_form_that_is_closed_meanwhile_starts_no_job(paths: StatePaths, fake: FakeEngine) -> None:
    async def scene(visitor: Visitor) -> None:
        form = await opened(visitor)
        fill(form, image="box:1", command="true")
        fake.hang()
        await visitor.press("ctrl+s")
        await visitor.until(lambda: fake.asked)
        await visitor.press("escape")
        await visitor.until(lambda: isinstance(visitor.console.screen, Dashboard))
        fake.released.set()
        await visitor.until(lambda: any("/images/box:1" in asked for asked in fake.asked))

    visit(paths.root, scene, (90, 40), own_store(paths))
    assert not paths.store.exists() or all_jobs(paths) == []


def test_a_job_runs_in_a_container_and_again_with_changes(
    paths: StatePaths, docker_engine: RealEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", docker_engine.env["DOCKER_HOST"])

    async def scene(visitor: Visitor) -> None:
        form = await opened(visitor)
        fill(form, image=IMAGE, command="echo $WORD; pwd", env="WORD=here", memory="64M", name="inside")
        form.query_one("#shell", Tick).value = True
        await visitor.press("ctrl+s")
        await visitor.until(lambda: isinstance(visitor.console.screen, Dashboard))

    visit(paths.root, scene, (90, 40), own_store(paths))
    (job,) = all_jobs(paths)
    assert call("wait", job.id).returncode == 0
    record: dict[str, Any] = json.loads(call("show", job.id, "--json").stdout)
    limits = record["limits"]
    assert (record["kind"], limits["memory_bytes"], limits["enforced"]) == ("container", 64 << 20, True)
    assert call("logs", job.id).stdout.split() == ["here", "/"]
    check_changes(filled_form(paths, wait_for(lambda: all_jobs(paths)[0]), {}))


def check_changes(filled: Filled) -> None:
    """The form of the job above shows its container; without the image it is a command on this host."""
    shown = {key: filled.texts[key] for key in ("image", "env", "memory", "command")}
    assert shown == {"image": IMAGE, "env": "WORD=here", "memory": "64M", "command": "echo $WORD; pwd"}
    texts = EMPTY | dict(filled.texts)
    new_job, _ = read_form(texts | {"image": "other:2", "env": "WORD=there"}, filled.ticks, filled)
    assert new_job is not None
    assert new_job.request.container is not None
    assert (new_job.request.container.image, new_job.request.container.env) == ("other:2", {"WORD": "there"})
    new_job, _ = read_form(texts | {"image": ""}, filled.ticks, filled)
    assert new_job is not None
    assert (new_job.request.kind, new_job.request.container) == ("process", None)
    assert (new_job.request.env, new_job.request.environment) == ({"WORD": "here"}, None)
