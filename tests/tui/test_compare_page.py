"""The Compare page compares jobs with the first one, aligned by start, end or wall clock."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.widget import Widget

from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Sample, Status, Usage
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_write
from jobtop.store.samples.joined import Series as Samples
from jobtop.store.samples.series import SeriesStore
from jobtop.tui.chart.chart import Chart
from jobtop.tui.screens.compare import Alignment, Compare, ComparedJob, known_part, offsets
from jobtop.tui.screens.history import History
from jobtop.tui.widgets.sentences import Sentences
from records import HERE, HOSTILE_TEXTS, holds_controls, kept_jobs, made_job
from stage import drawn_lines
from visiting import Visitor, visit

START = 1_700_000_000.0


class CompareVisitor(Visitor):
    """The user of the Compare page."""

    @property
    def page(self) -> Compare:
        page = self.console.pages["compare"]
        assert isinstance(page, Compare)
        return page

    async def compare(self, jobs: Sequence[Job]) -> None:
        await self.console.open_compare([job.id for job in jobs])
        await self.until(lambda: not self.page.reading.is_running)
        await self.pilot.pause()

    def lines(self) -> list[str]:
        return [line.rstrip() for line in drawn_lines(self.page.table)]

    def row(self, label: str) -> list[str]:
        return next(line for line in self.lines() if line[2:].startswith(label))[2 + len(label) :].split()

    def starts(self) -> list[float]:
        return [series.times[0] for series in self.page.query_one("#cpu", Chart).view.series]


def visit_compare(
    root: Path, scene: Callable[[CompareVisitor], Awaitable[None]], size: tuple[int, int] = (120, 36)
) -> None:
    visit(root, lambda visitor: scene(CompareVisitor(visitor.pilot, visitor.console)), size)


def two_runs(root: Path) -> list[Job]:
    """A job of 10 seconds, and a minute later one of 5 that used more memory."""
    jobs = kept_jobs(
        root,
        made_job(start_time=START, duration_seconds=10.0, usage=Usage(memory_peak_bytes=1 << 30)),
        made_job(
            start_time=START + 60,
            duration_seconds=5.0,
            status=Status.FAILED,
            exit_code=1,
            usage=Usage(memory_peak_bytes=3 << 30),
            params={"lr": 0.1},
        ),
    )
    database = open_to_write(StatePaths(root, HERE))
    for job in jobs:
        seconds = int(job.duration_seconds or 0)
        values = [{"cpu.user": 1.0 * at, "cpu.system": 0.0, "mem.used": at << 20} for at in range(seconds)]
        samples = [Sample(float(at), tuple(map(row.get, JOB_COLUMNS))) for at, row in enumerate(values)]
        SeriesStore(database).append([(job.seq or 0, sample) for sample in samples])
    database.close()
    return jobs


def title(pane: Widget) -> str:
    return pane._border_title.plain if pane._border_title is not None else ""


def run(start: float | None, seconds: float) -> ComparedJob:
    times = [float(at) for at in range(int(seconds) + 1)]
    return ComparedJob(
        made_job(start_time=start, duration_seconds=seconds), Samples(times, {"mem.used": [1.0] * len(times)})
    )


def test_an_empty_comparison_says_how_to_mark_jobs(tmp_path: Path) -> None:
    async def scene(guest: CompareVisitor) -> None:
        await guest.pilot.press("3")
        await guest.until(lambda: any("Space" in line and "press c" in line for line in guest.lines()))

    visit_compare(tmp_path, scene, (80, 24))


def test_the_legends_and_the_title_say_which_jobs_they_are(tmp_path: Path) -> None:
    jobs = two_runs(tmp_path)

    async def scene(guest: CompareVisitor) -> None:
        await guest.console.open_compare([job.id for job in jobs])
        charts = list(guest.console.screen.query(Chart))
        await guest.until(lambda: all(job.id[:8] in title(chart) for chart in charts for job in jobs))
        assert title(guest.console.screen.query_one("#compared")) == f"Compare 2 jobs  {jobs[0].name}"

    visit_compare(tmp_path, scene)


def test_marked_jobs_of_the_history_are_compared_with_the_oldest(tmp_path: Path) -> None:
    two_runs(tmp_path)

    async def scene(guest: CompareVisitor) -> None:
        await guest.pilot.press("2")
        history = guest.console.pages["history"]
        assert isinstance(history, History)
        await guest.until(lambda: len(history.lines.source or ()) == 2)
        await guest.pilot.press("space", "space", "c")
        await guest.until(lambda: len(guest.page.runs) == 2)
        await guest.pilot.pause()
        assert guest.row("time") == ["10.0s", "5.0s", "-5.0s", "-50%", "✓"]
        assert guest.row("memory peak") == ["1.0G", "3.0G", "+2.0G", "+200%", "!"]
        assert guest.row("param lr") == ["–", "0.1"]
        assert guest.row("status") == ["success", "failed"]

    visit_compare(tmp_path, scene)


def test_the_key_a_aligns_the_curves_by_start_end_and_clock(tmp_path: Path) -> None:
    jobs = two_runs(tmp_path)

    async def scene(guest: CompareVisitor) -> None:
        await guest.compare(jobs)
        assert guest.starts() == [0.0, 0.0]
        await guest.pilot.press("a")
        assert guest.starts() == [0.0, 5.0]
        await guest.pilot.press("a")
        assert guest.starts() == [0.0, 60.0]
        await guest.pilot.press("a")
        assert guest.page.alignment is Alignment.START

    visit_compare(tmp_path, scene)


def test_a_deleted_job_is_reported_and_the_others_stay(tmp_path: Path) -> None:
    jobs = two_runs(tmp_path)

    async def scene(guest: CompareVisitor) -> None:
        await guest.compare([*jobs, made_job()])
        assert len(guest.page.runs) == 2
        assert "1 missing" in guest.page.words()
        await guest.compare([jobs[0], made_job(id="0123456789")])
        assert any('"0123456789" is not a job' in line for line in guest.lines())

    visit_compare(tmp_path, scene)


def test_of_seven_jobs_the_first_six_are_compared(tmp_path: Path) -> None:
    jobs = kept_jobs(tmp_path, *(made_job(duration_seconds=float(seconds)) for seconds in range(1, 8)))

    async def scene(guest: CompareVisitor) -> None:
        await guest.compare(jobs)
        assert [run.job.id for run in guest.page.runs] == [job.id for job in jobs[:6]]

    visit_compare(tmp_path, scene, (160, 42))


@pytest.mark.parametrize("size", [(160, 42), (60, 15)])
def test_hostile_text_has_no_effect_at_any_width(tmp_path: Path, size: tuple[int, int]) -> None:
    texts = [text[:300] for text in HOSTILE_TEXTS.values()]
    jobs = kept_jobs(
        tmp_path, *(made_job(name=text, command=(text,), params={text: text}, tags={text: text}) for text in texts)
    )

    async def scene(guest: CompareVisitor) -> None:
        for part in (jobs[:3], jobs[3:9]):
            await guest.compare(part)
            assert len(guest.page.runs) == len(part)
            for _ in range(3):
                await guest.pilot.press("pagedown")
                assert not any(holds_controls(line) or cell_len(line) > size[0] for line in guest.lines())

    visit_compare(tmp_path, scene, size)


def test_jobs_that_are_drawn_to_their_ends_end_together() -> None:
    runs = [run(START, 10.0), run(START + 3, 4.0)]
    assert [shift + one.seconds for shift, one in zip(offsets(runs, Alignment.END), runs, strict=True)] == [10.0, 10.0]


def test_a_job_that_never_began_is_at_the_left_of_the_clock() -> None:
    assert offsets([run(START + 5, 1.0), run(None, 0.0), run(START, 1.0)], Alignment.CLOCK) == [5.0, 0.0, 0.0]


def test_a_curve_ends_with_the_last_value_that_is_known() -> None:
    samples = Samples([0.0, 1.0, 2.0], {"mem.used": [None, 7.0, None]})
    assert known_part(samples, "mem.used", 10.0) == ([10.0, 11.0], [None, 7.0])


def test_a_command_and_its_container_are_compared(home: Path) -> None:
    facts = {"image": "box:1", "started_at": START + 0.5, "runtime": {"cpu_seconds": 0.05, "memory_bytes": 12 << 20}}
    jobs = kept_jobs(
        home,
        made_job(submitted_at=START, start_time=START + 0.1, duration_seconds=2.0),
        made_job(kind="container", submitted_at=START, duration_seconds=2.6, findings={"container": facts}),
    )

    async def scene(visitor: CompareVisitor) -> None:
        await visitor.compare(jobs)
        assert visitor.row("time to start")[:2] == ["0.1s", "0.5s"]
        assert visitor.row("runtime memory")[-1] == "12.0M"
        assert visitor.row("container image")[-1] == "box:1"
        words = " ".join(line.strip() for line in drawn_lines(visitor.page.query_one(Sentences)))
        assert "0.4 s longer to start" in words
        await visitor.compare([jobs[0]])
        assert not visitor.page.query_one(Sentences).sentences

    visit_compare(home, scene)
