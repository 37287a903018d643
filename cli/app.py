"""What all verbs share: the settings, the paths of the state directory, the opened stores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial

from jobtop.cli.failure import print_error
from jobtop.core.config import Config, load
from jobtop.core.errors import StoreUnavailable, UnknownJob, UsageError
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from jobtop.core.analysis.cost import Prices
    from jobtop.core.model import Job
    from jobtop.core.run.supervisor import Supervisor
    from jobtop.store.database import Database
    from jobtop.store.fleet import Fleet
    from jobtop.store.jobs import Jobs


def current_directory() -> str | None:
    """Return the working directory; None if it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


class App:
    """One invocation of jobtop: its global options, and the stores it opens."""

    def __init__(
        self,
        sets: tuple[str, ...],
        verbose: bool,
        color: str,
        environ: Mapping[str, str],
        supervisor: Supervisor | None = None,
        stores: tuple[str, ...] = (),
    ) -> None:
        self.sets, self.verbose, self.color, self.environ = sets, verbose, color, environ
        self.supervisor = supervisor
        self.named_stores = stores
        self.checks_rules = False  # `run` leaves that to its engine, because it has to start its command at once
        self._open_stores: list[Database] = []

    def close(self) -> None:
        """Warn about rows that could not be read, then close every store that was opened."""
        self.warn_of_damage()
        while self._open_stores:
            self._open_stores.pop().close()

    def close_later(self, database: Database) -> Database:
        """Register a store to be closed by `close`, and return it."""
        self._open_stores.append(database)
        return database

    @cached_property
    def config(self) -> Config:
        config = load(self.sets, self.environ, current_directory() or "/")
        for notice in (*config.notices, *(self.rule_notices(config) if self.checks_rules else ())):
            self.warn(notice)
        return config

    def rule_notices(self, config: Config) -> tuple[str, ...]:
        """One notice about wrong alert rules and actions, one about wrong tools; no import if the user has none."""
        return (*self._alert_notices(config), *self._tool_notices(config))

    def _tool_notices(self, config: Config) -> tuple[str, ...]:
        if not config.tools:
            return ()
        from jobtop.core.run.tools import tool_problems

        problems = tool_problems(config.tools, self.environ)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return (f"{problems[0]}; the tool cannot be used{more}",) if problems else ()

    def _alert_notices(self, config: Config) -> tuple[str, ...]:
        if not config.has_own_rules:
            return ()
        from jobtop.core.alerts.rule_set import rule_notices

        return rule_notices(config)

    def add_settings(self, sets: Iterable[str]) -> None:
        """Add settings, as KEY=VALUE, to those of the command line; notices are not repeated."""
        self.sets = (*self.sets, *sets)
        if "config" in self.__dict__:
            self.config = load(self.sets, self.environ, current_directory() or "/")

    @cached_property
    def prices(self) -> Prices:
        """The prices of [cost]."""
        from jobtop.core.analysis.cost import prices_of

        return prices_of(self.config)

    @cached_property
    def paths(self) -> StatePaths:
        return StatePaths(self.config.text("store.dir"), hostname())

    @cached_property
    def stores(self) -> list[Path]:
        """The store files named by --store or JOBTOP_STORES; empty if only this host's store is meant."""
        from jobtop.store.named_stores import VARIABLE, selected_stores

        if "" in self.named_stores:
            raise UsageError("--store: the path is empty (is a variable not set?); leave it out for this host's store")
        return selected_stores(self.named_stores, self.environ.get(VARIABLE, ""), self.paths.store, self.warn)

    @cached_property
    def fleet(self) -> Fleet:
        """The jobs of all named stores, or of this host's store if none is named."""
        from jobtop.store.fleet import Fleet

        files = self.stores or [self.paths.store]
        openers = {file: partial(self._open_jobs, file) for file in files}
        return Fleet(openers, self.warn, bool(self.stores), self.paths.store)

    def find(self, reference: str) -> tuple[Jobs, Job]:
        """Find a job in the fleet; return it with the store it is in."""
        return self.fleet.find(reference)

    def jobs_to_change(self, references: Iterable[str]) -> tuple[Jobs, list[Job]]:
        """Find jobs in this host's store, the only one that is written; UsageError says where any other job is."""
        jobs = None if self.stores and not self.has_store() else self.jobs()
        found = [self._find_to_change(jobs, reference) for reference in references]
        return jobs or self.jobs(), found

    def _find_to_change(self, jobs: Jobs | None, reference: str) -> Job:
        """Find a job among this host's jobs and those of named stores, as verbs that read do; it has to be here."""
        if not self.stores and jobs is not None:
            return jobs.find(reference)
        store, job = self._fleet_with(jobs).find(reference)
        try:
            if jobs is not None:
                return jobs.find(job.id)
        except UnknownJob:
            pass
        from jobtop.lifecycle.control import elsewhere

        why = (
            elsewhere(job, self.paths.host) or f"job {job.id[:8]} is in {store.database.path}, which is only read here"
        )
        raise UsageError(why)

    def _fleet_with(self, jobs: Jobs | None) -> Fleet:
        """Return the named stores and this host's store, which is open already."""
        from jobtop.store.fleet import Fleet

        openers: dict[Path, Callable[[], Jobs]] = {file: partial(self._open_jobs, file) for file in self.stores}
        if jobs is not None:
            openers |= {self.paths.store: lambda: jobs}
        return Fleet(openers, self.warn, True, self.paths.store)

    def _open_jobs(self, file: Path) -> Jobs:
        """Open a store for reading; this host's own is reconciled first."""
        from jobtop.store.database import open_to_read
        from jobtop.store.jobs import Jobs

        if file == self.paths.store:
            return self.jobs()
        database = self.close_later(open_to_read(file))
        if database.version == 0:
            raise StoreUnavailable(f"{file}: nothing has been recorded in it yet")
        if database.notice:
            self.warn(database.notice)
        return Jobs(database)

    def warn_of_damage(self) -> None:
        """Warn how many unreadable rows of each store were left out."""
        for database in self._open_stores:
            if (damage := database.damage()) is not None:
                self.warn(damage)

    def uses_color(self, descriptor: int) -> bool:
        """Return whether output to this file descriptor is coloured."""
        if self.color != "auto":
            return self.color == "always"
        return os.isatty(descriptor) and not self.environ.get("NO_COLOR") and self.environ.get("TERM") != "dumb"

    def jobs(self) -> Jobs:
        """Open and reconcile this host's store; opened read-only, with a warning, where it cannot be written."""
        from jobtop.lifecycle.opening import open_jobs

        jobs = open_jobs(self.paths, self.config, self.warn)
        self.close_later(jobs.database)
        return jobs

    def store_to_write(self) -> Database:
        """Open this host's store for writing; create it if it does not exist."""
        from jobtop.store.database import open_to_write

        return self.close_later(open_to_write(self.paths, self.config.switch("store.network")))

    def has_history(self) -> bool:
        """Return whether there is anything to read: a named store, or something recorded on this host."""
        return bool(self.stores) or self.has_store()

    def has_store(self) -> bool:
        """Return whether anything was ever recorded on this host."""
        from jobtop.lifecycle.opening import has_store

        return has_store(self.paths)

    def warn(self, text: str) -> None:
        """Print a warning line to standard error."""
        print_error(f"jobtop: {printable(text)}")
