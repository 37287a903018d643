"""Every key of the registry, pressed in its place, does what its row says."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from raised import RULES, raise_alert
from still_containers import StillContainers, still_row
from still_processes import StillProcesses, still_process
from textual import events
from textual.keys import key_to_character
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from jobtop.core.config import load
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.core.run.request import Request
from jobtop.core.workflow.plan import JOB
from jobtop.core.workflow.progress import RunJob
from jobtop.lifecycle.doctor import Topics
from jobtop.lifecycle.start import start_and_stay
from jobtop.store.alerts.alert_rows import AlertStore
from jobtop.store.alerts.marks import Mark, MarkKind, Marks
from jobtop.store.database import open_to_read, open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.workflows import Workflows
from jobtop.tui.actions import ACTIONS, BY_ID, Action
from jobtop.tui.app import PAGES, Options
from jobtop.tui.chart.chart import Chart
from jobtop.tui.chart.window import TimeWindow
from jobtop.tui.commands import ActionPalette
from jobtop.tui.data.alert_operations import mute
from jobtop.tui.dialogs.choose_columns import ChooseColumns
from jobtop.tui.dialogs.confirm import Confirm
from jobtop.tui.dialogs.export_form import ExportForm
from jobtop.tui.dialogs.fields import Tick
from jobtop.tui.dialogs.leaving import Leaving
from jobtop.tui.dialogs.mute_form import MuteAnswer, MuteForm
from jobtop.tui.dialogs.rule_form import RuleForm
from jobtop.tui.dialogs.run_again import RunAgain
from jobtop.tui.dialogs.run_form import CommandLine, RunForm
from jobtop.tui.screens import settings
from jobtop.tui.screens.alerts import Alerts
from jobtop.tui.screens.compare import Compare
from jobtop.tui.screens.container.page import Containers
from jobtop.tui.screens.dashboard import Dashboard
from jobtop.tui.screens.help import HelpScreen
from jobtop.tui.screens.history import History
from jobtop.tui.screens.host import HostScreen
from jobtop.tui.screens.job.screen import JobScreen
from jobtop.tui.screens.processes import Processes
from jobtop.tui.screens.queue import QueuePage
from jobtop.tui.screens.settings import SettingsPage
from jobtop.tui.screens.workflow.page import Workflows as WorkflowsPage
from jobtop.tui.screens.workflow.screen import WorkflowScreen
from jobtop.tui.widgets.filter_line import Field, FilterLine
from jobtop.tui.widgets.host_strip import HostStrip
from jobtop.tui.widgets.job_graph import JobGraph
from jobtop.tui.widgets.line_field import Line, LineField
from jobtop.tui.widgets.log_view import LogView
from jobtop.tui.widgets.output_rows import GoTo
from jobtop.tui.widgets.output_view import OutputView, SearchLine
from jobtop.tui.widgets.prose import Prose
from jobtop.tui.widgets.table import Table
from jobtop.tui.widgets.tables.processes import ProcessTree
from records import HERE, NO_PROCESS, kept_jobs, made_job, queued_job, running_job, this_process
from running import nothing_is_left
from sampled import kept_sampled, steady
from support import Jobtop, wait_for
from visiting import Visitor, visit

__all__ = ["nothing_is_left"]

QUIT, STARTING = "app.quit", ("jobs.again", "jobs.retry")
# Places that are tested in one console; the first list gets each new place.
ELSEWHERE = (
    ("chart", "job", "log", "search", "typing"),
    ("form", "tick", "command"),
    ("history", "filter", "compare", "settings"),
    ("containers", "container", "container_list", "line", "lines"),
    ("alerts", "mute"),
    ("workflows", "workflow", "graph", "queue"),
    ("processes",),
)
NAMED = {place for places in ELSEWHERE for place in places}
PLACES = (tuple(sorted({action.place for action in ACTIONS} - NAMED)), *ELSEWHERE)
DEADLINE_SECONDS = 10.0
SIZE = (120, 30)
BUSY = (
    "output",
    "search",
    "reading",
    "history",
    "compare",
    "workflow",
    "workflows",
    "queue",
    "act",
)  # groups of workers that finish soon
JOB_ID = "5a17e924-0000-4000-8000-000000000000"
JOBS = 60
MIDDLE = 30
Kind = TypeVar("Kind", bound=Widget)
Shown = TypeVar("Shown", bound=Screen[Any])


SUSPENSIONS: list[int] = []


class Case(NamedTuple):
    """How to reach the place of an action, what to observe, and how that differs before and after the key."""

    ready: Callable[[Visitor], Awaitable[object]]
    look: Callable[[Visitor], Any]
    holds: Callable[[Any, Any], bool]


async def until(holds: Callable[[], object], words: str = "") -> None:
    """Wait until a condition is true; the pauses of a pilot are longer than most keys take."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, words
        await asyncio.sleep(0.003)


