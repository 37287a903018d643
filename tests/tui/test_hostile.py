"""Hostile texts on every screen: no control sequence works, no markup is applied, every line keeps its width."""

import asyncio
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from rich.cells import cell_len
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.color import Color
from textual.strip import Strip
from textual.widgets import Input, OptionList
from textual.widgets._toast import Toast

from benchmarks.display import TerminalScreen
from hostile import COUNT, MARK, clean_texts, hostile_texts, marked
from jobtop.core.alerts.rule_set import default_rules
from jobtop.core.analysis.ending import explain_end
from jobtop.core.config import load
from jobtop.core.doctor.checks import Finding, State
from jobtop.core.measure.snapshot import ProcessRow
from jobtop.core.model import Status
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.store import incidents
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Event, Jobs
from jobtop.store.samples.snapshots import Snapshots
from jobtop.tui.app import Console, Options
from jobtop.tui.data.alert_rules import RuleRow, RuleState
from jobtop.tui.data.operations import STOP
from jobtop.tui.data.rows import ListRows
from jobtop.tui.data.view import JobRow
from jobtop.tui.dialogs import run_form
from jobtop.tui.dialogs.dialog import Text
from jobtop.tui.dialogs.export_form import ExportForm, default_path
from jobtop.tui.dialogs.fields import FormField
from jobtop.tui.dialogs.run_form import CommandLine
from jobtop.tui.screens import job_actions, settings
from jobtop.tui.screens.job.header import HeaderView, JobHeader
from jobtop.tui.screens.job.screen import JobScreen
from jobtop.tui.screens.job.why import Why
from jobtop.tui.screens.job_actions import JobActions, question
from jobtop.tui.screens.settings import SettingRow, report
from jobtop.tui.widgets.cells import safe_text
from jobtop.tui.widgets.filter_line import Field, FilterLine
from jobtop.tui.widgets.output_view import OutputView
from jobtop.tui.widgets.painting import Painted
from jobtop.tui.widgets.prose import Prose
from jobtop.tui.widgets.table import Table
from records import HERE, kept_jobs, made_job, running_job
from support import Jobtop, clean_environment
from terminal import recorded

WIDE, LOW, NARROW = (160, 42), (120, 30), (60, 30)
FEW = 60
TEXTS = COUNT if os.environ.get("LONG_TESTS") else 500  # each sequence and character by itself, and mixtures of them
# Characters that control a terminal, reverse or join text, or cannot be encoded.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200c-\u200f\u061c\u2028-\u202e\u2060-\u206f\ufe0e\ufe0f\ufeff\ud800-\udfff]")
FOREIGN_COLOURS = {Color.parse(colour).rich_color for colour in ("red", "ansi_red", "#800000", "#123457")}
DEADLINE_SECONDS = 20.0
TOUR = (
    *(("2", "╭─ History "), ("b", "╭─ History by name"), ("3", "╭─ Compare "), ("4", "╭─ Containers ")),
    *(("5", "╭─ Active "), ("6", "╭─ Doctor "), ("1", "╭─ Jobs "), ("\r", "╭─ Timeline"), ("\x1b", "╭─ Jobs ")),
    *(("e", "╭─ Export samples"), ("\x1b", "^p"), ("n", "╭─ Run a job"), ("\x1b", "^p"), ("?", "esc closes")),
    *(("\x1b", "^p"), ("\x10", "name of an action")),
)


