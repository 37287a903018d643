"""The console: wires the feed to the screens, and keys to what they do. It owns no job."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual.app import App
from textual.binding import BindingType
from textual.command import CommandPalette
from textual.message import Message
from textual.screen import ModalScreen

from jobtop.core.config import Config
from jobtop.core.paths import StatePaths
from jobtop.core.record import fresh, record
from jobtop.tui.data.feed import Feed, MachineSource
from jobtop.tui.data.reader import Reader
from jobtop.tui.data.view import JobRow, View
from jobtop.tui.page import Page, TopLine
from jobtop.tui.palette import THEMES
from jobtop.tui.preferences import Preferences
from jobtop.tui.widgets.cells import tamed
from jobtop.tui.widgets.painting import ASCII_CLASS

# Imported when they are first wanted: a console that shows jobs need not wait for the rest.
PAGES = {
    "dashboard": "jobtop.tui.screens.dashboard:Dashboard",
    "history": "jobtop.tui.screens.history:History",
    "compare": "jobtop.tui.screens.compare:Compare",
    "containers": "jobtop.tui.screens.containers:Containers",
    "alerts": "jobtop.tui.screens.alerts:Alerts",
    "settings": "jobtop.tui.screens.settings:Settings",
}


@record
class Options:
    """How the console was called."""

    stores: Sequence[Path]
    own: StatePaths | None = None
    refresh_seconds: float = 1.0
    is_ascii: bool = False
    is_readonly: bool = False
    readonly_words: str = "this console only reads (--readonly)"
    theme: str | None = None
    keys: Mapping[str, str] = fresh(default_factory=dict)
    config: Config | None = None
    preferences: Path | None = None
    machine: MachineSource | None = None
    job_id: str | None = None  # to be shown first
    is_attended: bool = False  # whoever leaves is asked what becomes of it
    notices: Sequence[str] = ()


class Viewed(Message):
    """The feed has a new picture."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self.view = view


