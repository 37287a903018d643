"""Every error jobtop raises on purpose, and the exit code each one ends a verb with.

JobtopError                    125
├── UsageError                 2    the caller can fix it
│   ├── BadValue                    a duration, size, number, … that does not parse
│   ├── ConfigError                 a wrong key or value in a file, the environment or --set
│   ├── UnknownJob                  no job has this id
│   ├── AmbiguousJob                several jobs have this prefix
│   ├── UnknownContainer            no engine that answers has a container of this name or id
│   ├── AmbiguousContainer          several containers have this name or prefix
│   └── AlreadyAttached             a container is a job already
├── StoreError                 125  the history could not be read or written
│   ├── StoreUnavailable            missing, read-only, full
│   │   └── StoreBusy               held by another program for longer than we wait
│   ├── StoreReplaced               deleted or replaced while it was open; it was opened again
│   ├── StoreDamaged                not a database any more
│   ├── StoreForeign                a database of another program
│   ├── StoreTooNew                 written by a newer jobtop
│   ├── BlockDamaged                a block of samples is not what was written
│   └── RowDamaged                  a row has values that jobtop never writes
├── EvidenceDamaged            125  a file in a job's directory has values that a shim never writes
├── EngineError                125  a container engine is absent, refuses, or does not answer
│   ├── EngineSilent                it does not answer in time
│   ├── NoSuchContainer             it has no container of this name or id
│   └── NoSuchImage                 it has no image of this name
├── StartError                 125, 126 or 127: the command could not be started
└── JobFailed, JobTimeout           in jobtop/records.py, for Python programs: a job did not succeed, or not end in time
"""

# ruff: noqa: N818 — the names need no suffix: `except UnknownJob`.

from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    """jobtop's own exit codes; `run` returns a job's code unchanged."""

    OK = 0
    BAD_ANSWER = 1
    USAGE = 2
    NOT_FINISHED = 75  # the user left the console, and the job keeps running
    TIMED_OUT = 124
    FAILED = 125
    NOT_EXECUTABLE = 126
    NOT_FOUND = 127


class JobtopError(Exception):
    """The root of the tree; its text is the one line that the user sees."""

    exit_code: ExitCode = ExitCode.FAILED


class UsageError(JobtopError):
    """The call is wrong, and the caller can fix it."""

    exit_code = ExitCode.USAGE


class BadValue(UsageError):
    """A value does not parse, or is out of bounds."""


class ConfigError(UsageError):
    """A setting is unknown or has a wrong value."""


class UnknownJob(UsageError):
    """No job has this id."""


class AmbiguousJob(UsageError):
    """More than one job has this prefix."""


class UnknownContainer(UsageError):
    """No engine that answers has a container of this name or id, or there is no engine of this name."""


class AmbiguousContainer(UsageError):
    """Several containers have this name or prefix."""


class AlreadyAttached(UsageError):
    """A job is made from this container already."""


class StoreError(JobtopError):
    """The history could not be read or written."""


class StoreUnavailable(StoreError):
    """The store is missing, read-only or full."""


class StoreBusy(StoreUnavailable):
    """Another program holds the store for longer than we wait."""


class StoreReplaced(StoreError):
    """The store was deleted or replaced while it was open; the next call uses the new file."""


class StoreDamaged(StoreError):
    """The store is not a sound database."""


class StoreForeign(StoreError):
    """The file is a database of another program."""


class StoreTooNew(StoreError):
    """The store was written by a newer jobtop."""


class BlockDamaged(StoreError):
    """A block of samples is not what was written; the rest of the store may be sound."""


class RowDamaged(StoreError):
    """A row has values that jobtop never writes; the rest of the store may be sound."""


class EvidenceDamaged(JobtopError):
    """A file in a job's directory has values that a shim never writes."""


class EngineError(JobtopError):
    """A container engine is absent, refuses a request, or does not answer."""


class EngineSilent(EngineError):
    """The engine does not answer in time."""


class NoSuchContainer(EngineError):
    """The engine has no container of this name or id."""


class NoSuchImage(EngineError):
    """The engine has no image of this name; it may be pulled."""


class StartError(JobtopError):
    """The command could not be started; the exit code says why, as a shell's would."""

    def __init__(self, message: str, exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


VERB_LIKENESS = 0.7  # of a verb that was meant; short words are alike by chance


def nearest_name(word: str, names: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the name most similar to `word`; None if none is close."""
    import difflib

    by_folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=likeness)
    return by_folded[close[0]] if close else None


def did_you_mean(word: str, names: Iterable[str], likeness: float = 0.6) -> str:
    """Return the end of an error message, ` (did you mean "x"?)`, or an empty string."""
    name = nearest_name(word, names, likeness)
    return f' (did you mean "{name}"?)' if name is not None else ""
