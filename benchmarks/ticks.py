"""Measures a tick of the sampler: CPU time compared with psutil, and its growth with jobs and processes."""

import gc
import time
from collections.abc import Container, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from statistics import mean

import psutil

from benchmarks.farm import Farm, farm
from benchmarks.idle import measure_idle_sources
from benchmarks.installation import Installation
from benchmarks.report import BenchmarkResult, MeasurementError
from benchmarks.stopwatch import measure_in_turns, wait_for_orphans
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.measure.sampler import Sampler
from jobtop.core.measure.target import Target
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Sample

PROCESSES, JOBS = 1000, 50
FEW, ALL = 0.05, 1.0  # the share of processes that are active between two ticks
MAX_WARM_TICKS = 100
GROWTH_TURNS = 3
WARM_TICKS, SOURCE_TICKS = 15, 60
AGENT_GC = (200_000, 50, 1000)  # as jobtop/__main__.py sets it
FIELDS = "cpu_times memory_info num_threads io_counters num_ctx_switches num_fds ppid status create_time".split()
EXPENSIVE_FIELDS = [*FIELDS, "memory_full_info"]  # PSS and swap too
REQUIRED_COLUMNS = [
    JOB_COLUMNS.index(key) for key in ("mem.used", "mem.pss", "io.read_chars", "proc.fds", "proc.switches_voluntary")
]


class Watcher:
    """A sampler of these jobs with its own clock, so that it is always due; `samples` are those of the last tick."""

    def __init__(self, shims: Sequence[int], budget: float | None = None) -> None:
        self.now = 0.0
        self.sampler = Sampler(lambda _: None, monotonic=lambda: self.now)
        self.sampler.budget = budget or self.sampler.budget
        self.complete_after: float | None = None
        self.samples: list[tuple[str, Sample]] = []
        for number, shim in enumerate(shims):
            target = Target(identify(shim), time.clock_gettime(time.CLOCK_BOOTTIME))
            self.sampler.watch(str(number), target, interval=1.0)

    def tick(self) -> float:
        """Run one tick over all jobs; return its CPU seconds."""
        begin = time.thread_time()
        samples = self.samples = self.sampler.tick().samples
        seconds = time.thread_time() - begin
        if len(samples) < len(self.sampler.watches):
            raise MeasurementError("a tick left jobs out")
        if self.complete_after is None and all(
            sample.values[place] is not None for _, sample in samples for place in REQUIRED_COLUMNS
        ):
            self.complete_after = self.now
        self.now = self.sampler.next_due() or self.now
        return seconds

    def warm_up(self, watched: Farm, share: float) -> None:
        """Tick until every field of every job has been read, but not too long: earlier ticks are not typical."""
        for _ in range(MAX_WARM_TICKS):
            watched.let_run(share)
            self.tick()
            if self.complete_after is not None:
                return

    def close(self) -> None:
        self.sampler.stop()


def measure_ticks(_tools: Installation, work: Path, rounds: int) -> Iterator[BenchmarkResult]:
    with agent_garbage_collection():
        yield from compare_with_psutil(FEW, 1 / 25, rounds)
        yield from compare_with_psutil(ALL, 1 / 6, rounds)
        for share in (FEW, ALL):
            what = f"a tick over {PROCESSES:,} processes in 500 jobs, {describe(share)}"
            yield measure_growth(what, (10, PROCESSES), (500, PROCESSES), share, rounds, "in 10 jobs", 1.3)
        what = f"a tick over {PROCESSES:,} processes in {JOBS} jobs, {describe(FEW)}"
        yield measure_growth(what, (JOBS, 250), (JOBS, PROCESSES), FEW, rounds, "over 250", 4.4)
        yield compare_sources()
        yield from measure_idle_sources(work)


