"""The output of a job: followed, scrolled, searched, at a moment; with long lines, gaps and invalid bytes."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.cells import cell_len

from jobtop.core.paths import StatePaths
from jobtop.core.text.terminal_text import PLAIN, TextStyle
from jobtop.store.output.text import LONGEST_ROW, Output, Row
from jobtop.tui.data.reader import StoreReader
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.output_rows import Follow, GoTo, Logs, Piece, Scroll, Until, row_pieces, rows_after
from jobtop.tui.widgets.output_view import OutputPane, OutputView, SearchLine
from records import HERE, HOSTILE_TEXTS, holds_controls, kept_jobs, made_job
from stage import Performance, Stage

LINES = [f"line {number:04d}" for number in range(500)]
DEADLINE_SECONDS = 10.0


class Script(Performance):
    """A widget with the output of a job on the stage."""

    @property
    def view(self) -> OutputView:
        return self.widget.query_one(OutputView)

    def shown(self) -> list[str]:
        return [self.view.render_line(y).text.rstrip() for y in range(self.view.size.height)]

    def below(self) -> str:
        return str(self.view._border_subtitle)

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, "\n".join([*self.shown(), self.below()])
            await self.pilot.pause(0.01)

    async def shows(self, text: str) -> None:
        await self.until(lambda: any(text in line for line in self.shown()))


@contextmanager
def written(root: Path, stdout: bytes, stderr: bytes = b"", marks: str = "") -> Iterator[Logs]:
    (job,) = kept_jobs(root, made_job())
    paths = StatePaths(root, HERE)
    directory = paths.job(job.id)
    directory.mkdir(parents=True)
    for name, data in (("stdout.log", stdout), ("stderr.log", stderr), ("marks", marks.encode())):
        (directory / name).write_bytes(data)
    reader = StoreReader()
    try:
        yield Logs(reader, paths.store, directory)
    finally:
        reader.close()


def perform(logs: Logs, scene: Callable[[Script], Awaitable[None]], size: tuple[int, int] = (80, 22)) -> None:
    async def play() -> None:
        pane = OutputPane()
        async with Stage(pane, "jobtop-dark", False).run_test(size=size) as pilot:
            script = Script(pilot, pane, [])
            script.view.logs = logs
            script.view.focus()
            script.view.update_output(is_live=True)
            await script.until(lambda: script.view.shown.rows or not script.view.shown.size)
            await scene(script)

    asyncio.run(play())


def add(logs: Logs, data: bytes) -> None:
    with (logs.directory / "stdout.log").open("ab") as log:
        log.write(data)


def test_the_end_is_followed_until_the_user_scrolls_and_again_at_the_end(tmp_path: Path) -> None:
    async def scene(script: Script) -> None:
        await script.shows("line 0499")
        add(logs, b"line 0500\n")
        script.view.update_output(is_live=True)
        await script.shows("line 0500")
        await script.press("up", "up")
        await script.until(lambda: script.shown()[-1].strip() == "line 0498")
        assert "stays here" in script.below()
        add(logs, b"line 0501\n")
        script.view.update_output(is_live=True)
        await script.settle()
        assert script.shown()[-1].strip() == "line 0498"
        await script.press("down", "down", "down")
        await script.shows("line 0501")
        assert script.view.is_following

    with written(tmp_path, "\n".join(LINES).encode() + b"\n") as logs:
        perform(logs, scene)


def test_pages_first_and_last_lead_everywhere(tmp_path: Path) -> None:
    async def scene(script: Script) -> None:
        await script.shows("line 0499")
        await script.press("pageup")
        await script.until(lambda: script.shown()[-1].strip() == "line 0480")
        await script.press("g")
        await script.until(lambda: script.shown()[0].strip() == "line 0000")
        await script.press("up", "pageup")
        await script.settle()
        assert script.shown()[0].strip() == "line 0000"
        await script.press("pagedown")
        await script.until(lambda: script.shown()[0].strip() == "line 0019")
        await script.press("G")
        await script.shows("line 0499")

    with written(tmp_path, "\n".join(LINES).encode()) as logs:
        perform(logs, scene)


def test_words_are_found_forwards_and_backwards_and_round_the_end(tmp_path: Path) -> None:
    text = [*LINES]
    text[100] = text[300] = "a Needle "

    async def scene(script: Script) -> None:
        async def hit(number: int) -> None:
            await script.until(lambda: script.view.match_place == number * len("line 0000\n") + len("a "))
            await script.shows("▌a Needle")

        await script.shows("line 0499")
        await script.press("slash", *"needle", "enter")
        await hit(300)
        await script.press("N")
        await hit(100)
        await script.press("n")
        await hit(300)
        await script.press("n")
        await hit(100)
        await script.press("slash", "ctrl+u", *"nowhere", "enter")
        await script.until(lambda: "is not in it" in script.below())
        await script.press("slash", "escape")
        assert not script.widget.query_one(SearchLine).display
        assert script.view.has_focus

    with written(tmp_path, "\n".join(text).encode()) as logs:
        perform(logs, scene)


def test_the_streams_can_be_read_apart_and_errors_have_a_bar(tmp_path: Path) -> None:
    async def scene(script: Script) -> None:
        await script.shows("│bad")
        assert [line.strip() for line in script.shown()[:3]] == ["1s  good", "2s │bad", "good again"]
        await script.press("o")
        await script.until(lambda: script.view.shown.size == len(b"good\ngood again\n"))
        await script.press("o")
        await script.until(lambda: script.view.shown.size == len(b"bad\n"))
        assert "bad" in script.shown()[0]
        await script.press("o")
        await script.until(lambda: len(script.view.shown.rows) == 3)

    with written(tmp_path, b"good\ngood again\n", b"bad\n", "1.0 5 0\n2.0 5 4\n") as logs:
        perform(logs, scene)


def test_long_lines_can_be_read_to_their_end(tmp_path: Path) -> None:
    async def scene(script: Script) -> None:
        await script.shows("0" * 40)
        assert "END" not in script.shown()[0]
        for _ in range(6):
            await script.press("right")
        await script.shows("END")
        await script.press(*["left"] * 6)
        await script.until(lambda: "END" not in script.shown()[0])

    with written(tmp_path, b"0" * 150 + b"END\n") as logs:
        perform(logs, scene)


def test_invalid_bytes_are_shown_and_have_no_effect(tmp_path: Path) -> None:
    texts = [text for name, text in HOSTILE_TEXTS.items() if name != "long"]

    async def scene(script: Script) -> None:
        await script.shows("[red]x[/red]")
        shown = "\n".join(script.shown())
        assert not holds_controls(shown)
        assert "red\\x9b31m" in shown
        assert "caf\ufffd" in shown

    with written(tmp_path, "\n".join(texts).encode("utf-8", "surrogateescape")) as logs:
        perform(logs, scene)


def test_a_missing_store_is_reported(tmp_path: Path) -> None:
    async def scene(script: Script) -> None:
        logs.store.rename(tmp_path / "elsewhere")
        script.view.update_output(is_live=True)
        await script.until(lambda: "no such store" in script.below())

    with written(tmp_path, b"x\n") as logs:
        perform(logs, scene)


@pytest.mark.parametrize(
    ("movement", "first", "last"),
    [
        (Follow(), 490, 499),
        (Scroll(-5), 195, 204),
        (Scroll(5), 205, 214),
        (Scroll(-1000), 0, 9),
        (Scroll(1000), 490, 499),
        (GoTo(0), 0, 9),
        (GoTo(3004, above=3), 297, 306),
        (GoTo(10**9), 490, 499),
        (Until(50.0), 40, 49),
        (Until(3.0), 0, 2),
    ],
)
def test_every_movement_gives_its_rows(
    tmp_path: Path, movement: Follow | Scroll | GoTo | Until, first: int, last: int
) -> None:
    (tmp_path / "stdout.log").write_text("\n".join(LINES) + "\n")
    (tmp_path / "marks").write_text("".join(f"{number} {10 * number} 0\n" for number in range(1, 501)))
    output = Output(tmp_path)
    output.refresh()
    shown = rows_after(output, movement, start=2000, height=10)
    assert (shown.rows[0].text, shown.rows[-1].text) == (LINES[first], LINES[last])
    assert shown.times == tuple(float(number + 1) for number in range(first, last + 1))


def test_a_line_without_an_end_is_read_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "stdout.log").write_bytes(b"." * 3_000_000 + b"END")
    output = Output(tmp_path)
    output.refresh()
    shown = rows_after(output, Follow(), 0, 20)
    assert shown.rows[-1].text.endswith("END")
    assert len(shown.rows) == 20
    assert {len(row.text) for row in shown.rows[:-1]} == {LONGEST_ROW}


def test_bytes_that_were_left_out_are_mentioned() -> None:
    (piece,) = row_pieces(Row(0, 4096, 0, "", 3 << 20))
    assert [fact for fact in ("3.0 MiB", "run.log_max") if fact not in piece.text] == []


def test_matches_and_control_characters_have_tones_of_their_own() -> None:
    pieces = row_pieces(Row(0, 9, 0, "\x1b[31mN\x1b[0mo, no!\x07"), PLAIN, "no")
    assert [(piece.text, piece.ink) for piece in pieces] == [
        ("N", Tone.ORANGE),
        ("o", Tone.ORANGE),
        (", ", PLAIN),
        ("no", Tone.ORANGE),
        ("!", PLAIN),
        ("\\x07", Tone.FAINT),
    ]
    assert [piece.text for piece in row_pieces(Row(0, 9, 0, "No no"), PLAIN, "No")] == ["No", " no"]


def test_tabs_are_as_wide_as_in_a_terminal_also_between_colours() -> None:
    pieces = row_pieces(Row(0, 9, 0, "abc\x1b[31mde\tx\x1b[0m\ty"))
    assert "".join(piece.text for piece in pieces) == "abcde   x       y"
    assert row_pieces(Row(0, 9, 0, "\tabc" * 9), longest=10) == [Piece("        ab")]


def test_colours_are_painted_and_carry_over_to_the_next_lines(tmp_path: Path) -> None:
    async def scene(script: Script) -> None:
        await script.shows("wide red")
        paints = {
            words: segment.style
            for y in range(script.view.size.height)
            for segment in script.view.render_line(y)
            if (words := segment.text.strip()) and segment.style
        }
        red, plain = paints["still red"].color, paints["plain"].color
        assert red == paints["red"].color == paints["wide red"].color != plain
        assert (paints["bold"].bold, paints["still red"].bold) == (True, False)
        assert paints["on blue"].bgcolor not in (None, paints["plain"].bgcolor)
        assert not any("\\x1b" in line or "title" in line for line in script.shown())

    colored = "\x1b[31mred\nstill red\n\x1b[1mbold\x1b[22m\nwide red\x1b[m\nplain\n"
    with written(tmp_path, f"{colored}\x1b]0;title\x07\x1b[2J\x1b[44mon blue\x1b[K".encode()) as logs:
        perform(logs, scene)


def test_colours_that_were_set_above_the_first_shown_row_count(tmp_path: Path) -> None:
    async def scene(script: Script) -> None:
        await script.shows("line 0499")
        colors = {segment.style.color for segment in script.view.render_line(0) if segment.style}
        assert script.view.inks.program_style(TextStyle(foreground=2)).color in colors

    with written(tmp_path, b"\x1b[32m" + "\n".join(LINES).encode()) as logs:
        perform(logs, scene)


def test_a_search_finds_words_that_change_their_colour_inside(tmp_path: Path) -> None:
    async def scene(script: Script) -> None:
        await script.shows("line 0499")
        await script.press("slash", *"all 31 fine", "enter")
        await script.shows("▌all 31 fine")

    text = b"\x1b[31mall\x1b[0m \x1b[1m31\x1b[m fine\n" + "\n".join(LINES).encode()
    with written(tmp_path, text) as logs:
        perform(logs, scene)


def test_a_job_with_one_log_says_that_its_streams_are_one(tmp_path: Path) -> None:
    async def scene(script: Script) -> None:
        await script.shows("hello")
        assert "stderr" not in str(script.view._border_title)
        await script.press("o", "o")
        await script.shows("kept as one")

    with written(tmp_path, b"hello\r\n") as logs:
        (logs.directory / "stderr.log").unlink()
        perform(logs, scene)


@pytest.mark.parametrize("left", [0, 1, 2, 3, 30])
def test_a_row_keeps_its_width_however_far_it_is_moved_to_the_left(tmp_path: Path, left: int) -> None:
    async def scene(script: Script) -> None:
        await script.shows("text")
        script.view._left = left
        script.view.repaint()
        line = script.view.render_line(0)
        assert line.cell_length == script.view.drawn_size.width == cell_len(line.text)
        assert ("…" in line.text) == (left < 30)

    with written(tmp_path, "日本語\x1b[31m text 漢字漢字漢字漢字漢字漢字漢字 end".encode()) as logs:
        perform(logs, scene, size=(40, 6))
