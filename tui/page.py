"""What all screens of the console share: the line at the top, the keys at the bottom, and the view to show."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.notifications import SeverityLevel
from textual.reactive import reactive
from textual.screen import Screen
from textual.strip import Strip

from jobtop.core.model import Job, Status
from jobtop.core.run.outcome import signal_name
from jobtop.tui.actions import ACTIONS, APP, Action, bindings, key_words
from jobtop.tui.data.incidents import Incidents, IncidentWatch, count_label
from jobtop.tui.data.view import View
from jobtop.tui.keymap import active_keys, shown_key
from jobtop.tui.palette import STATUS_GLYPHS, Tone
from jobtop.tui.widgets.cells import Span, aligned, safe_text, width_of
from jobtop.tui.widgets.painting import ASCII_CLASS, Inks, Painted
from jobtop.tui.widgets.problem_line import ProblemLine

if TYPE_CHECKING:
    from jobtop.core.measure.live.machine_processes import ProcessMoment
    from jobtop.tui.app import Console
    from jobtop.tui.chart.window import TimeWindow

WITH_TITLES = 136  # columns from which all tabs have titles
WITH_PALETTE = 70
GAP = "   "
MOST_NAMED = 6  # in one notification or question
LAST_KEYS = (
    "app.help",
    "search.leave",
    "filter.leave",
    "line.leave",
    "jobs.clear",
    "containers.clear",
    "processes.clear",
    "job.live",
    "app.back",
    "app.quit",
)  # always shown
TABS = tuple(action for action in ACTIONS if action.id.startswith("go."))


def agent_words(view: View) -> list[Span]:
    """Whether an agent starts queued jobs; a missing agent is mentioned only if jobs are queued."""
    if view.has_agent:
        return [Span(" · agent", Tone.GREY)]
    return [Span(" · no agent", Tone.YELLOW, True)] if view.has_agent is False and view.waiting else []


def job_counts(view: View) -> str:
    """`7 running · 1 stale · 2 queued`."""
    counts = [f"{view.running} running"]
    counts += [f"{number} {word}" for number, word in ((view.stale, "stale"), (view.waiting, "queued")) if number]
    return " · ".join(counts)


def short_job_counts(view: View) -> str:
    """`7 run · 2 queued`, where there is little room."""
    return f"{view.running} run" + (f" · {view.waiting} queued" if view.waiting else "")


class TopLine(Painted):
    """The top line: `jobtop  1 Dash  2 History …      ● live 1.0s   7 running · 1 queued   ▲3   12:41:09`."""

    DEFAULT_CSS = "TopLine { height: 1; dock: top; background: $panel; }"

    class TabClicked(Message):
        """The user clicked the tab of a screen."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    view: reactive[View | None] = reactive(None, repaint=False, always_update=True)
    current: reactive[str] = reactive("dashboard", repaint=False)
    frozen: reactive[bool] = reactive(False, repaint=False)
    refresh_seconds: reactive[float] = reactive(1.0, repaint=False)
    remapped: reactive[Mapping[str, str]] = reactive(dict, repaint=False)
    incidents: reactive[Incidents] = reactive(Incidents, repaint=False)

    def watch_view(self) -> None:
        self.repaint()

    def watch_incidents(self) -> None:
        self.repaint()

    def watch_frozen(self) -> None:
        self.repaint()

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        left = self.tabs(width)
        right = self.state(width - width_of(left))
        line = [*left, Span(" " * max(0, width - width_of(left) - width_of(right))), *right]
        return [inks.strip(aligned(line, width), width)]

    def tabs(self, width: int) -> list[Span]:
        return [Span(" jobtop ", Tone.BLUE, True), *(span for _, spans in self.named_tabs(width) for span in spans)]

    def named_tabs(self, width: int) -> list[tuple[str, list[Span]]]:
        """The name of each screen, and its tab as text."""
        named = []
        for action in TABS:
            name = action.call.split("'")[1]
            here = name == self.current
            title = f" {action.title} " if width >= WITH_TITLES or here else " "
            key = key_words(self.remapped.get(action.id, action.keys), self.has_class(ASCII_CLASS))
            named.append(
                (name, [Span(f" {key}", Tone.ORANGE, True), Span(title, Tone.TEXT if here else Tone.GREY, here)])
            )
        return named

    def state(self, width: int) -> list[Span]:
        """The numbers that all screens show; if there is little room, the refresh rate is dropped before the clock."""
        view = self.view
        if view is None:
            return [Span("reading … ", Tone.GREY)]
        pace = [Span(f"{GAP}● live {self.refresh_seconds:.1f}s", Tone.GREEN)]
        jobs = [Span(f"{GAP}{job_counts(view)}")]
        agent = agent_words(view)
        alerts = [Span(GAP), *count_label(self.incidents)] if self.incidents.new else []
        clock = [Span(time.strftime(f"{GAP}%H:%M:%S", time.localtime(view.at)), Tone.GREY)]
        if self.frozen:
            pace = [Span(f"{GAP}‖ frozen", Tone.YELLOW, True)]
        kept = [pace, jobs, agent, alerts, clock]
        dropped_first = [clock, jobs] if self.frozen else [pace, clock, jobs]
        dropped_first.insert(0 if view.has_agent else len(dropped_first) - 1, agent)  # a missing one matters more
        for part_to_drop in dropped_first:
            if part_to_drop is jobs and sum(map(width_of, kept)) >= width:
                jobs[:] = [Span(f"{GAP}{short_job_counts(view)}")]
            if sum(map(width_of, kept)) >= width:
                kept = [part for part in kept if part is not part_to_drop]
        return [*(span for part in kept for span in part), Span(" ")]

    def on_click(self, event: events.Click) -> None:
        left = width_of(self.tabs(0)[:1])
        for name, spans in self.named_tabs(self.size.width):
            if left <= event.x < left + width_of(spans):
                self.post_message(self.TabClicked(name))
            left += width_of(spans)


