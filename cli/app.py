"""What every verb shares: the settings, where the state is, the opened store."""

import os
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from jobtop.core.config import Config, load
from jobtop.core.errors import StoreError, StoreUnavailable
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.units import printable

if TYPE_CHECKING:
    from jobtop.core.runner import Supervisor
    from jobtop.store.jobs import Jobs


class App:
    """One call of jobtop."""

    def __init__(
        self,
        sets: tuple[str, ...],
        verbose: bool,
        color: str,
        environ: Mapping[str, str],
        supervisor: "Supervisor | None" = None,
    ) -> None:
        self.sets, self.verbose, self.color, self.environ = sets, verbose, color, environ
        self.supervisor = supervisor

    @cached_property
    def config(self) -> Config:
        config = load(self.sets, self.environ, Path.cwd())
        for notice in config.notices:
            self.warn(notice)
        return config

    @cached_property
    def paths(self) -> StatePaths:
        return StatePaths(Path(self.config.text("store.dir")), hostname())

    def colored(self, stream: int) -> bool:
        """Whether to colour what goes to this descriptor."""
        if self.color != "auto":
            return self.color == "always"
        return os.isatty(stream) and not self.environ.get("NO_COLOR") and self.environ.get("TERM") != "dumb"

    def jobs(self) -> "Jobs":
        """The jobs of this host's store, brought up to date; only to be read where it cannot be written."""
        from jobtop.store.database import open_to_read, open_to_write
        from jobtop.store.jobs import Jobs
        from jobtop.store.reconcile import reconcile

        if not self.paths.store.exists() and not self.paths.unrecorded.is_dir():
            raise StoreUnavailable(f"{self.paths.store}: no job has been recorded yet (jobtop run -- CMD records one)")
        try:
            database = open_to_write(self.paths, self.config.switch("store.network"))
            jobs = Jobs(database)
            reconcile(jobs, self.paths)
        except StoreUnavailable as error:
            try:
                database = open_to_read(self.paths.store)
            except StoreError:
                raise error from None
            self.warn(f"reading only: {error}")
            jobs = Jobs(database)
        if database.notice:
            self.warn(database.notice)
        return jobs

    def warn(self, text: str) -> None:
        """A word on standard error that stops nothing."""
        try:
            print(f"jobtop: {printable(text)}", file=sys.stderr, flush=True)
        except OSError:  # standard error is gone: nobody is listening
            return
