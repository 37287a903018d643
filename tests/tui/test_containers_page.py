"""The Containers page: what it lists, in which order, why it is empty, and what its keys do to containers."""

import time
from pathlib import Path

import pytest
from still_containers import AT, DOCKER, MIB, PODMAN, StillContainers, still_row

from fake_engine import container_row, fake_engine
from hostile import hostile_texts
from jobtop.core.measure.collectors.docker.client import ANSWER_SECONDS
from jobtop.core.record import replace
from jobtop.core.run.containers.facts import FINDING
from jobtop.tui.app import Options
from jobtop.tui.data.containers.feed import ContainerFeed
from jobtop.tui.data.containers.rows import empty_words, grouped, shown_containers
from jobtop.tui.data.containers.source import Act, EngineSource
from jobtop.tui.screens.container import actions
from jobtop.tui.screens.container.page import Containers
from jobtop.tui.screens.container.screen import ContainerScreen
from jobtop.tui.screens.job.screen import JobScreen
from jobtop.tui.widgets.columns import Sort
from records import kept_jobs, running_job
from visiting import Visitor, visit

WIDE, NARROW, SMALLEST = (170, 42), (80, 24), (60, 15)
SHOP = (
    still_row("web", 1, "shop"),
    still_row("db", 2, "shop"),
    still_row("cron", 3),
    still_row("grafana", 4, "metrics"),
)


def options(source: StillContainers, **values: object) -> Options:
    return replace(Options([], containers=source), **values)


def names(visitor: Visitor) -> list[str]:
    page = visitor.console.screen
    assert isinstance(page, Containers)
    return [shown.row.container.name for shown in page.shown]


async def told(visitor: Visitor, *texts: str) -> None:
    """Wait for a notification with these texts."""
    console = visitor.console
    await visitor.until(
        lambda: any(all(text in notice.message for text in texts) for notice in console._notifications), str(texts)
    )


async def at_page(visitor: Visitor, *texts: str) -> str:
    await visitor.press("4")
    return await visitor.shows("╭─ Containers", *texts)


def test_containers_are_listed_by_compose_project_with_what_they_use(home: Path) -> None:
    async def scene(visitor: Visitor) -> None:
        screen = await at_page(visitor, "● docker 27.3.1", "4 containers · sort project▲")
        assert names(visitor) == ["grafana", "db", "web", "cron"]
        row = next(line for line in screen.splitlines() if " web " in line)
        assert [
            word for word in ("shop", "running", "12", "64.0M", "50%", "1.0K/s", "2.0K/s", "box:1") if word not in row
        ] == []
        assert "ENGINE" not in screen

    visit(home, scene, WIDE, options(StillContainers(*SHOP)))


def test_each_of_two_engines_is_named_with_its_version_or_its_problem(home: Path) -> None:
    broken = replace(PODMAN, problem="podman (unix:///run/podman.sock): permission denied (as root: usermod)")
    source = StillContainers(*SHOP, engines=(DOCKER, PODMAN))

    async def scene(visitor: Visitor) -> None:
        await at_page(visitor, "● docker 27.3.1", "● podman 5.2.3", "ENGINE")
        source.show(*SHOP, engines=(DOCKER, broken))
        await visitor.shows("! podman", " ! podman (unix:///run/podman.sock): permission denied (as root: usermod)")

    visit(home, scene, WIDE, options(source))


@pytest.mark.parametrize("size", [NARROW, SMALLEST], ids=str)
def test_columns_are_dropped_where_there_is_little_room(home: Path, size: tuple[int, int]) -> None:
    async def scene(visitor: Visitor) -> None:
        screen = await at_page(visitor, "web", "CPU%", "MEM", "OF LIMIT", "50%")
        assert "IMAGE" not in screen
        assert all(len(line) <= size[0] for line in screen.splitlines())

    visit(home, scene, size, options(StillContainers(*SHOP)))