async def settled(visitor: Visitor) -> None:
    """Wait until everything is done and painted, and nothing is being read."""
    for _ in range(2):
        painted = asyncio.Event()
        visitor.console.call_after_refresh(painted.set)
        await until(painted.is_set)
    await until(lambda: not [work for work in visitor.console.workers if work.group in BUSY and not work.is_finished])


def one(visitor: Visitor, kind: type[Kind]) -> Kind:
    """The focused widget if it is of this kind, else the first one of this kind."""
    focused = visitor.console.screen.focused
    return focused if isinstance(focused, kind) else visitor.console.screen.query(kind).first(kind)


def page(visitor: Visitor, kind: type[Shown]) -> Shown:
    """The current screen, which must be of this kind."""
    screen = visitor.console.screen
    assert isinstance(screen, kind)
    return screen


def kind_of_screen(visitor: Visitor) -> type[Screen[Any]]:
    return type(visitor.console.screen)


def comes_to(kind: type[Screen[Any]]) -> Callable[[Any, Any], bool]:
    return lambda before, after: before is not kind and after is kind


def differs(before: Any, after: Any) -> bool:
    return bool(before != after)


def less(before: Any, after: Any) -> bool:
    return bool(after < before)


def more(before: Any, after: Any) -> bool:
    return bool(after > before)


async def at_dashboard(visitor: Visitor) -> None:
    """Put the cursor in the middle of the jobs."""
    await visitor.console.action_go("dashboard")
    table = visitor.console.screen.query_one("#jobs", Table)
    await until(lambda: len(table.source or ()) >= JOBS)
    table.focus()
    table.marks = ()
    assert table.source is not None
    table.select(table.source.key(table.source.window(MIDDLE, MIDDLE + 1)[0]))


async def at_history(visitor: Visitor) -> None:
    await visitor.console.action_go("history")
    page = visitor.console.screen
    assert isinstance(page, History)
    await until(lambda: page.lines.source)
    if page.is_grouped:
        page.action_group()
    page.lines.focus()


def job_pane(name: str, set_up: Callable[[Any], object] = bool) -> Callable[[Visitor], Awaitable[None]]:
    """Open a pane of the job that has everything, and set it up."""

    async def ready(visitor: Visitor) -> None:
        console = visitor.console
        if not isinstance(console.screen, JobScreen):
            await console.action_go("dashboard")
            await console.open_job(JOB_ID)
            await until(lambda: isinstance(console.screen, JobScreen) and console.screen.job_view)
        screen = console.screen
        assert isinstance(screen, JobScreen)
        screen.go_to(None)
        pane = screen.open_pane(name)
        await until(lambda: pane.has_focus and (not isinstance(pane, OutputView) or pane.shown.rows))
        set_up(pane)
        await settled(visitor)

    return ready


def output(*actions: str, left: int = 0) -> Callable[[Visitor], Awaitable[None]]:
    """Open the output, at its end unless moved by actions."""

    def set_up(view: OutputView) -> None:
        for action in ("last", *actions):
            getattr(view, f"action_{action}")()
        view._left = left

    return job_pane("output", set_up)


def at_match(view: OutputView) -> None:
    """Move to the middle of the output."""
    view.needle, view.match_place = "line", 300 * LINE
    view.move(GoTo(300 * LINE))


def chart(window: TimeWindow) -> Callable[[Visitor], Awaitable[None]]:
    return job_pane("cpu", lambda pane: setattr(pane, "window", window))


def shown(visitor: Visitor) -> int:
    return one(visitor, OutputView).shown.start


def span(visitor: Visitor) -> float:
    return one(visitor, Chart).window.span or float("inf")


def end(visitor: Visitor) -> float:
    return one(visitor, Chart).window.end or float("inf")


def row(visitor: Visitor) -> int:
    return one(visitor, Table)._cursor


def focused_id(visitor: Visitor) -> str | None:
    pane = visitor.console.screen.focused
    return None if pane is None else pane.id


def focused(visitor: Visitor) -> object:
    return visitor.console.screen.focused


async def past(visitor: Visitor) -> None:
    """Open the screen of a job, at a moment of its past."""
    await job_pane("cpu")(visitor)
    screen = visitor.console.screen
    assert isinstance(screen, JobScreen)
    screen.go_to(60.0)


async def searching(visitor: Visitor) -> None:
    """Open the search field of the output."""
    await output()(visitor)
    one(visitor, OutputView).action_search()
    await until(lambda: isinstance(focused(visitor), SearchLine))


async def at_help(visitor: Visitor) -> None:
    await at_dashboard(visitor)
    await visitor.console.action_help()
    await settled(visitor)


async def at_text(visitor: Visitor) -> None:
    """Open a text that is longer than the screen, at its middle."""
    if not isinstance(visitor.console.screen, HelpScreen):
        await at_help(visitor)
    text = one(visitor, Prose)
    await until(lambda: text.max_scroll_y > 20)
    text.scroll_to(y=10, animate=False)


def scrolled(visitor: Visitor) -> float:
    return one(visitor, Prose).scroll_y


