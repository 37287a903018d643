"""What a tick of the sampler costs: CPU time against a pass of psutil, and how it grows with jobs and processes."""

import gc
import time
from collections.abc import Container, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from statistics import mean

import psutil

from benchmarks.farm import Farm, farm
from benchmarks.installation import Installation
from benchmarks.report import MeasurementError, Result
from benchmarks.stopwatch import in_turns, wait_for_orphans
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.measure.sampler import Sampler
from jobtop.core.measure.target import Target
from jobtop.core.metrics import JOB_COLUMNS

PROCESSES, JOBS = 1000, 50
FEW, ALL = 0.05, 1.0  # of the processes are active between two ticks
MOST_WARM_TICKS = 100
GROWTH_TURNS = 3
AGENT_GC = (200_000, 50, 1000)  # as jobtop/__main__.py sets it
FIELDS = "cpu_times memory_info num_threads io_counters num_ctx_switches num_fds ppid status create_time".split()
DEAR_FIELDS = [*FIELDS, "memory_full_info"]  # PSS and swap too
READ = [
    JOB_COLUMNS.index(key) for key in ("mem.used", "mem.pss", "io.read_chars", "proc.fds", "proc.switches_voluntary")
]


class Watcher:
    """A sampler of these jobs that is due whenever it is asked, by a clock of its own; the samples go nowhere."""

    def __init__(self, shims: Sequence[int], budget: float | None = None) -> None:
        self.now = 0.0
        self.sampler = Sampler(lambda _: None, monotonic=lambda: self.now)
        self.sampler.budget = budget or self.sampler.budget
        self.complete_after: float | None = None
        for number, shim in enumerate(shims):
            target = Target(identify(shim), time.clock_gettime(time.CLOCK_BOOTTIME))
            self.sampler.watch(str(number), target, interval=1.0)

    def tick(self) -> float:
        """CPU seconds of one tick over all jobs."""
        begin = time.thread_time()
        samples = self.sampler.tick().samples
        seconds = time.thread_time() - begin
        if len(samples) < len(self.sampler.watches):
            raise MeasurementError("a tick left jobs out")
        if self.complete_after is None and all(
            sample.values[place] is not None for _, sample in samples for place in READ
        ):
            self.complete_after = self.now
        self.now = self.sampler.next_due() or self.now
        return seconds

    def warm_up(self, watched: Farm, share: float) -> None:
        """Tick until every job has every field, or it takes too long: before, a tick would be too cheap or too dear."""
        for _ in range(MOST_WARM_TICKS):
            watched.let_run(share)
            self.tick()
            if self.complete_after is not None:
                return

    def close(self) -> None:
        self.sampler.stop()


def measure_ticks(_tools: Installation, _work: Path, rounds: int) -> Iterator[Result]:
    with garbage_as_in_an_agent():
        yield from against_psutil(FEW, 1 / 25, rounds)
        yield from against_psutil(ALL, 1 / 6, rounds)
        for share in (FEW, ALL):
            what = f"a tick over {PROCESSES:,} processes in 500 jobs, {describe(share)}"
            yield growth(what, (10, PROCESSES), (500, PROCESSES), share, rounds, "in 10 jobs", 1.3)
        what = f"a tick over {PROCESSES:,} processes in {JOBS} jobs, {describe(FEW)}"
        yield growth(what, (JOBS, 250), (JOBS, PROCESSES), FEW, rounds, "over 250", 4.4)


@contextmanager
def garbage_as_in_an_agent() -> Iterator[None]:
    """Looked for as seldom: Python's own thresholds make it a tenth of a tick over 500 jobs, in no agent."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*AGENT_GC)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def against_psutil(share: float, bound: float, rounds: int) -> Iterator[Result]:
    """In turn, over the same processes; the means too, since medians hide what only every tenth tick reads."""
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
            "psutil": lambda: pass_of_psutil(members, FIELDS),
            "dear": lambda: pass_of_psutil(members, DEAR_FIELDS),
        }
        samples = in_turns(turns, rounds)
    wait_for_orphans()
    ours, theirs, rival = samples["ours"], samples["psutil"], "psutil"
    what = f"a tick over {PROCESSES:,} processes in {JOBS} jobs, {describe(share)}"
    dear = [mean(samples["dear"])]
    # Samples have PSS and swap: a pass with the same fields reads them too. Means: medians hide every tenth tick.
    yield Result(f"{what}, CPU time", "seconds", [mean(ours)], dear, rival, bound)
    yield Result("  against a pass without PSS and swap", "seconds", [mean(ours)], [mean(theirs)], rival, bound)
    yield Result("  the same, the usual tick", "seconds", ours, theirs, rival, bound)
    yield Result("  without a budget", "seconds", [mean(samples["free"])], dear, rival)
    yield Result("  the first tick, which finds them all", "seconds", [first])
    yield completeness(watcher)


def completeness(watcher: Watcher) -> Result:
    """When every field of every job had been read; until then a tick is cheaper than it should be."""
    what = "  until every field of every job was read"
    if watcher.complete_after is None:
        return Result(what, "seconds", problem=f"not within {watcher.now:.0f} s")
    return Result(what, "seconds", [watcher.complete_after])


def growth(
    what: str, small: tuple[int, int], large: tuple[int, int], share: float, rounds: int, rival: str, bound: float
) -> Result:
    """The mean tick over so many jobs and processes against one over fewer; farms of both kinds in turn."""
    turns = {shape: partial(mean_tick, *shape, share, rounds) for shape in (small, large)}
    samples = in_turns({str(shape): turn for shape, turn in turns.items()}, GROWTH_TURNS, warm_up=False)
    return Result(what, "seconds", samples[str(large)], samples[str(small)], rival, bound)


def mean_tick(jobs: int, processes: int, share: float, rounds: int) -> float:
    """CPU seconds of a tick over processes that were all seen before."""
    seconds = []
    with farm(jobs, processes) as watched, closing(Watcher(watched.shims)) as watcher:
        watcher.warm_up(watched, share)
        for _ in range(rounds):
            watched.let_run(share)
            seconds.append(watcher.tick())
    wait_for_orphans()
    return mean(seconds)


def pass_of_psutil(members: Container[int], fields: list[str]) -> float:
    """CPU seconds to read these fields of these processes."""
    begin = time.thread_time()
    for process in psutil.process_iter():
        if process.pid in members:
            process.as_dict(fields)
    return time.thread_time() - begin


def describe(share: float) -> str:
    return "all active" if share == ALL else f"{share * 100:g} % active"
