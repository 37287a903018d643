"""The panels of GPUs: any size, unknown is never 0, and what each job uses of each GPU, now and in the past."""

import time
from pathlib import Path
from types import MappingProxyType

import pytest

from jobtop.core.measure.device import Device
from jobtop.core.measure.job_gpus import series_name
from jobtop.core.model import Identity, Job, Status
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.store.database import Database
from jobtop.store.jobs import Event, Jobs
from jobtop.store.samples.devices import DeviceRecord
from jobtop.store.samples.hosts import boot_number
from jobtop.store.samples.named import NamedRecord
from jobtop.store.samples.series import SeriesStore
from jobtop.tui.data.feed import FollowedStore
from jobtop.tui.data.job_gpus import JobGpu, read_job_gpus, uses_now
from jobtop.tui.data.job_reading import JobReading, Viewport
from jobtop.tui.data.view import JobRow, MachineView, read_only
from jobtop.tui.palette import Tone
from jobtop.tui.screens.job.screen import LOWER, SIDE, TITLES, UPPER
from jobtop.tui.widgets.cells import Span, width_of
from jobtop.tui.widgets.gpu_panel import GpuCard, GpuPanel, job_card, machine_cards, panel_lines, subtitle
from records import running_job
from sampled import sample
from stage import Performance, play, text_of

GIB = 2**30
BUSY = GpuCard("0", 90, 21 * GIB, 80 * GIB, 71, 250.4, 400, True, "NVIDIA A100-SXM4-80GB", (("train", 60, 19.2 * GIB),))
PART = GpuCard("1.3", None, 2 * GIB, 10 * GIB)
FIRST, SECOND = "0-aaaaaaaa", "1-bbbbbbbb"
BOOT = "b0071d00-0000-4000-8000-000000000000"


def text(cards: list[GpuCard], width: int, height: int) -> list[str]:
    return [text_of(line) for line in panel_lines(cards, width, height)]


@pytest.mark.parametrize("width", [8, 16, 24, 33, 41, 60, 160])
@pytest.mark.parametrize("height", [1, 2, 5, 6, 9, 30])
def test_every_line_is_as_wide_as_the_panel_and_there_are_not_too_many(width: int, height: int) -> None:
    for cards in (
        [BUSY],
        [BUSY, PART],
        [BUSY] * 9,
        [replace(BUSY, own=(60, 19 * GIB)), replace(PART, own=(None, GIB))],
    ):
        lines = panel_lines(cards, width, height)
        assert {width_of(line) for line in lines} == {width}
        assert len(lines) <= height


def test_a_gpu_has_its_name_temperature_power_mark_load_memory_and_jobs() -> None:
    first, second, third = text([BUSY], 60, 3)
    assert first.split() == ["GPU0", "NVIDIA", "A100-SXM4-80GB", "71°", "250/400W", "≈"]
    assert second.split()[0] == "busy"
    assert "90%" in second
    assert "21.0G/80.0G" in second
    assert third.split() == ["train", "60%", "19.2G"]


def test_with_little_room_names_of_makers_and_jobs_are_left_out_and_gpus_counted() -> None:
    assert text([BUSY], 42, 3)[0].split()[1] == "A100-SXM4-80GB"
    assert [line.split()[0] for line in text([BUSY, PART], 42, 4)] == ["GPU0", "busy", "GPU1.3", "busy"]
    lines = text([BUSY] * 9, 42, 5)
    assert [line.split()[0] for line in lines[:4]] == ["GPU0"] * 4
    assert lines[4].split() == ["…", "5", "more"]


def test_what_is_not_known_is_a_dash_and_no_bar() -> None:
    lines = text([GpuCard("0")], 60, 3)
    assert lines[0].split() == ["GPU0"]
    assert "0%" not in lines[1]
    assert lines[1].count("–") == 3
    assert "━" not in lines[1]
    own = text([GpuCard("0", own=(None, None))], 60, 3)
    assert "━" not in own[1] + own[2]


def test_the_bars_of_a_job_have_its_part_and_that_of_others() -> None:
    _, busy, memory = panel_lines([replace(BUSY, own=(45, 21 * GIB))], 60, 3)
    mine, others = (sum(len(span.text) for span in busy if glyph in span.text) for glyph in "━┄")
    assert mine == pytest.approx(others, abs=1)
    assert "45% of 90%" in text_of(busy)
    assert "21.0G of 21.0G/80.0G" in text_of(memory)
    assert "┄" not in text_of(memory)
    assert "others" in text_of(subtitle([replace(BUSY, own=(45, GIB))]))
    assert subtitle([replace(PART, own=(1, GIB))]) == []


def machine(**gpus: dict[str, int]) -> MachineView:
    detail = {
        "gpus": {name.replace("_", "-"): values for name, values in gpus.items()},
        "gpu_products": {FIRST: "A100"},
    }
    return MachineView("atlas", 0.0, detail=read_only(detail))


