"""Opens stores that may be replaced at any time, and reads them in a thread of its own so that keys never wait."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from jobtop.core.errors import StoreBusy, StoreDamaged, StoreError, StoreUnavailable, UnknownJob
from jobtop.store.database import Database, open_to_read

Answer = TypeVar("Answer")
PATIENCE_SECONDS = 1.0
ABSENT = "there is no such store (yet): jobtop run -- COMMAND makes one"
EMPTY = "nothing has been recorded in it yet: jobtop run -- COMMAND does"


class StoreFile:
    """The store at a path: stays open while the file is the same, and is opened again after a failure."""

    def __init__(self, path: Path, patience: float | None = None) -> None:
        self.path, self.patience = path, PATIENCE_SECONDS if patience is None else patience
        self.database: Database | None = None
        self._file: tuple[int, int, bool] | None = None
        self._written = 0

    def reopen_if_changed(self) -> bool:
        """Open the file that is now at the path; return whether it was opened just now. Raises StoreError."""
        found = self._stat()
        file = found.st_dev, found.st_ino, os.access(self.path, os.W_OK)
        if self.database is not None and self.database.notice is not None and found.st_mtime_ns != self._written:
            self.close()  # opened without locks: SQLite does not notice changes
        if self.database is not None and file == self._file:
            return False
        self.close()
        self.database = open_to_read(self.path, self.patience)
        if self.database.version == 0:
            self.close()
            raise StoreUnavailable(f"{self.path}: {EMPTY}")
        self._file, self._written = file, found.st_mtime_ns
        return True

    @contextmanager
    def opened(self) -> Iterator[Database]:
        """The open store; any failure to read from it closes it and is raised as a StoreError."""
        try:
            if self.database is None:
                raise StoreUnavailable(f"{self.path}: {ABSENT}")
            yield self.database
        except StoreBusy:
            raise
        except StoreError:
            self.close()
            raise
        except (ValueError, TypeError, LookupError) as error:
            self.close()
            raise StoreDamaged(f"{self.path}: it has an invalid value ({error}); is it damaged?") from error

    def close(self) -> None:
        if self.database is not None:
            self.database.close()
        self.database = self._file = None

    def _stat(self) -> os.stat_result:
        try:
            return os.stat(self.path)
        except OSError as error:
            self.close()
            is_absent = isinstance(error, FileNotFoundError | NotADirectoryError)
            raise StoreUnavailable(f"{self.path}: {ABSENT if is_absent else error.strerror}") from error


class StoreReader:
    """One thread that reads stores, with one connection for each."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="jobtop-reader")
        self._files: dict[Path, StoreFile] = {}
        self._is_closed = False

    async def read(self, path: Path, question: Callable[[Database], Answer]) -> Answer:
        """Call the question with the store in the reader's thread, and return its answer; raises StoreError too."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._answer, path, question)

    async def read_each(
        self, questions: Sequence[tuple[Path, Callable[[Database], Answer]]]
    ) -> list[Answer | StoreError]:
        """The answers of several stores in one turn; for a store that cannot be read, the error."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._answer_each, questions)

    async def read_first(self, paths: Sequence[Path], question: Callable[[Database], Answer]) -> tuple[Path, Answer]:
        """The first store that knows the job, and its answer; StoreError if one cannot be read, else UnknownJob."""
        problem: StoreError | UnknownJob = UnknownJob("no store is open")
        for path in paths:
            try:
                return path, await self.read(path, question)
            except UnknownJob as error:
                problem = problem if isinstance(problem, StoreError) else error
            except StoreError as error:
                problem = error
        raise problem

    def finish(self, close: Callable[[], None]) -> None:
        """Call a function in the reader's thread, after all that was asked before."""
        with suppress(RuntimeError):  # the reader is closed because the console ends
            self._pool.submit(close)

    def close(self) -> None:
        """Close the stores after the current reading; readings that have not started are cancelled."""
        self._is_closed = True
        self.finish(self._close_files)
        self._pool.shutdown(wait=False)

    def _close_files(self) -> None:
        for file in self._files.values():
            file.close()

    def _answer_each(self, questions: Sequence[tuple[Path, Callable[[Database], Answer]]]) -> list[Answer | StoreError]:
        answers: list[Answer | StoreError] = []
        for path, question in questions:
            try:
                answers.append(self._answer(path, question))
            except StoreError as error:
                answers.append(error)
        return answers

    def _answer(self, path: Path, question: Callable[[Database], Answer]) -> Answer:
        if self._is_closed:
            raise asyncio.CancelledError
        file = self._files.setdefault(path, StoreFile(path))
        file.reopen_if_changed()
        with file.opened() as database:
            return question(database)
