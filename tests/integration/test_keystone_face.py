"""Keystone's own examples run with the import changed alone, and yield the shapes that its guides print."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from examples import fenced, has_shape, run_examples

from engines import RealEngine
from jobtop.core.measure.collectors.docker.monitor import ContainerMonitor
from nvml import GIBIBYTE, FakeGpu, fake_nvml
from support import ROOT, Jobtop, wait_for

GUIDES = ROOT / "tests/data/keystone"
IMPORT = re.compile(r"^from (job_monitor|resource_profiler|task_pipeline|benchmark) import", re.MULTILINE)
SIMULATION = "def run_simulation():\n    return {'returncode': 0, 'stderr': ''}\n"
PIPELINE = importlib.util.find_spec("jobtop.task_pipeline") is not None
TOOLS = """
[[tool]]
name = "fenicsx"
command = ["true", "{script}"]
benchmark = "HOME/poisson.py"
[[tool]]
name = "lammps"
command = ["true", "{script}"]
"""
# Examples that are no programs, by a part of them.
NO_PROGRAM = {
    "def start_profiling(container_name": "a list of methods",
    "def __init__(container_name": "a list of methods",
    "In ResourceProfiler._profile_loop()": "a change of Keystone's source; here it is ResourceProfiler(1.0)",
}


def programs(guide: str) -> list[str]:
    """The examples of a guide that are programs, with the import changed."""
    found = [text for text in fenced(GUIDES / f"{guide}.md", "python") if not any(part in text for part in NO_PROGRAM)]
    if not PIPELINE:
        found = [text for text in found if "task_pipeline" not in text and "BenchmarkRunner" not in text]
    return [SIMULATION, *(IMPORT.sub("from jobtop import", text) for text in found)]


def shown(guide: str, key: str) -> Any:
    """The JSON of a guide with this key."""
    [found] = [shape for text in fenced(GUIDES / f"{guide}.md", "json") if key in (shape := json.loads(text))]
    return found


def shown_all(key: str) -> list[Any]:
    """What the guide of profiling shows for a key, each time."""
    shapes = [json.loads(text) for text in fenced(GUIDES / "resource-profiling.md", "json")]
    return [shape[key] for shape in shapes if key in shape]


def named(made: list[dict[str, Any]], name: str) -> Any:
    """What the last example that has set a name has set it to."""
    return [names[name] for names in made if name in names][-1]


@pytest.fixture(scope="module")
def running_container(docker_engine: RealEngine) -> Iterator[dict[str, str]]:
    with docker_engine.container("sh", "-c", "while :; do :; done", name="keystone-fenicsx"):
        yield docker_engine.env


def with_tools(jobtop: Jobtop) -> None:
    """Let `fenicsx` and `lammps` be tools, where tools can be configured."""
    if not PIPELINE:
        return
    for script in ("poisson.py", "example.lammps"):
        (jobtop.home / script).write_text("")
    config = jobtop.home / ".config/jobtop/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(TOOLS.replace("HOME", str(jobtop.home)))


def test_the_examples_of_job_monitoring_yield_the_shapes_of_the_guide(jobtop: Jobtop) -> None:
    with_tools(jobtop)
    made, printed = run_examples(jobtop, programs("job-monitoring"))
    entry = shown("job-monitoring", "task_id")
    stats = named(made, "job_stats")
    assert has_shape(stats, entry)
    assert (stats["task_id"], stats["params"], stats["status"]) == ("my-task-123", {"mesh_size": 64}, "success")
    jobs = named(made, "all_jobs")
    assert {"my-task-123", "task-456"} <= {job["task_id"] for job in jobs}
    assert all(has_shape(job, entry | {"params": {}}) for job in jobs)
    assert named(made, "recent_jobs") == jobs[:10]
    if PIPELINE:
        assert all(has_shape(result, {"resource_usage": entry["resource_usage"]}) for result in named(made, "results"))
    summary = named(made, "stats")
    assert summary["success_rate"] == 100.0
    assert {"count", "successful", "failed", "total_duration"} <= summary["by_tool"]["fenicsx"].keys()
    assert "fenicsx: avg" in printed
    lines = (jobtop.state / "keystone/jobs_history.jsonl").read_text().splitlines()
    assert [json.loads(line)["task_id"] for line in lines] == ["my-task-123", "task-456"]
    assert all(has_shape(json.loads(line), entry | {"params": {}}) for line in lines)


def test_the_examples_of_resource_profiling_yield_the_shapes_of_the_guide(
    jobtop: Jobtop, running_container: dict[str, str]
) -> None:
    with_tools(jobtop)
    # The example of a container stops at once; a reading takes a moment.
    sources = [
        text.replace("# Run container simulation\n# ...", "import time; time.sleep(2)")
        for text in programs("resource-profiling")
    ]
    made, printed = run_examples(jobtop, sources, running_container)
    whole = shown("resource-profiling", "task_id")["detailed_profile"]
    profiles = [names["profile"] for names in made if names.get("profile")]
    assert has_shape(profiles[0], whole | {"container_stats": {}})
    assert has_shape(profiles[1], whole | shown("resource-profiling", "container_stats"))
    for part in ("cpu", "memory", "io_stats"):
        assert has_shape(profiles[0], shown("resource-profiling", part))
    if PIPELINE:
        assert [run["run_number"] for run in named(made, "result")["runs"]] == [1, 2, 3]
    percent = float(profiles[1]["container_stats"]["cpu_percent"])
    assert 0 < percent <= 110
    assert "Container Memory:" in printed


PROFILED = """
import time
from jobtop import ResourceProfiler
profilers = ResourceProfiler(metrics=["cpu"]), ResourceProfiler()
for profiler in profilers: profiler.start_profiling()
time.sleep(2.5)
chosen, profile = [profiler.stop_profiling() for profiler in profilers]
"""


def test_gpus_are_in_a_profile_unless_they_are_not_chosen(jobtop: Jobtop, tmp_path: Path) -> None:
    (tmp_path / "nvml").mkdir()
    library = fake_nvml(tmp_path / "nvml")
    library.show(FakeGpu("GPU-aaaaaaaa-0000", busy=80, used=4 * GIBIBYTE, total=8 * GIBIBYTE, celsius=68))
    [made], _ = run_examples(jobtop, [PROFILED], library.env)
    assert list(made["chosen"]) == ["duration_seconds", "samples_collected", "sampling_interval_seconds", "cpu"]
    stats = made["profile"]["gpu_stats"]
    assert has_shape(stats, next(found for found in shown_all("gpu_stats") if "nvidia" in found))
    assert stats["nvidia"]["gpu_utilization_percent"] == 80.0
    used, total = stats["nvidia"]["memory_used_mb"], stats["nvidia"]["memory_total_mb"]
    assert (used, total, stats["nvidia"]["temperature_celsius"]) == (4096.0, 8192.0, 68.0)


LOADS = """
import os, resource, sys, threading, time
from jobtop import JobMonitor, ResourceProfiler

