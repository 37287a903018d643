"""The output of a job as one text: rows from any place, in both directions, by time, and around holes."""

import os
import random
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest

from jobtop.store.output.text import LONGEST_ROW, SEARCHED_BYTES, Output, Row


def written(directory: Path, stdout: bytes = b"", stderr: bytes | None = b"", marks: str = "") -> Output:
    """The output of a job that left these."""
    directory.mkdir(exist_ok=True)
    (directory / "stdout.log").write_bytes(stdout)
    if stderr is not None:
        (directory / "stderr.log").write_bytes(stderr)
    (directory / "marks").write_text(marks)
    output = Output(directory)
    output.refresh()
    return output


def texts(rows: Iterable[Row]) -> list[str]:
    return [row.text for row in rows]


def test_lines_of_both_logs_are_in_the_order_of_the_marks(tmp_path: Path) -> None:
    output = written(tmp_path, b"one\nthree\nfour\n", b"two\nfive\n", "1.0 4 4\n2.0 15 4\n")
    rows = output.rows(0, 10)
    assert texts(rows) == ["one", "two", "three", "four", "five"]
    assert [row.stream for row in rows] == [0, 1, 0, 0, 1]


def test_a_place_has_a_time_and_a_time_has_a_place(tmp_path: Path) -> None:
    output = written(tmp_path, b"one\nthree\nfour\n", b"two\nfive\n", "1.0 4 4\n2.5 15 4\n")
    assert [output.moment(row.place) for row in output.rows(0, 10)] == [1.0, 1.0, 2.5, 2.5, None]
    assert [output.place_at(moment) for moment in (0.5, 1.0, 2.4, 2.5, 99.0)] == [0, 8, 8, 19, 19]


def test_refresh_reads_new_lines_and_new_marks(tmp_path: Path) -> None:
    output = written(tmp_path, b"one\n", b"", "1.0 4 0\n2.0 4 ")
    assert output.size == 4
    with (tmp_path / "stdout.log").open("ab") as log, (tmp_path / "marks").open("a") as marks:
        log.write(b"two\nthr")
        marks.write("3\n2.5 8 0\n")
    output.refresh()
    assert texts(output.rows(0, 10)) == ["one", "two", "thr"]
    assert output.moment(4) == 2.5


def test_marks_of_the_store_are_used_if_their_file_was_deleted(tmp_path: Path) -> None:
    written(tmp_path, b"one\nthree\n", b"two\n")
    (tmp_path / "marks").unlink()
    output = Output(tmp_path)
    for _ in range(2):
        output.refresh([(1.0, 4, 4), (2.0, 10, 4)])
    assert texts(output.rows(0, 10)) == ["one", "two", "three"]


def test_a_job_on_a_terminal_has_one_log_and_marks_without_the_other(tmp_path: Path) -> None:
    output = written(tmp_path, b"one\r\ntwo\r\n", None, "1.0 5\n2.0 10\n")
    assert texts(output.rows(0, 10)) == ["one", "two"]
    assert output.moment(5) == 2.0