def asking(question: Callable[[], Screen[Any]]) -> Callable[[Visitor], Awaitable[None]]:
    """Open a question over the dashboard; its answer is kept."""

    async def ready(visitor: Visitor) -> None:
        await at_dashboard(visitor)
        ANSWERS.clear()
        await visitor.console.push_screen(question(), ANSWERS.append)
        await settled(visitor)

    return ready


ANSWERS: list[Any] = []


def answered(answer: object) -> Case:
    return Case(asking(lambda: Confirm("?", [])), lambda _: list(ANSWERS), lambda _, after: after == [answer])


def left(answer: object) -> Case:
    return Case(asking(lambda: Leaving("train")), lambda _: list(ANSWERS), lambda _, after: after == [answer])


def asked_again(answer: object) -> Case:
    return Case(asking(lambda: RunAgain(1, [])), lambda _: list(ANSWERS), lambda _, after: after == [answer])


def muted(seconds: float | None) -> Case:
    return Case(
        asking(lambda: MuteForm("busy", "train")),
        lambda _: list(ANSWERS),
        lambda _, after: after == [MuteAnswer(False, seconds)],
    )


async def at_queue(visitor: Visitor) -> None:
    await visitor.console.action_go("queue")
    screen = page(visitor, QueuePage)
    await until(lambda: screen.rows and screen.table.cursor_row)
    screen.table.focus()


def first_priority(visitor: Visitor) -> int:
    queued = page(visitor, QueuePage).rows[0].job.queue
    assert queued is not None
    return queued.priority


def at_run(run_id: int) -> Callable[[Visitor], Awaitable[None]]:
    """Open a run of the workflow: the first has ended, the second goes on."""

    async def ready(visitor: Visitor) -> None:
        own = visitor.console.options.own
        assert own is not None
        await visitor.console.action_go("workflows")
        await visitor.console.open_workflow(own.store, 1, run_id)
        screen = page(visitor, WorkflowScreen)
        await until(lambda: screen.run_view is not None and screen.focused is not None)

    return ready


def at_graph(name: str) -> Callable[[Visitor], Awaitable[None]]:
    async def ready(visitor: Visitor) -> None:
        await at_run(2)(visitor)
        page(visitor, WorkflowScreen).open_pane("graph")
        await until(lambda: one(visitor, JobGraph).rows)
        one(visitor, JobGraph).select(name)

    return ready


def shown_run(visitor: Visitor) -> int | None:
    view = page(visitor, WorkflowScreen).run_view
    return None if view is None else view.run.run_id


async def at_alerts(visitor: Visitor) -> None:
    """Open the alerts with the cursor on an alert that is new, and the history of a day."""
    own = visitor.console.options.own
    assert own is not None
    job = await visitor.console.reader.read(own.store, lambda database: Jobs(database).find("job-0"))
    RAISED.append(1)
    raise_alert(own.root, job, replace(RULES["job-memory-limit"], name=f"rule {len(RAISED)}"))
    await visitor.console.action_go("alerts")
    alerts = page(visitor, Alerts)
    alerts.window = 86400.0
    table = alerts.active
    await until(lambda: alerts.rules and new_alert(alerts) is not None)
    table.focus()
    table.marks = ()
    table.select(new_alert(alerts))


def new_alert(alerts: Alerts) -> str | None:
    return next((found.key for found in alerts.listed.new if found.rule is not None), None)


async def at_rules(visitor: Visitor) -> None:
    await at_alerts(visitor)
    visitor.console.screen.query_one("#rules").focus()


async def at_muted(visitor: Visitor) -> None:
    await at_alerts(visitor)
    own = visitor.console.options.own
    assert own is not None
    incident = page(visitor, Alerts).chosen_incident
    assert incident is not None
    mute(own.store, MarkKind.MUTE_RULE, str(incident.rule), None)


async def alerted_job(visitor: Visitor) -> None:
    """Open the dashboard with the cursor on a job that has a new alert."""
    await at_dashboard(visitor)
    own, table = visitor.console.options.own, one(visitor, Table)
    assert own is not None
    assert table.source is not None
    raise_alert(own.root, table.source.window(MIDDLE, MIDDLE + 1)[0].job)


RAISED: list[int] = []


def acknowledged(visitor: Visitor) -> int:
    database = open_to_read(visitor.console.options.stores[0])
    try:
        return sum(alert.acknowledged_at is not None for alert in AlertStore(database).listing())
    finally:
        database.close()


def marks(visitor: Visitor, kind: MarkKind) -> list[Mark]:
    database = open_to_read(visitor.console.options.stores[0])
    try:
        return Marks(database).all(kind)
    finally:
        database.close()


async def at_form(visitor: Visitor) -> None:
    """Open the empty form that runs a job."""
    if not isinstance(visitor.console.screen, RunForm):
        await at_dashboard(visitor)
        await visitor.console.action_run_form()
    form = visitor.console.screen
    await until(lambda: any(line.past for line in form.query(CommandLine)))
    line = form.query_one(CommandLine)
    line.value = ""
    line.focus()