class Watched(Console):
    """A console that checks everything it paints."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.faults: list[str] = []
        self.seen: dict[str, set[int]] = {}
        self.place = ""
        self.inks_seen: set[Style | None] = set()
        self.animation_level = "none"

    def _display(self, screen: Any, renderable: Any) -> None:
        if isinstance(renderable, LayoutUpdate):
            for strips in renderable.strips:
                self.look_at(Strip.join(strips), renderable.region.width)
        elif isinstance(renderable, ChopsUpdate):
            for line, ends in zip(renderable.chops, renderable.chop_ends, strict=True):
                for (x, strip), end in zip(line.items(), ends, strict=True):
                    if strip is not None:
                        self.look_at(strip, end - x)
        super()._display(screen, renderable)

    def look_at(self, strip: Strip, width: int) -> None:
        text = strip.text
        if (found := UNSAFE.search(text)) is not None:
            self.faults.append(f"{found[0]!r} on {self.screen} in {text!r}")
        if cell_len(text) != width:
            self.faults.append(f"{cell_len(text)} cells instead of {width} on {self.screen}: {text!r}")
        self.seen.setdefault(self.place, set()).update(map(int, MARK.findall(text)))
        self.inks_seen.update(segment.style for segment in strip)

    @property
    def looks(self) -> set[object]:
        """Styles that only markup or escape sequences could cause: their colours, blinking, links, actions."""
        styles = [style for style in self.inks_seen if style is not None]
        colours = {colour for style in styles for colour in (style.color, style.bgcolor)} & FOREIGN_COLOURS
        blinking = {style for style in styles if style.blink or style.strike or style.link}
        return {*colours, *blinking, *(key for style in styles for key in style.meta if "@click" in key)}

    async def settle(self) -> None:
        """Wait until everything is painted; the first painting may request a second."""
        for _ in range(2):
            painted = asyncio.Event()
            self.screen.call_after_refresh(painted.set)
            await painted.wait()

    def look_over(self, widget: Painted) -> None:
        """Check what a widget draws; the whole screen is checked when the scene settles, because that is slow."""
        width, height = widget.drawn_size
        for y in range(height):
            self.look_at(widget.render_line(y), width)

    def read_over(self, prose: Prose) -> None:
        """Check all lines of a text, visible or not."""
        width = prose.drawn_size.width
        for line in prose.lines(width):
            self.look_at(prose.inks.strip(line, width), width)

    async def until(self, condition: Callable[[], object], words: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            assert self._exception is None, self._exception
            assert time.monotonic() < deadline, words
            await asyncio.sleep(0.002)


Scene = Callable[[Watched, list[str]], Awaitable[None]]


def perform(scene: Scene, texts: list[str], options: Options, size: tuple[int, int]) -> Watched:
    """Run a scene on a console."""
    console = Watched(options)

    async def play() -> None:
        async with console.run_test(size=size, notifications=True):
            await console.until(lambda: console.view is not None, "no picture")
            await scene(console, texts)

    # Textual waits for the next of sixty frames a second.
    with patch("textual.screen.UPDATE_PERIOD", 0.004):
        asyncio.run(play())
    return console


def endure(scene: Scene, furnish: Callable[[Path, list[str]], Options], root: Path, size: tuple[int, int]) -> None:
    """Run a scene with all texts: each text must be seen in every named place, and none may have an effect."""
    texts = hostile_texts()[:TEXTS]
    console = perform(scene, texts, furnish(root, texts), size)
    assert console.faults[:5] == []
    assert console.looks == set()
    missing = {place: len(marked(texts) - seen) for place, seen in console.seen.items() if place}
    assert missing == dict.fromkeys(missing, 0)


def rotated(texts: Sequence[str], number: int, **values: Any) -> dict[str, Any]:
    """The values of a job in which every text is hostile; over all jobs, each text is used for each field."""

    def text(offset: int) -> str:
        return texts[(number + offset) % len(texts)]

    words = {key: text(offset) for offset, key in enumerate(("name", "user", "host", "cwd", "tool", "note", "reason"))}
    return {
        **words,
        "command": (text(7), text(8)),
        "tags": {text(9): text(10)},
        "params": {text(11): text(12)},
        **values,
    }


def furnish_live(root: Path, texts: list[str]) -> Options:
    """A store with a running job for each text, each with an alert."""
    paths = StatePaths(root, HERE)
    database = open_to_write(paths)
    jobs = Jobs(database)
    with database.writing():
        for number, text in enumerate(texts):
            alert = Event(time.time(), "alert", {"severity": "warning", "text": text})
            jobs.insert(running_job(**rotated(texts, number)), alert)
    database.close()
    return Options([paths.store], refresh_seconds=5.0, config=load((), {"HOME": str(root)}, root, root))


def furnish_little(root: Path, texts: list[str]) -> Options:
    return furnish_live(root, texts[:10])


async def paged(console: Watched, pane: Table[Any]) -> None:
    """Show every page of a pane, from the first to the last."""
    await console.settle()
    pane.action_first()
    console.look_over(pane)
    while pane.scroll_offset.y < pane.max_scroll_y:
        pane.action_page_down()
        console.look_over(pane)
    await console.settle()


async def filled(console: Watched, selector: str) -> Table[Any]:
    """A table, once it has rows."""

    def has_rows() -> bool:
        return any(table.display and table.source for table in console.screen.query(selector).results(Table))

    await console.until(has_rows, f"{selector} has no rows")
    await console.settle()
    return console.screen.query_one(selector, Table)


async def tables(console: Watched, texts: list[str]) -> None:
    for place, key, selector in (
        ("dashboard", "1", "#jobs"),
        ("history", "2", "#past"),
        ("history by name", "b", "#groups"),
        ("alerts", "5", "#active"),
    ):
        console.place = place
        console.simulate_key(key)
        await console.settle()
        await paged(console, await filled(console, selector))


async def palette(console: Watched, texts: list[str]) -> None:
    """Show all jobs in the palette, page by page; search for a few of them."""
    await console.action_palette()
    screen = console.screen
    found = screen.query_one(OptionList)
    await console.until(lambda: found.option_count > len(texts), "not all are there")
    await console.settle()
    while found.scroll_offset.y < found.max_scroll_y:
        found.scroll_page_down(animate=False)
        for y in range(found.size.height):
            console.look_at(found.render_line(y), found.scrollable_content_region.width)
    await console.settle()
    assert console.view is not None
    console.view = replace(console.view, rows=console.view.rows[:FEW])
    screen.query_one(Input).value = "open job"
    await console.until(lambda: found.option_count == FEW, "not all are found")
    await console.settle()
    await console.action_back()


async def filtering(console: Watched, texts: list[str]) -> None:
    """Type into the filter, and show its completions."""
    await console.action_go("history")
    line, field = console.screen.query_one(FilterLine), console.screen.query_one(Field)
    field.focus()
    for first in range(0, len(texts), 100):
        few = texts[first : first + 100]
        line.values = {"name": few}
        for value in ("name:", " ".join(few)[:400]):
            field.value = value
            field.cursor_position = len(field.value)
            await console.settle()


async def corner(console: Watched, texts: list[str]) -> None:
    """Show notifications; several texts in one, of which the first are visible."""
    await console.action_go("history")
    page = console.screen
    assert isinstance(page, JobActions)
    for first in range(0, len(texts), 100):
        page.say_all([text[:100] for text in texts[first : first + 100]])
        await console.until(lambda: page.query(Toast), "no words")
        await console.settle()
        console.clear_notifications()
        await console.until(lambda: not page.query(Toast), "they stay")


def in_turn(*scenes: tuple[str, Scene]) -> Scene:
    """Run scenes one after another; all texts must be seen in each named place."""

    async def play(console: Watched, texts: list[str]) -> None:
        for console.place, scene in scenes:
            await scene(console, texts)

    return play


def furnish_job(root: Path, texts: list[str]) -> Options:
    """A store with one failed job that has everything: events, processes, output."""
    paths = StatePaths(root, HERE)
    database = open_to_write(paths)
    jobs = Jobs(database)
    start, kinds = 1_700_000_000.5, ("alert", "exited", "paused")
    events = [
        Event(
            start + number, kinds[number % 3], {"severity": "info", "text": text, "reason": text, "status": "success"}
        )
        for number, text in enumerate(texts)
    ]
    # The name of a file comes before its directory.
    files = [{"path": text.replace("/", "_"), "size_bytes": 5, "read_bytes": 5} for text in texts]
    ended = made_job(**rotated(texts, 0), status=Status.FAILED, exit_code=3, findings={"files": files})
    job = jobs.insert(ended, *events)
    assert job.seq is not None
    rows = [
        ProcessRow(number, number // 9, f"sh {text}", 1.0, 1.5, 1 << 20, 2, 60.0, "R")
        for number, text in enumerate(texts, 1)
    ]
    Snapshots(database).keep(job.seq, 1.0, rows)
    database.close()
    directory = paths.job(job.id)
    directory.mkdir(parents=True)
    # Otherwise the text behind a carriage return or a backspace would overwrite the mark.
    lines = [text.replace("\r", f"\r{text[:5]}").replace("\b", "x\b") for text in texts]
    (directory / "stdout.log").write_bytes("\n".join(lines[::2]).encode("utf-8", "surrogatepass"))
    (directory / "stderr.log").write_bytes("\n".join(lines[1::2]).encode("utf-8", "surrogatepass"))
    return Options([paths.store], refresh_seconds=5.0, job_id=job.id)


async def opened(console: Watched) -> JobScreen:
    await console.until(lambda: isinstance(console.screen, JobScreen) and console.screen.job_view, "no job")
    assert isinstance(console.screen, JobScreen)
    return console.screen


async def output(console: Watched, texts: list[str]) -> None:
    screen = await opened(console)
    screen.open_pane("output")
    console.action_maximize_pane()
    view = screen.query_one(OutputView)
    await console.until(lambda: view.shown.rows, "no output")
    view.action_first()
    await console.until(lambda: view.shown.start == 0, "not at its beginning")
    await console.settle()
    while not view.shown.is_end:
        start = view.shown.start
        view.action_page_down()
        await console.until(lambda before=start: view.shown.start != before, "no next page")  # type: ignore[misc]
        console.look_over(view)
    await console.settle()


def pane(name: str) -> Scene:
    """Show a table of the job's screen alone, page by page."""

    async def play(console: Watched, texts: list[str]) -> None:
        screen = await opened(console)
        screen.open_pane(name)
        await console.settle()
        await paged(console, screen.query_one(f"#{name}", Table))

    return play


