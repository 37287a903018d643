"""The words about files of a job that the verbs and the console share."""

from __future__ import annotations

from jobtop.core.text.unread_text import denied_words, unread_text
from jobtop.core.units import ABSENT, format_bytes, number_of, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from jobtop.core.measure.live.files import FileLine, LiveFiles
    from jobtop.core.model import Job


def position_text(line: FileLine) -> str:
    """How far a file is read or written: in percent of its size, in bytes if that says more."""
    if line.is_mapped:
        return "mapped"
    if line.position is None:
        return ABSENT
    if line.mode == "read" and line.size_bytes:
        return f"{100 * line.position / line.size_bytes:.0f} %"
    return format_bytes(line.position)


def rate_text(line: FileLine) -> str:
    """The bytes a second that are read or written; absent for a mapped file, which has no position."""
    if line.is_mapped or (line.read_rate is None and line.write_rate is None):
        return ABSENT
    return f"{format_bytes(line.rate)}/s"


def kept_files(job: Job) -> list[dict[str, Any]]:
    """The files in the record of a job, those that were read and written most first; damaged ones are left out."""
    found = job.findings.get("files")
    if not isinstance(found, list):
        return []
    return [file for file in found if isinstance(file, dict) and isinstance(file.get("path"), str)]


def denied_text(live: LiveFiles) -> str | None:
    """Which processes could not be read, and what helps; None if all could."""
    return denied_words(live.denied, "files", live.reason or "")


def no_files_text(job: Job, is_here: bool) -> str:
    """Why no files of a job are known that is not read now."""
    none_kept = "no files are in its record: none was seen open, or files were not recorded (monitor.without)"
    return unread_text(job, is_here, "open files") or none_kept


def summary_lines(job: Job, most: int) -> list[str]:
    """The files that an ended job read and wrote most, a line each."""
    files = kept_files(job)
    lines = [f"{printable(file['path'])}: {amount_text(file)}" for file in files[:most]]
    left_out = len(files) - len(lines)
    return [*lines, f"{left_out} more: jobtop files {job.id[:8]}"] if left_out else lines


def amount_text(file: dict[str, Any]) -> str:
    """What was seen of a file: `at least 576.0 MiB read in 2 passes`; its size where no position moved."""
    parts = []
    read, written, passes = (known_number(file.get(key)) for key in ("read_bytes", "written_bytes", "passes"))
    if read:
        parts.append(f"at least {format_bytes(read)} read" + (f" in {passes} passes" if passes and passes > 1 else ""))
    if written:
        parts.append(f"at least {format_bytes(written)} written")
    if not parts:
        parts.append(f"{'mapped' if file.get('is_mapped') is True else 'open'}, with unknown traffic")
    size = known_number(file.get("size_bytes"))
    return ", ".join([*parts, *([f"size {format_bytes(size)}"] if size is not None else [])])


def device_lines(job: Job) -> list[str]:
    """What the cgroup of a job has counted on each device, a line each; none if it did not tell."""
    found = job.findings.get("storage")
    rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    return [device_line(row) for row in rows]


def device_line(row: dict[str, Any]) -> str:
    read, written, reads, writes = (
        known_number(row.get(key)) for key in ("read_bytes", "write_bytes", "read_ops", "write_ops")
    )
    counts = f"{number_of(reads, 'read')}, {number_of(writes, 'write')}"
    return f"{printable(str(row.get('device')))}: {format_bytes(read)} read, {format_bytes(written)} written ({counts})"


def known_number(value: object) -> int | None:
    return value if type(value) is int else None