async def at_older(visitor: Visitor) -> None:
    """Open the form with an earlier command in it."""
    await at_form(visitor)
    one(visitor, CommandLine).action_older()


def in_form(selector: str) -> Callable[[Visitor], Awaitable[None]]:
    """Open the form with the focus on one of its parts."""

    async def ready(visitor: Visitor) -> None:
        await at_form(visitor)
        visitor.console.screen.query_one(selector).focus()
        await settled(visitor)

    return ready


async def at_export(visitor: Visitor) -> None:
    """Open the export form with the path of a new file."""
    await at_dashboard(visitor)
    page = visitor.console.screen
    assert isinstance(page, Dashboard)
    await page.action_export_job()
    await settled(visitor)
    editor = one(visitor, Input)
    (Path.cwd() / "samples.csv").unlink(missing_ok=True)
    editor.value = str(Path.cwd() / "samples.csv")


async def at_compare(visitor: Visitor) -> None:
    await marked_two(visitor)
    page = visitor.console.screen
    assert isinstance(page, Dashboard)
    await page.action_compare_marked()
    await until(lambda: visitor.console.pages["compare"].query(Table))


async def marked_two(visitor: Visitor) -> None:
    await at_dashboard(visitor)
    one(visitor, Table).action_mark()
    one(visitor, Table).action_mark()


async def at_containers(visitor: Visitor) -> None:
    """Open the containers, with the cursor on the first."""
    await visitor.console.action_go("containers")
    containers = page(visitor, Containers)
    visitor.console.copy_to_clipboard("")
    visitor.console.clear_notifications()
    containers.query_one(LineField).clear()
    await until(lambda: containers.shown and not containers.words)
    containers.table.focus()
    await settled(visitor)


def typing_words(text: str) -> Callable[[Visitor], Awaitable[None]]:
    """Open the filter of containers with some text in it."""

    async def ready(visitor: Visitor) -> None:
        await at_containers(visitor)
        containers = page(visitor, Containers)
        containers.query_one(LineField).edit(text)
        await until(lambda: containers.words == (text,) and isinstance(focused(visitor), Line))

    return ready


async def filtered_containers(visitor: Visitor) -> None:
    await typing_words("w")(visitor)
    page(visitor, Containers).table.focus()
    await settled(visitor)


async def at_container(visitor: Visitor) -> None:
    """Open the screen of a container, with the focus on its log."""
    await at_containers(visitor)
    await visitor.console.open_container(page(visitor, Containers).shown[0].key)
    await until(lambda: isinstance(focused(visitor), LogView))


def asks_for_container(title: str) -> Case:
    return Case(at_containers, visible, lambda before, after: title not in before and title in after)


async def at_processes(visitor: Visitor) -> None:
    """Open the processes, with the cursor on the first."""
    await visitor.console.action_go("processes")
    processes = page(visitor, Processes)
    visitor.console.copy_to_clipboard("")
    visitor.console.clear_notifications()
    processes.query_one(LineField).clear()
    await until(lambda: processes.rows is not None and not processes.words)
    processes.table.focus()
    await settled(visitor)


async def filtered_processes(visitor: Visitor) -> None:
    await at_processes(visitor)
    processes = page(visitor, Processes)
    processes.query_one(LineField).edit("work")
    await until(lambda: processes.words == ("work",))
    processes.table.focus()


def asks_for_process(title: str) -> Case:
    return Case(at_processes, visible, lambda before, after: title not in before and title in after)


async def at_settings(visitor: Visitor) -> None:
    await visitor.console.action_go("settings")
    page = visitor.console.screen
    await until(lambda: isinstance(page, SettingsPage) and not page._is_asking)


async def at_host(visitor: Visitor) -> None:
    """Open the Host screen, with one more store to show."""
    await visitor.console.action_go("dashboard")
    await visitor.console.action_host()
    screen = page(visitor, HostScreen)
    screen.places = [*screen.places, (Path("/no/such/store.db"), None)]


async def at_strip(visitor: Visitor) -> None:
    await at_dashboard(visitor)
    visitor.console.screen.query_one(HostStrip).focus()


def typing(text: str) -> Callable[[Visitor], Awaitable[None]]:
    """Open the filter with some text in it."""

    async def ready(visitor: Visitor) -> None:
        await at_history(visitor)
        page = visitor.console.screen
        assert isinstance(page, History)
        page.apply("")
        await page.action_filter()
        field = one(visitor, Field)
        await until(lambda: field.has_focus and field.line.values)
        field.value = text
        field.cursor_position = len(text)
        await settled(visitor)

    return ready


async def filtered(visitor: Visitor) -> None:
    """Open the history with a filter that is applied."""
    await typing("name:job-7")(visitor)
    page(visitor, History).query_one(FilterLine)._apply("name:job-7", is_final=True)
    await until(lambda: page(visitor, History).text and isinstance(focused(visitor), Table))