async def reasons(console: Watched, texts: list[str]) -> None:
    """Show the reasons of the end, one job after another."""
    screen = await opened(console)
    screen.minimize()
    await console.settle()
    assert screen.job_view is not None
    why, job = screen.query_one(Why), screen.job_view.job
    for first in range(0, len(texts), 6):
        words = texts[first : first + 6]
        why.explanation = explain_end(replace(job, reason=words[0]), (), words)
        why.fit(why.drawn_size.width, 1000)
        console.read_over(why)
    screen.show_job_view(replace(screen.job_view, last_lines=tuple(texts[:20])))
    await console.settle()


async def headers(console: Watched, texts: list[str]) -> None:
    """Show the header, one job after another."""
    screen = await opened(console)
    assert screen.job_view is not None
    header = screen.query_one(JobHeader)
    for first in range(0, len(texts), 2):
        words = rotated(texts, first) | {"command": (texts[(first + 1) % len(texts)],)}
        job = replace(screen.job_view.job, **words)
        header.view = HeaderView(replace(screen.job_view, job=job), problem=texts[first - 1])
        console.look_over(header)
    await console.settle()


JOB_PANES: tuple[tuple[str, Scene], ...] = (
    ("output", output),
    ("tree", pane("tree")),
    ("files", pane("files")),
    ("timeline", pane("timeline")),
    ("why", reasons),
    ("header", headers),
)


