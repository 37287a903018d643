#!/usr/bin/env python3
"""Makes screenshots/run.svg from real jobs in a real terminal (tmux), in a temporary home.

`.venv/bin/python tools/screenshot.py`; look at the result before committing it.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "screenshots/run.svg"
COLUMNS, LINES, DEADLINE_SECONDS = 88, 60, 60.0
PROMPT = "\x1b[2m$\x1b[0m "
TYPED = re.compile(r"^(\x1b\[2m\$[^ ]* )(.+)$", re.MULTILINE)
SHOWN_COMMANDS = ("jobtop run --memory 512M -- python lively.py", "jobtop history")
BUSY = "data = bytearray({mib} << 20)\nwhile time.process_time() < {cpu}: pass"
EARLIER_JOBS = (
    ("--name fetch -- sleep 0.8", ""),
    ("--name tests -- sh -c 'exit 1'", ""),
    ("--name preprocess -- python -c '{script}'", BUSY.format(mib=96, cpu=1.4)),
    ("--name sweep --timeout 2s -- python -c '{script}'", BUSY.format(mib=640, cpu=60)),
    ("--name export -- python -c '{script}'", BUSY.format(mib=40, cpu=0.5) + "\nos.kill(os.getpid(), 9)"),
)

CELL_WIDTH, LINE_HEIGHT, FONT_SIZE, MARGIN = 8.4, 20, 14, 22
FONTS = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
PAPER, EDGE, INK = "#14171f", "#2b303d", "#d6dae4"
COLORS = {31: "#f2777a", 32: "#8fd18f", 33: "#e6c37a", 34: "#84a9f0", 35: "#c79bea", 36: "#6fc7c9", 37: INK}


def main() -> None:
    if shutil.which("tmux") is None:
        sys.exit("tmux is needed to make the picture")
    with tempfile.TemporaryDirectory(prefix="jobtop-screenshot-") as name:
        home = Path(name)
        environment = prepare(home)
        for options, script in EARLIER_JOBS:
            line = options.format(script=f"import os, time\n{script}")
            subprocess.run(["sh", "-c", f"jobtop run --quiet {line}"], env=environment, cwd=home, check=False)
        with terminal(home, environment) as tmux:
            for line in SHOWN_COMMANDS:
                tmux("send-keys", "-l", line)
                tmux("send-keys", "Enter")
                wait_for_prompt(tmux)
            # The last line is an empty prompt.
            text = tmux("capture-pane", "-e", "-p").strip().rpartition("\n")[0].rstrip()
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw_svg(TYPED.sub("\\1\x1b[1m\\2\x1b[0m", text), COLUMNS), encoding="utf-8")


def prepare(home: Path) -> dict[str, str]:
    """Provide `jobtop`, `python` and the example under short names; return the environment that finds them."""
    (home / "bin").mkdir()
    call = home / "bin/jobtop"
    call.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m jobtop "$@"\n', encoding="utf-8")
    call.chmod(0o755)
    (home / "bin/python").symlink_to(sys.executable)
    shutil.copy(ROOT / "docs/examples/lively.py", home)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("JOBTOP_", "TMUX", "NO_COLOR"))}
    path = f"{home / 'bin'}:{os.environ['PATH']}"
    return kept | {"PATH": path, "JOBTOP_HOME": str(home / "state"), "LC_ALL": "C.UTF-8"}


@contextmanager
def terminal(home: Path, environment: dict[str, str]) -> Iterator[Callable[..., str]]:
    """Run a shell in its own tmux server; yield a function that calls tmux."""

    def tmux(*arguments: str) -> str:
        command = ["tmux", "-S", str(home / "tmux"), "-f", "/dev/null", *arguments]
        return subprocess.run(command, env=environment, cwd=home, check=True, capture_output=True, text=True).stdout

    # As separate arguments: given one string, tmux would start a shell that drops PS1.
    tmux("new-session", "-d", "-x", str(COLUMNS), "-y", str(LINES), "env", f"PS1=\n{PROMPT}", "sh")
    try:
        wait_for_prompt(tmux)
        yield tmux
    finally:
        tmux("kill-server")


def wait_for_prompt(tmux: Callable[..., str]) -> None:
    """Wait until the last line is an empty prompt."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not tmux("capture-pane", "-p").rstrip().endswith("\n$"):
        if time.monotonic() > deadline:
            sys.exit(f"no prompt within {DEADLINE_SECONDS:g} s:\n{tmux('capture-pane', '-p')}")
        time.sleep(0.05)


@dataclass(frozen=True, slots=True)
class Style:
    """How a piece of text looks."""

    color: str | None = None
    bold: bool = False
    dim: bool = False

    def attributes(self) -> str:
        written = f' fill="{self.color}"' if self.color else ""
        return written + (' font-weight="600"' if self.bold else "") + (' opacity="0.55"' if self.dim else "")


def draw_svg(text: str, columns: int) -> str:
    """Return text with ANSI colours as SVG, each word at its own column."""
    rows = list(styled_rows(text))
    width, height = round(2 * MARGIN + columns * CELL_WIDTH), 2 * MARGIN + len(rows) * LINE_HEIGHT
    words = [
        f'<text x="{MARGIN + column * CELL_WIDTH:.1f}" y="{MARGIN + (row + 0.75) * LINE_HEIGHT:g}"'
        f"{style.attributes()}>{escape(word)}</text>\n"
        for row, pieces in enumerate(rows)
        for column, word, style in pieces
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10" fill="{PAPER}" stroke="{EDGE}"/>\n'
        f'<g font-family="{FONTS}" font-size="{FONT_SIZE}" fill="{INK}">\n{"".join(words)}</g>\n</svg>\n'
    )


def styled_rows(text: str) -> Iterator[list[tuple[int, str, Style]]]:
    """Yield per line its words with columns and styles; a style lasts until it is changed, also across lines."""
    style = Style()
    for line in text.split("\n"):
        pieces: list[tuple[int, str, Style]] = []
        column = 0
        for codes, plain in re.findall(r"\x1b\[([0-9;]*)m|([^\x1b]+)", line):
            if not plain:
                style = style_after(style, codes)
                continue
            # Each word has its own position, so that no font can shift the next one; ✓ and – are words too.
            pieces += [(column + word.start(), word[0], style) for word in re.finditer(r"[!-~]+|[^\s!-~]", plain)]
            column += len(plain)
        yield pieces


def style_after(style: Style, codes: str) -> Style:
    """Return the style after an SGR sequence."""
    for code in map(int, codes.split(";") if codes else ("0",)):
        if code == 0:
            style = Style()
        elif code in (1, 2):
            style = replace(style, bold=style.bold or code == 1, dim=style.dim or code == 2)
        elif code in COLORS or code == 39:
            style = replace(style, color=COLORS.get(code))
    return style


if __name__ == "__main__":
    main()
