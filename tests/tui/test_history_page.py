"""The history shows the jobs that match its filter, in any order, from stores of any size."""

import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.screen import ModalScreen

from jobtop.core.config import load
from jobtop.core.model import Status, Usage
from jobtop.core.paths import StatePaths
from jobtop.core.query.filter import parse
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from jobtop.tui.app import Options
from jobtop.tui.page import KeyLine
from jobtop.tui.screens.history import History
from jobtop.tui.widgets.filter_line import Field, FilterLine, Hint, finished_part
from jobtop.tui.widgets.painting import Painted
from jobtop.tui.widgets.tables.groups import name_word
from records import HERE, HOSTILE_TEXTS, damage_pages, holds_controls, kept_jobs, made_job, running_job
from stage import drawn_lines, text_of
from visiting import Visitor, visit

Scene = Callable[["HistoryVisitor"], Awaitable[None]]


class HistoryVisitor(Visitor):
    """The user of the History page."""

    @property
    def page(self) -> History:
        page = self.console.pages["history"]
        assert isinstance(page, History)
        return page

    async def filter(self, text: str) -> None:
        await self.press("slash")
        self.page.query_one(Field).value = text
        await self.press("enter")

    def table_lines(self, table: Painted) -> list[str]:
        return [line.rstrip() for line in drawn_lines(table)]

    def lines(self) -> list[str]:
        return self.table_lines(self.page.table)

    def names(self) -> list[str]:
        source = self.page.lines.source
        return [row.line.name for row in source.window(0, len(source))] if source else []

    def hint(self) -> str:
        return text_of(self.page.query_one(Hint).words)


def visit_history(root: Path, scene: Scene, size: tuple[int, int] = (100, 24), stores: tuple[Path, ...] = ()) -> None:
    async def at_history(visitor: Visitor) -> None:
        await visitor.press("2")
        guest = HistoryVisitor(visitor.pilot, visitor.console)
        await guest.until(lambda: guest.page.lines.empty != "reading …")
        await scene(guest)

    visit(root, at_history, size, Options([StatePaths(root, HERE).store, *stores]))


def five_jobs(root: Path) -> None:
    kept_jobs(
        root,
        made_job(name="train-1", usage=Usage(memory_peak_bytes=5 << 30), duration_seconds=10.0),
        made_job(name="train-2", status=Status.FAILED, exit_code=3, duration_seconds=30.0),
        made_job(name="etl", usage=Usage(memory_peak_bytes=1 << 30), duration_seconds=20.0),
        made_job(name="etl", status=Status.FAILED, exit_code=1, duration_seconds=40.0),
        made_job(name="dump", status=Status.CANCELLED, exit_code=None, signal=15),
    )


def test_the_newest_job_is_first_and_a_filter_keeps_matching_jobs(tmp_path: Path) -> None:
    five_jobs(tmp_path)

    async def scene(guest: HistoryVisitor) -> None:
        await guest.until(lambda: guest.names() == ["dump", "etl", "etl", "train-2", "train-1"])
        assert "TERM" in guest.lines()[1]
        await guest.filter("name:train* mem>4G")
        await guest.until(lambda: guest.names() == ["train-1"])
        assert guest.page.lines.has_focus
        await guest.filter("")
        await guest.until(lambda: len(guest.names()) == 5)

    visit_history(tmp_path, scene)


def test_a_column_tells_what_limited_a_job_and_a_filter_what_it_cost(tmp_path: Path) -> None:
    slow = made_job(name="slow", limited_by="storage", usage=Usage(cpu_total_seconds=7200.0))
    kept_jobs(tmp_path, slow, made_job(name="quick", usage=Usage(cpu_total_seconds=60.0)))
    config = load(("cost.cpu_hour=1",), {}, str(tmp_path))

    async def scene(visitor: Visitor) -> None:
        await visitor.press("2")
        guest = HistoryVisitor(visitor.pilot, visitor.console)
        await guest.until(lambda: guest.names() == ["quick", "slow"])
        assert "LIMITED" in guest.lines()[0]
        assert "storage" in next(line for line in guest.lines() if "slow" in line)
        await guest.filter("cost>1")
        await guest.until(lambda: guest.names() == ["slow"])

    visit(tmp_path, scene, (150, 24), Options([StatePaths(tmp_path, HERE).store], config=config))


def test_the_jobs_are_filtered_while_the_user_types(tmp_path: Path) -> None:
    five_jobs(tmp_path)

    async def scene(guest: HistoryVisitor) -> None:
        await guest.press("slash")
        await guest.type("etl")
        await guest.until(lambda: guest.names() == ["etl", "etl"])
        field = guest.page.query_one(Field)
        assert field.has_focus
        await guest.type(" stat")  # it may become status:
        await guest.until(lambda: guest.page.query_one(FilterLine)._timer is None or guest.page.text == "etl")
        assert guest.names() == ["etl", "etl"]
        await guest.type("us:failed")
        await guest.until(lambda: guest.names() == ["etl"])
        await guest.press("escape")
        await guest.until(lambda: len(guest.names()) == 5)
        assert field.value == ""
        assert guest.page.lines.has_focus

    visit_history(tmp_path, scene)


