"""Lets messages about alerts be sent: by the process that samples, later by the agent, before a batch job ends."""

from __future__ import annotations

import os
import time

from jobtop.core.alerts.rule_set import load_rule_set
from jobtop.core.config import load
from jobtop.core.errors import JobtopError
from jobtop.core.paths import PROJECT_CONFIG
from jobtop.core.units import number_of
from jobtop.lifecycle.agent_lock import ensure_agent
from jobtop.lifecycle.alerts.book import Book
from jobtop.lifecycle.alerts.composing import compose_stored
from jobtop.lifecycle.alerts.delivering import Deliverer
from jobtop.store.alerts.outbox import Outbox
from jobtop.store.database import open_to_write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobtop.core.alerts.model import Action, Message
    from jobtop.core.config import Config
    from jobtop.core.paths import StatePaths
    from jobtop.store.alerts.outbox import Outgoing
    from jobtop.store.database import Database

PATIENCE_SECONDS = 5.0
BATCH_SECONDS = 10.0  # to send in a batch job, which no agent outlives
BATCH_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "SGE_TASK_ID")


class Messages:
    """Sends what is in the outbox of a store, with the actions of a book or of the projects that jobs ran in."""

    def __init__(
        self, paths: StatePaths, network: bool | None, book: Callable[[], Book], heeds_quiet_hours: bool = True
    ) -> None:
        self.paths, self._book, self._heeds_quiet_hours = paths, book, heeds_quiet_hours
        self._projects: dict[str, Mapping[str, Action]] = {}
        self.deliverer = Deliverer(
            lambda: open_to_write(paths, network, PATIENCE_SECONDS),
            self._action,
            self._composed,
            paths.names.log,
            is_quiet=self._is_quiet,
            give_up_seconds=book().times.give_up_seconds,
        )

    def wake(self) -> None:
        """Look for messages now."""
        self.deliverer.wake()

    def close(self, seconds: float = 0.0, tries_again: bool = True) -> int:
        """Send for at most so long, each message once if `tries_again` is False; return how many are left."""
        return self.deliverer.close(seconds, tries_again)

    def _is_quiet(self, now: float) -> bool:
        return self._heeds_quiet_hours and self._book().times.is_quiet(now)

    def _composed(self, database: Database, row: Outgoing) -> Message | None:
        return compose_stored(database, row, self._book().rule, self.paths.host, time.time())

    def _action(self, name: str, origin: str) -> Action | None:
        """The action of a message; one of a project is read from its file, if that is trusted."""
        return action_of(self._book(), name, origin, self._projects)


def action_of(book: Book, name: str, origin: str, projects: dict[str, Mapping[str, Action]]) -> Action | None:
    """The action of a message, by its name and its file; None if it is not configured any more.

    The actions of a project are read from its file, and kept in `projects` by its directory.
    """
    action = book.action(name)
    if action is not None and action.origin == origin:
        return action
    directory, file = os.path.split(origin)
    if file != PROJECT_CONFIG or not directory:
        return action
    if directory not in projects:
        projects[directory] = project_actions(directory)
    return projects[directory].get(name)


def book_of(config: Config) -> Callable[[], Book]:
    """A function that returns the rules and actions of a configuration as its files are now."""
    book = Book(config)

    def current() -> Book:
        book.read_again()
        return book

    return current


def project_actions(directory: str) -> dict[str, Action]:
    """The actions of the configuration in a directory, by the name that the store has of them."""
    try:
        found = load_rule_set(load((), os.environ, directory))
    except (JobtopError, OSError):
        return {}
    return {action.name: action for action in found.actions.values()}


def leave_messages(
    database: Database,
    paths: StatePaths,
    messages: Callable[[], Messages],
    environ: Mapping[str, str],
    is_inside_job: bool,
) -> str | None:
    """At the end of a process: leave unsent messages to an agent; in a batch job send for ten seconds what can be sent.

    An agent that is started inside of a job would belong to it. Returns what is left, in words; None if nothing is,
    or an agent goes on.
    """
    if not Outbox(database).unsent_count():
        return None
    is_batch = any(name in environ for name in BATCH_VARIABLES)
    if not is_batch and not is_inside_job:
        ensure_agent(database, paths)
        return None
    left = messages().close(BATCH_SECONDS)
    if not left:
        return None
    many = number_of(left, "message")
    return f"{many} about alerts could not be sent; the next agent tries again (see: jobtop alerts)"
