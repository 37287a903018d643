"""The words about files of a job that the verbs and the console share."""

from __future__ import annotations

from jobtop.core.units import ABSENT, format_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from jobtop.core.measure.live_files import FileLine
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
