"""The console application: passes each view of the feed to the visible screen, and keys to actions. It owns no job."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.app import App
from textual.binding import BindingType
from textual.command import CommandPalette
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message
from textual.screen import ModalScreen, Screen

from jobtop.core.config import Config
from jobtop.core.errors import JobtopError
from jobtop.core.job_id import JobId
from jobtop.core.paths import StatePaths
from jobtop.core.record import fresh, record
from jobtop.tui.data.announcing import TOAST_SECONDS, Announcer, make_toast
from jobtop.tui.data.feed import Feed
from jobtop.tui.data.machine import MachineSource
from jobtop.tui.data.reader import StoreReader
from jobtop.tui.data.rule_reading import RuleReading
from jobtop.tui.data.view import JobRow, View
from jobtop.tui.page import Page, TopLine
from jobtop.tui.palette import THEMES
from jobtop.tui.preferences import Preferences
from jobtop.tui.terminal_driver import TerminalDriver
from jobtop.tui.terminal_output import TerminalOutput
from jobtop.tui.widgets.cells import safe_text
from jobtop.tui.widgets.painting import ASCII_CLASS
from jobtop.tui.workers import start_work

if TYPE_CHECKING:
    from rich.console import RenderableType

    from jobtop.core.alerts.model import Rule
    from jobtop.core.analysis.cost import Prices
    from jobtop.core.measure.live.machine_processes import ProcessMoment
    from jobtop.core.run.scheduling import Capacity
    from jobtop.store.incidents import Incident
    from jobtop.tui.data.containers.feed import ContainerFeed, Key
    from jobtop.tui.data.containers.source import ContainerSource
    from jobtop.tui.data.incidents import Incidents
    from jobtop.tui.data.processes.feed import ProcessFeed, ProcessSource
    from jobtop.tui.data.workflow_reading import RunReading, RunView

# Imported when first opened: the dashboard does not wait for the other screens.
PAGES = {
    "dashboard": "jobtop.tui.screens.dashboard:Dashboard",
    "history": "jobtop.tui.screens.history:History",
    "compare": "jobtop.tui.screens.compare:Compare",
    "containers": "jobtop.tui.screens.container.page:Containers",
    "alerts": "jobtop.tui.screens.alerts:Alerts",
    "settings": "jobtop.tui.screens.settings:SettingsPage",
    "queue": "jobtop.tui.screens.queue:QueuePage",
    "processes": "jobtop.tui.screens.processes:Processes",
    "workflows": "jobtop.tui.screens.workflow.page:Workflows",
}


@record
class Options:
    """The options that the console was started with."""

    stores: Sequence[Path]
    own: StatePaths | None = None
    refresh_seconds: float = 1.0
    is_ascii: bool = False
    is_readonly: bool = False
    readonly_words: str = "This console cannot change jobs (--readonly)"
    theme: str | None = None
    keys: Mapping[str, str] = fresh(default_factory=dict)
    config: Config | None = None
    preferences: Path | None = None
    machine: MachineSource | None = None
    capacity: Capacity | None = None  # what the queue can give out; None: what this machine has
    job_id: str | None = None  # opened first
    workflow_run: tuple[int, int] | None = None  # opened first: the numbers of a workflow and of its run
    is_attended: bool = False  # when the user quits, ask whether to stop the job
    when_done: str = "stay"  # whether to close when the attended job or run ends: auto, stay or leave
    notices: Sequence[str] = ()
    containers: ContainerSource | None = None  # None: the engines of this machine
    processes: ProcessSource | None = None  # None: the processes of this machine


END_POLL_SECONDS, RUN_POLL_SECONDS = 0.1, 0.5
INPUT_EVENTS = (
    *(events.Key, events.Paste, events.MouseDown),
    *(events.MouseScrollDown, events.MouseScrollUp, events.MouseScrollLeft, events.MouseScrollRight),
)


class NewView(Message):
    """The feed has made a new view."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self.view = view


class NewProcesses(Message):
    """The processes of the machine were read again."""

    def __init__(self, moment: ProcessMoment) -> None:
        super().__init__()
        self.moment = moment