def test_a_container_without_numbers_shows_dashes_instead_of_zeros(home: Path) -> None:
    row = replace(still_row("web"), values={}, rates={}, source=None, why_absent="the engine was not asked yet")

    async def scene(visitor: Visitor) -> None:
        screen = await at_page(visitor, "web")
        line = next(line for line in screen.splitlines() if " web " in line)
        assert line.count("–") >= 6

    visit(home, scene, WIDE, options(StillContainers(row)))


@pytest.mark.parametrize(
    ("engines", "facts"),
    [
        ((), ("No container engine found", "/run/docker.sock", "systemctl start docker")),
        ((replace(DOCKER, info=None, is_asked=False),), ("waiting for docker",)),
        (
            (replace(DOCKER, problem="docker (x): permission denied (as root: usermod)"),),
            ("permission denied", "usermod"),
        ),
        (
            (replace(DOCKER, problem="docker (x) does not answer within 3 s (restart it)"),),
            ("does not answer", "restart"),
        ),
        ((DOCKER, PODMAN), ("No containers run", "docker, podman answer", "a to list stopped", "jobtop run --image")),
    ],
    ids=["none", "waiting", "forbidden", "hanging", "idle"],
)
def test_an_empty_page_says_why(home: Path, engines: tuple[object, ...], facts: tuple[str, ...]) -> None:
    async def scene(visitor: Visitor) -> None:
        await at_page(visitor, *facts)

    visit(home, scene, NARROW, options(StillContainers(engines=engines)))  # type: ignore[arg-type]


def test_without_a_look_nothing_is_said_to_be_missing() -> None:
    source = StillContainers(engines=(), at=0.0)
    assert "looking" in empty_words(source.now, (), False, False, "a")


def test_stopped_containers_are_listed_if_asked_for(home: Path) -> None:
    gone = replace(still_row("old", 9), values={}, rates={})
    gone = replace(gone, container=replace(gone.container, state="exited", exit_code=137, finished_at=AT - 5000.0))
    source = StillContainers(*SHOP, gone)

    async def scene(visitor: Visitor) -> None:
        await at_page(visitor, "4 containers")
        assert "old" not in names(visitor)
        await visitor.press("a")
        await visitor.shows("5 containers · 4 run", "stopped ones too", "exited 137")
        assert source.every == [False, True]
        await visitor.press("a")
        await visitor.until(lambda: "old" not in names(visitor))

    visit(home, scene, WIDE, options(source))


def test_a_container_that_has_just_ended_stays_listed_for_a_moment() -> None:
    row = still_row("web")
    ended = replace(row, container=replace(row.container, state="exited", exit_code=1, finished_at=time.time() - 5.0))
    feed = ContainerFeed(StillContainers(ended))
    feed.start()
    assert feed.look()
    assert [shown.row.container.name for shown in shown_containers(feed, {}, (), Sort("project"))] == ["web"]


def test_words_filter_by_name_image_project_and_state(home: Path) -> None:
    source = StillContainers(*SHOP, still_row("api", 7, "shop", health="unhealthy", image="registry/api:3"))

    async def scene(visitor: Visitor) -> None:
        await at_page(visitor, "5 containers")
        await visitor.press("slash")
        await visitor.type("shop unheal")
        await visitor.shows("1 of 5 containers")
        assert names(visitor) == ["api"]
        await visitor.press("enter", "escape")
        await visitor.shows("5 containers")
        await visitor.press("slash")
        await visitor.type("nothing-like-it")
        await visitor.shows("No matching containers")
        await visitor.press("escape")
        await visitor.shows("5 containers")

    visit(home, scene, WIDE, options(source))