def end_words(job: Job) -> str:
    """How a job ended, in few words: `exit 0`, `SIGKILL`, `timeout`."""
    if job.signal is not None and job.status is Status.FAILED:
        return signal_name(job.signal)
    is_exit = job.exit_code is not None and job.status in (Status.SUCCESS, Status.FAILED)
    return f"exit {job.exit_code}" if is_exit else str(job.status)


def key_spans(key: str, title: str) -> list[Span]:
    return [Span(key, Tone.ORANGE, True), Span(f" {title}  ", Tone.TEXT)]


class KeyLine(Painted):
    """The bottom line: the most useful keys of the focused pane, and the palette at the right."""

    DEFAULT_CSS = "KeyLine { height: 1; dock: bottom; background: $panel; }"
    keys: reactive[tuple[tuple[str, str], ...]] = reactive((), repaint=False)
    last: reactive[tuple[tuple[str, str], ...]] = reactive((), repaint=False)  # always shown
    notice: reactive[Span | None] = reactive(None, repaint=False)  # before the keys
    has_palette: reactive[bool] = reactive(True, repaint=False)

    def watch_has_palette(self) -> None:
        self.repaint()

    def watch_notice(self) -> None:
        self.repaint()

    def watch_keys(self) -> None:
        self.repaint()

    def watch_last(self) -> None:
        self.repaint()

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        palette = [Span("^p", Tone.ORANGE, True), Span(" palette " if width >= WITH_PALETTE else " ", Tone.GREY)]
        end = palette if self.has_palette else []
        room = width - width_of(end)
        last = [span for key, title in self.last for span in key_spans(key, title)]
        line: list[Span] = [Span(" ")] if self.notice is None else [Span(" "), self.notice, Span("   ")]
        for key, title in self.keys:
            words = key_spans(key, title)
            if width_of(line) + width_of(words) + width_of(last) > room:
                break
            line += words
        line = list(aligned([*line, *last], room)) if width_of(line) + width_of(last) > room else [*line, *last]
        return [inks.strip([*line, Span(" " * (room - width_of(line))), *end], width)]