class Console(App[int]):
    """The Textual application behind `jobtop`."""

    TITLE = "jobtop"
    ENABLE_COMMAND_PALETTE = False  # Textual's palette is off: jobtop's own is made from the registry
    BINDINGS: ClassVar[list[BindingType]] = []
    CSS = """
    #body { height: 1fr; }
    Table, Chart, Prose, OutputView, AlertsPanel { &:nocolor:focus { border: heavy $border; } }
    """

    def __init__(self, options: Options) -> None:
        super().__init__()
        self._output = TerminalOutput(self)
        self.options = options
        self.view: View | None = None
        self.answer: str | None = None  # "stop" or "detach": the user's answer about the attended job
        self.has_input = False  # whether the user has pressed a key or a mouse button
        self.is_frozen = False
        self.attended_run: RunView | None = None  # as it was read last
        self.pages: dict[str, Page] = {}
        self.preferences = Preferences(options.preferences)
        self.reader = StoreReader()
        self.rule_reading = RuleReading(options.config)
        self.announcer = Announcer()
        network = options.config.switch("store.network") if options.config is not None else None
        self.feed = Feed(
            *(options.stores, self.post_view, options.refresh_seconds, options.own, options.machine, network),
            is_readonly=options.is_readonly,
            without=options.config.texts("monitor.without") if options.config is not None else (),
        )
        if options.is_ascii:
            self.add_class(ASCII_CLASS)
        for theme in THEMES:
            self.register_theme(theme)
        wanted = options.theme or self.preferences.theme or THEMES[0].name
        # Set before the app runs: a later change would parse the style sheets a second time.
        self.set_reactive(App.theme, wanted if wanted in self.available_themes else THEMES[0].name)
        self.stylesheet.set_variables(self.get_css_variables())
        self.set_class(self.current_theme.dark, "-dark-mode")
        self.set_class(not self.current_theme.dark, "-light-mode")

    def get_driver_class(self) -> type[Driver]:
        driver = super().get_driver_class()
        return TerminalDriver if driver is LinuxDriver else driver

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Write a picture to the terminal; Textual would write all cells of every line that has changed."""
        is_visible = self._running and not self._closed and not self.is_headless and not self._batch_count
        if not (is_visible and renderable is not None and self._output.show(renderable)):
            super()._display(screen, renderable)

    def post_view(self, view: View) -> None:
        """Post a view to the app; called in the feed's thread."""
        self.post_message(NewView(view))

    async def on_mount(self) -> None:
        self.feed.start()  # it reads the stores while the screen is laid out
        self.theme_changed_signal.subscribe(self, lambda theme: self.preferences.keep_theme(theme.name))
        if self.options.keys:
            self.set_keymap(dict(self.options.keys))
        for notice in (*self.options.notices, *filter(None, [self.preferences.problem])):
            self.notify(notice, severity="warning", markup=False)
        await self.action_go("dashboard")
        if self.options.job_id is not None:
            await self.open_job(self.options.job_id)
        if self.options.workflow_run is not None:
            await self.open_workflow(self.options.stores[0], *self.options.workflow_run)
        if self.options.is_attended and self.options.workflow_run is not None:
            self.set_interval(RUN_POLL_SECONDS, self._look_at_run)
        elif self.options.is_attended:
            self.set_interval(END_POLL_SECONDS, self._leave_if_done)

    async def on_event(self, event: events.Event) -> None:
        self.has_input = self.has_input or isinstance(event, INPUT_EVENTS)
        focused = self.focused if isinstance(event, events.Key) and self.screen_stack else None
        if focused is not None and not event.is_forwarded and getattr(focused, "takes_all_keys", False):
            focused._forward_event(event)  # also Escape and Ctrl+Q, which Textual would handle itself
            return
        await super().on_event(event)

    def on_unmount(self) -> None:
        self.feed.stop()
        self.reader.close()
        if "container_feed" in self.__dict__:
            self.container_feed.stop()
        if "process_feed" in self.__dict__:
            self.process_feed.close()

    def on_new_view(self, message: NewView) -> None:
        self.view = message.view
        page = self.visible_page  # a view may arrive while it opens, or while the console closes
        if not self.is_frozen and isinstance(page, Page) and page.is_complete:
            page.show(message.view)
        if (row := self.attended_row) is not None and row.job.status.ended and isinstance(page, Page):
            page.say_ended(row.job)

    def on_new_processes(self, message: NewProcesses) -> None:
        page = self.visible_page
        if self.process_feed.is_running and isinstance(page, Page) and page.query(TopLine):
            self.process_feed.now = message.moment
            if not self.is_frozen:
                page.show_processes(message.moment)

    def pace_processes(self) -> None:
        """Read processes as often as the visible page shows them; not at all if it shows none."""
        page = self.visible_page
        seconds = page.process_seconds if isinstance(page, Page) and self.is_running else None
        if seconds is not None or "process_feed" in self.__dict__:
            self.process_feed.read_every(seconds)

    @property
    def visible_page(self) -> Screen[Any] | None:
        """The screen that the user sees; one below a dialog is updated too."""
        return next((screen for screen in reversed(self.screen_stack) if not isinstance(screen, ModalScreen)), None)

    @cached_property
    def container_feed(self) -> ContainerFeed:
        """What is known of containers; its monitor runs only while a page of containers is visible."""
        feed = import_object("jobtop.tui.data.containers.feed:ContainerFeed")
        source = self.options.containers
        if source is None:
            source = import_object("jobtop.tui.data.containers.source:EngineSource")(os.environ)
        found: ContainerFeed = feed(source, max(1.0, self.options.refresh_seconds))
        return found

    @cached_property
    def process_feed(self) -> ProcessFeed:
        """Reads the processes of the machine, only while they are shown."""
        feed = import_object("jobtop.tui.data.processes.feed:ProcessFeed")
        source = self.options.processes or import_object("jobtop.tui.data.processes.feed:MachineSource")()
        secret = self.options.config.texts("run.redact") if self.options.config is not None else ()
        made: ProcessFeed = feed(source, lambda moment: self.post_message(NewProcesses(moment)), secret)
        return made

    @cached_property
    def prices(self) -> Prices:
        """The prices of [cost]."""
        from jobtop.core.analysis.cost import Prices, prices_of

        return prices_of(self.options.config) if self.options.config is not None else Prices()

    @property
    def attended_row(self) -> JobRow | None:
        """The row of the job that `jobtop run` opened the console for."""
        return self.row(self.options.job_id) if self.options.is_attended and self.options.job_id else None

    def _leave_if_done(self) -> None:
        """Close the console when the attended job has ended, unless it has to stay; `ended` is in its directory."""
        own, job_id, row = self.options.own, self.options.job_id, self.attended_row
        has_ended = own is not None and job_id is not None and (own.job(JobId(job_id)) / "ended").exists()
        if not has_ended and (row is None or not row.job.status.ended):
            return
        self._leave_unless_kept()

    def _leave_unless_kept(self) -> None:
        has_to_stay = self.options.when_done == "stay" or (self.options.when_done == "auto" and self.has_input)
        if self.is_asked_to_leave or not has_to_stay:  # a user who is asked wants to leave
            self.exit()

    def _look_at_run(self) -> None:
        """Read how far the attended run is, whatever the user looks at; close when it has ended, unless it stays."""
        if self.attended_run is None or not self.attended_run.is_over:
            start_work(self, self._read_run, group="attended", exclusive=True)
        else:
            page = self.visible_page
            if isinstance(page, Page):
                page.say_end(str(self.attended_run.summary(0.0).status))
            self._leave_unless_kept()

    async def _read_run(self) -> None:
        reading = self.attended_reading
        with suppress(JobtopError):  # tried again soon
            self.attended_run = await self.reader.read(reading.store, reading.read)

    @cached_property
    def attended_reading(self) -> RunReading:
        assert self.options.workflow_run is not None
        reading: RunReading = import_object("jobtop.tui.data.workflow_reading:RunReading")(
            self.options.stores[0], *self.options.workflow_run
        )
        return reading

    @property
    def is_asked_to_leave(self) -> bool:
        """Whether the question is open what to do with the attended job."""
        return isinstance(self.screen, import_object("jobtop.tui.dialogs.leaving:Leaving"))

    async def on_top_line_tab_clicked(self, message: TopLine.TabClicked) -> None:
        await self.action_go(message.name)

    async def action_go(self, name: str) -> None:
        """Show one of the pages, which is made when it is first opened."""
        page = self.pages.get(name)
        if page is None:
            page = self.pages[name] = import_object(PAGES[name])()
            self.install_screen(page, name)  # Textual removes a screen that is not installed when it is left
        while len(self.screen_stack) > 2:
            await self.pop_screen()
        if len(self.screen_stack) == 1:
            await self.push_screen(page)
        elif self.screen is not page:
            await self.switch_screen(page)
        if self.view is not None and page.is_complete:
            page.show(self.view)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow `back` only if there is a screen to go back to, not counting the palette."""
        return action != "back" or len(self.screen_stack) - isinstance(self.screen, CommandPalette) > 2

    async def action_back(self) -> None:
        await self.pop_screen()
        if self.view is not None and isinstance(self.screen, Page) and self.screen.is_complete:
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
        """Quit; jobs keep running. If `jobtop run` opened the console, ask first what to do with its job."""
        row = self.attended_row
        if row is None or row.job.status.ended:
            self.exit()
        elif not self.is_asked_to_leave:
            leaving = import_object("jobtop.tui.dialogs.leaving:Leaving")
            await self.push_screen(leaving(row.job.name, row.job.grace_seconds), self._leave)

    def _leave(self, answer: str | None) -> None:
        if answer is not None:
            self.answer = answer
            self.exit()

    def notify(self, message: str, **how: Any) -> None:
        """Show a notification; escape sequences and markup in the message and its title have no effect."""
        if title := how.get("title"):
            how = how | {"title": safe_text(title)}
        super().notify("\n".join(map(safe_text, message.splitlines())), **how | {"markup": False})

    def action_help_quit(self) -> None:
        """Quit on Ctrl-C, wherever it is pressed."""
        self.call_later(self.action_quit)

    async def action_help(self) -> None:
        await self.push_screen(import_object("jobtop.tui.screens.help:HelpScreen")(self.screen))

    async def action_run_form(self) -> None:
        if self.options.is_readonly:
            self.notify(self.options.readonly_words, markup=False)
            return
        await self.push_screen(import_object("jobtop.tui.dialogs.run_form:RunForm")())

    async def action_palette(self) -> None:
        await self.push_screen(import_object("jobtop.tui.commands:ActionPalette")(id="--command-palette"))

    @property
    def rules(self) -> Mapping[str, Rule]:
        """The alert rules that were read last, by name."""
        return self.rule_reading.rules

    def announce(self, incidents: Incidents) -> None:
        """Show one notification about the alerts that have fired since the last call."""
        fired = self.announcer.fired(incidents)
        if fired:
            start_work(self, self._announce, fired, incidents, group="announce")

    async def _announce(self, fired: Sequence[Incident], incidents: Incidents) -> None:
        toast = await make_toast(fired, incidents, self.rules, self.reader)
        if toast.has_bell:
            self.bell()
        self.notify(toast.text, title=toast.title, severity=toast.severity, timeout=TOAST_SECONDS)

    def row(self, job_id: str) -> JobRow | None:
        """The row of a job in the newest view; None if the job is neither live nor recent."""
        rows = self.view.rows if self.view is not None else ()
        return next((row for row in rows if row.job.id == job_id), None)

    async def open_job(self, job_id: str, at: float | None = None) -> None:
        """Open the screen of one job, now or at a moment of its past (by the wall clock)."""
        await self.push_screen(import_object("jobtop.tui.screens.job.screen:JobScreen")(job_id, at=at))

    async def open_container(self, key: Key) -> None:
        """Open the screen of one container."""
        await self.push_screen(import_object("jobtop.tui.screens.container.screen:ContainerScreen")(key))

    async def open_workflow(self, store: Path, workflow_id: int, run_id: int | None = None) -> None:
        """Open the screen of a run of a workflow; without a number, of its last run."""
        screen = import_object("jobtop.tui.screens.workflow.screen:WorkflowScreen")
        await self.push_screen(screen(store, workflow_id, run_id))

    async def open_incident(self, incident: Incident) -> None:
        """Open the job of an alert at that moment, that of a failure at its end; without a job, the Host screen."""
        if incident.job_id is None:
            await self.action_host()
        else:
            await self.open_job(incident.job_id, incident.at if incident.severity is not None else None)

    async def action_host(self) -> None:
        """Open the screen of the machine; from the screen of an ended job, at the time of that job."""
        if self.screen.name_in_tabs == "host" if isinstance(self.screen, Page) else True:
            return
        window = self.screen.window_of_host() if isinstance(self.screen, Page) else None
        await self.push_screen(import_object("jobtop.tui.screens.host:HostScreen")(window))
        if self.view is not None and isinstance(self.screen, Page) and self.screen.is_complete:
            self.screen.show(self.view)

    async def open_compare(self, job_ids: Sequence[str]) -> None:
        """Open the Compare page with two to six jobs."""
        await self.action_go("compare")
        self.pages["compare"].compare(job_ids)  # type: ignore[attr-defined]

    async def select_job(self, job_id: str) -> None:
        """Open the dashboard and put its cursor on a job as soon as the job is listed."""
        await self.action_go("dashboard")
        self.feed.poll_now()
        self.pages["dashboard"].select(job_id)  # type: ignore[attr-defined]

    def _fatal_error(self) -> None:
        """Close without Textual's traceback: the caller that opened the console reports the exception in words."""
        self._close_messages_no_wait()

    def panic(self, *renderables: Any) -> None:
        self._close_messages_no_wait()


def import_object(place: str) -> Any:
    """Import the object that `module:name` names."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