def furnish_two(root: Path, texts: list[str]) -> Options:
    """A store with two jobs that differ in everything."""
    paths, half = StatePaths(root, HERE), len(texts) // 2
    params = [dict(zip(texts[:half], values, strict=True)) for values in (texts[half:], reversed(texts[half:]))]
    database = open_to_write(paths)
    for number, values in enumerate(params):
        Jobs(database).insert(made_job(**{**rotated(texts, number), "params": values}))
    database.close()
    return Options([paths.store], refresh_seconds=5.0)


async def compared(console: Watched, texts: list[str]) -> None:
    assert console.view is not None
    await console.open_compare([row.job.id for row in console.view.rows])
    await paged(console, await filled(console, "#compared"))


async def questions(console: Watched, texts: list[str]) -> None:
    """Show questions one after another, six jobs in each."""
    rows = [JobRow(made_job(**rotated(texts, number)), Path("x.db")) for number in range(len(texts))]
    asked = question(STOP, rows[:6])
    await console.push_screen(asked)
    await console.settle()
    text = asked.query_one(Text)
    for first in range(0, len(rows), 6):
        text.paragraphs = question(STOP, rows[first : first + 6]).text
        text.repaint()
        console.look_over(text)
    await console.pop_screen()


async def offered(console: Watched, texts: list[str]) -> None:
    """Show earlier commands in the run form: only the harmless ones."""
    await console.action_run_form()
    line = console.screen.query_one(CommandLine)
    await console.until(lambda: line.past, "no past")
    assert set(line.past) == {
        text for text in texts if text and text == safe_text(text) and len(text) <= run_form.LONGEST
    }
    for _ in line.past:
        line.action_older()
        strip = line.render_line(0)  # the field has room for the cursor behind the text, which is cut off
        console.look_at(strip, strip.cell_length)
    await console.settle()


