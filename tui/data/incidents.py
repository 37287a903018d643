"""What went wrong in the last day, as every screen shows it: one list, read again when a job has changed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import is_
from pathlib import Path
from typing import TYPE_CHECKING

from jobtop.core.alerts.model import State
from jobtop.core.errors import StoreError
from jobtop.core.job_id import JobId
from jobtop.core.model import Job
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.record import fresh, record, replace
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
MOST_PENDING = 100
MOST_OUTPUTS = 20  # of failed jobs that are looked into at once
SEVERITIES = tuple(SEVERITY_GLYPHS)


@record
class JobAlerts:
    """The open alerts of a job: the highest severity, their number, and whether a person knows all of them."""

    severity: str
    count: int
    is_acknowledged: bool = False


@record
class Incidents:
    """What went wrong in the last day; `is_known` is False before the first reading.

    `found` has failures and open alerts: new ones first, then acknowledged ones, each newest first. `pending` has the
    alerts that have not fired yet, `past` those that are resolved. `stores` and `last_lines` are by the key of an
    incident: the store it is in, and the last line of output of a failed job.
    """

    found: tuple[Incident, ...] = ()
    is_known: bool = False
    is_unreadable: bool = False
    has_more: bool = False  # more than a store returns at once
    pending: tuple[Incident, ...] = ()
    past: tuple[Incident, ...] = ()
    stores: Mapping[str, Path] = fresh(default_factory=dict)
    last_lines: Mapping[str, str] = fresh(default_factory=dict)
    muted: frozenset[str] = frozenset()  # the keys of those whose rule or job is muted

    def __len__(self) -> int:
        return len(self.found)

    @property
    def new(self) -> list[Incident]:
        """Those that no person has acknowledged."""
        return [incident for incident in self.found if not incident.is_acknowledged]

    @property
    def count(self) -> str:
        """The number of new ones as text: `9`, or `500+`."""
        return f"{len(self.new)}{'+' if self.has_more else ''}"

    @property
    def words(self) -> str:
        """The numbers as text: `3 open · 1 acked`, with `and more` if there are more; empty if there are none."""
        opened = len(self.new)
        acknowledged = len(self) - opened
        parts = [f"{opened} open" if self.found else "", f"{acknowledged} acked" if acknowledged else ""]
        return " · ".join(filter(None, [*parts, "and more" if self.has_more else ""]))

    def worst(self) -> str:
        """The highest severity of new ones; a failed job counts as critical."""
        ranks = [SEVERITIES.index(severity_of(incident)) for incident in self.new]
        return SEVERITIES[min(ranks, default=len(SEVERITIES) - 1)]

    def alerts_by_job(self) -> dict[str, JobAlerts]:
        """The open alerts of each job, by its id; the acknowledged ones only of a job that has no others."""
        counted: dict[str, JobAlerts] = {}
        for incident in self.found:  # new ones come first
            if incident.severity is None or incident.job_id is None:
                continue
            before = counted.get(incident.job_id, JobAlerts(SEVERITIES[-1], 0, incident.is_acknowledged))
            if before.is_acknowledged is incident.is_acknowledged:
                worst = min(before.severity, severity_of(incident), key=SEVERITIES.index)
                counted[incident.job_id] = replace(before, severity=worst, count=before.count + 1)
        return counted


def sorted_incidents(found: Iterable[Incident]) -> Incidents:
    """The incidents by what they are: open, pending or resolved; each newest first."""
    newest = sorted(found, key=lambda incident: incident.at, reverse=True)
    opened = [incident for incident in newest if incident.state not in (State.PENDING, State.RESOLVED)]
    return Incidents(
        tuple(sorted(opened, key=lambda incident: incident.is_acknowledged)),
        pending=tuple(incident for incident in newest if incident.state is State.PENDING),
        past=tuple(incident for incident in newest if incident.state is State.RESOLVED),
    )


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
    """The number of new incidents with the glyph and colour of the worst: `▲3`, `▲500+`; empty if there are none."""
    glyph, tone = SEVERITY_GLYPHS[incidents.worst()]
    return [Span(f"{glyph}{incidents.count}", tone, True)] if incidents.new else []


class IncidentWatch:
    """Reads the list of incidents, and decides when to read it again."""

    def __init__(self) -> None:
        self.incidents = Incidents()
        self._jobs: Sequence[Job] = ()
        self._stores: Sequence[StoreState] = ()
        self._read_at, self._not_before = -float("inf"), -float("inf")
        self._is_reading = False
        self._last_lines: dict[str, str] = {}

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
        stores: dict[str, Path] = {}
        muted: set[str] = set()
        is_unreadable = has_more = False
        spent = 0.0
        since = view.at - SHOWN_SECONDS
        try:
            for state in view.stores:
                try:
                    question = partial(read_timed, state.path, since, self._last_lines)
                    reading = await reader.read(state.path, question)
                    found, spent = found + reading.found, spent + reading.seconds
                    stores |= dict.fromkeys((incident.key for incident in reading.found), state.path)
                    has_more, muted = has_more or reading.has_more, muted | reading.muted
                except (StoreError, OSError) as error:
                    is_unreadable = is_unreadable or not is_unused(str(error))
        finally:
            self._is_reading = False
            self._not_before = time.monotonic() + spent / MOST_CORE_SHARE
        self._last_lines = {key: line for key, line in self._last_lines.items() if key in stores}
        self.incidents = replace(
            sorted_incidents(found),
            is_known=True,
            is_unreadable=is_unreadable,
            has_more=has_more,
            stores=stores,
            last_lines=dict(self._last_lines),
            muted=frozenset(muted),
        )
        return self.incidents

    def forget(self) -> None:
        """Read again at the next view: the user has changed something."""
        self._read_at = self._not_before = -float("inf")


@record
class TimedReading:
    """What a store returned, whether it has more, the CPU time that took, and the keys of what is muted."""

    found: list[Incident]
    has_more: bool
    seconds: float
    muted: set[str]


def read_timed(store: Path, since: float, last_lines: dict[str, str], database: Database) -> TimedReading:
    """Read the incidents of a store, and add the last lines of output that are not known yet to `last_lines`."""
    from jobtop.store.incidents import MOST, read_incidents

    began = time.thread_time()
    read = [*read_incidents(database, since), *read_pending(database)]
    found = [unique(incident, store) for incident in read]
    failed = [incident for incident in found if incident.severity is None and not incident.is_acknowledged]
    for incident in [incident for incident in failed if incident.key not in last_lines][:MOST_OUTPUTS]:
        last_lines[incident.key] = last_line(store, incident)
    muted = read_muted(database, found)
    return TimedReading(found, len(found) >= MOST, time.thread_time() - began, muted)


def read_pending(database: Database) -> list[Incident]:
    """The alerts whose condition is true, but not for long enough yet."""
    from jobtop.store.alerts.alert_rows import AlertStore
    from jobtop.store.incidents import Incident

    return [
        Incident(
            f"{alert.job_id or ''}/a{alert.id}",
            alert.began_at,
            alert.job_id,
            alert.job_name or alert.host or "host",
            None,
            alert.text,
            str(alert.severity),
            is_acknowledged=alert.acknowledged_at is not None,
            alert_id=alert.id,
            state=alert.state,
            rule=alert.rule,
        )
        for alert in AlertStore(database).listing((State.PENDING,), limit=MOST_PENDING)
    ]


def read_muted(database: Database, found: Sequence[Incident]) -> set[str]:
    """The keys of the incidents whose rule or job is muted."""
    from jobtop.store.alerts.marks import MarkKind, Marks

    marks = Marks(database).all()
    rules = {mark.name for mark in marks if mark.kind is MarkKind.MUTE_RULE}
    jobs = {mark.name for mark in marks if mark.kind is MarkKind.MUTE_JOB}
    return {incident.key for incident in found if incident.rule in rules or incident.job_id in jobs}


def unique(incident: Incident, store: Path) -> Incident:
    """The incident with a key that no other store has: those without a job are only numbered."""
    return incident if incident.job_id is not None else replace(incident, key=f"/{store}{incident.key}")


def last_line(store: Path, incident: Incident) -> str:
    """The last line of output of a failed job, or the message in it; empty if there is none."""
    from jobtop.core.analysis.last_message import last_message
    from jobtop.store.output.last_lines import read_error_lines

    assert incident.job_id is not None
    try:
        lines = read_error_lines(StatePaths(store.parent, hostname()).job(JobId(incident.job_id)))
    except OSError:
        return ""
    return (last_message(lines, False) or lines[-1]).strip() if lines else ""


def is_unused(problem: str) -> bool:
    """Whether a store's only problem is that it has not been used yet."""
    return problem.endswith((ABSENT, EMPTY))


def jobs_of(view: View) -> Iterator[Job]:
    return (row.job for row in view.rows)