def test_rows_are_sorted_by_a_column_with_unknown_values_last(home: Path) -> None:
    busy, idle = still_row("busy", 5), still_row("idle", 6)
    busy = replace(busy, values={**busy.values, "cpu.percent": 90.0})
    idle = replace(idle, values={"mem.used": 5 * MIB})
    feed = ContainerFeed(StillContainers(*SHOP, idle, busy))
    feed.start()
    feed.look()
    feed.every = True
    by_cpu = shown_containers(feed, {}, (), Sort("cpu", descending=True))
    found = [shown.row.container.name for shown in by_cpu]
    assert (found[0], found[-1]) == ("busy", "idle")
    by_project = grouped(by_cpu, Sort("project"))
    assert [shown.leads for shown in by_project] == [True, True, False, True, False, False]


@pytest.mark.parametrize(
    ("key", "title", "act"),
    [("x", "Stop", Act.STOP), ("X", "Kill", Act.KILL), ("p", "Pause", Act.PAUSE), ("R", "Restart", Act.RESTART)],
)
def test_a_key_acts_on_the_selected_container_after_a_question(home: Path, key: str, title: str, act: Act) -> None:
    source = StillContainers(*SHOP)

    async def scene(visitor: Visitor) -> None:
        await at_page(visitor, "grafana")
        await visitor.press(key)
        await visitor.shows(f"{title} this container?", "grafana")
        await visitor.press("n")
        await visitor.until(lambda: f"{title} this container?" not in visitor.screen())
        assert source.done == []
        await visitor.press(key)
        await visitor.shows(f"{title} this container?")
        await visitor.press("y")
        await visitor.until(lambda: source.done == [(act, "grafana")])

    visit(home, scene, WIDE, options(source))


def test_marked_containers_are_acted_on_together_and_refusals_are_shown(home: Path) -> None:
    source = StillContainers(*SHOP)

    async def scene(visitor: Visitor) -> None:
        await at_page(visitor, "grafana")
        await visitor.press("space", "space", "x")
        await visitor.shows("Stop 2 containers?", "grafana", "db")
        source.refusal = "docker (unix:///run/docker.sock): is busy"
        await visitor.press("y")
        await told(visitor, "was not stopped", "is busy")
        assert source.done == []

    visit(home, scene, WIDE, options(source))


def test_a_paused_container_is_resumed_and_an_ended_one_cannot_be_stopped(home: Path) -> None:
    ended = still_row("done", 2, state="exited", exit_code=0, finished_at=AT)
    source = StillContainers(still_row("asleep", 1, state="paused"), ended)

    async def scene(visitor: Visitor) -> None:
        await visitor.press("4", "a")
        await visitor.shows("asleep", "done")
        await visitor.press("p")
        await visitor.shows("Resume this container?")
        await visitor.press("y")
        await visitor.until(lambda: source.done == [(Act.RESUME, "asleep")])
        await visitor.press("down", "x")
        await told(visitor, "done does not run (exited)")

    visit(home, scene, WIDE, options(source))


def test_a_read_only_console_changes_no_container(home: Path) -> None:
    source = StillContainers(*SHOP)

    async def scene(visitor: Visitor) -> None:
        screen = await at_page(visitor, "grafana")
        assert [word for word in ("x Stop", "R Restart", "w Job") if word in screen.splitlines()[-1]] == []
        for key in ("x", "X", "p", "R", "w"):
            visitor.console.clear_notifications()
            await visitor.press(key)
            await told(visitor, "--readonly")
        assert source.done == []

    visit(home, scene, WIDE, options(source, is_readonly=True))


def test_the_container_of_a_job_opens_its_job_and_is_not_stopped_itself(home: Path) -> None:
    job = running_job(name="train", kind="container")
    kept_jobs(home, job)
    source = StillContainers(still_row("jobtop-1", 1, labels={"jobtop.job": job.id}))

    async def scene(visitor: Visitor) -> None:
        await visitor.until(lambda: visitor.console.row(job.id))
        await at_page(visitor, job.id[:8])
        await visitor.press("x")
        await told(visitor, "is the container of job")
        await visitor.press("w")
        await visitor.until(lambda: isinstance(visitor.console.screen, JobScreen))

    visit(home, scene, WIDE, options(source))


