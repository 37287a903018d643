"""The examples of docs/python.md run, and are part of a program that `make types` checks."""

import re
import subprocess
from pathlib import Path

from running import nothing_is_left
from support import ROOT, Jobtop

__all__ = ["nothing_is_left"]

EXAMPLES = ROOT / "docs/examples/from_python.py"
TRAIN = 'import sys\nprint("trained")\nsys.exit("--fail" in sys.argv)\n'


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"(?ms)^```python\n(.*?)^```$", page.read_text(encoding="utf-8"))


def test_every_example_of_the_page_is_in_the_program() -> None:
    source = EXAMPLES.read_text(encoding="utf-8")
    blocks = python_blocks(ROOT / "docs/python.md")
    assert len(blocks) >= 8
    assert [block for block in blocks if block not in source] == []


def test_the_program_with_the_examples_runs(jobtop: Jobtop) -> None:
    (jobtop.home / "train.py").write_text(TRAIN, encoding="utf-8")
    path = f"{Path(jobtop.python).parent}:{jobtop.env['PATH']}"
    finished = subprocess.run(
        [jobtop.python, "-W", "error", EXAMPLES],
        env={**jobtop.env, "PATH": path},
        cwd=jobtop.home,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    assert "failed 1 exit code 1" in finished.stdout