@contextmanager
def agent_garbage_collection() -> Iterator[None]:
    """Use the agent's garbage collection thresholds; with Python's defaults, collection takes a tenth of a tick."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*AGENT_GC)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def compare_with_psutil(share: float, bound: float, rounds: int) -> Iterator[BenchmarkResult]:
    """Compare ticks with psutil over the same processes, in turns."""
    with (
        farm(JOBS, PROCESSES) as watched,
        closing(Watcher(watched.shims)) as watcher,
        closing(Watcher(watched.shims, budget=1.0)) as free,
    ):
        first = watcher.tick()
        watcher.warm_up(watched, share)
        free.warm_up(watched, share)
        members = frozenset(watched.members)

        def our_tick() -> float:
            watched.let_run(share)
            return watcher.tick()

        turns = {
            "ours": our_tick,
            "free": free.tick,
            "psutil": lambda: psutil_pass_seconds(members, FIELDS),
            "full": lambda: psutil_pass_seconds(members, EXPENSIVE_FIELDS),
        }
        samples = measure_in_turns(turns, rounds)
    wait_for_orphans()
    ours, others, rival = samples["ours"], samples["psutil"], "psutil"
    what = f"a tick over {PROCESSES:,} processes in {JOBS} jobs, {describe(share)}"
    full_pass = [mean(samples["full"])]
    # Samples have PSS and swap, so psutil reads them too. Means: medians hide what only every tenth tick reads.
    yield BenchmarkResult(f"{what}, CPU time", "seconds", [mean(ours)], full_pass, rival, bound)
    yield BenchmarkResult(
        "  against a pass without PSS and swap", "seconds", [mean(ours)], [mean(others)], rival, bound
    )
    yield BenchmarkResult("  the same, the usual tick", "seconds", ours, others, rival, bound)
    yield BenchmarkResult("  without a budget", "seconds", [mean(samples["free"])], full_pass, rival)
    yield BenchmarkResult("  the first tick, which finds them all", "seconds", [first])
    yield completeness(watcher)


def completeness(watcher: Watcher) -> BenchmarkResult:
    """Return when every field of every job had been read; until then ticks are cheaper."""
    what = "  until every field of every job was read"
    if watcher.complete_after is None:
        return BenchmarkResult(what, "seconds", problem=f"not within {watcher.now:.0f} s")
    return BenchmarkResult(what, "seconds", [watcher.complete_after])


def measure_growth(
    what: str, small: tuple[int, int], large: tuple[int, int], share: float, rounds: int, rival: str, bound: float
) -> BenchmarkResult:
    """Compare the mean tick over many jobs and processes with one over fewer, in turns."""
    turns = {shape: partial(mean_tick, *shape, share, rounds) for shape in (small, large)}
    samples = measure_in_turns({str(shape): turn for shape, turn in turns.items()}, GROWTH_TURNS, warm_up=False)
    return BenchmarkResult(what, "seconds", samples[str(large)], samples[str(small)], rival, bound)


def mean_tick(jobs: int, processes: int, share: float, rounds: int) -> float:
    """Return the mean CPU seconds of a tick over processes that were all sampled before."""
    seconds = []
    with farm(jobs, processes) as watched, closing(Watcher(watched.shims)) as watcher:
        watcher.warm_up(watched, share)
        for _ in range(rounds):
            watched.let_run(share)
            seconds.append(watcher.tick())
    wait_for_orphans()
    return mean(seconds)


def compare_sources() -> BenchmarkResult:
    """Compare ticks with all sources, their threads included, with ticks without the slow ones, for a minute."""
    slow = frozenset({"energy", "nvidia", "drm", "files", "network", "devices"})
    # With a large budget no tick is left out.
    samplers = {name: Sampler(lambda _: None, 1.0, without) for name, without in (("all", frozenset()), ("fast", slow))}
    costs: dict[str, list[float]] = {name: [] for name in samplers}
    with farm(JOBS, PROCESSES) as watched:
        for sampler in samplers.values():
            sampler.record_host(True)
            for number, shim in enumerate(watched.shims):
                target = Target(identify(shim), time.clock_gettime(time.CLOCK_BOOTTIME))
                sampler.watch(str(number), target, interval=1.0)
        for tick in range(WARM_TICKS + SOURCE_TICKS):
            watched.let_run(FEW)
            # The first one finds the caches of the processor cold: each is first in every other tick.
            for name, sampler in list(samplers.items())[:: 1 if tick % 2 else -1]:
                before = sampler.cpu_seconds
                sampler.tick()
                if tick >= WARM_TICKS:
                    costs[name].append(sampler.cpu_seconds - before)
            time.sleep(max(0.0, (samplers["all"].next_due() or 0.0) - time.monotonic()))
        for sampler in samplers.values():
            sampler.stop()
    wait_for_orphans()
    what = f"a tick over {PROCESSES:,} processes, {describe(FEW)}, with all sources"
    return BenchmarkResult(
        what, "seconds", [mean(costs["all"])], [mean(costs["fast"])], "without the slow ones", bound=1.3
    )


def psutil_pass_seconds(members: Container[int], fields: list[str]) -> float:
    """Return the CPU seconds that psutil takes to read these fields of these processes."""
    begin = time.thread_time()
    for process in psutil.process_iter():
        if process.pid in members:
            process.as_dict(fields)
    return time.thread_time() - begin


def describe(share: float) -> str:
    return "all active" if share == ALL else f"{share * 100:g} % active"
