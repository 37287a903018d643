"""A job in the console at a real terminal: it waits for input, gets it, and its output appears when it is printed."""

import json
import os
import sys
import time

import pytest

from jobtop.core.measure.collectors.terminal_wait import CALLS
from running import nothing_is_left
from support import Jobtop, wait_for
from terminal import Terminal, terminal

__all__ = ["nothing_is_left"]

CAN_TELL = os.geteuid() == 0 and os.uname().machine in CALLS
SOON_SECONDS = 0.5


def in_console(screen: Terminal, program: str, *options: str) -> None:
    """Run a Python program in the console of a wide terminal."""
    screen.resize(120, 34)
    words = " ".join(("JOBTOP_RUN_UI=auto JOBTOP_RUN_WHEN_DONE=stay $J run --name ada", *options))
    screen.enter(f"{words} -- {sys.executable} -u -c '{program}'")
    screen.shows("running   ada")


def leave(screen: Terminal) -> None:
    screen.press("q")
    screen.back_at_prompt()


def test_a_question_of_a_job_is_answered_in_the_console(jobtop: Jobtop) -> None:
    with terminal(jobtop) as screen:
        in_console(screen, 'print("hello", input("name? "))')
        screen.shows("waits for input · i to type" if CAN_TELL else "name?")
        screen.press("i")
        screen.shows("typing into ada · F12 ends")
        screen.type("Xda")
        screen.press("Left", "Left", "Left", "End")  # keys of the terminal's own line editing are only echoed
        screen.press("C-u")
        screen.enter("lovelace")
        screen.shows("hello lovelace")
        screen.shows("success")
        leave(screen)
    (job,) = json.loads(jobtop("history", "--json").stdout)
    assert job["status"] == "success"


def test_ctrl_c_that_is_typed_into_a_job_interrupts_it_and_the_console_stays(jobtop: Jobtop) -> None:
    with terminal(jobtop) as screen:
        in_console(screen, 'import time; print("be" + "gun", flush=True); time.sleep(600)')
        screen.shows("begun")
        screen.press("i")
        screen.shows("typing into")
        screen.press("C-c")
        screen.shows("KeyboardInterrupt")
        screen.shows("failed")
        leave(screen)
    (job,) = json.loads(jobtop("history", "--json").stdout)
    assert (job["status"], job["signal"] or job["exit_code"]) in (("failed", 2), ("failed", 130))


def test_the_terminal_of_a_job_is_as_large_as_the_output(jobtop: Jobtop) -> None:
    program = 'import os; [print("now", os.get_terminal_size()[0], end=" ", flush=True) for _ in iter(input, "")]'
    with terminal(jobtop) as screen:
        in_console(screen, program)
        screen.press("i")
        screen.shows("typing into")
        screen.enter("x")
        pane = next(row for row in screen.shows("now").splitlines() if "typing into" in row)
        width = pane.split("╭")[2].index("╮")  # without its borders
        screen.until(lambda text: any(f"now {columns} " in text for columns in (width - 1, width - 7)), "its width")
        screen.press("F12")
        screen.press("z")
        screen.until(lambda text: "Timeline" not in text, "the pane alone")
        screen.press("i")
        screen.shows("typing into")
        screen.enter("y")
        screen.shows("now 111 ")
        screen.press("Enter")
        screen.shows("Output")
        screen.press("z")
        screen.shows("success")
        leave(screen)


@pytest.mark.parametrize("way", ["console", "logs -f"])
def test_a_line_is_on_the_screen_soon_after_it_was_printed(jobtop: Jobtop, way: str) -> None:
    program = (
        "import os, time\nprint('be' + 'gun')\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
        "print('pri' + 'nted')\nopen('at', 'w').write(str(time.time()))\n"
        "while not os.path.exists('end'): time.sleep(0.01)\n"
    )
    script = jobtop.home / "train.py"
    script.write_text(program)
    with terminal(jobtop) as screen:
        screen.resize(120, 34)
        if way == "console":
            screen.enter(f"JOBTOP_RUN_UI=auto JOBTOP_RUN_WHEN_DONE=stay $J run -- {sys.executable} train.py")
        else:
            screen.enter(f"JOB=$($J run --detach -- {sys.executable} train.py); $J logs -f $JOB")
        screen.shows("begun")
        (jobtop.home / "go").touch()
        screen.shows("printed")
        seen = time.time()
        printed = jobtop.home / "at"
        wait_for(lambda: printed.exists() and printed.read_text())
        (jobtop.home / "end").touch()
        assert seen - float(printed.read_text()) < SOON_SECONDS
        if way == "console":
            screen.shows("success")
            leave(screen)
        else:
            screen.back_at_prompt()


def test_the_end_of_the_output_stays_in_the_terminal_in_its_colours(jobtop: Jobtop) -> None:
    with terminal(jobtop) as screen:
        in_console(screen, r'print("\033[31mred\033[0m \033]0;title\007\033[2Jplain"); input()')
        screen.press("i")
        screen.shows("typing into")
        screen.press("Enter")
        screen.shows("success")
        leave(screen)
        painted = screen.tmux("capture-pane", "-e", "-p")
        assert "\x1b[31mred\x1b[39m plain" in painted
