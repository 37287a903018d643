"""What every screen shows, as text: without jobs, busy, in little room, and with hostile text.

`JOBTOP_UPDATE_SNAPSHOTS=1 .venv/bin/pytest tests/tui/test_snapshots.py` writes the snapshots again; check the changes.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from difflib import unified_diff
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from still_containers import DOCKER, StillContainers, still_row
from still_processes import StillProcesses, still_process
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from hostile import hostile_texts
from jobtop.core.config import Alert
from jobtop.core.doctor.checks import Finding, State
from jobtop.core.measure.device import Device
from jobtop.core.measure.snapshot import ProcessRow
from jobtop.core.model import Status
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.core.units import printable
from jobtop.core.workflow.progress import RunJob
from jobtop.store.database import Database, open_to_write
from jobtop.store.jobs import Event, Jobs
from jobtop.store.samples.devices import DeviceRecord
from jobtop.store.samples.hosts import boot_number
from jobtop.store.samples.series import SeriesStore
from jobtop.store.samples.snapshots import Snapshots
from jobtop.store.workflows import Workflows
from jobtop.tui.app import Console, Options
from jobtop.tui.data.operations import STOP
from jobtop.tui.demo.demo import Demo, demo, of_demo
from jobtop.tui.demo.load import HOST, UPTIME_SECONDS, DemoMachine
from jobtop.tui.dialogs.leaving import Leaving
from jobtop.tui.page import Page
from jobtop.tui.screens.history import History
from jobtop.tui.screens.job_actions import question
from jobtop.tui.widgets.filter_line import Field
from records import made_job, running_job
from sampled import steady
from tools.scenes import SCENES, Scene, compared, config, container, job, keys, workflow
from tools.screenshots import MOMENT, fixed_time_and_place, is_reading_processes, screen_rows

FOLDER = Path(__file__).parent / "snapshots"
UPDATE = "JOBTOP_UPDATE_SNAPSHOTS"
HOW = (
    f"{UPDATE}=1 .venv/bin/pytest tests/tui/test_snapshots.py writes them anew; look at what changed."
    " python -m tools.screenshots then makes the pictures anew"
)
WIDE, NARROW = (160, 42), (60, 15)
DEADLINE_SECONDS = 60.0
LOOKS = 1  # equal screens in a row
SHOWN_LINES = 60  # of differences
ELSEWHERE = {
    "History",
    "Compare",
    "Containers",
    "Alerts",
    "SettingsPage",
    "Processes",
    "Workflows",
    "QueuePage",
}  # pages that show nothing of the dashboard


async def asked(console: Console, _: Pilot[int]) -> None:
    assert console.view is not None
    rows = sorted(console.view.rows, key=lambda row: row.job.id)
    await console.push_screen(question(STOP, rows[:8]))


async def left(console: Console, _: Pilot[int]) -> None:
    assert console.view is not None
    await console.push_screen(Leaving(min(row.job.name for row in console.view.rows)))


async def told(console: Console, _: Pilot[int]) -> None:
    assert console.view is not None
    names = sorted(row.job.name for row in console.view.rows)
    console.notify("\n".join(names[:3]), timeout=1000.0)


async def filtered(console: Console, pilot: Pilot[int]) -> None:
    await console.action_go("history")
    page = console.screen
    assert isinstance(page, History)
    await page.action_filter()
    field = page.query_one(Field)
    while not field.has_focus:
        await pilot.pause()
    await pilot.pause()  # the field drops its suggestion when it gets the focus
    field.value = "status:failed na"
    field.cursor_position = len(field.value)
    while not field._suggestion:
        await pilot.pause()
    while page.text != "status:failed" or page.reading.is_running:  # it is applied a moment after the last key
        await pilot.pause()


PAGES = tuple(
    scene for scene in SCENES if scene.screen not in ("JobScreen", "Compare", "ContainerScreen", "WorkflowScreen")
)
COLUMNS = Scene("columns", "ChooseColumns", keys("o"))
FILTER = Scene("filter", "History", filtered)
MACHINE = Scene("host", "HostScreen", keys("h"))
DIALOGS = (
    COLUMNS,
    Scene("export", "ExportForm", keys("e")),
    Scene("confirm", "Confirm", asked),
    Scene("leaving", "Leaving", left),
    Scene("notice", "Dashboard", told),
    FILTER,
)
HOSTILE_JOBS = (
    Scene("job", "JobScreen", job("*", "running")),
    Scene("job-failed", "JobScreen", job("*", "failed")),
    Scene("compare", "Compare", compared("*", 3)),
    Scene("container", "ContainerScreen", container()),
    Scene("workflow", "WorkflowScreen", workflow("1")),
)
ENDED = Scene("workflow-ended", "WorkflowScreen", workflow("nightly-report"))
GANTT = Scene("workflow-gantt", "WorkflowScreen", workflow("variant-calling", "shift+tab", "shift+tab"))


@contextmanager
def nothing(root: Path) -> Iterator[Options]:
    """A store without jobs."""
    paths = StatePaths(root, HOST)
    open_to_write(paths).close()
    yield Options(
        [paths.store],
        paths,
        machine=idle(),
        config=replace(config(), alerts=()),
        containers=StillContainers(engines=()),
        processes=StillProcesses(),
    )


@contextmanager
def much(_: Path) -> Iterator[Options]:
    """The demo, which is made once."""
    yield of_demo(DEMO[0], Options((), config=config()))


@contextmanager
def evil(root: Path) -> Iterator[Options]:
    """A store of jobs in which every text is hostile."""
    paths, texts = StatePaths(root, HOST), hostile_texts()[::47]
    database = open_to_write(paths)
    with database.writing():
        for number in range(len(texts)):
            keep_hostile(paths, database, number, texts[number:] + texts[:number])
    keep_hostile_devices(database, texts)
    keep_hostile_workflow(database, texts)
    database.close()
    rules = tuple(
        Alert(printable(text)[:60], {"name": printable(text)[:60], "metric": "mem.used", "above": 1.0}, "config.toml")
        for text in texts[:9]
    )
    findings = {texts[0]: [Finding(text, State.FAILS, text, text) for text in texts]}
    with patch("jobtop.tui.screens.settings.examine", return_value=findings):
        yield Options(
            [paths.store],
            machine=idle(),
            config=replace(config(), alerts=rules),
            containers=evil_containers(),
            processes=evil_processes(),
        )


def evil_processes() -> StillProcesses:
    """Processes in which every text is hostile."""
    texts = hostile_texts()[::47]
    return StillProcesses(
        *(
            still_process(number, text, name=text, user=texts[-number], cpu_percent=float(99 - number))
            for number, text in enumerate(texts, 1)
        )
    )


def evil_containers() -> StillContainers:
    """Containers of an engine with problems, in which every text is hostile."""
    texts = hostile_texts()[::47]
    rows = [still_row(text, number, texts[-number], image=text) for number, text in enumerate(texts, 1)]
    engine = replace(DOCKER, name=texts[1], problem=texts[2])
    source = StillContainers(*rows, engines=(DOCKER, engine), at=MOMENT)
    source.lines = [text.encode("utf-8", "replace") for text in texts]
    source.listed = [
        ProcessRow(number, 1, text, 0, None, None, None, None, "?") for number, text in enumerate(texts, 9)
    ]
    return source


def keep_hostile_devices(database: Database, texts: list[str]) -> None:
    """Store devices with hostile names, a minute of samples each."""
    record = DeviceRecord(database, boot_number(database, "b" * 36, MOMENT - 1000.0))
    names = [Device(kind, text) for kind, text in zip(("disk", "interface", "sensor") * 4, texts, strict=False)]
    for second in range(0, 60, 5):
        values = {"disk.busy": second * 0.5, "net.rx_bytes": second << 20, "temp": 40.0 + second / 3}
        record.append([(device, 940.0 + second, values) for device in names])


def keep_hostile_workflow(database: Database, texts: list[str]) -> None:
    """Store a workflow with hostile names, of which each job waits for the one before."""
    workflows = Workflows(database)
    number = workflows.add(texts[0], texts[1], texts[2], HOST, texts[3], MOMENT - 600.0)
    run_id = workflows.add_run(number, {"parallel": texts[4]}, MOMENT - 600.0)
    jobs = [
        RunJob(at, text, "job", f"{at:08x}-0000-4000-8000-000000000000", tuple(texts[max(0, at - 1) : at]))
        for at, text in enumerate(dict.fromkeys(texts[:12]))
    ]
    workflows.add_jobs(number, run_id, jobs)


def idle() -> DemoMachine:
    """The machine of the demo, without jobs."""
    machine = DemoMachine()
    for second in range(60):
        machine.advance(MOMENT - 59 + second, UPTIME_SECONDS - 59 + second, [])
    return machine


def keep_hostile(paths: StatePaths, database: Database, number: int, texts: list[str]) -> None:
    """Store a hostile job with samples, processes, events and output: every fifth runs, every seventh failed."""
    words: dict[str, Any] = dict(zip(("name", "user", "cwd", "tool", "note", "reason"), texts, strict=False))
    words |= {"command": texts[6:9], "tags": {texts[9]: texts[10]}, "params": {texts[11]: texts[12]}}
    began = MOMENT - 600.0 + number
    values = {**words, "id": f"{number:08x}-0000-4000-8000-000000000000", "host": HOST, "start_time": began}
    if number % 5 == 0:
        job = running_job(**values)
    else:
        status = Status.FAILED if number % 7 == 0 else Status.SUCCESS
        job = made_job(**values, status=status, duration_seconds=300.0, end_time=began + 300.0)
    alerts = [Event(began + at, "alert", {"severity": "critical", "text": text}) for at, text in enumerate(texts[:20])]
    kept = Jobs(database).insert(job, *alerts)
    assert kept.seq is not None
    SeriesStore(database).append([(kept.seq, sample) for sample in steady(300)])
    rows = [
        ProcessRow(at + 7, at // 3 + 6, text, 1.0, 2.5, 1 << 20, 2, 60.0, "S") for at, text in enumerate(texts[:20])
    ]
    Snapshots(database).keep(kept.seq, 290.0, rows)
    directory = paths.job(kept.id)
    directory.mkdir(parents=True)
    (directory / "stdout.log").write_bytes("\n".join(texts[:30]).encode("utf-8", "surrogatepass"))


DEMO: list[Demo] = []


@pytest.fixture(scope="module", autouse=True)
def _demo() -> Iterator[None]:
    with fixed_time_and_place(), demo(MOMENT) as made:
        DEMO[:] = [made]
        yield


Furnish = Callable[[Path], AbstractContextManager[Options]]
STATES: dict[str, tuple[Furnish, tuple[int, int], tuple[Scene, ...]]] = {
    "empty": (nothing, WIDE, (*PAGES, Scene("compare", "Compare", keys("3")), COLUMNS, FILTER, MACHINE)),
    "busy": (much, WIDE, (*SCENES, *DIALOGS, MACHINE, ENDED)),
    "narrow": (much, NARROW, (*SCENES, *DIALOGS, MACHINE, GANTT)),
    "hostile": (evil, WIDE, (*PAGES, *HOSTILE_JOBS, *DIALOGS, MACHINE)),
}


@pytest.mark.parametrize("state", STATES)
def test_every_screen_shows_what_it_showed(state: str, tmp_path: Path) -> None:
    furnish, size, scenes = STATES[state]
    with fixed_time_and_place(), furnish(tmp_path) as options:
        shown = asyncio.run(performed(Console(options), size, scenes))
    if os.environ.get(UPDATE):
        write(state, shown)
    texts = {file.stem: file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob(f"*.{state}.txt"))}
    known = {name.removesuffix(f".{state}"): text for name, text in texts.items()}
    assert sorted(known) == sorted(shown), HOW
    changes = [line for name, text in shown.items() for line in difference(f"{name}.{state}", known[name], text)]
    assert not changes, "\n".join([*changes[:SHOWN_LINES], *["…"] * (len(changes) > SHOWN_LINES), HOW])


def test_every_snapshot_is_of_something_that_is_shown() -> None:
    assert {file.name.split(".")[1] for file in FOLDER.iterdir()} == STATES.keys(), HOW


def difference(name: str, before: str, after: str) -> Iterator[str]:
    """The lines that differ."""
    return unified_diff(before.splitlines(), after.splitlines(), f"{name} as kept", f"{name} now", lineterm="", n=1)


def write(state: str, shown: dict[str, str]) -> None:
    for file in FOLDER.glob(f"*.{state}.txt"):
        file.unlink()
    for name, text in shown.items():
        (FOLDER / f"{name}.{state}.txt").write_text(text, encoding="utf-8")


async def performed(console: Console, size: tuple[int, int], scenes: tuple[Scene, ...]) -> dict[str, str]:
    """The text of each scene."""
    console.animation_level = "none"
    shown = {}
    async with console.run_test(size=size, notifications=True) as pilot:
        await rested(console, pilot, "Dashboard", looks=0)
        for scene in scenes:
            if scene.screen not in ELSEWHERE or not isinstance(console.screen, Page):
                await console.action_go("dashboard")
                await rested(console, pilot, "Dashboard", looks=0)
            await scene.navigate(console, pilot)
            shown[scene.name] = await rested(console, pilot, scene.screen)
            console.clear_notifications()
    return shown


async def rested(console: Console, pilot: Pilot[int], screen: str, looks: int = LOOKS) -> str:
    """What a screen shows when it is the expected one, no worker runs, and nothing changes any more."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    before, same = "", 0
    while True:
        assert time.monotonic() < deadline, f"{screen} does not come to rest: {console.screen}\n{before}"
        await pilot.pause(0.02)  # this also waits until all widgets have handled their messages
        if type(console.screen).__name__ != screen or console.view is None or is_busy(console):
            same = 0
            continue
        if not looks:
            return ""
        for editor in (*console.screen.query(Input), *console.screen.query(TextArea)):
            editor.cursor_blink = False
        text = "".join(f"{strip.text.rstrip()}\n" for strip in screen_rows(console))
        same = same + 1 if text and text == before else 0
        before = text
        if same >= looks:
            return text


def is_busy(console: Console) -> bool:
    return any(not work.is_finished for work in console.workers) or is_reading_processes(console)
