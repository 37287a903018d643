"""Help lists the current keys of the focused place, and the meaning of every sign."""

from pathlib import Path

from jobtop.core.model import Status
from jobtop.tui.actions import BY_ID
from jobtop.tui.app import Options
from jobtop.tui.dialogs.leaving import Leaving
from jobtop.tui.keymap import read_keys
from jobtop.tui.palette import FLAG_GLYPHS
from jobtop.tui.screens.help import FLAGS, STATUSES, HelpScreen
from jobtop.tui.screens.settings import key_rows
from jobtop.tui.widgets.output_view import OutputView
from jobtop.tui.widgets.prose import Prose
from records import kept_jobs, made_job
from stage import text_of
from visiting import Visitor, visit


def help_lines(visitor: Visitor) -> list[str]:
    """All lines of the help, visible or not."""
    pane = visitor.console.screen.query_one(Prose)
    return [text_of(line).rstrip() for line in pane.lines(78)]


def footer(visitor: Visitor) -> str:
    return visitor.screen().splitlines()[-1]


def test_the_keys_of_the_focus_come_first_then_the_screen_s_then_those_of_everywhere(home: Path) -> None:
    kept_jobs(home, made_job())

    async def scene(visitor: Visitor) -> None:
        await visitor.press("question_mark")
        assert isinstance(visitor.console.screen, HelpScreen)
        lines = help_lines(visitor)
        places = [line for line in lines if line and not line.startswith(" ")]
        assert places[0] == "In the table"
        assert places.index("Everywhere") == 2
        assert sum(BY_ID["jobs.stop"].help in line for line in lines) == 1
        assert not any(BY_ID["chart.zoom_in"].help in line for line in lines)
        await visitor.press("escape")
        assert not isinstance(visitor.console.screen, HelpScreen)
        await visitor.press("6", "question_mark")
        lines = help_lines(visitor)
        assert lines[0] == "In this text"
        assert any(BY_ID["settings.again"].help in line for line in lines)
        assert not any(BY_ID["jobs.stop"].help in line for line in lines)

    visit(home, scene)


def test_help_shows_remapped_keys(home: Path) -> None:
    async def scene(visitor: Visitor) -> None:
        await visitor.press("f1")
        assert isinstance(visitor.console.screen, HelpScreen)
        lines = help_lines(visitor)
        assert any(line.split()[:2] == ["F1", "Help"] for line in lines)
        assert any(line.split()[:3] == ["K", "^x", "Kill"] for line in lines)

    keys = read_keys({"app.help": ("f1",), "jobs.kill": ("K", "^x")})
    visit(home, scene, options=Options([], keys=keys))


def test_on_a_serial_console_keys_are_words_everywhere(home: Path) -> None:
    async def scene(visitor: Visitor) -> None:
        assert footer(visitor).startswith(" Enter Open  space Mark")
        await visitor.press("question_mark")
        assert any(line.split()[:3] == ["Down", "j", "Down"] for line in help_lines(visitor))
        await visitor.press("escape")
        await visitor.console.push_screen(Leaving("train"))
        await visitor.shows("d Enter Detach")
        assert visitor.screen().isascii()
        await visitor.press("escape", "ctrl+p", *"open")
        await visitor.shows("Open                  Enter")

    assert {row.id: row.keys for row in key_rows({}, in_words=True)}["table.up"] == "Up k"
    kept_jobs(home, made_job())
    visit(home, scene, options=Options([], is_ascii=True))


def test_the_footer_shows_the_default_key_and_the_way_back_if_there_is_one(home: Path) -> None:
    (job,) = kept_jobs(home, made_job())

    async def scene(visitor: Visitor) -> None:
        assert "esc" not in footer(visitor)
        await visitor.console.open_job(job.id)
        await visitor.shows("esc Back")
        visitor.console.screen.query_one(OutputView).focus()
        await visitor.shows("G Follow")
        assert "end Follow" not in footer(visitor)

    visit(home, scene)


def test_every_sign_is_explained_and_so_is_what_is_missing(home: Path) -> None:
    assert set(STATUSES) == set(map(str, Status))
    assert set(FLAGS) == set(FLAG_GLYPHS)
    kept_jobs(home, made_job())

    async def scene(visitor: Visitor) -> None:
        await visitor.press("question_mark")
        assert "Missing numbers" not in visitor.screen()
        await visitor.press("G")
        await visitor.shows("Missing numbers", "not 0")
        await visitor.press("g")
        await visitor.shows("In the table")
        lines = help_lines(visitor)
        assert any(line.startswith("  ◷  timeout") for line in lines)
        assert any(line.startswith("  ▼  oom killed") for line in lines)
        await visitor.press("q")
        assert visitor.console.is_running
        assert not isinstance(visitor.console.screen, HelpScreen)

    visit(home, scene, (60, 15))
