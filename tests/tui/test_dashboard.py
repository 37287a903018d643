"""The dashboard: its columns and panels, and what it shows for queued, failed and unsampled jobs."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobtop.core.alerts.model import State
from jobtop.core.model import Job, Limits, Monitor, Status
from jobtop.store import incidents
from jobtop.store.incidents import Incident
from jobtop.store.samples.live import Now, Tail
from jobtop.tui.chart.chart import Chart, SmallChart
from jobtop.tui.chart.host_chart import machine_chart
from jobtop.tui.chart.plotting import ChartView, legend
from jobtop.tui.chart.window import TimeWindow
from jobtop.tui.data.incidents import Incidents, JobAlerts, count_label, incident_text, sorted_incidents
from jobtop.tui.data.last_minute import copy_of
from jobtop.tui.data.machine import MachinePast
from jobtop.tui.data.view import JobRow, MachineView, View
from jobtop.tui.page import TopLine
from jobtop.tui.palette import Tone
from jobtop.tui.screens.dashboard import Dashboard, preview_of
from jobtop.tui.screens.job.screen import JobScreen
from jobtop.tui.widgets.alerts_panel import AlertsPanel, incident_lines
from jobtop.tui.widgets.cells import Align, width_of
from jobtop.tui.widgets.columns import placed
from jobtop.tui.widgets.job_columns import MinuteSparkline, live_columns, with_alerts, with_wait
from records import HOSTILE_TEXTS, holds_controls, kept_jobs, made_job
from sampled import kept_sampled, steady
from stage import Performance, paint_requests, play, text_of
from visiting import Visitor, visit

STORE = Path("store.db")
NOW = 1_700_000_100.0
LIVE = {"exit_code": None, "end_time": None, "duration_seconds": None}
NEVER_DROPPED = ["status", "id", "name", "time", "cpu", "mem", "alerts"]


def running(**values: object) -> Job:
    return made_job(**{"status": Status.RUNNING, **LIVE, **values})


def queued(**values: object) -> Job:
    return made_job(**{"status": Status.QUEUED, "start_time": None, **LIVE, **values})


def cells(row: JobRow) -> dict[str, str]:
    """The text of each column for a row."""
    return {column.key: text_of(column.cell(row).spans(20, Align.LEFT)).strip() for column in live_columns()}


def incident(number: int, severity: str | None = None, **values: object) -> Incident:
    content = {"key": f"{number}", "at": NOW - number, "job_id": f"job{number}", "name": f"job {number}"}
    return Incident(**content | {"status": Status.FAILED, "words": "exit code 1", "severity": severity} | values)  # type: ignore[arg-type]


def machine(at: float, received: float | None = 1.0, **gpus: float) -> MachineView:
    detail = {"gpus": {name.removeprefix("gpu"): {"gpu.util": busy} for name, busy in gpus.items()}}
    return MachineView("atlas", at, {"net.rx_bytes": received, "net.tx_bytes": 2.0}, detail)


def chart_of(*seen: MachineView) -> ChartView:
    """The chart after these views of the machine, one after another."""
    past = MachinePast()
    return machine_chart([past.with_past(picture) for picture in seen][-1].past)


def test_columns_are_dropped_by_priority_and_some_never() -> None:
    gone: list[str] = []
    for width in range(160, 40, -1):
        kept = {place.column.key for place in placed(live_columns(), width)}
        gone += [column.key for column in live_columns() if column.key not in kept and column.key not in gone]
    assert gone == ["gpu", "io", "limit", "state", "line"]
    assert [place.column.key for place in placed(live_columns(), 55)] == NEVER_DROPPED


def test_a_very_wide_screen_gives_its_room_to_the_name_which_shows_the_command() -> None:
    places = {place.column.key: place for place in placed(live_columns(), 176)}
    assert places["name"].width > 60
    last = places["alerts"]
    assert last.left + last.width == 176, "no room is left over"
    words = "".join(
        span.text for span in places["name"].column.cell(JobRow(running(), STORE)).spans(60, Align.LEFT)
    ).rstrip()
    assert words == "train  python train.py"
    assert cells(JobRow(running(), STORE))["name"] == "train"


def test_a_queued_job_shows_how_long_it_has_waited() -> None:
    row = with_wait(JobRow(queued(submitted_at=NOW - 211), STORE), NOW)
    assert {key: cells(row)[key] for key in ("status", "state", "time")} == {
        "status": "◌",
        "state": "queued",
        "time": "3m31s",
    }
    started = JobRow(running(start_time=NOW - 5), STORE, elapsed=5.0)
    assert with_wait(started, NOW) is started
    assert cells(with_wait(JobRow(queued(submitted_at=None), STORE), NOW))["time"] == "–"


def test_what_was_never_sampled_is_a_dash_and_not_0() -> None:
    limited = running(limits=Limits(memory_bytes=2**30))
    for job in (limited, queued(), made_job()):
        shown = cells(JobRow(job, STORE, elapsed=3.0))
        assert [shown[key] for key in ("cpu", "mem", "limit", "io", "gpu")] == ["–"] * 5
        assert shown["line"] == ""
    once = cells(JobRow(limited, STORE, Now(0.0), b"", 3.0))
    assert [once[key] for key in ("cpu", "mem", "limit", "io", "gpu")] == ["–"] * 5


@pytest.mark.parametrize("width", [12, 20, 30, 60])
def test_the_line_of_a_job_is_a_whole_minute_whatever_its_width(width: int) -> None:
    values = [100.0] + [0.0] * 59
    times = [float(second) for second in range(60)]
    shown = MinuteSparkline(times, values, 100.0, Tone.BLUE).cells(width)
    assert len(shown) == width
    assert shown[0] == pytest.approx(100.0 * width / 60)
    assert set(shown[1:]) == {0.0}
    assert MinuteSparkline([0.0, 30.0], [50.0, None], 100.0, Tone.BLUE).cells(12)[-7:] == [50.0, *[None] * 6]


def test_the_line_stands_still_until_a_cell_is_full() -> None:
    times = [float(second) for second in range(100)]
    values = [float(second % 7) for second in range(100)]
    shown = [MinuteSparkline(times[:end], values[:end], 7.0, Tone.BLUE).cells(12) for end in (91, 92, 95, 96)]
    assert shown[0][:-1] == shown[1][:-1] == shown[2][:-1]
    assert shown[3][:-1] == shown[2][1:]


def test_alerts_are_counted_by_job_with_the_highest_severity() -> None:
    row = JobRow(running(id="a" * 36), STORE)
    raised = [incident(1, "info", job_id=row.key), incident(2, "critical", job_id=row.key), incident(3, job_id=row.key)]
    counted = Incidents(tuple(raised)).alerts_by_job()
    assert counted == {row.key: JobAlerts("critical", 2)}
    column = with_alerts(live_columns(), counted)[-1]
    assert column.cell(row).spans(2, Align.RIGHT)[0][:2] == ("▲2", Tone.VERMILION)
    many = with_alerts(live_columns(), {row.key: JobAlerts("warning", 12)})[-1]
    assert many.cell(row).spans(2, Align.RIGHT)[0].text == "△+"


def test_acknowledged_alerts_of_a_job_are_counted_in_grey_only_if_it_has_no_new_ones() -> None:
    row = JobRow(running(id="a" * 36), STORE)
    known = [incident(number, "critical", job_id=row.key, is_acknowledged=True) for number in (1, 2)]
    counted = Incidents(tuple(known)).alerts_by_job()
    assert counted == {row.key: JobAlerts("critical", 2, True)}
    column = with_alerts(live_columns(), counted)[-1]
    assert column.cell(row).spans(2, Align.RIGHT)[0][:2] == ("▲2", Tone.GREY)
    both = sorted_incidents([*known, incident(3, "info", job_id=row.key)])
    assert both.alerts_by_job() == {row.key: JobAlerts("info", 1)}


def test_the_count_is_of_what_is_new_and_acknowledged_incidents_come_last() -> None:
    found = sorted_incidents(
        [
            incident(1, "critical", is_acknowledged=True, state=State.ACKNOWLEDGED),
            incident(2, "warning", state=State.FIRING),
            incident(3),
            incident(4, "info", state=State.PENDING),
            incident(5, "info", state=State.RESOLVED),
        ]
    )
    assert [shown.key for shown in found.found] == ["2", "3", "1"]
    assert [shown.key for shown in (*found.pending, *found.past)] == ["4", "5"]
    assert (found.words, found.count, found.worst()) == ("2 open · 1 acked", "2", "critical")
    assert [span.text for span in count_label(found)] == ["▲2"]
    assert count_label(sorted_incidents([incident(1, is_acknowledged=True)])) == []


def test_the_text_of_an_incident_has_the_duration_once() -> None:
    assert incident_text(incident(1, duration_seconds=192.0)) == "exit code 1 after 3m12s"
    assert (
        incident_text(incident(1, words="stopped after its timeout", duration_seconds=9.0))
        == "stopped after its timeout"
    )
    assert incident_text(incident(1, "warning", words="I/O pressure", duration_seconds=9.0)) == "I/O pressure"
    assert incident_text(incident(1, duration_seconds=0.004)) == "exit code 1"


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS.keys())
def test_hostile_names_and_words_stay_in_their_two_lines(text: str) -> None:
    for line in incident_lines(incident(1, name=text, words=text), 30):
        assert width_of(line) == 30
        assert not holds_controls(text_of(line))


@pytest.mark.parametrize(
    ("width", "words"),
    [
        (90, "● live 1.0s   2 running   ▲2   {clock}"),
        (30, "2 running   ▲2   {clock}"),
        (15, "2 run   ▲2"),
        (8, "▲2"),
    ],
)
def test_in_little_room_the_counters_stay(width: int, words: str) -> None:
    line = TopLine()
    rows = tuple(JobRow(job, STORE) for job in (running(), running()))
    line.set_reactive(TopLine.view, View(NOW, rows))
    line.set_reactive(TopLine.incidents, Incidents((incident(1), incident(2, "info")), True))
    clock = time.strftime("%H:%M:%S", time.localtime(NOW))
    assert text_of(line.state(width)).strip() == words.format(clock=clock)


def test_queued_jobs_are_counted_and_frozen_is_never_left_out() -> None:
    line = TopLine()
    line.set_reactive(TopLine.view, View(NOW, tuple(JobRow(job, STORE) for job in (running(), queued(), queued()))))
    assert "1 running · 2 queued" in text_of(line.state(90))
    line.set_reactive(TopLine.frozen, True)
    assert "frozen" in line.state(10)[0].text


def test_the_machine_s_minute_is_of_its_gpus_or_of_its_network() -> None:
    chart = chart_of(machine(NOW, 10.0), machine(NOW + 1, None))
    assert [(series.label, list(series.values)) for series in chart.series] == [
        ("in", [10.0, None]),
        ("out", [2.0, 2.0]),
    ]
    assert chart.is_live
    assert [series.label for series in chart_of(machine(NOW, gpu0=80.0, gpu1=20.0)).series] == ["gpu0", "gpu1"]
    chart = chart_of(machine(NOW, **{f"gpu{number}": float(number) for number in range(8)}))
    assert [(series.label, list(series.values)) for series in chart.series] == [
        ("most", [7.0]),
        ("mean", [3.5]),
        ("least", [0.0]),
    ]


@pytest.mark.parametrize(
    ("limit", "total", "words"),
    [
        (8 << 30, 64 << 30, "mem 25 % · 2.0 GiB  ╌╌ limit 8.0 GiB"),
        (None, 64 << 30, "mem 3 % of host · 2.0 GiB"),
        (None, 4 << 40, "mem <1 % of host · 2.0 GiB"),
        (None, None, "mem 2.0 GiB"),
    ],
)
def test_the_preview_shows_memory_as_a_share_of_limit_or_host(limit: int | None, total: int | None, words: str) -> None:
    tail = Tail()
    tail.add(1.0, (0.5, 0.0, 2 << 30, 0, 0, 1, 1, None, None, None))
    row = JobRow(running(limits=Limits(memory_bytes=limit)), STORE, tail.now, copy_of(tail))
    assert text_of(legend(preview_of(row, total), None, 90)).endswith(words)


def test_a_minute_of_the_machine_is_remembered_and_not_more() -> None:
    chart = chart_of(*(machine(NOW + second, float(second)) for second in range(100)))
    assert list(chart.series[0].values) == [float(second) for second in range(24, 100)]
    assert list(chart.series[0].times) == [float(second) for second in range(76)]


def test_a_clock_that_is_set_back_begins_the_minute_anew() -> None:
    chart = chart_of(machine(NOW, 1.0), machine(NOW + 1, 2.0), machine(NOW - 3600, 3.0), machine(NOW - 3599, 4.0))
    assert list(chart.series[0].values) == [3.0, 4.0]


def test_a_chart_that_was_moved_into_the_past_does_not_say_now() -> None:
    tail = Tail()
    for sample in steady(75):
        tail.add(sample.elapsed, (sample.elapsed / 2, 0.0, 2**20, 0, 0, 1, 1, None, None, None))
    row = JobRow(running(), STORE, tail.now, copy_of(tail), 75.0)
    chart = Chart()

    async def scene(on: Performance) -> None:
        chart.view, chart.window = preview_of(row), TimeWindow(60.0)
        await on.settle()
        assert on.lines()[-1].split() == ["-60s", "-45s", "-30s", "-15s", "now"]
        chart.window = TimeWindow(20.0, 50.0)
        await on.settle()
        assert on.lines()[-1].split() == ["30s", "35s", "40s", "45s", "50s"]

    play(chart, scene)
    assert not preview_of(JobRow(running(), STORE, tail.now, copy_of(tail), 300.0, is_stale=True)).is_live


def test_the_panel_paints_only_changes_and_its_cursor_follows_an_incident() -> None:
    panel = AlertsPanel()
    requests = paint_requests(panel, with_layout=True)

    async def scene(on: Performance) -> None:
        panel.incidents = Incidents((incident(2), incident(3)), True)
        await on.settle()
        requests.clear()
        panel.incidents = Incidents((incident(2), incident(3)), True)
        await on.settle()
        assert requests == []
        await on.press("down")
        panel.incidents = Incidents((incident(1, "critical"), incident(2), incident(3)), True)
        await on.press("enter")
        assert [message.incident.job_id for message in on.said(AlertsPanel.Opened)] == ["job3"]
        await on.press("home")
        await on.pilot.click(panel, offset=(8, 4))
        assert on.said(AlertsPanel.Opened)[-1].incident.job_id == "job2"
        assert on.titles()[0] == "Alerts  3 open"

    play(panel, scene, size=(40, 12))


def test_a_panel_with_more_incidents_than_room_keeps_the_cursor_visible() -> None:
    panel = AlertsPanel()

    async def scene(on: Performance) -> None:
        panel.incidents = Incidents(tuple(incident(number) for number in range(30)), True)
        for keys, name in [(["end"], "job 29"), (["pageup"], "job 24"), (["home"], "job 0"), (["down"] * 7, "job 7")]:
            await on.press(*keys)
            shown = [line for line in on.lines() if line.startswith("▌") and "job" in line]
            assert [line.rstrip().endswith(name) for line in shown] == [True]
        panel.incidents = Incidents((), True)
        await on.settle()
        assert "Nothing is wrong" in " ".join(on.lines())

    play(panel, scene, size=(40, 12))


def opens(visitor: Visitor) -> Callable[[], str | None]:
    """A function that returns the id of the job on the open screen."""
    return lambda: visitor.console.screen.job_id if isinstance(visitor.console.screen, JobScreen) else None


def test_incidents_are_listed_beside_the_jobs_and_open_their_job(home: Path) -> None:
    ended = time.time() - 60
    kept = kept_sampled(
        home,
        made_job(name="fine", start_time=ended - 40, end_time=ended, duration_seconds=40.0),
        steady(40),
    )
    (failed,) = kept_jobs(
        home,
        made_job(
            name="[/b]dump",
            status=Status.FAILED,
            exit_code=1,
            reason="exit code 1",
            start_time=ended,
            end_time=ended + 9,
        ),
    )

    async def scene(visitor: Visitor) -> None:
        screen = await visitor.shows("Alerts  1 open", "exit code 1 after 2s", "▲1", "0 run")
        assert "▲1" in screen.splitlines()[0]
        await visitor.press("j")
        await visitor.shows("fine  ━●━ cpu", "40s", "preview · Enter opens")
        await visitor.press("tab", "enter")
        await visitor.until(lambda: opens(visitor)() == failed.id)
        await visitor.press("escape")
        await visitor.pilot.click("#preview")
        await visitor.until(lambda: opens(visitor)() == kept.id)
        await visitor.press("escape")
        await visitor.pilot.resize_terminal(109, 35)
        await visitor.until(lambda: "Alerts  1" not in visitor.screen())
        screen = visitor.screen()
        assert "▲1" in screen.splitlines()[0]
        assert "preview" not in screen

    visit(home, scene)


def test_more_incidents_than_are_read_are_mentioned(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incidents, "MOST", 2)
    kept_jobs(home, *(made_job(status=Status.FAILED, end_time=time.time() - number) for number in range(3)))

    async def scene(visitor: Visitor) -> None:
        screen = await visitor.shows("Alerts  2 open · and more")
        assert "▲2+ " in screen.splitlines()[0]
        await visitor.press("5")
        await visitor.shows("Active  2 open · and more")

    visit(home, scene)


def test_the_machine_s_minute_has_no_gap_after_a_visit_to_another_page(home: Path) -> None:
    kept_jobs(home, made_job())

    async def scene(visitor: Visitor) -> None:
        def remembered() -> list[float]:
            view = visitor.console.view
            return [] if view is None or view.machine is None else [moment.at for moment in view.machine.past]

        await visitor.shows("network  ")
        await visitor.press("4")
        left = len(remembered())
        await visitor.until(lambda: len(remembered()) > left + 2)
        meanwhile = remembered()[left:]
        await visitor.press("1")
        chart = visitor.console.screen.query_one("#machine", SmallChart)
        await visitor.until(lambda: len(chart.view.series[0].times) > left + 2)
        drawn = [remembered()[0] + moment for moment in chart.view.series[0].times]
        assert {round(at, 3) for at in meanwhile} <= {round(at, 3) for at in drawn}

    visit(home, scene, (160, 52))


@pytest.mark.parametrize("size", [(240, 60), (160, 42), (110, 30), (80, 24), (60, 15)], ids=str)
def test_an_empty_dashboard_is_one_card_until_there_is_a_job(home: Path, size: tuple[int, int]) -> None:
    kept_jobs(home)

    async def scene(visitor: Visitor) -> None:
        screen = await visitor.shows("No jobs yet", "n  ", "jobtop run -- COMMAND", "jobtop --demo", "n Run")
        assert not [word for word in ("─ Alerts", "no such store", "sort cpu") if word in screen]
        lines = screen.splitlines()
        assert all(len(line) <= size[0] for line in lines)
        (title,) = [line for line in lines if "No jobs yet" in line]
        assert abs(title.index("No jobs yet") + len("No jobs yet") // 2 - size[0] // 2) <= 1
        kept_jobs(home, made_job(name="the first"))
        await visitor.shows("the first", "1 job · sort cpu▼")
        await visitor.until(lambda: dashboard(visitor).table.has_focus)

    visit(home, scene, size)


def dashboard(visitor: Visitor) -> Dashboard:
    page = visitor.console.screen
    assert isinstance(page, Dashboard)
    return page


def test_the_dashboard_is_filtered_while_the_user_types_and_escape_clears(tmp_path: Path) -> None:
    kept_jobs(
        tmp_path,
        made_job(name="fit-1"),
        made_job(name="fit-2", status=Status.FAILED, exit_code=3),
        made_job(name="etl", status=Status.FAILED, exit_code=1),
    )

    async def scene(visitor: Visitor) -> None:
        page = dashboard(visitor)
        await visitor.until(lambda: len(page.shown) == 3)
        await visitor.press("slash")
        await visitor.type("fit")
        await visitor.until(lambda: sorted(row.job.name for row in page.shown) == ["fit-1", "fit-2"])
        await visitor.type(" status:failed")
        await visitor.until(lambda: [row.job.name for row in page.shown] == ["fit-2"])
        await visitor.press("enter")
        assert visitor.console.screen is page
        assert page.table.has_focus
        await visitor.shows("1 of 3 jobs", "esc Clear filter", "fit status:failed")
        await visitor.press("escape")
        await visitor.until(lambda: len(page.shown) == 3)
        assert "status:failed" not in visitor.screen()
        await visitor.press("slash")
        await visitor.type("nothing-like-it")
        await visitor.shows("No matching jobs")
        await visitor.press("escape")
        assert page.table.has_focus
        await visitor.shows("fit-1")

    visit(tmp_path, scene, (80, 24))


def test_marked_jobs_stay_chosen_when_a_filter_hides_them(tmp_path: Path) -> None:
    kept_jobs(tmp_path, made_job(name="one"), made_job(name="two"))

    async def scene(visitor: Visitor) -> None:
        page = dashboard(visitor)
        await visitor.until(lambda: len(page.shown) == 2)
        await visitor.press("space")
        (marked,) = [row.job.name for row in page.chosen_rows]
        await visitor.press("slash")
        await visitor.type("two" if marked == "one" else "one")
        await visitor.until(lambda: len(page.shown) == 1)
        assert [row.job.name for row in page.chosen_rows] == [marked]

    visit(tmp_path, scene, (80, 24))


def test_a_job_without_monitoring_says_so_and_others_wait_for_samples() -> None:
    assert "--no-monitor" in preview_of(JobRow(running(), STORE)).empty
    assert "yet" in preview_of(JobRow(running(monitor=Monitor(interval_seconds=1.0)), STORE)).empty
