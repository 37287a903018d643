"""The scenes of the screenshots: screens of the console, how each is reached, and what the doctor finds."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot

from jobtop.core.config import Config, load
from jobtop.core.doctor.checks import Finding, State
from jobtop.store.alerts.alert_rows import AlertStore
from jobtop.store.jobs import Jobs, Query
from jobtop.store.workflows import Workflows
from jobtop.tui.app import Console
from jobtop.tui.widgets.job_graph import JobGraph
from jobtop.tui.widgets.log_view import LogView
from jobtop.tui.widgets.tables.processes import ProcessTree

HOME = Path("/home/ada")
LOOK_SECONDS = 0.02
Navigation = Callable[[Console, Pilot[int]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scene:
    """A picture: its name, the class of its screen, how to get there from the dashboard, and the key back."""

    name: str
    screen: str
    navigate: Navigation
    back: str = "escape"


def keys(*names: str) -> Navigation:
    """Navigate by pressing keys."""

    async def press(console: Console, pilot: Pilot[int]) -> None:
        for name in names:
            console.simulate_key(name)
            await pilot.pause()

    return press


def job(name: str, status: str) -> Navigation:
    """Open the screen of the newest job with this name and status."""

    async def open_it(console: Console, _: Pilot[int]) -> None:
        await console.open_job((await newest(console, name, status, 1))[0])

    return open_it


def job_at_alert(name: str) -> Navigation:
    """Open the screen of a running job at the moment of its newest alert, with the list of its alerts."""

    async def open_it(console: Console, pilot: Pilot[int]) -> None:
        job_id = (await newest(console, name, "running", 1))[0]
        alerts = await console.reader.read(
            console.options.stores[0],
            lambda database: AlertStore(database).listing(job_seq=Jobs(database).find(job_id).seq),
        )
        await console.open_job(job_id, alerts[0].fired_at)
        for _ in range(3):
            await pilot.pause()
        console.simulate_key("exclamation_mark")

    return open_it


def compared(name: str, count: int) -> Navigation:
    """Open the comparison of the newest successful runs of a job."""

    async def open_them(console: Console, _: Pilot[int]) -> None:
        await console.open_compare(await newest(console, name, "success", count))

    return open_them


def container(name: str | None = None) -> Navigation:
    """Open the screen of the container with this name, or of the first one, and wait for its panes."""

    async def open_it(console: Console, pilot: Pilot[int]) -> None:
        await console.action_go("containers")
        feed = console.container_feed
        while not feed.now.rows:
            await pilot.pause(LOOK_SECONDS)
        row = next(row for row in feed.now.rows if name in (None, row.container.name))
        await console.open_container(row.key)
        while not (console.screen.query(LogView) and console.screen.query_one(LogView).numbers):
            await pilot.pause(LOOK_SECONDS)
        tree = console.screen.query_one(ProcessTree)
        while tree.display and not tree.source:  # one in a hidden tab is not read
            await pilot.pause(LOOK_SECONDS)

    return open_it


def workflow(name: str, *more: str) -> Navigation:
    """Open the screen of the last run of a workflow, wait for its jobs, and press more keys."""

    async def open_it(console: Console, pilot: Pilot[int]) -> None:
        store = console.options.stores[0]
        found = await console.reader.read(store, lambda database: Workflows(database).find(name))
        await console.open_workflow(store, found.id)
        while not (console.screen.query(JobGraph) and getattr(console.screen, "rows", None)):
            await pilot.pause(LOOK_SECONDS)
        await keys(*more)(console, pilot)

    return open_it


async def newest(console: Console, name: str, status: str, count: int) -> list[str]:
    """Return the ids of the newest jobs with this name and status."""
    query = Query(name_glob=name, statuses=(status,), limit=count)
    found = await console.reader.read(console.options.stores[0], lambda database: Jobs(database).select(query))
    return [job.id for job in found]


SCENES = (
    Scene("dashboard", "Dashboard", keys()),
    Scene("job", "JobScreen", job("llm-finetune", "running")),
    Scene("job-oom", "JobScreen", job("numpy-bench", "failed")),
    Scene("history", "History", keys("2"), "1"),
    Scene("compare", "Compare", compared("train-resnet50", 3), "1"),
    Scene("containers", "Containers", keys("4"), "1"),
    Scene("container", "ContainerScreen", container("shop-api-1"), "1"),
    Scene("alerts", "Alerts", keys("5"), "1"),
    Scene("job-alert", "JobScreen", job_at_alert("ffmpeg-4k"), "1"),
    Scene("host", "HostScreen", keys("h")),
    Scene("settings", "SettingsPage", keys("6"), "1"),
    Scene("queue", "QueuePage", keys("7"), "1"),
    Scene("processes", "Processes", keys("8"), "1"),
    Scene("workflows", "Workflows", keys("9"), "1"),
    Scene("workflow", "WorkflowScreen", workflow("variant-calling"), "1"),
    Scene("run-form", "RunForm", keys("n")),
    Scene("help", "HelpScreen", keys("question_mark")),
    Scene("palette", "ActionPalette", keys("ctrl+p")),
    Scene("history-groups", "History", keys("2", "b"), "1"),
)


def config() -> Config:
    """Return a configuration with default settings."""
    return load((), {"HOME": str(HOME)}, HOME, HOME)


WORKS, FAILS, ABSENT = State.WORKS, State.FAILS, State.ABSENT
DOCTOR = {
    "Running jobs": [
        Finding("python", WORKS, "3.13.2 at /usr/bin/python3"),
        Finding("/proc", WORKS, "who runs, below whom, since when"),
        Finding("shim", WORKS, "a command runs after 21 ms; its supervisor holds 3.2 MiB"),
        Finding("child subreaper", WORKS, "daemons and orphans stay members of their job"),
        Finding(
            "logout",
            FAILS,
            "systemd-logind ends your jobs when you log out",
            "loginctl enable-linger ada",
        ),
    ],
    "Sampling processes": [
        Finding("CPU clocks", WORKS, "CPU time of living processes in nanoseconds, of any user's"),
        Finding("/proc/PID/io", WORKS, "bytes and calls that pass through the kernel, and storage traffic"),
        Finding("smaps_rollup", WORKS, "memory that processes share counts once (PSS)"),
        Finding("children files", WORKS, "the members of a job are found without a sweep over /proc"),
        Finding("open files", WORKS, "20000, at most 20000: 5000 processes at the lowest cost"),
    ],
    "Sampling cgroups": [
        Finding("cgroups", WORKS, "version 2"),
        Finding("own cgroup", WORKS, "every job gets one"),
        Finding("cgroup memory", WORKS, "the peak of all processes together, and OOM kills"),
        Finding("cgroup pressure", WORKS, "time the job lost waiting for cpu, memory, io (PSI)"),
    ],
    "Sampling the machine": [
        Finding("host CPU", WORKS, "16 cores, each by itself"),
        Finding("host memory", WORKS, "64.0 GiB"),
        Finding("host disks", WORKS, "nvme0n1"),
        Finding("host network", WORKS, "eth0, lo"),
        Finding("host pressure", WORKS, "time lost waiting for cpu, memory, io (PSI)"),
        Finding("temperature", ABSENT, "no sensor is readable"),
    ],
    "Storing and showing data": [
        Finding("state directory", WORKS, "/home/ada/.local/state/jobtop; 771.4 GiB free"),
        Finding("history", WORKS, "410 jobs, 11.2 MiB; on a local disk"),
        Finding("UTF-8", WORKS, "✓ ✗ – … can be shown"),
    ],
}