def test_jobs_of_this_machine_are_on_its_gpus_the_busiest_first() -> None:
    def row(name: str, host: str, **gpus: tuple[float | None, float | None]) -> JobRow:
        uses = MappingProxyType({key.replace("_", "-"): use for key, use in gpus.items()})
        return JobRow(running_job(name=name, host=host), Path("x"), gpus=uses)

    rows = [
        row("small", "atlas.example.org", **{"0_aaaaaaaa": (5.0, GIB)}),
        row("large", "atlas", **{"0_aaaaaaaa": (80.0, GIB), "1_bbbbbbbb": (None, 2 * GIB)}),
        row("left", "atlas", **{"0_aaaaaaaa": (0.0, 0)}),
        row("elsewhere", "titan", **{"0_aaaaaaaa": (99.0, GIB)}),
    ]
    seen = machine(**{"0_aaaaaaaa": {"gpu.util": 85, "gpu.throttled": 1}, "1_bbbbbbbb": {"gpu.mem_used": 7}})
    first, second = machine_cards(seen, rows)
    assert (first.number, first.product, first.percent, first.is_slowed) == ("0", "A100", 85, True)
    assert first.uses == (("large", 80.0, GIB), ("small", 5.0, GIB))
    assert (second.uses, second.percent, second.is_slowed) == ((("large", None, 2 * GIB),), None, False)


@pytest.fixture
def job(database: Database) -> Job:
    """A job on two GPUs, of which the second was lost after 20 seconds; it was at 40 s when it was sampled last."""
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    begun = now - 40
    shim = Identity(BOOT, 4711, round(begun * 100))
    kept = Jobs(database).insert(
        running_job(start_time=time.time() - 40, start_boottime=begun, shim=shim),
        Event(1.0, "gpu_used", {"gpu": FIRST, "product": "NVIDIA A100"}),
    )
    assert kept.seq is not None
    named, devices = NamedRecord(database), DeviceRecord(database, boot_number(database, BOOT, time.time() - now))
    for second in range(1, 41):
        names = [FIRST, SECOND] if second <= 20 else [FIRST]
        for name in names:
            percent, memory = (second, GIB) if name == FIRST else (50, 2 * GIB)
            named.append(
                [
                    (kept.seq, series_name("gpu.util", name), float(second), percent),
                    (kept.seq, series_name("gpu.mem_used", name), float(second), memory),
                ]
            )
            devices.append([(Device("gpu", name), begun + second, {"gpu.util": 60, "gpu.temp": 30 + second})])
    SeriesStore(database).append([(kept.seq, sample(40.0, proc_count=1))])  # one GPU is not read: no sums
    return kept


def test_the_gpus_of_a_job_now_at_a_moment_and_their_peaks(database: Database, job: Job) -> None:
    events = Jobs(database).events(job)
    first, second = read_job_gpus(database, job, events, None)
    assert (first.name, first.product, first.percent, first.memory_bytes) == (FIRST, "NVIDIA A100", 40, GIB)
    assert (first.device["gpu.util"], first.device["gpu.temp"], first.device["gpu.power"]) == (60, 70, None)
    assert (second.name, second.percent, second.memory_bytes) == (SECOND, None, None), "it is lost"
    first, second = read_job_gpus(database, job, events, 10.5)
    assert (first.percent, first.device["gpu.temp"], second.percent) == (10, 40, 50)
    ended = replace(job, status=Status.SUCCESS, duration_seconds=41.0)
    first, second = read_job_gpus(database, ended, events, None)
    assert (first.are_peaks, first.percent, first.device["gpu.temp"]) == (True, 40, 70)
    assert (second.percent, second.memory_bytes) == (50, 2 * GIB)
    assert read_job_gpus(database, Jobs(database).insert(running_job()), (), None) == ()


def test_the_dashboard_and_the_screen_of_a_job_read_them(database: Database, job: Job, paths: StatePaths) -> None:
    store = FollowedStore(paths.store, network=False)
    store.poll(at_once=True)
    [row] = store.rows(time.time())
    store.close()
    assert dict(row.gpus) == {FIRST: (40, GIB), SECOND: (None, None)} == uses_now(database, job)
    reading = JobReading(job.id, paths.store)
    view = reading.read(database, Viewport())
    reading.close()
    assert view is not None
    assert [gpu.name for gpu in view.gpus] == [FIRST, SECOND]


def test_the_panel_is_as_high_as_its_gpus_need() -> None:
    panel = GpuPanel()
    panel.styles.height = "auto"

    async def scene(on: Performance) -> None:
        panel.cards = (BUSY, job_card(JobGpu("1-b", 5, GIB, {"gpu.util": 50})))
        panel.title = "Per GPU"
        await on.settle()
        assert panel.size.height == 6
        assert on.titles() == ("Per GPU", "━ job  ┄ others  ≈ 1 slowed down")

    play(panel, scene)


def test_the_mark_of_a_slowed_gpu_is_coloured() -> None:
    spans: list[Span] = [span for line in panel_lines([BUSY], 60, 3) for span in line]
    assert [span.tone for span in spans if "≈" in span.text] == [Tone.YELLOW]


def test_every_pane_of_a_job_has_a_title() -> None:
    assert {*UPPER, *SIDE, *LOWER} <= TITLES.keys()
