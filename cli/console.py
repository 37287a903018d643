"""`jobtop` without a verb: the console, where there is a terminal to show it in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from jobtop.cli.app import App
from jobtop.cli.screen import is_screen
from jobtop.core.errors import UsageError

SHORTEST_REFRESH_SECONDS = 0.2
STORE_SUFFIX = ".db"


def can_be_opened() -> bool:
    """Whether somebody sits at a terminal that can be painted on."""
    return os.isatty(0) and is_screen()


def open_console(
    app: App,
    store: Sequence[str],
    refresh: float,
    readonly: bool,
    ascii: bool,  # noqa: A002
    demo: bool,
) -> int:
    """Show it until the user leaves; the exit code."""
    if refresh < SHORTEST_REFRESH_SECONDS:
        raise UsageError(f"--refresh has to be at least {SHORTEST_REFRESH_SECONDS:g}s")
    stores = [file for path in store for file in store_files(path)] or [app.paths.store]
    config = app.config
    if app.color == "never":
        os.environ["NO_COLOR"] = "1"
    from jobtop.tui.app import Options
    from jobtop.tui.keymap import clashes, read_keys
    from jobtop.tui.opening import open_console as show
    from jobtop.tui.opening import run_console
    from jobtop.tui.preferences import NAME

    keys = read_keys(config.keys)
    options = Options(
        stores=stores,
        own=app.paths if app.paths.store in stores else None,
        refresh_seconds=refresh,
        is_ascii=ascii,
        is_readonly=readonly,
        keys=keys,
        config=config,
        preferences=app.paths.root / NAME,
        notices=(*config.notices, *map(str, clashes(keys))),
    )
    if not demo:
        return show(options)
    from jobtop.tui.demo import demo_console

    with demo_console(options) as console:
        return run_console(console)


def store_files(word: str) -> list[Path]:
    """The store that is meant, or all that are in a directory."""
    path = Path(os.path.abspath(os.path.expanduser(word)))
    if not path.exists():
        raise UsageError(f"--store: {word}: there is no such file or directory")
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.glob(f"*{STORE_SUFFIX}") if file.is_file())
    if not found:
        raise UsageError(f"--store: {word}: there is no store (HOST{STORE_SUFFIX}) in this directory")
    return found
