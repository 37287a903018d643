"""A terminal that takes little: the console replaces pictures that were not written yet, and does not queue them."""

import time

from benchmarks.display import Display, display
from support import Jobtop

LINES, COLUMNS = 45, 160
PICTURE_BYTES = 60_000  # more than a picture of this size has; the kernel's buffer of the terminal is in it
STALL_SECONDS = 4.0


def environment(jobtop: Jobtop) -> dict[str, str]:
    """The environment of the tests, without the size of another terminal."""
    return {key: value for key, value in jobtop.env.items() if key not in ("COLUMNS", "LINES")}


def read_all(shown: Display) -> int:
    """Read what has been written until now; the bytes."""
    before = shown.bytes_received
    while shown._read(0.05):
        if shown.bytes_received - before > 4 * PICTURE_BYTES:
            break
    return shown.bytes_received - before


def test_a_terminal_that_stops_gets_one_picture_and_not_all_that_it_missed(jobtop: Jobtop) -> None:
    command = jobtop.command("--demo", "--refresh", "0.25")
    with display(command, environment(jobtop), COLUMNS, LINES) as shown:
        shown.until(lambda screen: "llm-finetune" in screen.text(), "the demo")
        time.sleep(STALL_SECONDS)  # the terminal reads nothing
        assert read_all(shown) < PICTURE_BYTES
        shown.press("2")
        shown.until(lambda screen: "History" in screen.text() and "EXIT" in screen.text(), "the history")


def test_the_screen_is_whole_after_a_stall(jobtop: Jobtop) -> None:
    with display(jobtop.command("--demo"), environment(jobtop), COLUMNS, LINES) as shown:
        shown.until(lambda screen: "llm-finetune" in screen.text(), "the demo")
        time.sleep(2.0)
        shown.press("?")
        shown.until(lambda screen: "Everywhere" in screen.text(), "the help")
        shown.press("\x1b")
        shown.until(lambda screen: "preview" in screen.text() and "^p palette" in screen.text(), "the dashboard again")
        assert all(len(row) == COLUMNS for row in shown.screen.rows)