async def typed(console: Watched, texts: list[str]) -> None:
    """Paste into the fields of the form, and show what is wrong with them."""
    every, some = list(console.screen.query(FormField)), texts[:220:2]
    for first in range(0, len(some), len(every)):
        for field, text in zip(every, some[first:], strict=False):
            if isinstance(field.editor, Input):
                field.editor.value = text
            else:
                field.editor.insert(text)
        await console.settle()
    await console.action_back()


async def exporting(console: Watched, texts: list[str]) -> None:
    """Show the path of the export form."""
    form = ExportForm([JobRow(made_job(name=text), Path("x.db")) for text in texts[:2]])
    await console.push_screen(form)
    await console.settle()
    field = form.query_one(FormField)
    for text in texts:
        path = default_path([JobRow(made_job(name=text), Path("x.db"))])
        assert safe_text(path) == path
        field.set_reactive(FormField.problem, text[:300])
        for line in field.problem_lines(60):
            console.look_at(field.inks.strip(line, 60), 60)
    field.problem = texts[0]
    await console.settle()
    await console.action_back()


def furnish_past(root: Path, texts: list[str]) -> Options:
    """A store with ended jobs, each with a text as its command."""
    paths = StatePaths(root, HERE)
    kept_jobs(root, *(made_job(command=("/bin/sh", "-c", text)) for text in texts))
    return Options([paths.store], paths, refresh_seconds=5.0)


async def doctor(console: Watched, texts: list[str]) -> None:
    await console.action_go("settings")
    prose: Prose = console.screen.query_one("#doctor", Prose)
    for first in range(0, len(texts), 100):
        few = texts[first : first + 100]
        findings = [Finding(text[:80], State.FAILS, text[:80], text[:80]) for text in few]
        prose.text = tuple(report({few[0]: findings}))
        console.read_over(prose)
    await console.settle()


async def values(console: Watched, texts: list[str]) -> None:
    table = console.screen.query_one("#values", Table)
    rows = [SettingRow(*texts[first : first + 3]) for first in range(0, len(texts) - 2, 3)]
    table.source = ListRows([*rows, SettingRow(*texts[-3:])], lambda row: row.key)
    await paged(console, table)


