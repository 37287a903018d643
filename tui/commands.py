"""The command palette: every action of the current screen by name, jobs to open, themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.screen import Screen
from textual.style import Style

from jobtop.core.record import record
from jobtop.tui.actions import ACTIONS, APP, Action
from jobtop.tui.keymap import PANES, active_bindings, shown_keys
from jobtop.tui.palette import PALETTES, ascii_only
from jobtop.tui.widgets.cells import safe_text
from jobtop.tui.widgets.painting import ASCII_CLASS

if TYPE_CHECKING:
    from jobtop.tui.app import Console

THEME_NAMES = {"jobtop-dark": "dark", "jobtop-light": "light", "jobtop-terminal": "the terminal's own colours"}
LEFT_OUT = frozenset({"app.palette"})
NAME_WIDTH, KEYS_WIDTH = 22, 10
LONGEST = 100  # characters of a name; no line has room for more, and matching long names is slow
KEYS, DIM, UNDERLINED = Style(bold=True), Style(dim=True), Style(underline=True)


@record
class Command:
    """One line of the palette: its name, its keys, a short help text, and what it calls."""

    name: str
    keys: str
    help: str
    call: Callable[[], Any]


class Commands(Provider):
    """The actions that work on the screen below the palette, the listed jobs, and the themes."""

    async def discover(self) -> Hits:
        for command in commands(self.console, self.screen):
            yield DiscoveryHit(self.shown(Content(command.name), command), command.call, command.name)

    async def search(self, query: str) -> Hits:
        # Matcher.highlight would interpret the name of a job as markup.
        match = self.matcher(query).fuzzy_search.match
        for command in commands(self.console, self.screen):
            score, offsets = match(query, command.name)
            score = max(score, match(query, command.help)[0] / 2)
            if score > 0:
                name = Content(command.name)
                for offset in offsets:
                    name = name.stylize(self.match_style or UNDERLINED, offset, offset + 1)
                yield Hit(score, self.shown(name, command), command.call, command.name)

    @property
    def console(self) -> Console:
        """The app, with its own type."""
        from jobtop.tui.app import Console

        assert isinstance(self.app, Console)
        return self.app

    def shown(self, name: Content, command: Command) -> Content:
        """Name, keys and help in columns, without interpreting any of them as markup."""
        if command.keys:
            name = Content.assemble(name, " " * max(2, NAME_WIDTH - name.cell_length), (command.keys, KEYS))
        gap = " " * max(2, NAME_WIDTH + KEYS_WIDTH - name.cell_length)
        return Content.assemble(name, gap, (command.help, DIM))


class ActionPalette(CommandPalette):
    """Textual's palette with jobtop's commands, and without its search icon."""

    DEFAULT_CSS = """
    ActionPalette {
        SearchIcon { display: none; }
        & > Vertical { margin: 2 0 1 0; width: 100; max-width: 100%; background: $panel; }
        &:dark > Vertical { background: $panel; }
        #--input, #--input.--list-visible { border: none; padding: 1 0; }
        CommandInput, CommandInput:focus { border: none; height: 1; padding: 0 2; }
        CommandList, CommandList:focus { border: none; border-bottom: blank; max-height: 60vh; }
        CommandList { text-wrap: nowrap; text-overflow: ellipsis; }
        CommandList > .option-list--option { text-style: none; }
    }
    """

    def __init__(self, id: str | None = None) -> None:  # noqa: A002
        super().__init__([Commands], placeholder="Type the name of an action or a job", id=id)


def commands(console: Console, screen: Screen[Any]) -> Iterator[Command]:
    """All commands: actions on jobs first, then pages, then movements; control characters in texts are escaped."""
    is_ascii = console.has_class(ASCII_CLASS)
    for command in (*_actions(console, screen), *_jobs(console), *_themes(console)):
        texts = [safe_text(text) for text in (command.name, command.keys, command.help)]
        name, keys, words = map(ascii_only, texts) if is_ascii else texts
        yield Command(name, keys, words, command.call)


def _actions(console: Console, screen: Screen[Any]) -> Iterator[Command]:
    found, in_words = active_bindings(screen), console.has_class(ASCII_CLASS)
    allowed = [action for action in ACTIONS if not (action.changes_jobs and console.options.is_readonly)]
    for action in sorted(allowed, key=lambda action: (action.place in PANES, action.place == APP)):
        if action.id in found and action.id not in LEFT_OUT:
            active = found[action.id][0]
            keys = [active.binding.key for active in found[action.id]]
            call = partial(console.run_action, active.binding.action, default_namespace=active.node)
            yield Command(_title(action), shown_keys(keys, in_words), action.help, call)


def _title(action: Action) -> str:
    """The title of an action; that of a page, such as `Dash`, gets a verb."""
    return f"Go to {action.title}" if action.id.startswith("go.") else action.title


def _jobs(console: Console) -> Iterator[Command]:
    for row in console.view.rows if console.view is not None else ():
        job = row.job
        yield Command(
            f"Open job {job.id[:8]} {job.name[:LONGEST]}", "", str(job.status), partial(console.open_job, job.id)
        )


def _themes(console: Console) -> Iterator[Command]:
    for name in PALETTES:
        if name != console.theme:
            yield Command(f"Theme: {THEME_NAMES[name]}", "", "", partial(setattr, console, "theme", name))