def test_one_stream_can_be_read_alone(tmp_path: Path) -> None:
    written(tmp_path, b"one\n", b"two\n", "1.0 4 4\n")
    errors = Output(tmp_path, [1])
    errors.refresh()
    assert (texts(errors.rows(0, 10)), errors.size, errors.place_at(1.0)) == (["two"], 4, 4)


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_the_same_in_both_directions_and_from_any_row(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    pieces = [b"\n", b"\r\n", b"\r", b"short\n", b"x" * LONGEST_ROW, b"y" * (5 * LONGEST_ROW + 3), b"\xe2\x82\xac\n"]
    pieces += [b"99 %\r" * 3000]
    stdout, stderr = (b"".join(dice.choices(pieces, k=60)) for _ in range(2))
    edges = sorted((dice.randrange(len(stdout)), dice.randrange(len(stderr))) for _ in range(5))
    marks = [(number, one, max(other for _, other in edges[: number + 1])) for number, (one, _) in enumerate(edges)]
    output = written(tmp_path, stdout, stderr, "".join(f"{at} {one} {other}\n" for at, one, other in marks))
    rows = output.rows(0, 10_000)
    assert rows == output.rows_before(output.size, 10_000)
    assert all(before.stop <= after.place for before, after in pairwise(rows))
    assert (rows[-1].stop, output.size) == (len(stdout + stderr),) * 2
    assert max(row.stop - row.place for row in rows) <= 2 * LONGEST_ROW
    for number in dice.sample(range(len(rows)), 20):
        assert output.rows(rows[number].place, 2) == rows[number : number + 2]
        assert output.rows_before(rows[number].stop, 2) == rows[max(0, number - 1) : number + 1]
        assert output.row_start(dice.randrange(rows[number].place, rows[number].stop)) == rows[number].place


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        (b"1 %\r 20 %\r100 %\n", "100 %"),
        (b"1 %\r 20 %\r", " 20 %"),
        (b"loading\rdone\n", "doneing"),
        (b"loading\r\x1b[Kdone\n", "done"),
        (b"one\r\n", "one"),
        (b"\r\r\n", ""),
    ],
)
def test_a_line_that_was_overwritten_is_shown_as_it_was_last(tmp_path: Path, line: bytes, seen: str) -> None:
    assert texts(written(tmp_path, b"before\n" + line).rows(0, 10))[1] == seen


def test_a_progress_bar_that_was_overwritten_ten_thousand_times_is_one_row(tmp_path: Path) -> None:
    bar = b"".join(b"\repoch 1: %5d of 10000 |%s|" % (step, b"#" * 40) for step in range(1, 10001))
    output = written(tmp_path, b"begun\n" + bar + b"\nover\n")
    rows = output.rows(0, 10)
    assert texts(rows) == ["begun", f"epoch 1: 10000 of 10000 |{'#' * 40}|", "over"]
    assert output.rows_before(output.size, 10) == rows


def test_a_hole_is_one_row_and_is_not_read(tmp_path: Path) -> None:
    size = 4 * SEARCHED_BYTES
    with (tmp_path / "stdout.log").open("wb") as log:
        log.write(b"head\n".rjust(4096))
        log.truncate(size)
        log.seek(0, os.SEEK_END)
        log.write(b"tail\n")
    output = Output(tmp_path)
    output.refresh()
    head, hole, tail = (rows := output.rows(0, 10))[0], rows[1], rows[-1]
    assert (head.text.strip(), tail.text) == ("head", "tail")
    assert hole.left_out is not None
    assert hole.left_out > size - SEARCHED_BYTES
    assert output.rows_before(output.size, 10) == rows
    assert output.row_start(hole.place + 10) == hole.place
    assert output.find("tail", 0).place == tail.place


def test_a_search_finds_matches_in_both_directions_and_across_blocks(tmp_path: Path) -> None:
    filler = b"." * (SEARCHED_BYTES - 3)
    output = written(tmp_path, b"Alpha\n" + filler + b"needle\n" + filler + b"alpha\n", b"")
    needle = 6 + len(filler)
    last = len(filler) * 2 + 6 + 7
    assert output.find("needle", 0).place == needle
    assert output.find("alpha", 0).place == 0
    assert output.find("alpha", 1).place == last
    assert output.find("Alpha", 1).place is None
    assert output.find("needle", output.size, forward=False).place == needle
    assert output.find("alpha", last, forward=False).place == 0
    assert output.find("nowhere", 0).resume is None


def test_a_long_search_returns_where_to_resume(tmp_path: Path) -> None:
    output = written(tmp_path, b"." * 3 * SEARCHED_BYTES + b"needle", b"")
    begun = output.find("needle", 0, budget=SEARCHED_BYTES)
    assert (begun.place, begun.resume) == (None, SEARCHED_BYTES)
    assert output.find("needle", SEARCHED_BYTES).place == 3 * SEARCHED_BYTES


def test_a_job_without_any_output_has_no_rows(tmp_path: Path) -> None:
    output = Output(tmp_path / "nowhere")
    output.refresh()
    assert (output.size, output.rows(0, 5), output.rows_before(0, 5), output.find("x", 0).resume) == (0, [], [], None)
