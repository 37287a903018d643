"""`jobtop` without a verb: opens the console on a terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobtop.cli.app import App
from jobtop.cli.text.screen import can_paint
from jobtop.core.errors import UsageError

if TYPE_CHECKING:
    from jobtop.tui.app import Options

SHORTEST_REFRESH_SECONDS = 0.2


def can_open_console() -> bool:
    """Return whether input and output are a terminal that can show the console."""
    return os.isatty(0) and can_paint()


def open_console(
    app: App,
    refresh: float,
    readonly: bool,
    ascii: bool,  # noqa: A002
    demo: bool,
) -> int:
    """Show the console until the user leaves; return the exit code."""
    if refresh < SHORTEST_REFRESH_SECONDS:
        raise UsageError(f"--refresh has to be at least {SHORTEST_REFRESH_SECONDS:g}s")
    options = console_options(app, app.stores, refresh_seconds=refresh, is_ascii=ascii, is_readonly=readonly)
    from jobtop.tui.app import Console
    from jobtop.tui.opening import options_for_terminal, run_console

    options = options_for_terminal(options)
    if not demo:
        return run_console(Console(options))
    from jobtop.tui.demo.demo import demo_console

    with demo_console(options) as console:
        return run_console(console)


def console_options(app: App, stores: Sequence[Path] = (), **settings: Any) -> Options:
    """Return the console's options; without stores it shows this host's."""
    stores, config = stores or [app.paths.store], app.config
    if app.uses_color(1):  # Textual only checks whether the variable exists
        os.environ.pop("NO_COLOR", None)
    else:
        os.environ["NO_COLOR"] = "1"
    from jobtop.tui.app import Options
    from jobtop.tui.keymap import clashes, read_valid_keys
    from jobtop.tui.preferences import NAME

    keys, problems = read_valid_keys(config.keys)
    return Options(
        stores=stores,
        own=app.paths if app.paths.store in stores else None,
        keys=keys,
        config=config,
        preferences=app.paths.root / NAME,
        notices=(*config.notices, *app.rule_notices(config), *problems, *map(str, clashes(keys))),
        **settings,
    )
