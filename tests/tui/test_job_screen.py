"""The screen of one job: live, past, failed, deleted, unsampled, hostile; on wide, narrow and low screens."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.color import Color
from textual.style import Style
from textual.widget import Widget

from job_pages import START, Made, finished, process, recent
from jobtop.core.analysis.cost import Prices
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.metrics import find_metric
from jobtop.core.model import Job, Kept, Limits, Queued, Status, Usage
from jobtop.core.series.drawing import Curve
from jobtop.core.text.limits_used import LimitFacts
from jobtop.store.database import open_to_read
from jobtop.store.jobs import Event
from jobtop.store.samples.curves import Curves
from jobtop.tui.chart.chart import Chart
from jobtop.tui.chart.plotting import Plot
from jobtop.tui.chart.window import TimeWindow
from jobtop.tui.data.job_reading import CurveCache, JobNumbers, JobReading, JobView, LocalProcesses, Viewport
from jobtop.tui.palette import LIGHT, Tone
from jobtop.tui.screens.job.charts import BOTH, chart_view
from jobtop.tui.screens.job.header import HeaderView, fitting, header_lines
from jobtop.tui.screens.job.screen import JobScreen
from jobtop.tui.widgets.output_view import OutputView
from jobtop.tui.widgets.tables.processes import ProcessTree
from jobtop.tui.widgets.timeline import Timeline
from records import HERE, HOSTILE_TEXTS, holds_controls, made_job, running_job
from sampled import damage_samples, steady
from stage import Performance, play, text_of
from support import wait_for
from visiting import Visitor


def test_a_finished_job_is_shown_with_its_totals_charts_processes_output_and_timeline(tmp_path: Path) -> None:
    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        shown = await visitor.shows("✓ success", "late", "└ child", "line 599", "ended: success")
        assert f"train   {screen.job_id[:8]}" in shown
        assert "10m00s   exit 0   CPU 50.0 % mean   CPU time 5m00s   memory 600M peak of 1.0G" in shown
        assert "asked 2 CPUs" in shown
        assert "$ python train.py" in shown
        assert "asked 200 %" in shown
        assert "peak 600.0 MiB" in shown
        assert "Why it ended" not in shown
        assert "+10m00s ✓ ended" in shown

    finished(tmp_path).open(scene)


def test_an_imported_job_shows_the_error_that_its_program_recorded(tmp_path: Path) -> None:
    async def scene(visitor: Visitor, _: JobScreen) -> None:
        await visitor.shows("Why it ended", "failed after 10m00s: [/b] lost atoms")

    finished(tmp_path, status=Status.FAILED, exit_code=1, error="[/b] lost atoms").open(scene)


def test_a_failed_job_shows_the_reason_first_with_its_last_output(tmp_path: Path) -> None:
    made = finished(tmp_path, status=Status.FAILED, exit_code=3, reason="exit code 3")
    made.wrote(stderr=b"Traceback\nValueError: [/b] no\n")

    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        shown = await visitor.shows("Why it ended", "failed after 10m00s: exit code 3", "ValueError: [/b] no")
        assert shown.index("Why it ended") < shown.index("asked 200 %")
        assert "exit 3" in shown

    made.open(scene)


@pytest.mark.parametrize("size", [(80, 24), (60, 15)], ids=str)
def test_in_little_room_tab_visits_all_panes(tmp_path: Path, size: tuple[int, int]) -> None:
    made = finished(tmp_path, status=Status.FAILED, exit_code=3, reason="exit code 3")

    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("exit code 3")
        seen = []
        for _ in screen.tab_names():
            await visitor.press("tab")
            focused = screen.focused
            assert focused is not None
            assert focused.is_on_screen
            assert focused.size.height >= 2
            seen.append(focused.id)
        lists = ["alerts", "connections", "files", "tree"]
        assert sorted(map(str, seen)) == sorted(["cpu", "io", "output", "timeline", "why", *lists])
        await visitor.press("shift+tab")
        assert screen.focused is not None
        assert screen.focused.id == seen[-2]

    made.open(scene, size)


def test_a_maximised_pane_passes_the_screen_to_the_next(tmp_path: Path) -> None:
    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("line 599")
        await visitor.press("z")
        assert screen.query_one("#cpu").size.width > 150
        await visitor.press("shift+tab", "shift+tab", "shift+tab", "shift+tab")
        shown = await visitor.shows("line 599", "line 570")
        assert "Timeline" not in shown
        await visitor.press("z")
        await visitor.shows("Timeline", "Connections", "Processes")

    finished(tmp_path).open(scene)


def test_a_click_on_a_tab_shows_its_pane(tmp_path: Path) -> None:
    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("line 599")
        lines = visitor.screen().split("\n")
        row = next(number for number, line in enumerate(lines) if "▌CPU" in line)
        await visitor.pilot.click(offset=(lines[row].index("Timeline") + 2, row))
        await visitor.shows("ended: success")
        assert isinstance(screen.focused, Timeline)

    finished(tmp_path).open(scene, (80, 24))


def test_along_the_chart_numbers_processes_output_and_timeline_are_those_of_the_moment(tmp_path: Path) -> None:
    made = finished(tmp_path).happened(Event(START + 400, "paused", {}))

    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("line 599")
        await visitor.press("v")
        await visitor.until(lambda: screen.moment is not None)
        screen.query_one("#cpu", Chart).cursor = 100.5
        shown = await visitor.shows("◂ 1m40s ▸", "early", "line 099")
        assert "CPU time 50s" in shown
        assert "memory 100M · 600M peak" in shown
        assert "line 100" not in shown
        assert screen.query_one("#memory", Chart).cursor == 100.5
        entry = screen.query_one(Timeline).cursor_row
        assert entry is not None
        assert entry.words == "started, pid 4711"
        await visitor.press("right")
        await visitor.until(lambda: screen.moment is not None and screen.moment > 100.5)

    made.open(scene)


@pytest.mark.parametrize(
    ("user", "host", "shown"), [("ada", "atlas", "ada@atlas"), ("", "atlas", "atlas"), ("ada", "", "ada"), ("", "", "")]
)
def test_the_header_of_an_imported_job_shows_only_known_values(user: str, host: str, shown: str) -> None:
    job_view = JobView(made_job(user=user, host=host, cwd="", command=(), name="imported", pid=None))
    lines = [text_of(fitting(line, 90)) for line in header_lines(HeaderView(job_view))]
    assert lines[0].split() == ["✓", "success", "imported", job_view.job.id[:8], *filter(None, [shown])]
    assert "command" in lines[2]
    assert "$" not in lines[2]


def test_the_header_of_an_ended_job_says_what_limited_it() -> None:
    evidence = {"word": "storage", "evidence": "stalled 81.0 % of the time for I/O (io.pressure)"}
    findings = {"limited": [evidence] * 8 + [{"word": "cpu", "evidence": "x"}] * 2, "limited_whole": [evidence]}
    job_view = JobView(made_job(limited_by="storage", findings=findings, command=("solve",)))
    _, usage, command = (text_of(fitting(line, 120)) for line in header_lines(HeaderView(job_view)))
    assert "limited by storage SSSSSSSSCC" in usage
    assert "$ solve   storage: stalled 81.0 %" in command
    assert "limited" not in text_of(fitting(header_lines(HeaderView(job_view, moment=1.0))[1], 120))


def test_the_header_names_the_image_and_what_the_container_cost() -> None:
    runtime = {"cpu_seconds": 0.05, "memory_bytes": 12 << 20}
    facts = {"image": "box:1", "start_seconds": 0.5, "runtime": runtime}
    line = header_lines(HeaderView(JobView(made_job(kind="container", findings={"container": facts}))))[2]
    assert "image box:1" in text_of(fitting(line, 60))
    assert "started in 500ms" not in text_of(fitting(line, 60))
    assert "started in 500ms" in text_of(fitting(line, 200))


def test_the_header_shows_what_a_job_cost_only_where_it_is_known() -> None:
    used = Usage(energy_cpu_joules=7.2e6, cpu_total_seconds=3600.0)
    view = JobView(made_job(usage=used), numbers=JobNumbers(cpu_joules=7.2e6, cpu_seconds=3600.0))
    priced = HeaderView(view, 3600.0, prices=Prices(kwh=0.5, co2_g_per_kwh=100.0, currency="EUR"))
    assert "cost 1.00 EUR · 7.2 MJ · 200 g CO₂" in text_of(fitting(header_lines(priced)[1], 200))
    unpriced = HeaderView(view, 3600.0, prices=Prices(co2_g_per_kwh=100.0))
    assert "energy 7.2 MJ" in text_of(fitting(header_lines(unpriced)[1], 200))
    unknown = HeaderView(JobView(made_job()), 1.0)
    assert not {"cost", "energy"} & set(text_of(fitting(header_lines(unknown)[1], 200)).split())


def test_the_header_shows_what_a_job_uses_of_its_limits() -> None:
    facts = LimitFacts(memory_bytes=1 << 30, pids=100, files=1024, processes=1, files_open=45)
    numbers = JobNumbers(memory_peak=512 << 20, processes=1, threads=12, limits=facts)
    shown = text_of(fitting(header_lines(HeaderView(JobView(made_job(), numbers=numbers), 9.0))[1], 200))
    assert "512M peak of 1.0G" in shown
    assert "processes 1 · 12 threads of 100   files 45 of 1 024" in shown


def test_escape_leaves_the_past_first_and_then_the_screen(tmp_path: Path) -> None:
    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("◂ 1m00s ▸", "esc Live")
        await visitor.press("escape")
        await visitor.shows("10m00s   exit 0", "line 599", "esc Back")
        assert [chart.cursor for chart in screen.query(Chart)] == [None] * len(screen.query(Chart))
        await visitor.press("escape")
        assert visitor.console.screen is visitor.console.pages["dashboard"]

    finished(tmp_path).open(scene, moment=60.0)


def test_enter_on_an_event_goes_to_its_moment(tmp_path: Path) -> None:
    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("paused")
        screen.open_pane("timeline")
        await visitor.press("down", "down", "enter")
        await visitor.until(lambda: screen.moment == 400.0)
        await visitor.shows("◂ 6m40s ▸", "line 399")

    finished(tmp_path).happened(Event(START + 400, "paused", {})).open(scene)


def test_a_running_job_is_followed_and_scrolled_rows_stay(tmp_path: Path) -> None:
    made = Made(tmp_path, recent(), steady(20)).wrote(b"".join(b"line %d\n" % n for n in range(50)))

    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("● running", "memory 20.0M", "line 49", "● follows")
        made.sample(steady(25)[20:])
        made.wrote(b"line 50\n")
        await visitor.shows("memory 25.0M", "line 50")
        view = screen.query_one("#cpu", Chart).view
        assert view.is_live
        assert view.series[0].times[-1] == 25.0
        screen.open_pane("output")
        await visitor.press("up")
        await visitor.until(lambda: not screen.query_one(OutputView).is_following)
        made.wrote(b"line 51\n")
        made.sample(steady(26)[25:])
        shown = await visitor.shows("memory 26.0M")
        assert "line 51" not in shown
        await visitor.press("G")
        await visitor.shows("line 51", "● follows")
        made.jobs.change(made.job.id, lambda row: (made_job(id=row.id, seq=row.seq, name="renamed"), ()))
        await visitor.shows("✓ success", "renamed")

    made.open(scene)


def test_titles_follow_the_theme(tmp_path: Path) -> None:
    made = Made(tmp_path, made_job()).wrote(b"x")

    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("Timeline 2")
        await visitor.press("t")
        text = Color.parse(LIGHT.tones[Tone.TEXT])

        def has_new_color(pane: Widget) -> bool:
            spans = pane._border_title.spans if pane._border_title is not None else ()
            return text in [span.style.foreground for span in spans if isinstance(span.style, Style)]

        panes = [screen.query_one(name) for name in ("#timeline", "#tree", "#output")]
        await visitor.until(lambda: all(map(has_new_color, panes)))

    made.open(scene)


def test_a_job_deleted_while_shown_is_reported_and_nothing_breaks(tmp_path: Path) -> None:
    made = Made(tmp_path, recent(), steady(20))

    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("● running")
        made.jobs.delete(made.job)
        await visitor.shows("deleted from the store")
        await visitor.press("v", "left", "tab", "tab", "escape", "escape")
        assert visitor.console.screen is visitor.console.pages["dashboard"]

    made.open(scene)


def test_an_unknown_job_is_reported(tmp_path: Path) -> None:
    made = Made(tmp_path, made_job())
    made.jobs.delete(made.job)

    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("deleted from the store")
        assert screen.chosen_rows == []

    made.open(scene)


def test_a_job_that_was_never_sampled_says_so_in_every_pane(tmp_path: Path) -> None:
    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("not sampled", "processes were not recorded", "not on this machine")

    Made(tmp_path, made_job()).open(scene)


def waiting_job(queue: Queued) -> Job:
    unknown = {"start_time": None, "pid": None, "shim": None, "recorder": None}
    return running_job(status=Status.QUEUED, submitted_at=time.time() - 65, queue=queue, **unknown)


@pytest.mark.parametrize("size", [(160, 42), (80, 24), (60, 15)], ids=str)
def test_a_queued_job_shows_first_what_it_waits_for_and_how(tmp_path: Path, size: tuple[int, int]) -> None:
    made = Made(tmp_path, waiting_job(Queued(priority=5, group="gpu", retries=2)))

    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        shown = await visitor.shows("Why it waits", "its turn", "priority 5 · group gpu", "queued for 1m0")
        assert "2 retries left" in shown
        assert "not on this machine" not in shown
        begun = running_job(id=made.job.id, seq=made.job.seq, start_time=time.time() - 20)
        made.jobs.change(made.job.id, lambda _: (begun, ()))
        await visitor.shows("● running")
        await visitor.until(lambda: "Why it waits" not in visitor.screen())
        assert list(screen.visible_panes())

    made.open(scene, size)


def test_a_running_job_without_output_may_buffer_it(tmp_path: Path) -> None:
    made = Made(tmp_path, recent(), steady(20)).wrote(b"")

    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("nothing written", "PYTHONUNBUFFERED=1")
        screen.open_pane("output")
        await visitor.press("o")
        await visitor.shows("nothing written to its stdout")
        assert "PYTHONUNBUFFERED" not in visitor.screen()
        made.jobs.change(made.job.id, lambda row: (made_job(id=row.id, seq=row.seq), ()))
        await visitor.shows("wrote nothing")

    made.open(scene)


def test_an_old_job_says_what_was_deleted_and_a_pinned_one_that_it_is_pinned(tmp_path: Path) -> None:
    made = Made(tmp_path, made_job(usage=Usage(samples=100)))
    with made.database.writing() as connection:
        connection.execute("UPDATE jobs SET kept = ?, pinned = 1", (Kept.RECORD,))

    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        shown = await visitor.shows("pinned", "samples deleted", "jobtop pin")
        assert shown.count("samples deleted") == 4, "in the header and in three charts"
        assert "never" not in shown

    made.open(scene)


def test_a_peak_that_is_only_a_bound_is_marked_as_one(tmp_path: Path) -> None:
    bound = {"memory_peak": "rusage_floor"}
    made = Made(tmp_path, made_job(sources=bound, usage=Usage(memory_peak_bytes=7 << 20)))

    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("memory ≤7.0M peak", "peak ≤ 7.0 MiB")
        await visitor.press("escape")
        await visitor.shows(" ≤7.0M ")
        await visitor.press("2")
        await visitor.shows(" ≤7.0M ")
        await visitor.press("b")
        assert (await visitor.shows("By name", "MEM P95")).count(" ≤7.0M ") == 2

    made.open(scene)


@pytest.mark.parametrize("size", [(160, 42), (60, 15)], ids=str)
def test_the_way_out_and_help_are_always_shown_and_stop_only_for_running_jobs(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    made = Made(tmp_path, recent(), steady(20))

    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        keys = (await visitor.shows("? Help", "esc Back", "q Quit", "x Stop")).split("\n")[-1]
        assert "r Again" not in keys
        made.jobs.change(made.job.id, lambda row: (made_job(id=row.id, seq=row.seq), ()))
        keys = (await visitor.shows("r Again")).split("\n")[-1]
        assert "x Stop" not in keys
        await visitor.press("escape")
        keys = (await visitor.shows("⏎ Open", "? Help", "q Quit")).split("\n")[-1]
        assert "x Stop" not in keys

    made.open(scene, size)


def test_processes_are_neither_opened_nor_marked(tmp_path: Path) -> None:
    made = Made(tmp_path, made_job(), steady(2)).had(1.0, process(7, 1, "/bin/sh"))

    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("sh")
        screen.open_pane("tree")
        await visitor.press("space", "enter")
        keys = visitor.screen().split("\n")[-1]
        assert "Mark" not in keys
        assert "Open" not in keys
        assert not screen.query_one(ProcessTree).marks

    made.open(scene)


def test_two_curves_in_one_chart_do_not_cover_each_other() -> None:
    times = [float(second) for second in range(600)]
    flat = {
        key: Curve(find_metric(key), times, [value] * 600) for key, value in (("cpu.percent", 20), ("mem.used", 9e8))
    }
    job_view = JobView(made_job(limits=Limits(memory_bytes=1 << 30)), curves=flat, run_bounds=(0.0, 599.0))
    lines = Plot(chart_view(job_view, BOTH), (0.0, 599.0), 70, 12).lines()
    seen = [
        sum(len(span.text) for line in lines for span in line if span.tone is tone) for tone in (Tone.BLUE, Tone.ORANGE)
    ]
    assert min(seen) > 50


def test_damaged_samples_are_reported(tmp_path: Path) -> None:
    made = Made(tmp_path, made_job(), steady(300), sealed=True)
    damage_samples(tmp_path)

    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("300 damaged")

    made.open(scene)


def test_a_job_of_long_ago_that_the_feed_does_not_have_is_found_in_the_store(tmp_path: Path) -> None:
    made = finished(tmp_path)
    for number in range(40):
        made.jobs.insert(made_job(name=f"later-{number}", end_time=START + 1000 + number))

    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("line 599")
        assert screen.row is None
        assert [row.job.id for row in screen.chosen_rows] == [made.job.id]

    made.open(scene)


@pytest.mark.parametrize("size", [(160, 42), (60, 15)], ids=str)
def test_hostile_text_on_the_job_screen_has_no_effect(tmp_path: Path, size: tuple[int, int]) -> None:
    texts = HOSTILE_TEXTS.values()
    every = " ".join(texts)
    named = dict.fromkeys(("name", "user", "cwd", "reason"), every)
    made = Made(tmp_path, made_job(status=Status.FAILED, command=(*texts,), **named), steady(3))
    kinds = [text for text in texts if "\udce9" not in text]  # a store cannot hold it
    made.happened(*(Event(START + 1, kind, {"reason": text}) for kind in kinds for text in texts))
    written = "\n".join(texts).encode("utf-8", "surrogateescape")
    made.wrote(written, written, f"1.0 {len(written)} {len(written)}\n")
    made.had(1.0, *(process(number, number - 1, text) for number, text in enumerate(texts, 7)))

    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("failed")
        for _ in screen.tab_names():
            await visitor.press("tab")
            shown = visitor.screen()
            assert not holds_controls(shown)
            assert max(map(cell_len, shown.split("\n"))) <= size[0]

    made.open(scene, size)


def test_the_processes_can_be_sorted_and_be_a_tree_again(tmp_path: Path) -> None:
    made = Made(tmp_path, made_job(), steady(2))
    made.had(1.0, process(7, 1, "/bin/sh"), process(8, 7, "small"), process(9, 7, "large", 5 << 20))

    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.shows("└ small")
        tree = screen.query_one(ProcessTree)
        screen.open_pane("tree")
        await visitor.press("s", "s", "s")
        assert tree.sort is not None
        assert tree.sort.key == "memory"
        lines = await visitor.shows("MEM▼")
        assert lines.index("large") < lines.index("small")
        while tree.sort is not None:
            await visitor.press("s")
        await visitor.shows("└ small")

    made.open(scene)


def test_a_window_is_read_alone_and_the_rest_is_known_to_be_there(tmp_path: Path) -> None:
    made = Made(tmp_path, made_job(duration_seconds=7200.0), steady(7199), sealed=True)
    reading = JobReading(made.job.id, made.paths.store)
    whole = reading.read(made.database, Viewport(columns=100))
    part = reading.read(made.database, Viewport(TimeWindow(60.0, 600.0), 100))
    assert whole is not None
    assert part is not None
    assert len(whole.curves["mem.used"].times) <= 400
    assert part.run_bounds == whole.run_bounds == (0.0, 7200.0)
    times = part.curves["mem.used"].times
    assert (times[0], times[-1]) == (534.0, 606.0)
    assert part.curves["cpu.percent"].values[0] == pytest.approx(50.0)
    made.database.close()


def test_new_samples_of_a_running_job_are_appended_to_those_read_before(tmp_path: Path) -> None:
    made = Made(tmp_path, running_job(), steady(30))
    curves, viewport = Curves(made.database), Viewport(columns=100)
    grown, fresh = CurveCache(), CurveCache()
    grown.read(curves, made.job, viewport)
    for count in (31, 40):
        made.sample(steady(count)[30 if count == 31 else 31 :])
        grown.read(curves, made.job, viewport)
    fresh.read(curves, made.job, viewport)
    assert grown.curves == fresh.curves
    assert grown.run_bounds == (0.0, 40.0)
    made.database.close()


def test_a_cache_that_has_grown_too_long_is_read_again(tmp_path: Path) -> None:
    made = Made(tmp_path, running_job(), steady(10))
    curves, viewport = Curves(made.database), Viewport(columns=20)
    cache = CurveCache()
    cache.read(curves, made.job, viewport)
    made.sample(steady(2000)[10:])
    for _ in range(2):
        cache.read(curves, made.job, viewport)
    assert len(cache.curves["mem.used"].times) <= 4 * 20
    assert cache.curves["mem.used"].times[-1] == 2000.0
    made.database.close()


def test_the_processes_of_a_job_on_this_machine_are_seen_as_they_are(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        job = running_job(shim=identify(os.getpid()), host=HERE)
        processes = LocalProcesses(tmp_path)
        rows = wait_for(lambda: processes.read(job))
        assert child.pid in {row.pid for row in rows}
        assert processes.read(running_job(host="elsewhere", shim=job.shim)) is None
        processes.close()


def test_reading_a_job_does_not_write_to_the_store(tmp_path: Path) -> None:
    made = finished(tmp_path)
    before = made.paths.store.read_bytes()
    database = open_to_read(made.paths.store)
    JobReading(made.job.id, made.paths.store).read(database, Viewport(moment=50.0))
    database.close()
    assert made.paths.store.read_bytes() == before
    made.database.close()


@pytest.mark.parametrize("count", [3, 40])
def test_events_are_wrapped_to_the_width_beside_the_scrollbar(count: int) -> None:
    texts = [f"{'x' * number} {'y' * 40}" for number in range(count)]
    job = made_job(start_time=0.0)
    events = [Event(float(at), "alert", {"severity": "critical", "text": text}) for at, text in enumerate(texts)]
    timeline = Timeline()

    async def scene(on: Performance) -> None:
        timeline.show(job, events, None)
        await on.settle()
        assert timeline.show_vertical_scrollbar is (count == 40)
        assert "▲" in on.lines()[1]
        assert not [line for line in on.lines() if "…" in line]

    play(timeline, scene, size=(36, 20))
