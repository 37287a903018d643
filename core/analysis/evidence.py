"""Evidence for why a job ended: what was seen, where, and in one clean line. Kept in `findings["evidence"]`."""

from __future__ import annotations

from enum import StrEnum

from jobtop.core.record import record
from jobtop.core.redact import redact_text
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

FINDING = "evidence"  # the key in `Job.findings`
MOST = 8
LONGEST_TEXT = 200


class Source(StrEnum):
    """Where evidence was found."""

    OUTPUT = "output"
    KERNEL_LOG = "kernel log"
    CGROUP = "cgroup"
    SIGNAL = "signal"
    LIMIT = "limit"


class Cause(StrEnum):
    """What evidence is evidence for."""

    BATCH_TIME = "batch_time_limit"
    BATCH_MEMORY = "batch_memory_limit"
    BATCH_CANCELLED = "batch_cancelled"
    OUT_OF_MEMORY = "out_of_memory"
    GPU_MEMORY = "gpu_out_of_memory"
    ALLOCATION = "allocation_failed"
    DISK_FULL = "disk_full"
    QUOTA = "disk_quota"
    OPEN_FILES = "too_many_open_files"
    PROCESSES = "too_many_processes"
    MISSING_MODULE = "missing_module"
    MISSING_LIBRARY = "missing_library"
    MISSING_COMMAND = "missing_command"
    CRASH = "crash"
    ASSERTION = "assertion"
    EXCEPTION = "exception"
    MPI = "mpi_abort"
    IO_ERROR = "io_error"
    GPU_ERROR = "gpu_error"
    KILLED = "killed"
    MESSAGE = "message"
    LAST_LINE = "last_line"  # may say why it ended, or not
    SIGNAL = "signal"
    TERMINAL = "closed_terminal"
    TIMEOUT = "timeout"


@record
class Evidence:
    """One thing that was seen; `text` is one clean line. `subject` is what it names: a module, a file, a command."""

    kind: Cause
    text: str
    source: Source
    subject: str | None = None

    def to_json(self) -> dict[str, str]:
        shape = {"kind": str(self.kind), "text": self.text, "source": str(self.source)}
        return shape if self.subject is None else shape | {"subject": self.subject}


def evidence_of(findings: Mapping[str, Any]) -> list[Evidence]:
    """The evidence in the findings of a record; entries that are damaged or of another version are left out."""
    entries = findings.get(FINDING)
    return [seen for entry in entries if (seen := _parsed(entry))] if isinstance(entries, list) else []


def _parsed(entry: object) -> Evidence | None:
    if not isinstance(entry, dict):
        return None
    text, subject = entry.get("text"), entry.get("subject")
    if not isinstance(text, str) or not isinstance(subject, str | None):
        return None
    try:
        return Evidence(Cause(str(entry.get("kind"))), text, Source(str(entry.get("source"))), subject)
    except ValueError:
        return None


def clean(text: str, secrets: Iterable[str] = (), most: int = LONGEST_TEXT) -> str:
    """Text from outside as one short line without control characters and without what looks like a secret."""
    line = printable(redact_text(" ".join(text.split()), secrets))
    return line if len(line) <= most else line[: most - 1] + "…"
