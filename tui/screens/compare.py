"""The Compare page: the curves of two to six jobs in one chart, and a table of what they used and their parameters."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from jobtop.core.analysis.comparison import Total
from jobtop.core.errors import StoreError, UsageError
from jobtop.core.metrics import Metric, find_metric
from jobtop.core.model import Job
from jobtop.core.record import record
from jobtop.core.text.container_text import overhead_sentences
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs
from jobtop.store.samples.curves import Curves
from jobtop.store.samples.joined import Series as Samples
from jobtop.tui.actions import APP, COMPARE, bindings
from jobtop.tui.chart.chart import Chart
from jobtop.tui.chart.plotting import ChartSeries, ChartView
from jobtop.tui.data.rows import ListRows
from jobtop.tui.data.view import View
from jobtop.tui.page import Page
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span
from jobtop.tui.widgets.columns import placed
from jobtop.tui.widgets.panes import PlainTable
from jobtop.tui.widgets.sentences import Sentences
from jobtop.tui.widgets.table import GUTTER, Table
from jobtop.tui.widgets.tables.comparison import BETTER, WORSE, Row, columns, rows
from jobtop.tui.workers import RepeatedWork

FEWEST, MOST = 2, 6
LONGEST = 60  # characters of a name
POINTS = 600
READ_SECONDS = 2.0
HOW = "Mark two to six jobs with Space on page 1 or 2, then press c."
CPU, MEMORY = find_metric("cpu.percent"), find_metric("mem.used")


class Alignment(Enum):
    """Which moments of the jobs are drawn in the same column."""

    START = "aligned on start"
    END = "aligned on end"
    CLOCK = "wall clock"

    @property
    def next(self) -> Alignment:
        every = list(Alignment)
        return every[(every.index(self) + 1) % len(every)]


@record
class ComparedJob:
    """A job with its samples."""

    job: Job
    samples: Samples

    @property
    def seconds(self) -> float:
        """The duration of the job, so far if it is running."""
        last = self.samples.times[-1] if self.samples.times else 0.0
        return max(last, self.job.duration_seconds or 0.0)


class Compare(Page):
    """The page with charts above and a table below."""

    name_in_tabs = "compare"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP, COMPARE)]
    DEFAULT_CSS = """
    Compare {
        #charts { height: 2fr; min-height: 6; }
        #compared { height: 3fr; }
        &.-empty #charts { display: none; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.ids: tuple[str, ...] = ()
        self.runs: tuple[ComparedJob, ...] = ()
        self.problems: list[str] = []
        self.alignment = Alignment.START
        self.reading = RepeatedWork(self, self._read_all, "compare")
        self._version, self._read_at = -1, -float("inf")

    def panes(self) -> ComposeResult:
        with Horizontal(id="charts"):
            yield Chart(id="cpu")
            yield Chart(id="memory")
        yield Sentences(id="overhead")
        yield PlainTable((), id="compared")

    def on_mount(self) -> None:
        self.table.focus()
        self.paint()

    @property
    def table(self) -> Table[Row]:
        return self.query_one("#compared", Table)

    def show(self, view: View) -> None:
        if not self.is_complete:
            return
        super().show(view)
        is_behind = bool(self.problems) or any(not run.job.status.ended for run in self.runs)
        is_due = time.monotonic() - self._read_at >= READ_SECONDS
        if is_behind and is_due and (view.version != self._version or self.problems):
            self._version = view.version
            self.reading.request()

    def compare(self, job_ids: Sequence[str]) -> None:
        """Compare these jobs; the others are compared with the first one."""
        if len(job_ids) > MOST:
            self.notify(f"the first {MOST} of {len(job_ids)} marked jobs", markup=False)
        self.ids, self.runs, self.problems = tuple(job_ids[:MOST]), (), []
        self.reading.request()

    async def _read_all(self) -> None:
        ids, known = self.ids, {str(run.job.id): run for run in self.runs}
        found = [await self._read(job_id, known) for job_id in ids]
        self.problems = [problem for _, problem in found if problem]
        self.runs = tuple(run for run, _ in found if run is not None)
        self._read_at = time.monotonic()
        self.paint()

    async def _read(self, job_id: str, known: Mapping[str, ComparedJob]) -> tuple[ComparedJob | None, str]:
        """Read a job from the store that has it, and its problem; a job that was read stays if its store fails."""
        stores, reader = self.console.options.stores, self.console.reader
        try:
            _, run = await reader.read_first(stores, lambda database: read_compared_job(database, job_id))
        except StoreError as error:
            return known.get(job_id), str(error)
        except UsageError as error:
            return None, str(error)
        return run, ""

    def paint(self) -> None:
        """Show the charts and the table of what was read."""
        is_enough = len(self.runs) >= FEWEST
        self.set_class(not is_enough, "-empty")
        self.update_keys()
        table, jobs = self.table, [run.job for run in self.runs]
        table.empty = "\n".join(self.missing())
        if [column.key for column in table.columns[1:]] != [job.id for job in jobs]:
            table.source = None  # the old rows do not have as many values as the new columns
            table.columns = columns(jobs) if is_enough else ()
        table.source = ListRows(rows(jobs) if is_enough else [], row_key)
        names = {job.name for job in jobs}  # differing names are in the table
        table.set_title(
            [
                Span(f"Compare {len(jobs)} jobs" if is_enough else "Compare"),
                Span(f"  {names.pop()[:LONGEST]}" if is_enough and len(names) == 1 else "", Tone.GREY),
            ]
        )
        table.set_subtitle([Span(self.words() if is_enough else "", Tone.GREY)])
        self.query_one(Sentences).sentences = tuple(overhead_sentences(jobs)) if is_enough else ()
        for name, title, metric in (("cpu", "CPU", CPU), ("memory", "Memory", MEMORY)):
            chart = self.query_one(f"#{name}", Chart)
            chart.view = ChartView(
                title,
                overlaid(self.runs, metric, self.alignment),
                note=alignment_words(self.runs, self.alignment) if metric is CPU else "a aligns differently",
                empty="no samples",
            )

    def missing(self) -> list[str]:
        """The reasons why nothing is compared."""
        if not self.problems:
            return [missing_words(len(self.runs), len(self.ids)), HOW]
        width = max(20, self.table.drawn_size.width - 4)
        return [*(textwrap.fill(problem, width) for problem in dict.fromkeys(self.problems)), HOW]

    def words(self) -> str:
        """The meaning of the signs, and how many jobs do not fit."""
        table = self.table
        hidden = len(table.columns) - len(placed(table.columns, table.drawn_size.width - GUTTER))
        narrow = f" · {hidden} more on a wider screen" if hidden and table.drawn_size.width > GUTTER else ""
        gone = f" · {len(self.problems)} missing" if self.problems else ""
        return f"against the first: {BETTER} better {WORSE} worse{narrow}{gone}"

    def on_resize(self) -> None:
        if self.runs:
            self.call_after_refresh(self.paint)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable alignment for a single job."""
        return action != "align" or len(self.runs) >= FEWEST

    def action_align(self) -> None:
        """Align the jobs by the next of start, end and wall clock."""
        self.alignment = self.alignment.next
        self.paint()


def read_compared_job(database: Database, job_id: str) -> ComparedJob:
    """Read a job and its drawn curves; raises UnknownJob and StoreError."""
    job = Jobs(database).find(job_id)
    return ComparedJob(job, Curves(database).series(job, [CPU.key, MEMORY.key], max_points=POINTS))


def missing_words(found: int, wanted: int) -> str:
    """What the user waits for, or can do."""
    if found == 0:
        return "reading …" if wanted else "Nothing to compare yet."
    return "One job cannot be compared: mark a second one."


def overlaid(runs: Sequence[ComparedJob], metric: Metric, alignment: Alignment) -> list[ChartSeries]:
    """One curve for each job."""
    return [
        ChartSeries(run.job.id[:8], metric, *known_part(run.samples, metric.key, shift))
        for run, shift in zip(runs, offsets(runs, alignment), strict=True)
    ]


def alignment_words(runs: Sequence[ComparedJob], alignment: Alignment) -> str:
    """How the jobs are aligned; by wall clock, also the time at the left."""
    starts = [run.job.start_time for run in runs if run.job.start_time is not None]
    if alignment is not Alignment.CLOCK or not starts:
        return alignment.value
    return f"{alignment.value} from {time.strftime('%m-%d %H:%M', time.localtime(min(starts)))}"


def known_part(samples: Samples, key: str, shift: float) -> tuple[list[float], list[float | None]]:
    """Moments and values up to the last known one: an ended job has no memory at its end, but the legend shows it."""
    values = list(samples.values[key])
    while values and values[-1] is None:
        values.pop()
    return [moment + shift for moment in samples.times[: len(values)]], values


def offsets(runs: Sequence[ComparedJob], alignment: Alignment) -> list[float]:
    """The seconds from the left of the chart to the start of each job; 0 for a job that never started."""
    match alignment:
        case Alignment.START:
            return [0.0] * len(runs)
        case Alignment.END:
            longest = max((run.seconds for run in runs), default=0.0)
            return [longest - run.seconds for run in runs]
        case Alignment.CLOCK:
            first = min((run.job.start_time for run in runs if run.job.start_time is not None), default=0.0)
            return [0.0 if run.job.start_time is None else run.job.start_time - first for run in runs]


def row_key(row: Row) -> str:
    return f"total {row.measure.label}" if isinstance(row, Total) else f"asked {row.label}"