async def at_real_job(visitor: Visitor) -> None:
    """Open the dashboard with the cursor on a job that has run and can be run again."""
    await visitor.console.action_go("dashboard")
    paths = visitor.console.options.own
    assert paths is not None
    config = load((), os.environ, paths.root.parent)
    job, _ = start_and_stay(paths, config, Request(("true",), str(paths.root.parent)), pytest.fail)
    table = visitor.console.screen.query_one("#jobs", Table)
    visitor.console.feed.poll_now()
    await until(lambda: (known := visitor.console.row(job.id)) is not None and known.job.status.ended)
    await until(lambda: table.select(job.id))


def pinned_jobs(visitor: Visitor) -> list[str]:
    assert visitor.console.view is not None
    return [known.job.id for known in visitor.console.view.rows if known.job.pinned]


def goes(name: str, elsewhere: str) -> Case:
    async def ready(visitor: Visitor) -> None:
        await visitor.console.action_go(elsewhere)

    return Case(
        ready, lambda visitor: visitor.console.screen.name or page_name(visitor), lambda _, after: after == name
    )


def page_name(visitor: Visitor) -> str:
    return next((name for name, page in visitor.console.pages.items() if page is visitor.console.screen), "")


def asks(title: str) -> Case:
    return Case(at_dashboard, visible, lambda before, after: title not in before and title in after)


async def counting_suspensions(visitor: Visitor) -> None:
    """Count instead of stopping the tests; tests/integration/test_console.py suspends a console."""
    await at_dashboard(visitor)
    visitor.console.action_suspend_process = lambda: SUSPENSIONS.append(1)  # type: ignore[method-assign]


def visible(visitor: Visitor) -> str:
    return visitor.screen()


def field_value(visitor: Visitor) -> str:
    return one(visitor, Field).value


