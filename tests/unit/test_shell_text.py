"""A command is shown as a shell can read it: bash gets back exactly the arguments."""

import os
import subprocess

import pytest

from jobtop.core.text.shell_text import shell_text

COMMANDS = (
    ["python3", "-c", "import os\nprint('a b')\n"],
    ["a", "", "it's", "back\\slash\n", "tab\t1", "\x1b[31m7", "\x01" + "1", "naïve\n★", '$HOME `x` "q"', "caf\udce9"],
)


@pytest.mark.parametrize("command", COMMANDS)
def test_bash_reads_back_what_was_run(command: list[str]) -> None:
    text = shell_text(command)
    assert "\n" not in text
    script = os.fsencode(f"printf '%s\\0' {text}")
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert [os.fsdecode(word) for word in done.stdout.split(b"\0")[:-1]] == command