def seconds():
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])

BURN = "import time\\nwhile time.process_time() < 0.3: pass"
monitor = JobMonitor(enable_profiling=False)
monitor.start_monitoring("load", "tool", "load.py", {})
began = seconds()
held = bytearray(b'x' * (200 << 20))
end = time.process_time() + 0.4
while time.process_time() < end: pass
child = os.posix_spawn(sys.executable, [sys.executable, "-c", BURN], os.environ)
used = sum(os.wait4(child, 0)[2][:2])
used += seconds() - began
peak = int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024
entry = monitor.stop_monitoring("load", "success", 0)
del held

def profiled(name, found):
    profiler = ResourceProfiler()
    profiler.start_profiling()
    end = time.thread_time() + 0.3
    while time.thread_time() < end: pass
    found[name] = profiler.stop_profiling()

found = {}
threads = [threading.Thread(target=profiled, args=(name, found)) for name in "ab"]
for thread in threads: thread.start()
for thread in threads: thread.join()
history = [job["task_id"] for job in monitor.get_job_history()]
left = [thread.name for thread in threading.enumerate()]
"""


def test_the_cost_of_a_known_load_is_true_and_two_profilers_run_at_once(jobtop: Jobtop) -> None:
    [made], _ = run_examples(jobtop, [LOADS])
    usage = made["entry"]["resource_usage"]
    assert usage["cpu_total_seconds"] == pytest.approx(made["used"], rel=0.01)
    assert usage["memory_peak_mb"] == pytest.approx(made["peak"], rel=0.05)
    assert "detailed_profile" not in made["entry"]
    for profile in made["found"].values():
        seconds = profile["process_cpu"]["mean_percent"] / 100 * profile["duration_seconds"]
        assert seconds == pytest.approx(0.3, rel=0.15)
    assert made["history"] == ["load"]  # profiles are no jobs of Keystone
    assert made["left"] == ["MainThread"]


def test_jobs_of_other_ways_are_in_the_history_of_the_monitor(jobtop: Jobtop, tmp_path: Path) -> None:
    assert jobtop("run", "--tool", "make", "--external-id", "build", "--", "false").returncode == 1
    source = """
