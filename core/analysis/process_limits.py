"""The limits of a job's own processes (`ulimit`) in its findings: those that it lowered, and that of address space."""

from __future__ import annotations

from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FINDING = "process_limits"  # the key in `Job.findings`
OPEN_FILES, ADDRESS_SPACE = "open_files", "address_space"


@record
class ProcessLimit:
    """The lowest limit that a process of the job had; `at_start` is None if the job started without one."""

    name: str
    at_start: int | None
    lowest: int

    @property
    def is_lowered(self) -> bool:
        return self.at_start is None or self.lowest < self.at_start

    def to_json(self) -> dict[str, str | int | None]:
        return {"name": self.name, "at_start": self.at_start, "lowest": self.lowest}


def process_limit(findings: Mapping[str, Any], name: str) -> ProcessLimit | None:
    """The limit with a name; None if it is not in the findings, or damaged there."""
    entries = findings.get(FINDING)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name:
            at_start, lowest = entry.get("at_start"), entry.get("lowest")
            if isinstance(lowest, int) and isinstance(at_start, int | None):
                return ProcessLimit(name, at_start, lowest)
    return None