CASES: dict[str, Case] = {
    "go.dashboard": goes("dashboard", "history"),
    **{f"go.{name}": goes(name, "dashboard") for name in ("history", "compare", "containers", "alerts", "settings")},
    "go.queue": Case(at_dashboard, kind_of_screen, comes_to(QueuePage)),
    "go.processes": goes("processes", "dashboard"),
    "go.workflows": Case(at_dashboard, kind_of_screen, comes_to(WorkflowsPage)),
    "app.help": Case(at_dashboard, kind_of_screen, comes_to(HelpScreen)),
    "app.run": Case(at_dashboard, kind_of_screen, comes_to(RunForm)),
    "app.host": Case(at_dashboard, kind_of_screen, comes_to(HostScreen)),
    "app.freeze": Case(at_dashboard, lambda visitor: visitor.console.is_frozen, differs),
    "app.theme": Case(at_dashboard, lambda visitor: visitor.console.theme, differs),
    "app.maximize": Case(at_dashboard, lambda visitor: visitor.console.screen.maximized, differs),
    "app.next_pane": Case(job_pane("cpu"), focused, differs),
    "app.previous_pane": Case(job_pane("cpu"), focused, differs),
    "app.palette": Case(at_dashboard, kind_of_screen, comes_to(ActionPalette)),
    "app.back": Case(job_pane("cpu"), kind_of_screen, comes_to(Dashboard)),
    "app.suspend": Case(counting_suspensions, lambda _: len(SUSPENSIONS), more),
    "app.quit": Case(at_dashboard, lambda visitor: visitor.console._exit, more),
    "table.up": Case(at_dashboard, row, lambda before, after: after == before - 1),
    "table.down": Case(at_dashboard, row, lambda before, after: after == before + 1),
    "table.page_up": Case(at_dashboard, row, lambda before, after: after < before - 1),
    "table.page_down": Case(at_dashboard, row, lambda before, after: after > before + 1),
    "table.first": Case(at_dashboard, row, lambda _, after: after == 0),
    "table.last": Case(at_dashboard, row, lambda _, after: after >= JOBS - 1),
    "table.activate": Case(at_dashboard, kind_of_screen, comes_to(JobScreen)),
    "table.mark": Case(at_dashboard, lambda visitor: len(one(visitor, Table).marks), more),
    "table.sort": Case(at_dashboard, lambda visitor: one(visitor, Table).sort, differs),
    "table.reverse": Case(
        at_dashboard,
        lambda visitor: one(visitor, Table).sort,
        lambda before, after: (after.key, after.descending) == (before.key, not before.descending),
    ),
    "chart.shorter": Case(chart(TimeWindow(300.0)), span, less),
    "chart.longer": Case(chart(TimeWindow(60.0)), span, more),
    "chart.zoom_in": Case(chart(TimeWindow(300.0)), span, less),
    "chart.zoom_out": Case(chart(TimeWindow(60.0)), span, more),
    "chart.left": Case(chart(TimeWindow(60.0)), end, less),
    "chart.right": Case(chart(TimeWindow(60.0, 300.0)), end, more),
    "chart.cursor": Case(job_pane("cpu"), lambda visitor: one(visitor, Chart).cursor, differs),
    "host.next": Case(at_host, lambda visitor: page(visitor, HostScreen).place, differs),
    "strip.open": Case(at_strip, kind_of_screen, comes_to(HostScreen)),
    "job.live": Case(
        past,
        lambda visitor: (kind_of_screen(visitor), getattr(visitor.console.screen, "moment", 0)),
        lambda before, after: before == (JobScreen, 60.0) and after == (JobScreen, None),
    ),
    "job.type": Case(job_pane("cpu"), lambda visitor: len(visitor.console._notifications), more),
    "job.files": Case(job_pane("cpu"), focused_id, lambda before, after: (before, after) == ("cpu", "files")),
    "job.connections": Case(
        job_pane("cpu"), focused_id, lambda before, after: (before, after) == ("cpu", "connections")
    ),
    "job.alerts": Case(job_pane("cpu"), focused_id, lambda before, after: (before, after) == ("cpu", "alerts")),
    "job.threads": Case(job_pane("cpu"), lambda visitor: one(visitor, ProcessTree).shows_threads, more),
    "typing.end": Case(
        job_pane("output", lambda view: view.begin_typing("train")),
        lambda visitor: one(visitor, OutputView).takes_all_keys,
        less,
    ),
    "log.up": Case(output(), shown, lambda before, after: after == before - LINE),
    "log.down": Case(output("first"), shown, lambda before, after: after == before + LINE),
    "log.page_up": Case(output(), shown, lambda before, after: after < before - LINE),
    "log.page_down": Case(output("first"), shown, lambda before, after: after > before + LINE),
    "log.first": Case(output(), shown, lambda before, after: after == 0 < before),
    "log.last": Case(output("first"), lambda visitor: one(visitor, OutputView).is_following, more),
    "log.left": Case(output(left=32), lambda visitor: one(visitor, OutputView)._left, less),
    "log.right": Case(output(), lambda visitor: one(visitor, OutputView)._left, more),
    "log.search": Case(output(), lambda visitor: isinstance(focused(visitor), SearchLine), more),
    "log.next": Case(job_pane("output", at_match), lambda visitor: one(visitor, OutputView).match_place, more),
    "log.previous": Case(job_pane("output", at_match), lambda visitor: one(visitor, OutputView).match_place, less),
    "log.streams": Case(output(), lambda visitor: one(visitor, OutputView).streams, differs),
    "search.leave": Case(
        searching,
        lambda visitor: type(focused(visitor)),
        lambda before, after: (before, after) == (SearchLine, OutputView),
    ),
    "jobs.filter": Case(at_history, lambda visitor: isinstance(focused(visitor), Field), more),
    "jobs.clear": Case(filtered, lambda visitor: page(visitor, History).text, lambda _, after: after == ""),
    "jobs.columns": Case(at_dashboard, kind_of_screen, comes_to(ChooseColumns)),
    "jobs.stop": asks("Stop this job?"),
    "jobs.kill": asks("Kill this job?"),
    "jobs.pause": asks("Pause this job?"),
    "jobs.again": Case(at_real_job, kind_of_screen, comes_to(RunForm)),
    "jobs.retry": Case(at_real_job, kind_of_screen, comes_to(RunAgain)),
    "jobs.pin": Case(at_dashboard, pinned_jobs, differs),
    "jobs.acknowledge": Case(alerted_job, acknowledged, more),
    "jobs.compare": Case(marked_two, kind_of_screen, comes_to(Compare)),
    "jobs.export": Case(at_dashboard, kind_of_screen, comes_to(ExportForm)),
    "jobs.copy": Case(at_dashboard, lambda visitor: visitor.console.clipboard, differs),
    "history.group": Case(at_history, lambda visitor: getattr(visitor.console.screen, "is_grouped", None), more),
    "compare.align": Case(at_compare, lambda visitor: page(visitor, Compare).alignment, differs),
    "queue.sooner": Case(at_queue, first_priority, more),
    "queue.later": Case(at_queue, first_priority, less),
    "containers.filter": Case(at_containers, lambda visitor: isinstance(focused(visitor), Line), more),
    "containers.clear": Case(
        filtered_containers, lambda visitor: page(visitor, Containers).words, lambda _, after: after == ()
    ),
    "containers.all": Case(at_containers, lambda visitor: visitor.console.container_feed.every, differs),
    "containers.columns": Case(at_containers, kind_of_screen, comes_to(ChooseColumns)),
    "containers.stop": asks_for_container("Stop this container?"),
    "containers.kill": asks_for_container("Kill this container?"),
    "containers.pause": asks_for_container("Pause this container?"),
    "containers.restart": asks_for_container("Restart this container?"),
    "containers.job": Case(at_containers, lambda visitor: len(visitor.console._notifications), more),
    "containers.copy": Case(at_containers, lambda visitor: visitor.console.clipboard, differs),
    "container.inspect": Case(at_container, focused_id, lambda before, after: (before, after) == ("logs", "inspect")),
    "lines.filter": Case(at_container, lambda visitor: isinstance(focused(visitor), Line), more),
    "line.apply": Case(
        typing_words("w"),
        lambda visitor: type(focused(visitor)),
        lambda before, after: (before, after) == (Line, Table),
    ),
    "line.leave": Case(
        typing_words("w"), lambda visitor: page(visitor, Containers).words, lambda before, after: before and after == ()
    ),
    "alerts.acknowledge": Case(at_alerts, acknowledged, more),
    "alerts.mute": Case(at_alerts, kind_of_screen, comes_to(MuteForm)),
    "alerts.unmute": Case(at_muted, lambda visitor: len(marks(visitor, MarkKind.MUTE_RULE)), less),
    "alerts.edit": Case(at_rules, kind_of_screen, comes_to(RuleForm)),
    "alerts.shorter": Case(at_alerts, lambda visitor: page(visitor, Alerts).window, less),
    "alerts.longer": Case(at_alerts, lambda visitor: page(visitor, Alerts).window, more),
    "processes.filter": Case(at_processes, lambda visitor: isinstance(focused(visitor), Line), more),
    "processes.clear": Case(
        filtered_processes, lambda visitor: page(visitor, Processes).words, lambda before, after: before > after
    ),
    "processes.tree": Case(at_processes, lambda visitor: page(visitor, Processes).is_tree, differs),
    "processes.attach": Case(at_processes, lambda visitor: len(visitor.console._notifications), more),
    "processes.stop": asks_for_process("Stop this process?"),
    "processes.kill": asks_for_process("Kill this process?"),
    "processes.copy": Case(at_processes, lambda visitor: visitor.console.clipboard, differs),
    "workflows.cancel": Case(at_run(2), kind_of_screen, comes_to(Confirm)),
    "workflows.retry": Case(at_run(1), lambda visitor: len(visitor.console._notifications), more),
    "workflow.earlier": Case(at_run(2), shown_run, lambda before, after: (before, after) == (2, 1)),
    "workflow.later": Case(at_run(1), shown_run, lambda before, after: (before, after) == (1, 2)),
    "graph.left": Case(at_graph("b"), lambda visitor: one(visitor, JobGraph).selected, lambda _, after: after == "a"),
    "graph.right": Case(at_graph("a"), lambda visitor: one(visitor, JobGraph).selected, lambda _, after: after == "b"),
    "filter.apply": Case(
        typing("name:job-7"),
        lambda visitor: (type(focused(visitor)), page(visitor, History).text),
        lambda before, after: before[0] is Field and after == (Table, "name:job-7"),
    ),
    "filter.take": Case(typing("stat"), field_value, lambda before, after: (before, after) == ("stat", "status:")),
    "filter.leave": Case(typing("stat"), lambda visitor: type(focused(visitor)), lambda _, after: after is Table),
    "text.up": Case(at_text, scrolled, lambda before, after: after == before - 1),
    "text.down": Case(at_text, scrolled, lambda before, after: after == before + 1),
    "text.page_up": Case(at_text, scrolled, less),
    "text.page_down": Case(at_text, scrolled, lambda before, after: after > before + 1),
    "text.first": Case(at_text, scrolled, lambda before, after: after == 0 < before),
    "text.last": Case(at_text, lambda visitor: one(visitor, Prose).is_vertical_scroll_end, more),
    "settings.again": Case(at_settings, lambda _: len(LOOKS), more),
    "confirm.yes": answered(True),
    "confirm.no": answered(False),
    "leaving.detach": left("detach"),
    "leaving.stop": left("stop"),
    "leaving.stay": left(None),
    "again.now": asked_again("now"),
    "again.queue": asked_again("queue"),
    "again.cancel": asked_again(None),
    "mute.hour": muted(3600.0),
    "mute.hours": muted(4 * 3600.0),
    "mute.day": muted(24 * 3600.0),
    "mute.always": muted(None),
    "mute.switch": Case(
        asking(lambda: MuteForm("busy", "train")), lambda visitor: page(visitor, MuteForm).is_job, differs
    ),
    "mute.cancel": Case(
        asking(lambda: MuteForm("busy", "train")), lambda _: list(ANSWERS), lambda _, after: after == [None]
    ),
    "form.submit": Case(at_export, lambda _: (Path.cwd() / "samples.csv").exists(), more),
    "form.leave": Case(at_form, kind_of_screen, comes_to(Dashboard)),
    "form.next": Case(in_form("#name Input"), focused, differs),
    "form.previous": Case(in_form("#name Input"), focused, differs),
    "form.tick": Case(in_form("#shell"), lambda visitor: one(visitor, Tick).value, differs),
    "form.older": Case(at_form, lambda visitor: one(visitor, CommandLine).value, differs),
    "form.newer": Case(at_older, lambda visitor: one(visitor, CommandLine).value, lambda _, after: not after),
    "help.close": Case(at_help, kind_of_screen, comes_to(Dashboard)),
}
LINE = 9  # bytes of a line of the output
LOOKS: list[object] = []


