"""What went wrong in the last day, as every screen shows it: one list, read again when a job has changed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from operator import is_
from typing import TYPE_CHECKING

from jobtop.core.errors import StoreError
from jobtop.core.model import Job
from jobtop.core.record import record
from jobtop.core.units import format_duration
from jobtop.tui.data.reader import ABSENT, EMPTY
from jobtop.tui.data.view import StoreState, View
from jobtop.tui.palette import FLAG_GLYPHS, SEVERITY_GLYPHS, STATUS_GLYPHS, Tone
from jobtop.tui.widgets.cells import Span

if TYPE_CHECKING:
    from jobtop.store.database import Database
    from jobtop.store.incidents import Incident
    from jobtop.tui.data.reader import StoreReader

SHOWN_SECONDS = 86400.0  # how far back the list goes
READ_AGAIN_SECONDS = 30.0  # between two readings, because entries become older than a day
MOST_CORE_SHARE = 0.01  # of a core, for reading: a long history is expensive
SEVERITIES = tuple(SEVERITY_GLYPHS)


@record
class Incidents:
    """What went wrong in the last day, newest first; `is_known` is False before the first reading."""

    found: tuple[Incident, ...] = ()
    is_known: bool = False
    is_unreadable: bool = False
    has_more: bool = False  # more than a store returns at once

    def __len__(self) -> int:
        return len(self.found)

    @property
    def count(self) -> str:
        """The number as text: `9`, or `500+`."""
        return f"{len(self)}{'+' if self.has_more else ''}"

    @property
    def words(self) -> str:
        """The numbers as text: `2 alerts · 3 failed`, with `and more` if there are more; empty if there are none."""
        alerts = sum(incident.severity is not None for incident in self.found)
        failed = len(self) - alerts
        parts = [f"{alerts} alert{'' if alerts == 1 else 's'}" if alerts else "", f"{failed} failed" if failed else ""]
        return " · ".join(filter(None, [*parts, "and more" if self.has_more else ""]))

    def worst(self) -> str:
        """The highest severity; a failed job counts as critical."""
        ranks = [SEVERITIES.index(severity_of(incident)) for incident in self.found]
        return SEVERITIES[min(ranks, default=len(SEVERITIES) - 1)]

    def alerts_by_job(self) -> dict[str, tuple[str, int]]:
        """The highest severity and the number of alerts, by the id of the job."""
        counted: dict[str, tuple[str, int]] = {}
        for incident in self.found:
            if incident.severity is not None and incident.job_id is not None:
                worst, count = counted.get(incident.job_id, (SEVERITIES[-1], 0))
                counted[incident.job_id] = min(worst, severity_of(incident), key=SEVERITIES.index), count + 1
        return counted


def severity_of(incident: Incident) -> str:
    """The severity of an incident; an unknown severity of an alert counts as a warning."""
    if incident.severity is None:
        return SEVERITIES[0]
    return incident.severity if incident.severity in SEVERITIES else "warning"


def glyph_of(incident: Incident) -> tuple[str, Tone]:
    """Glyph and colour of an incident: by the severity of an alert, else by the status of the job."""
    if incident.severity is not None:
        return SEVERITY_GLYPHS[severity_of(incident)]
    flags = [FLAG_GLYPHS[flag] for flag in FLAG_GLYPHS if flag in incident.flags]
    return (flags or [STATUS_GLYPHS[str(incident.status)]])[0]


def clock_time(incident: Incident) -> str:
    return time.strftime("%H:%M:%S", time.localtime(incident.at))


def incident_text(incident: Incident) -> str:
    """The text of an incident: `exit code 1 after 3m12s`, `memory 92 % of its limit`."""
    has_run = incident.severity is None and (incident.duration_seconds or 0.0) >= 1.0
    if not has_run or " after " in incident.words:
        return incident.words
    return f"{incident.words} after {format_duration(incident.duration_seconds)}"


def count_label(incidents: Incidents) -> list[Span]:
    """The number of incidents with the glyph and colour of the worst: `▲3`, `▲500+`."""
    glyph, tone = SEVERITY_GLYPHS[incidents.worst()]
    return [Span(f"{glyph}{incidents.count}", tone, True)] if len(incidents) else []


class IncidentWatch:
    """Reads the list of incidents, and decides when to read it again."""

    def __init__(self) -> None:
        self.incidents = Incidents()
        self._jobs: Sequence[Job] = ()
        self._stores: Sequence[StoreState] = ()
        self._read_at, self._not_before = -float("inf"), -float("inf")
        self._is_reading = False

    def is_due(self, view: View) -> bool:
        """Whether to read again: a job has changed (each event changes its job), and reading does not cost too much."""
        if self._is_reading or time.monotonic() < self._not_before:
            return False
        if not self.incidents.is_known or view.at - self._read_at > READ_AGAIN_SECONDS or view.stores != self._stores:
            return True
        # Comparing 1,000 jobs by identity takes 40 µs; comparing them by value costs more than reading.
        return len(view.rows) != len(self._jobs) or not all(map(is_, jobs_of(view), self._jobs))

    async def read(self, view: View, reader: StoreReader) -> Incidents:
        """Read the incidents from all stores; the top of the screen reports a store that cannot be read."""
        self._is_reading = True
        self._jobs, self._stores, self._read_at = list(jobs_of(view)), view.stores, view.at
        found: list[Incident] = []
        is_unreadable = has_more = False
        spent = 0.0
        since = view.at - SHOWN_SECONDS
        try:
            for state in view.stores:
                try:
                    reading = await reader.read(state.path, lambda database: read_timed(database, since))
                    found, spent = found + reading.found, spent + reading.seconds
                    has_more = has_more or reading.has_more
                except (StoreError, OSError) as error:
                    is_unreadable = is_unreadable or not is_unused(str(error))
        finally:
            self._is_reading = False
            self._not_before = time.monotonic() + spent / MOST_CORE_SHARE
        found.sort(key=lambda incident: incident.at, reverse=True)
        self.incidents = Incidents(tuple(found), True, is_unreadable, has_more)
        return self.incidents


@record
class TimedReading:
    """What a store returned, whether it has more, and the CPU time that took."""

    found: list[Incident]
    has_more: bool
    seconds: float


def read_timed(database: Database, since: float) -> TimedReading:
    from jobtop.store.incidents import MOST, read_incidents

    began = time.thread_time()
    found = read_incidents(database, since)
    return TimedReading(found, len(found) >= MOST, time.thread_time() - began)


def is_unused(problem: str) -> bool:
    """Whether a store's only problem is that it has not been used yet."""
    return problem.endswith((ABSENT, EMPTY))


def jobs_of(view: View) -> Iterator[Job]:
    return (row.job for row in view.rows)
