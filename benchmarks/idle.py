"""Measures what a source costs that can be used but has nothing to report: ticks with it against ticks without it."""

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

from benchmarks.farm import farm
from benchmarks.report import BenchmarkResult, MeasurementError
from benchmarks.stopwatch import wait_for_orphans
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.measure.sampler import Sampler
from jobtop.core.measure.sources import Options
from jobtop.core.measure.target import Target

JOBS, PROCESSES = 50, 1000
ACTIVE = 0.05  # the share of processes that run between two ticks
WARM_TICKS, TICKS = 50, 65
AGE_SECONDS = 3600.0  # of the jobs: young ones are read more often
BOUND = 1.02
# What each source would report, and no process of the jobs has.
IDLE_SOURCES = {
    "network": "sockets, no job has one",
    "files": "open files, no job has one",
    "drm": "GPUs, no job uses the one that sleeps",
    "containers": "containers, no job is one",
}
CARD = "devices/pci0000:00/0000:03:00.0"
CARD_FILES = {
    "vendor": "0x1002",
    "gpu_busy_percent": "0",
    "mem_info_vram_used": "10485760",
    "mem_info_vram_total": "17163091968",
    "power/runtime_status": "suspended",
    "hwmon/hwmon0/name": "amdgpu",
    "hwmon/hwmon0/temp1_input": "41000",
    "hwmon/hwmon0/power1_average": "7000000",
}


def measure_idle_sources(work: Path) -> Iterator[BenchmarkResult]:
    """Tick with all sources and without each one in turn, once a second; the threads of sources count too."""
    options = Options(sys=str(machine_with_a_gpu(work / "sys")))
    without = {"all": frozenset[str](), **{name: frozenset({name}) for name in IDLE_SOURCES}}
    # With a large budget no tick is left out.
    samplers = {name: Sampler(lambda _: None, 1.0, left_out, options=options) for name, left_out in without.items()}
    costs: dict[str, list[float]] = {name: [] for name in samplers}
    with farm(JOBS, PROCESSES, is_silent=True) as watched:
        for sampler in samplers.values():
            for number, shim in enumerate(watched.shims):
                target = Target(identify(shim), time.clock_gettime(time.CLOCK_BOOTTIME) - AGE_SECONDS)
                sampler.watch(str(number), target, interval=1.0)
        for tick in range(WARM_TICKS + TICKS):
            watched.let_run(ACTIVE)
            order = list(samplers)[tick % len(samplers) :] + list(samplers)[: tick % len(samplers)]
            for name in order:
                before = samplers[name].cpu_seconds
                samplers[name].tick()
                if tick >= WARM_TICKS:
                    costs[name].append(samplers[name].cpu_seconds - before)
            time.sleep(max(0.0, (samplers["all"].next_due() or 0.0) - time.monotonic()))
        check_available(samplers["all"])
        for sampler in samplers.values():
            sampler.stop()
    wait_for_orphans()
    for name, nothing in IDLE_SOURCES.items():
        what = f"a tick over {PROCESSES:,} processes with the source of {nothing}"
        yield BenchmarkResult(what, "seconds", [mean(costs["all"])], [mean(costs[name])], "without the source", BOUND)


def check_available(sampler: Sampler) -> None:
    """An idle source that cannot be used here would prove nothing."""
    for status in sampler.source_statuses():
        if status.name in IDLE_SOURCES and (status.unavailable or status.problem):
            raise MeasurementError(f"{status.name}: {status.unavailable or status.problem}")


def machine_with_a_gpu(sys: Path) -> Path:
    """A /sys with one GPU that no process uses."""
    card = sys / CARD
    for name, text in CARD_FILES.items():
        (card / name).parent.mkdir(parents=True, exist_ok=True)
        (card / name).write_text(f"{text}\n")
    for node in ("card0", "renderD128"):
        (card / "drm" / node).mkdir(parents=True)
        (card / "drm" / node / "device").symlink_to(card)
    (sys / "module/amdgpu").mkdir(parents=True)
    (sys / "module/amdgpu/refcnt").write_text("0\n")
    (sys / "drivers/amdgpu").mkdir(parents=True)
    (card / "driver").symlink_to(sys / "drivers/amdgpu")
    (sys / "class/drm").mkdir(parents=True)
    for node in ("card0", "renderD128"):
        (sys / "class/drm" / node).symlink_to(card / "drm" / node)
    return sys
