"""Real jobs of real processes on NVIDIA's GPUs: the real nvidia-ml-py, and a library without hardware below it."""

import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jobtop.store.samples.packed import unpack
from nvml import GIBIBYTE, NOT_SUPPORTED, FakeGpu, FakeNvml, add_cuda, fake_nvml
from running import Run, descendants, nothing_is_left, running, show
from support import Jobtop, wait_for

__all__ = ["nothing_is_left"]
pytestmark = pytest.mark.usefixtures("nothing_is_left")

FIRST, SECOND = "GPU-aaaaaaaa-0000", "GPU-bbbbbbbb-0000"
WAITS = ("--no-ui", "--", "sh", "-c", "sleep 300 & echo ready; wait")
USAGE_KEYS = ("gpu_util_mean", "gpu_util_peak", "gpu_memory_peak_bytes", "energy_gpu_joules")
KEYS = ("gpu.util", "gpu.mem_used", "energy.gpu")
HANG_SECONDS = 300  # longer than a test waits for a run


@pytest.fixture
def nvml(tmp_path: Path) -> FakeNvml:
    made = fake_nvml(tmp_path)
    made.show(FakeGpu(FIRST), FakeGpu(SECOND), extra=(f"fail nvmlDeviceGetFanSpeed {NOT_SUPPORTED}",))
    return made


@pytest.fixture
def run(jobtop: Jobtop, nvml: FakeNvml) -> Iterator[Run]:
    """A job that waits."""
    with running(jobtop, *WAITS, reference="job-a", env={**jobtop.env, **nvml.env}) as made:
        made.reads(b"ready")
        made.until(lambda: samples(made))
        yield made


def sleeper(run: Run) -> int:
    """The pid of its last process, which is two generations below the shim."""
    return descendants(run.shim())[-1]


def samples(run: Run) -> list[dict[str, Any]]:
    words = [word for key in KEYS for word in ("--metric", key)]
    printed = run.jobtop("metrics", run.reference, "--no-follow", "--format", "jsonl", *words)
    return [json.loads(line) for line in printed.stdout.splitlines()]


def newest(run: Run) -> tuple[float | None, ...]:
    """Utilisation, memory and energy of the newest sample."""
    values = samples(run)[-1]
    found: list[float | None] = []
    for key in KEYS:
        group, name = key.split(".")
        found.append((values.get(group) or {}).get(name))
    return tuple(found)


def until(run: Run, *expected: float | None) -> None:
    wait_for(lambda: newest(run) == tuple(map(approximately, expected)), 20)


def approximately(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, rel=0.01)


def gpu_devices(jobtop: Jobtop) -> set[str]:
    [path] = jobtop.state.glob("*.db")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM devices WHERE kind = 'gpu'")}


def gpus_of_machine(jobtop: Jobtop) -> dict[str, dict[str, float | None]]:
    """What the console shows: the newest detail of the host."""
    [path] = jobtop.state.glob("*.db")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        row = connection.execute("SELECT detail FROM host_details ORDER BY elapsed DESC LIMIT 1").fetchone()
    found: dict[str, dict[str, float | None]] = unpack(row[0]).get("gpus", {}) if row else {}
    return found


def test_a_job_on_two_gpus_is_sampled_recorded_and_shown(run: Run, nvml: FakeNvml, jobtop: Jobtop) -> None:
    pid = sleeper(run)
    nvml.change(FIRST, busy=90, reasons=0x40, processes=((pid, GIBIBYTE, 60), (1, GIBIBYTE, 30)))
    nvml.change(SECOND, processes=((pid, 2 * GIBIBYTE, 20),))
    until(run, 80, 3 * GIBIBYTE, 0)
    nvml.change(FIRST, joules=1900.0)
    until(run, 80, 3 * GIBIBYTE, 600)
    shown = wait_for(lambda: gpus_of_machine(jobtop), 20)
    assert shown["0-aaaaaaaa"]["gpu.util"] == 90
    assert shown["0-aaaaaaaa"]["gpu.fan"] is None
    wait_for(lambda: gpu_devices(jobtop) == {"0-aaaaaaaa", "1-bbbbbbbb"}, 20)
    run.send(signal.SIGTERM)
    run.end()
    record = run.record()
    usage = record["resource_usage"]
    assert usage["energy_gpu_joules"] == approximately(600)
    assert (usage["gpu_util_peak"], usage["gpu_memory_peak_bytes"]) == (80, 3 * GIBIBYTE)
    assert 0 < usage["gpu_util_mean"] <= 80
    assert (record["sources"]["energy_gpu"], record["incomplete"]) == ("nvml, by share of SM time", [])
    text = jobtop("show", run.reference).stdout
    assert "600.0 J" in text
    assert "GPU 0 is slowed down: thermal" in text


def until_called(nvml: FakeNvml) -> str:
    """What a shell runs until the library was called: GPUs are opened later than a short job may end."""
    return f"until grep -qs nvmlInit {nvml.env['NVML_CALLS']}; do sleep 0.05; done"


def test_a_job_without_a_gpu_has_no_totals_of_gpus(jobtop: Jobtop, nvml: FakeNvml) -> None:
    words = ("sh", "-c", f"{until_called(nvml)}; sleep 0.5")
    assert jobtop("run", "--external-id", "cpu", "--", *words, env=nvml.env).returncode == 0
    record = show(jobtop, "cpu")
    usage = record["resource_usage"]
    assert [usage[key] for key in USAGE_KEYS] == [None] * len(USAGE_KEYS)
    assert "energy_gpu" not in record["sources"]
    assert nvml.calls("nvmlInit") == 1


def test_a_driver_that_hangs_does_not_hold_a_job_back(jobtop: Jobtop, nvml: FakeNvml) -> None:
    nvml.show(extra=(f"hang nvmlInit {HANG_SECONDS}",))
    words = ("sh", "-c", until_called(nvml))
    assert jobtop("run", "--external-id", "short", "--", *words, env=nvml.env).returncode == 0
    assert nvml.calls("nvmlInit") == 1
    assert show(jobtop, "short")["incomplete"] == []


def gpu_case(jobtop: Jobtop, env: dict[str, str]) -> dict[str, Any]:
    """The result of the check of the memory of a GPU."""
    answer = jobtop("selftest", "--only", "gpu-memory", "--json", env=env)
    results: list[dict[str, Any]] = json.loads(answer.stdout)["results"]
    assert answer.returncode == (1 if any(result["verdict"] == "fail" for result in results) else 0)
    return results[0]


def test_the_self_test_compares_the_memory_of_a_gpu_or_says_why_it_cannot(jobtop: Jobtop, nvml: FakeNvml) -> None:
    skipped = gpu_case(jobtop, nvml.env)
    assert (skipped["verdict"], "libcuda" in skipped["reason"]) == ("skipped", True)
    env = add_cuda(nvml)
    assert "cuInit" in gpu_case(jobtop, nvml.env)["reason"], "there is a driver, and no GPU"
    right = gpu_case(jobtop, env)
    assert (right["verdict"], right["measured"]) == ("pass", GIBIBYTE // 4)