class Page(Screen[None]):
    """A screen of the console: the panes between the top and the bottom line, and the view they show."""

    name_in_tabs: ClassVar[str] = "dashboard"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP)]

    def __init__(self) -> None:
        super().__init__()
        self.incident_watch = IncidentWatch()

    def compose(self) -> ComposeResult:
        yield TopLine()
        yield ProblemLine()
        with Vertical(id="body"):
            yield from self.panes()
        yield KeyLine()

    def panes(self) -> ComposeResult:
        """The panes between the two lines."""
        raise NotImplementedError

    @property
    def console(self) -> Console:
        """The app, with its own type."""
        from jobtop.tui.app import Console

        assert isinstance(self.app, Console)
        return self.app

    @property
    def is_complete(self) -> bool:
        """Whether all panes are there: they come later than the top line, and go while the console closes."""
        return self.is_mounted and bool(self.query(TopLine))

    def show(self, view: View) -> None:
        """Show a new view; called only while this screen is the visible one, and complete."""
        self.query_one(TopLine).view = view
        self.query_one(ProblemLine).stores = view.stores
        if self.incident_watch.is_due(view):
            self.call_after_refresh(self.read_incidents, view)

    @work(group="incidents", exclusive=True, description="incidents")
    async def read_incidents(self, view: View) -> None:
        incidents = await self.incident_watch.read(view, self.console.reader)
        await asyncio.to_thread(self.console.rule_reading.read)
        if self.query(TopLine):  # false while the console closes
            self.query_one(TopLine).incidents = incidents
            self.show_incidents(incidents)
            self.console.announce(incidents)

    @property
    def process_seconds(self) -> float | None:
        """The time between two readings of the machine's processes; None: this page does not show them."""
        return None

    def show_processes(self, moment: ProcessMoment) -> None:
        """Show the processes of the machine; called only if this page asks for them."""

    def on_screen_resume(self) -> None:
        self.console.pace_processes()

    def on_screen_suspend(self) -> None:
        self.console.pace_processes()

    def show_incidents(self, incidents: Incidents) -> None:
        """Show a new list of incidents; the top line already counts them."""

    def say_ended(self, job: Job) -> None:
        """Say at the bottom that the job of `jobtop run` has ended, and which key leaves."""
        self.say_end(str(job.status), end_words(job))

    def say_end(self, status: str, words: str | None = None) -> None:
        """Say at the bottom how the attended job or run has ended, and which key leaves."""
        if self.query(KeyLine):
            quit_key = shown_key(active_keys(self).get("app.quit", ("q",))[0], self.console.options.is_ascii)
            tone = STATUS_GLYPHS[status][1]
            self.query_one(KeyLine).notice = Span(f"ended: {words or status} · {quit_key} leaves", tone, True)

    def on_mount(self) -> None:
        top = self.query_one(TopLine)
        top.current = self.name_in_tabs
        top.refresh_seconds = self.console.options.refresh_seconds
        top.remapped = self.console.options.keys
        self.update_keys()

    def on_descendant_focus(self) -> None:
        self.update_keys()

    def window_of_host(self) -> TimeWindow | None:
        """The part of the time that the Host screen shows first when it is opened from here; None: the last minutes."""
        return None

    def update_keys(self) -> None:
        """Show the keys that work where the focus is: those of the pane, of the screen, and of the console."""
        keys, in_words = active_keys(self), self.console.options.is_ascii
        here = [action for action in ACTIONS if action.in_footer and action.id in keys and self.is_offered(action)]
        here.sort(key=lambda action: action.place == APP)
        shown = {action.id: (shown_key(keys[action.id][0], in_words), action.title) for action in here}
        line = self.query_one(KeyLine)
        line.last = tuple(shown.pop(name) for name in LAST_KEYS if name in shown)
        line.keys = tuple(shown.values())

    def is_offered(self, action: Action) -> bool:
        """Whether the bottom line shows a key that works; one that would be refused is not shown."""
        return not (action.changes_jobs and self.console.options.is_readonly)

    def say(self, text: str, severity: SeverityLevel = "information") -> None:
        """Show a notification; control characters and markup in the text have no effect."""
        self.console.notify(text, severity=severity)

    def say_all(self, texts: Sequence[str], severity: SeverityLevel = "information") -> None:
        """Show several texts in one notification, with a limit: a hundred would cover the screen."""
        if texts:
            more = [f"and {len(texts) - MOST_NAMED} more"] if len(texts) > MOST_NAMED else []
            self.say("\n".join([*map(safe_text, texts[:MOST_NAMED]), *more]), severity)