from jobtop import JobMonitor, get_monitor
with JobMonitor(log_dir="logs").track_job("own", "tool", "own.py", {}, container_name=None) as tracker:
    tracker.set_status("success", returncode=0, result=[1])
keys = "task_id", "status", "returncode", "has_result"
every = [[job[key] for key in keys] for job in get_monitor().get_job_history()]
own = [job["task_id"] for job in JobMonitor(log_dir="logs").get_job_history()]
one = get_monitor().get_job_stats("own")
failed = [job["task_id"] for job in get_monitor().get_job_history(tool="make", status="failed")]
"""
    [made], _ = run_examples(jobtop, [source])
    assert made["every"] == [["own", "success", 0, True], ["build", "failed", 1, False]]
    assert made["own"] == ["own"]
    assert made["failed"] == ["build"]
    assert made["one"]["detailed_profile"]["samples_collected"] >= 1
    assert (jobtop.home / "logs/jobs_history.jsonl").exists()


CONTAINED = """
import os, sys, time
from jobtop import ContainerResourceMonitor, JobMonitor
def wait(condition):
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end: time.sleep(0.02)
monitor = ContainerResourceMonitor("jobtop-face-later")
jobs = JobMonitor()
jobs.start_monitoring("in-container", "fenicsx", "poisson.py", {}, container_name="jobtop-face-later")
monitor.start_monitoring()
open("started", "w").close()
wait(lambda: os.path.exists("is-over"))
info_before = monitor.get_container_info()
profile = monitor.stop_monitoring()
entry = jobs.stop_monitoring("in-container", "success", 0)
stored = jobs.get_job_stats("in-container")
nothing = ContainerResourceMonitor("jobtop-face-never").get_container_info()
heavy = sorted({"docker", "textual", "requests"} & sys.modules.keys())
"""


def test_a_container_that_ran_meanwhile_and_is_gone_has_its_numbers(jobtop: Jobtop, docker_engine: RealEngine) -> None:
    """Also one that started later than the monitor, and was removed before it stopped."""

    def serve() -> None:
        wait_for((jobtop.home / "started").exists, 60)
        with docker_engine.container("sh", "-c", "while :; do :; done", name="jobtop-face-later") as container:
            with ContainerMonitor(docker_engine.env) as monitor:
                wait_for(
                    lambda: any(row.cpu_percent for row in monitor.snapshot().rows if row.container.id == container)
                )
            informed.append(read_info(jobtop, docker_engine))
        (jobtop.home / "is-over").touch()

    informed: list[dict[str, Any]] = []
    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve)
        [made], _ = run_examples(jobtop, [CONTAINED], docker_engine.env)
        served.result()
    assert made["info_before"] == made["nothing"] == {}
    for found in (made["profile"], made["entry"]["detailed_profile"], made["stored"]["detailed_profile"]):
        assert float(found["container_stats"]["cpu_percent"]) > 0
        assert found["container_stats"]["memory_max_mb"] > 0
    assert made["heavy"] == []  # the program itself imports no client of engines
    used = made["entry"]["resource_usage"]["cpu_total_seconds"]
    assert used < 0.2, "the job pays for reading its container"  # which takes more than that
    [info] = informed
    assert (info["name"], info["status"]) == ("jobtop-face-later", "running")


def read_info(jobtop: Jobtop, engine: RealEngine) -> dict[str, Any]:
    source = "from jobtop import ContainerResourceMonitor as M\ninfo = M('jobtop-face-later').get_container_info()"
    [made], _ = run_examples(jobtop, [source], engine.env)
    info: dict[str, Any] = made["info"]
    return info