class Console(App[int]):
    """`jobtop`."""

    TITLE = "jobtop"
    ENABLE_COMMAND_PALETTE = False  # Textual's own; ours is made from the registry
    BINDINGS: ClassVar[list[BindingType]] = []
    CSS = """
    #body { height: 1fr; }
    Table, Chart, Prose, OutputView, AlertsPanel { &:nocolor:focus { border: heavy $border; } }
    """

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.view: View | None = None
        self.wish: str | None = None  # what is to become of the job the console was opened for
        self.is_frozen = False
        self.pages: dict[str, Page] = {}
        self.preferences = Preferences(options.preferences)
        self.reader = Reader()
        network = options.config.switch("store.network") if options.config is not None else None
        self.feed = Feed(
            *(options.stores, self.take, options.refresh_seconds, options.own, options.machine, network),
            is_readonly=options.is_readonly,
        )
        if options.is_ascii:
            self.add_class(ASCII_CLASS)
        for theme in THEMES:
            self.register_theme(theme)
        wanted = options.theme or self.preferences.theme or THEMES[0].name
        # Set later, the style sheets would be parsed a second time.
        self.set_reactive(App.theme, wanted if wanted in self.available_themes else THEMES[0].name)
        self.stylesheet.set_variables(self.get_css_variables())
        self.set_class(self.current_theme.dark, "-dark-mode")
        self.set_class(not self.current_theme.dark, "-light-mode")

    def take(self, view: View) -> None:
        """From the feed's thread."""
        self.post_message(Viewed(view))

    async def on_mount(self) -> None:
        self.feed.start()  # reads while the screen is laid out
        self.theme_changed_signal.subscribe(self, lambda theme: self.preferences.keep_theme(theme.name))
        if self.options.keys:
            self.set_keymap(dict(self.options.keys))
        for notice in (*self.options.notices, *filter(None, [self.preferences.problem])):
            self.notify(notice, severity="warning", markup=False)
        await self.action_go("dashboard")
        if self.options.job_id is not None:
            await self.open_job(self.options.job_id)

    def on_unmount(self) -> None:
        self.feed.stop()
        self.reader.close()

    def on_viewed(self, message: Viewed) -> None:
        self.view = message.view
        # What is below a dialog goes on. A picture may come while the console closes.
        page = next((screen for screen in reversed(self.screen_stack) if not isinstance(screen, ModalScreen)), None)
        if not self.is_frozen and isinstance(page, Page) and page.query(TopLine):
            page.show(message.view)

    async def on_top_line_tab_clicked(self, message: TopLine.TabClicked) -> None:
        await self.action_go(message.name)

    async def action_go(self, name: str) -> None:
        """To one of the screens; each is made when it is first wanted."""
        page = self.pages.get(name)
        if page is None:
            page = self.pages[name] = imported(PAGES[name])()
            self.install_screen(page, name)  # or leaving it would be its end
        while len(self.screen_stack) > 2:
            await self.pop_screen()
        if len(self.screen_stack) == 1:
            await self.push_screen(page)
        elif self.screen is not page:
            await self.switch_screen(page)
        if self.view is not None and page.query(TopLine):  # else the console closes
            page.show(self.view)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Back is only where somebody came from elsewhere; the palette is not where one is."""
        return action != "back" or len(self.screen_stack) - isinstance(self.screen, CommandPalette) > 2

    async def action_back(self) -> None:
        await self.pop_screen()
        if self.view is not None and isinstance(self.screen, Page) and self.screen.query(TopLine):
            self.screen.show(self.view)

    def action_freeze(self) -> None:
        self.is_frozen = not self.is_frozen
        if isinstance(self.screen, Page):
            self.screen.query_one(TopLine).frozen = self.is_frozen
            if not self.is_frozen and self.view is not None:
                self.screen.show(self.view)

    def action_next_theme(self) -> None:
        names = [theme.name for theme in THEMES]
        self.theme = names[(names.index(self.theme) + 1) % len(names)] if self.theme in names else names[0]

    def action_maximize_pane(self) -> None:
        if self.screen.maximized is not None:
            self.screen.minimize()
        elif self.screen.focused is not None:
            self.screen.maximize(self.screen.focused)

    async def action_quit(self) -> None:
        """Leave; jobs go on, but who has just started one with `run` is asked."""
        attended = self.options.job_id if self.options.is_attended else None
        row = self.row(attended) if attended is not None else None
        if row is None or row.job.status.ended:
            self.exit()
        elif not isinstance(self.screen, imported("jobtop.tui.dialogs.leaving:Leaving")):
            await self.push_screen(imported("jobtop.tui.dialogs.leaving:Leaving")(row.job.name), self._leave)

    def _leave(self, wish: str | None) -> None:
        if wish is not None:
            self.wish = wish
            self.exit()

    def notify(self, message: str, **how: Any) -> None:
        """A word in the corner, whatever is in it."""
        super().notify("\n".join(map(tamed, message.splitlines())), **how | {"markup": False})

    def action_help_quit(self) -> None:
        """Ctrl-C, wherever it is pressed."""
        self.call_later(self.action_quit)

    async def action_help(self) -> None:
        await self.push_screen(imported("jobtop.tui.screens.help:HelpScreen")(self.screen))

    async def action_run_form(self) -> None:
        if self.options.is_readonly:
            self.notify(self.options.readonly_words, markup=False)
            return
        await self.push_screen(imported("jobtop.tui.dialogs.run_form:RunForm")())

    async def action_palette(self) -> None:
        await self.push_screen(imported("jobtop.tui.commands:Palette")(id="--command-palette"))

    def row(self, job_id: str) -> JobRow | None:
        """A live or recent job of the last picture."""
        rows = self.view.rows if self.view is not None else ()
        return next((row for row in rows if row.job.id == job_id), None)

    async def open_job(self, job_id: str) -> None:
        """The screen of one job."""
        await self.push_screen(imported("jobtop.tui.screens.job.screen:JobScreen")(job_id))

    async def open_compare(self, job_ids: Sequence[str]) -> None:
        """Two to six jobs beside each other."""
        await self.action_go("compare")
        self.pages["compare"].compare(job_ids)  # type: ignore[attr-defined]

    async def select_job(self, job_id: str) -> None:
        """Put the dashboard's cursor on a job as soon as it is there."""
        await self.action_go("dashboard")
        self.feed.hurry()
        self.pages["dashboard"].select(job_id)  # type: ignore[attr-defined]

    def _fatal_error(self) -> None:
        """A mistake of ours is told in words by whoever opened the console, not over the user's shell."""
        self._close_messages_no_wait()

    def panic(self, *renderables: Any) -> None:
        self._close_messages_no_wait()


def imported(place: str) -> Any:
    """`module:name`."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