def examined(*asked: object) -> Topics:
    """Pretend to examine this machine, and find nothing."""
    LOOKS.append(asked)
    return {}


def keep_workflow(home: Path, ended: str) -> None:
    """Store a workflow with two runs: in the second one the second job runs."""
    database = open_to_write(StatePaths(home, HERE))
    try:
        live = Jobs(database).find("job-0").id
        workflows = Workflows(database)
        number = workflows.add("sweep", str(home / "gone.yaml"), str(home), HERE, "ada")
        for second in (ended, live):
            run_id = workflows.add_run(number, {})
            workflows.add_jobs(number, run_id, [RunJob(0, "a", JOB, ended), RunJob(1, "b", JOB, second, after=("a",))])
    finally:
        database.close()


@pytest.fixture
def options(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    """A console with its own store: running jobs, and an ended one that has everything a job can have."""
    paths, us = StatePaths(home, HERE), this_process()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("textual.screen.UPDATE_PERIOD", 0.006)  # seconds; each painting waits for one period
    monkeypatch.setattr(settings, "examine", examined)
    kept_jobs(home, *(running_job(name=f"job-{number}", shim=us, recorder=us) for number in range(JOBS)))
    kept_jobs(home, queued_job(name="waits"))
    job = kept_sampled(home, made_job(id=JOB_ID, duration_seconds=600.0, end_time=1_700_000_600.5), steady(599))
    keep_workflow(home, str(job.id))
    directory = paths.job(job.id)
    directory.mkdir(parents=True)
    lines = "".join(f"line {number:03}\n" for number in range(600))
    (directory / "stdout.log").write_text(lines + "x" * 500)
    config = load((), os.environ, tmp_path, root=tmp_path)
    processes = StillProcesses(still_process(NO_PROCESS, uid=os.geteuid()))
    containers = StillContainers(still_row("web"))
    return Options([paths.store], own=paths, config=config, containers=containers, processes=processes)


def test_every_action_is_expected_to_do_something() -> None:
    assert list(CASES) == sorted(CASES, key=[action.id for action in ACTIONS].index)
    assert CASES.keys() == {action.id for action in ACTIONS}


@pytest.mark.parametrize("places", PLACES, ids=" ".join)
def test_every_key_does_what_it_says(options: Options, places: tuple[str, ...]) -> None:
    actions = [action for action in ACTIONS if action.place in places and action.id not in (QUIT, *STARTING)]
    visit(options.stores[0].parent, lambda visitor: press_all(visitor, actions), SIZE, options)


def test_every_key_that_runs_a_job_again_asks_how(jobtop: Jobtop, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in jobtop.env.items():
        monkeypatch.setenv(name, value)
    paths = StatePaths(jobtop.state, HERE)
    actions = [BY_ID[name] for name in STARTING]
    visit(paths.root, lambda visitor: press_all(visitor, actions), SIZE, Options([paths.store], own=paths))
    wait_for(lambda: "queued" not in jobtop("history", "--json").stdout)


@pytest.mark.parametrize("key", BY_ID[QUIT].keys.split(","))
def test_every_key_that_leaves_leaves(options: Options, key: str) -> None:
    visit(options.stores[0].parent, lambda visitor: press(visitor, CASES[QUIT], key), SIZE, options)


async def press_all(visitor: Visitor, actions: list[Action]) -> None:
    for action in actions:
        for key in action.keys.split(","):
            assert action.id in CASES, f"what does {action.id} do?"
            await press(visitor, CASES[action.id], key)
            await settled(visitor)


async def press(visitor: Visitor, case: Case, key: str) -> None:
    """Press a key and wait for its effect."""
    await case.ready(visitor)
    await settled(visitor)
    before = case.look(visitor)
    assert not case.holds(before, before), f"{key} would have nothing to do: {before}"
    visitor.console.post_message(events.Key(key, key_to_character(key)))
    await until(lambda: case.holds(before, case.look(visitor)), f"{key} did nothing to {before}")


def test_what_a_key_is_bound_to_is_there(options: Options) -> None:
    async def scene(visitor: Visitor) -> None:
        for page in PAGES:
            await visitor.console.action_go(page)
            await settled(visitor)
            check_bindings(visitor)
        await job_pane("cpu")(visitor)
        for _ in range(8):
            check_bindings(visitor)
            visitor.console.action_focus_next()

    visit(options.stores[0].parent, scene, SIZE, options)


def check_bindings(visitor: Visitor) -> None:
    """Check that every binding of the screen reaches an existing action."""
    for key, active in visitor.console.screen.active_bindings.items():
        if active.binding.id in BY_ID:
            call = active.binding.action.partition("(")[0]
            node, name = active.node, f"action_{call.removeprefix('app.')}"
            node = visitor.console if call.startswith("app.") else node
            assert hasattr(node, name), f"{key} on {visitor.console.screen}: {node} has no {name}"