async def rules(console: Watched, texts: list[str]) -> None:
    rule = default_rules()[0]
    rows = [
        RuleRow(replace(rule, name=text), texts[place - 1], RuleState.INACTIVE, texts[place - 2])
        for place, text in enumerate(texts)
    ]
    with patch.object(console.rule_reading, "rows", lambda *_: rows):  # the page reads them again and again
        await console.action_go("alerts")
        table = console.screen.query_one("#rules", Table)
        await console.until(lambda: table.source is not None and len(table.source) == len(rows), "no rules")
        await paged(console, table)


def test_no_table_obeys_hostile_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incidents, "MOST", COUNT)
    endure(in_turn(("", tables), ("palette", palette)), furnish_live, tmp_path, WIDE)


def test_no_screen_of_a_job_obeys_hostile_text(tmp_path: Path) -> None:
    endure(in_turn(*JOB_PANES), furnish_job, tmp_path, WIDE)


def test_no_comparison_obeys_hostile_text(tmp_path: Path) -> None:
    endure(in_turn(("compare", compared)), furnish_two, tmp_path, WIDE)


def test_no_pane_of_words_obeys_hostile_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "examine", lambda *_: {})
    monkeypatch.setattr(job_actions, "MOST_NAMED", 100)
    scenes = [("doctor", doctor), ("settings", values), ("rules", rules), ("questions", questions)]
    endure(in_turn(("", filtering), ("", corner), *scenes), furnish_little, tmp_path, LOW)


def test_no_form_obeys_hostile_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_form, "PAST", COUNT)
    endure(in_turn(("", offered), ("", typed), ("export", exporting)), furnish_past, tmp_path, LOW)


@pytest.mark.parametrize(
    ("scene", "furnish"), [(tables, furnish_live), (in_turn(*JOB_PANES), furnish_job)], ids=["tables", "job"]
)
def test_in_little_room_every_line_keeps_its_width(
    tmp_path: Path, scene: Scene, furnish: Callable[[Path, list[str]], Options]
) -> None:
    texts = hostile_texts()[::15]
    assert perform(scene, texts, furnish(tmp_path, texts), NARROW).faults == []


def sequences(written: bytes) -> set[str]:
    """The control sequences sent to a terminal, without their numbers."""
    text = written.decode()
    assert re.search("[\x80-\x9f]", text) is None
    return {re.sub(r"[\d;]+", "", found) for found in re.findall(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|.)|[\x00-\x1a]", text)}


def has_changed(before: str, after: str) -> Callable[[TerminalScreen], bool]:
    """Whether a screen shows a text and, if a dialog was closed, no longer the one before."""
    return lambda screen: after in screen.text() and (after != "^p" or before not in screen.text())


def toured(jobtop: Jobtop, texts: Sequence[str]) -> set[str]:
    """The control sequences that a console sends to a real terminal while it shows these texts."""
    kept_jobs(jobtop.state, *(made_job(**rotated(texts, number, status=Status.FAILED)) for number in range(len(texts))))
    env = {key: value for key, value in jobtop.env.items() if key not in ("COLUMNS", "LINES")}
    with recorded(jobtop.command(), env, (150, 40)) as (shown, recorder):
        shown.until(lambda screen: "FAILED" in screen.text() or "failed" in screen.text(), "a job")
        before = ""
        for key, words in TOUR:
            shown.press(key)
            shown.until(has_changed(before, words), f"{words} after {key!r}", 20.0)
            before = words
    return sequences(recorder.written)


def test_hostile_text_sends_no_other_sequences_to_a_terminal_than_clean_text(tmp_path: Path) -> None:
    def home(name: str) -> Jobtop:
        (tmp_path / name).mkdir()
        return Jobtop(sys.executable, tmp_path / name, clean_environment(tmp_path / name))

    assert toured(home("hostile"), hostile_texts()[:250:5]) <= toured(home("clean"), clean_texts(50))