def test_an_attached_container_is_shown_with_its_job(home: Path) -> None:
    row = still_row("web")
    job = running_job(name="web", kind="container", flags=("attached",), findings={FINDING: {"id": row.container.id}})
    kept_jobs(home, job)

    async def scene(visitor: Visitor) -> None:
        await visitor.until(lambda: visitor.console.row(job.id))
        await at_page(visitor, job.id[:8])

    visit(home, scene, WIDE, options(StillContainers(row)))


def test_the_monitor_runs_only_while_a_page_of_containers_is_visible(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "LINGER_SECONDS", 0.05)
    source = StillContainers(*SHOP)

    async def scene(visitor: Visitor) -> None:
        assert source.monitors == []
        await at_page(visitor, "grafana")
        await visitor.press("enter")
        await visitor.until(lambda: isinstance(visitor.console.screen, ContainerScreen))
        await visitor.press("escape", "x")
        await visitor.shows("Stop this container?")
        assert len(source.monitors) == 1
        await visitor.press("n", "1")
        await visitor.until(lambda: source.monitors == [])
        await visitor.press("4")
        await visitor.until(lambda: len(source.monitors) == 1)

    visit(home, scene, WIDE, options(source))
    assert source.monitors == []


def test_the_id_is_copied_and_columns_can_be_hidden(home: Path) -> None:
    source = StillContainers(*SHOP)

    async def scene(visitor: Visitor) -> None:
        await at_page(visitor, "grafana", "IMAGE")
        await visitor.press("y")
        await told(visitor, "copied aaaaaaaaaaaa")
        assert visitor.console.clipboard == SHOP[3].container.id
        await visitor.press("o")
        await visitor.shows("Columns")

    visit(home, scene, WIDE, options(source))


@pytest.mark.parametrize("size", [WIDE, SMALLEST], ids=str)
def test_hostile_texts_are_shown_and_obeyed_nowhere(home: Path, size: tuple[int, int]) -> None:
    texts = hostile_texts()[::83]
    rows = [
        replace(
            still_row(text, number, text, image=text, state=text or "running"),
            events=(),
        )
        for number, text in enumerate(["[/b]", "\x1b[31m", *texts], 1)
    ]
    engine = replace(DOCKER, problem="docker: [/b] \x1b[31m cannot")
    source = StillContainers(*rows, engines=(engine, PODMAN))
    source.lines = [text.encode("utf-8", "replace") for text in texts]
    source.answer = {"[/b]": texts, "Config": {"Env": texts}}

    async def scene(visitor: Visitor) -> None:
        await visitor.press("4", "a")
        await visitor.shows("╭─ Containers", "[/b]")
        await visitor.press("s", "s", "G", "enter")
        await visitor.until(lambda: isinstance(visitor.console.screen, ContainerScreen))
        for _ in range(8):
            await visitor.press("tab")
        assert "\x1b" not in visitor.screen()
        await visitor.press("escape", "x")
        await visitor.pilot.pause()
        assert "\x1b" not in visitor.screen()

    visit(home, scene, size, options(source))


def test_keys_never_wait_for_an_engine_that_hangs(home: Path, tmp_path: Path) -> None:
    with fake_engine(tmp_path / "e", [container_row("web", 1)]) as engine:
        engine.hang()
        environ = {"DOCKER_HOST": engine.url, "HOME": str(home), "XDG_RUNTIME_DIR": str(tmp_path)}

        async def scene(visitor: Visitor) -> None:
            await at_page(visitor, "waiting for docker")
            began = time.monotonic()
            await visitor.press("1", "4", "a", "a")
            assert time.monotonic() - began < 2 * ANSWER_SECONDS  # three of the keys have to do with the engine
            await visitor.shows("does not answer", "restart it")

        visit(home, scene, WIDE, Options([], containers=EngineSource(environ)))