def test_escape_clears_a_filter_that_was_applied(tmp_path: Path) -> None:
    five_jobs(tmp_path)

    async def scene(guest: HistoryVisitor) -> None:
        await guest.filter("etl")
        await guest.until(lambda: guest.names() == ["etl", "etl"])
        assert "esc Clear filter" in guest.screen().splitlines()[-1]
        await guest.press("escape")
        await guest.until(lambda: len(guest.names()) == 5)
        assert "esc Clear filter" not in guest.screen().splitlines()[-1]

    visit_history(tmp_path, scene)


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("etl", "etl"),
        ("stat", ""),
        ("etl stat", "etl"),
        ("etl status:", "etl"),
        ("etl status:fai", "etl"),
        ("etl status:failed", "etl status:failed"),
        ("wrong:1 etl", None),
        ("mem:4G..", "mem:4G.."),
    ],
)
def test_a_word_that_may_become_a_key_is_not_applied_yet(text: str, finished: str | None) -> None:
    assert finished_part(text, len(text)) == finished


def test_a_wrong_word_is_marked_with_its_remedy_and_the_jobs_stay(tmp_path: Path) -> None:
    five_jobs(tmp_path)

    async def scene(guest: HistoryVisitor) -> None:
        await guest.filter("status:faild")
        line = guest.page.query_one(FilterLine)
        assert line.error is not None
        assert (line.error.start, line.error.end) == (0, 12)
        assert 'did you mean "failed"' in guest.hint()
        shown = guest.page.query_one(Field).render_line(0)
        assert "".join(part.text for part in shown if part.style and part.style.underline) == "status:faild"
        assert len(guest.names()) == 5
        await guest.press("escape")
        assert guest.page.query_one(Field).value == ""
        assert guest.page.lines.has_focus

    visit_history(tmp_path, scene)


def test_a_word_is_not_marked_as_wrong_while_it_is_typed(tmp_path: Path) -> None:
    five_jobs(tmp_path)

    async def scene(guest: HistoryVisitor) -> None:
        await guest.press("slash")
        field, line = guest.page.query_one(Field), guest.page.query_one(FilterLine)
        field.value = "status:fai"
        await guest.press("end")
        assert line.error is None
        await guest.press("space")
        assert line.error is not None

    visit_history(tmp_path, scene)


def test_tab_and_the_right_arrow_take_what_the_store_knows(tmp_path: Path) -> None:
    five_jobs(tmp_path)

    async def scene(guest: HistoryVisitor) -> None:
        await guest.press("slash")
        await guest.until(lambda: bool(guest.page.query_one(FilterLine).values))
        await guest.type("na")
        assert guest.hint().split() == ["name:"]
        await guest.press("tab")
        assert guest.hint().split() == ["name:dump", "name:etl", "name:train-2", "name:train-1"]
        await guest.type("e")
        await guest.until(lambda: guest.page.query_one(Field)._suggestion == "name:etl")
        await guest.press("right")
        assert guest.page.query_one(Field).value == "name:etl"
        await guest.press("tab")
        await guest.type("stat")
        await guest.press("tab")
        await guest.type("f")
        await guest.press("tab", "enter")
        assert guest.page.text == "name:etl status:failed"
        await guest.until(lambda: len(guest.names()) == 1)

    visit_history(tmp_path, scene)


def test_keys_sort_by_what_the_store_knows(tmp_path: Path) -> None:
    five_jobs(tmp_path)

    async def scene(guest: HistoryVisitor) -> None:
        await guest.until(lambda: len(guest.names()) == 5)
        await guest.press("s")
        await guest.until(lambda: guest.names() == ["dump", "etl", "etl", "train-1", "train-2"])
        await guest.press("S")
        await guest.until(lambda: guest.names()[0] == "train-2")
        assert "sort name▼" in guest.page.words()

    visit_history(tmp_path, scene)


def test_groups_count_the_runs_of_a_name_and_enter_shows_them(tmp_path: Path) -> None:
    five_jobs(tmp_path)

    async def scene(guest: HistoryVisitor) -> None:
        await guest.press("b")
        await guest.until(lambda: len(guest.page.groups) == 4)
        await guest.until(lambda: "50%" in "".join(guest.lines()))
        titles = {title for _, title in guest.page.query_one(KeyLine).keys}
        assert "By name" in titles
        assert not {"Mark", "Stop"} & titles, "what is done to jobs is not done to names"
        assert guest.page.group_table.select("etl")
        await guest.press("enter")
        await guest.until(lambda: guest.names() == ["etl", "etl"])
        assert guest.page.query_one(Field).value == "name:etl"
        assert guest.page.lines.has_focus

    visit_history(tmp_path, scene, (110, 24))


@pytest.mark.parametrize("name", ["train", "two words", "st*r", *HOSTILE_TEXTS.values()])
def test_the_word_of_a_group_fits_its_name(name: str) -> None:
    word = name_word(name[:200])
    assert word.isprintable()
    assert parse(word, 0.0).matches(made_job(name=name[:200]))


