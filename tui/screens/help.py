"""Help: the keys that work at the focus, the meaning of the signs, and reasons for missing numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen, Screen

from jobtop.tui.actions import ACTIONS, APP, HELP, Action, bindings
from jobtop.tui.keymap import active_keys, shown_keys
from jobtop.tui.page import Page
from jobtop.tui.palette import CONTAINER_GLYPHS, FLAG_GLYPHS, SEVERITY_GLYPHS, STATUS_GLYPHS, Tone
from jobtop.tui.widgets.cells import Span
from jobtop.tui.widgets.painting import ASCII_CLASS
from jobtop.tui.widgets.prose import BLANK, Paragraph, Prose, cell, heading, set_border_texts

PLACES = {
    "table": "In the table",
    "chart": "In the chart",
    "text": "In this text",
    "log": "In the output",
    "lines": "In the output",
    "jobs": "For the selected job, or the marked ones",
    "containers": "For the selected container, or the marked ones",
    "job": "On this screen",
    "processes": "For the selected process",
    "workflows": "For the selected workflow",
    "workflow": "On this screen",
    "graph": "In the graph",
    APP: "Everywhere",
}
STATUSES = {
    "running": "runs now",
    "queued": "waits in the queue",
    "paused": "is paused",
    "success": "ended with exit code 0",
    "failed": "ended with another exit code or by a signal",
    "cancelled": "was stopped by a user",
    "timeout": "was stopped after its timeout",
    "error": "could not be started",
    "lost": "jobtop's supervisor died; exit status unknown",
    "unknown": "was imported without an outcome",
}
FLAGS = {
    "oom_killed": "the kernel's OOM killer killed a process",
    "over_limit": "was stopped because it exceeded its memory limit",
    "throttled": "was slowed down by its CPU limit",
    "left_running": "ended, but some of its processes still run",
}
CONTAINER_STATES = {
    "unhealthy": "runs, and its health check fails",
    "starting": "runs, and its health check has not passed yet",
    "restarting": "has exited, and its engine starts it again",
}
ABSENT = (
    "Not known, which is not 0. The kernel may not report it here, it may be switched off (monitor.without, "
    "--no-monitor), a rate needs two samples, or the job does not run. Page 6, Settings, says what works on this "
    "machine and how to enable the rest."
)


class HelpScreen(ModalScreen[None]):
    """The help over the screen that it explains; Esc closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(HELP)]
    DEFAULT_CSS = """
    HelpScreen {
        align: center middle;
        Prose { width: 84; max-width: 100%; height: 90%; }
    }
    """

    def __init__(self, about: Screen[Any]) -> None:
        super().__init__()
        keys, in_words = active_keys(about), about.app.has_class(ASCII_CLASS)
        known = [action for action in ACTIONS if action.id in keys]
        if isinstance(about, Page) and about.console.options.is_readonly:
            known = [action for action in known if not action.changes_jobs]
        self.keys = [(action, shown_keys(keys[action.id], in_words)) for action in known]

    def compose(self) -> ComposeResult:
        yield Prose()

    def on_mount(self) -> None:
        pane = self.query_one(Prose)
        pane.text = (*key_lines(self.keys), *legend())
        set_border_texts(pane, "Help", "esc closes · more: jobtop help")
        pane.focus()


def key_lines(active: Iterable[tuple[Action, str]]) -> Iterator[Paragraph]:
    """The keys by place, the nearest first."""
    places: dict[str, list[tuple[Action, str]]] = {}
    for action, keys in active:
        places.setdefault(action.place, []).append((action, keys))
    for place in sorted(places, key=nearness):
        yield heading(PLACES.get(place, "On this screen"))
        for action, keys in places[place]:
            label = [cell(f"  {keys}  ", 14, Tone.ORANGE, True), cell(f"{action.title}  ", 15)]
            yield Paragraph(action.help, Tone.GREY, label)
        yield BLANK


def nearness(place: str) -> int:
    """The order of places: panes, then screens, then the whole console."""
    known = list(PLACES)
    return known.index(place) if place in known else known.index("job")


def legend() -> Iterator[Paragraph]:
    """The signs of jobs, containers and alerts, the colours, and the sign of a missing number."""
    yield heading("Signs of jobs")
    yield from (sign_line(STATUS_GLYPHS[status], status, words) for status, words in STATUSES.items())
    yield from (sign_line(FLAG_GLYPHS[flag], flag.replace("_", " "), words) for flag, words in FLAGS.items())
    yield BLANK
    yield heading("Signs of containers, where they differ from those of jobs")
    yield from (sign_line(CONTAINER_GLYPHS[state], state, words) for state, words in CONTAINER_STATES.items())
    yield BLANK
    yield heading("Signs of alerts")
    yield from (sign_line(glyph, severity, "") for severity, glyph in SEVERITY_GLYPHS.items())
    yield BLANK
    yield heading("Colours of bars and percentages")
    yield sign_line(("━", Tone.BLUE), "below 80 %", "")
    yield sign_line(("━", Tone.YELLOW), "from 80 %", "nearly full")
    yield sign_line(("━", Tone.VERMILION), "from 92 %", "full; 100 % CPU is one core")
    yield BLANK
    yield heading("Missing numbers")
    yield Paragraph(ABSENT, Tone.GREY, [Span("  –  ", Tone.TEXT, True)])


def sign_line(glyph: tuple[str, Tone], name: str, words: str) -> Paragraph:
    sign, tone = glyph
    return Paragraph(words, Tone.GREY, [Span(f"  {sign}  ", tone, True), cell(f"{name}  ", 15)])