def test_cursor_and_marks_stay_with_their_jobs_when_others_come(tmp_path: Path) -> None:
    five_jobs(tmp_path)

    async def scene(guest: HistoryVisitor) -> None:
        await guest.until(lambda: len(guest.names()) == 5)
        await guest.press("down", "space")
        under = guest.page.lines.cursor_key
        marks = guest.page.lines.marks
        kept_jobs(tmp_path, running_job(name="new", host="elsewhere"))
        guest.page.lines._moved_at = None
        await guest.until(lambda: guest.names()[:1] == ["new"])
        assert guest.page.lines.cursor_key == under
        assert guest.page.lines.marks == marks
        assert [row.job.name for row in guest.page.chosen_rows] == ["etl"]

    visit_history(tmp_path, scene)


def test_the_time_of_a_job_that_runs_goes_on(tmp_path: Path) -> None:
    kept_jobs(tmp_path, running_job(name="long", host="elsewhere", start_time=time.time() - 65))

    async def scene(guest: HistoryVisitor) -> None:
        def shown() -> str:
            """The running time of the job; later times are greater."""
            return str(re.findall(r" (\dm\d\ds) ", f" 0m00s {guest.lines()[1]}")[-1])

        await guest.until(lambda: shown() >= "1m05s")
        before = shown()
        await guest.until(lambda: shown() > before)

    visit_history(tmp_path, scene)


def test_jobs_that_come_are_listed_below_a_dialog_too(tmp_path: Path) -> None:
    five_jobs(tmp_path)

    async def scene(guest: HistoryVisitor) -> None:
        await guest.press("question_mark")
        assert isinstance(guest.console.screen, ModalScreen)
        kept_jobs(tmp_path, made_job(name="new"))
        await guest.until(lambda: guest.names()[:1] == ["new"])
        assert isinstance(guest.console.screen, ModalScreen)

    visit_history(tmp_path, scene)


def test_a_missing_store_says_how_to_make_one_and_appears_when_it_is_made(tmp_path: Path) -> None:
    async def scene(guest: HistoryVisitor) -> None:
        await guest.until(lambda: any("jobtop run" in line for line in guest.lines()))
        five_jobs(tmp_path)
        await guest.until(lambda: len(guest.names()) == 5)

    visit_history(tmp_path, scene)


def test_a_damaged_store_is_reported(tmp_path: Path) -> None:
    five_jobs(tmp_path)
    damage_pages(StatePaths(tmp_path, HERE).store)

    async def scene(guest: HistoryVisitor) -> None:
        await guest.until(lambda: any("damaged" in line for line in guest.lines()))
        await guest.press("slash", "escape", "b", "enter", "down")

    visit_history(tmp_path, scene)


def test_stores_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    five_jobs(tmp_path)

    async def scene(guest: HistoryVisitor) -> None:
        await guest.until(lambda: len(guest.names()) == 5)
        assert [fact for fact in ("2 stores", "1 cannot be read") if fact not in guest.page.words()] == []

    visit_history(tmp_path, scene, stores=(tmp_path / "other.db",))


@pytest.mark.parametrize("size", [(160, 42), (60, 15)])
def test_hostile_text_has_no_effect_at_any_width(tmp_path: Path, size: tuple[int, int]) -> None:
    kept_jobs(tmp_path, *(made_job(name=text, tool=text, host=text) for text in HOSTILE_TEXTS.values()))

    async def scene(guest: HistoryVisitor) -> None:
        await guest.until(lambda: len(guest.names()) == len(HOSTILE_TEXTS))
        for key in ("down", "b", "enter"):
            await guest.press(key)
            await guest.until(lambda: not guest.page.reading.is_running)
            for table in (guest.page.lines, guest.page.group_table):
                for line in guest.table_lines(table):
                    assert not holds_controls(line)
                    assert cell_len(line) <= size[0]

    visit_history(tmp_path, scene, size)


def test_only_the_visible_of_ten_thousand_jobs_are_read(tmp_path: Path) -> None:
    database = open_to_write(StatePaths(tmp_path, HERE))
    job = Jobs(database).insert(made_job(name="first"))
    with database.writing() as connection:
        columns = [row["name"] for row in connection.execute("PRAGMA table_info(jobs)") if row["name"] != "seq"]
        chosen = ", ".join("'n' || value" if name == "id" else name for name in columns)
        connection.execute(
            f"INSERT INTO jobs ({', '.join(columns)}) SELECT {chosen} FROM jobs,"
            " (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 9999)"
            " SELECT value FROM n) WHERE seq = ?",
            (job.seq,),
        )
    database.close()

    async def scene(guest: HistoryVisitor) -> None:
        await guest.until(lambda: len(guest.page.lines.source or ()) == 10_000)
        await guest.press("G")
        assert guest.page.lines.cursor_row is not None
        assert guest.page.lines.cursor_row.line.id == job.id
        assert "10 000 jobs" in guest.page.words()

    visit_history(tmp_path, scene)
