"""The cases of the truth suite: each a load, its expected end, and the checks of what was measured."""

import sys
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from signal import SIGKILL, SIGSEGV

from jobtop.core.selftest.curves import (
    CurveCheck,
    curve_matches,
    mean_matches,
    peak_matches,
    stays_within_cores,
    sum_matches,
)
from jobtop.core.selftest.judge import (
    Check,
    JobOutcome,
    cpu,
    cpu_or_incomplete,
    cpu_outside_reported,
    energy_of_cpu,
    exits,
    file_read,
    gpu_memory,
    killed_by,
    lasts_at_least,
    mean_possible,
    memory,
    memory_below,
    memory_sampled,
    memory_together,
    network_received,
    network_sent,
    nothing_absent,
    processes_at_once,
    storage_read,
    storage_written,
)

MIB = 1024 * 1024
SUCCESS = exits(0)
LOADS = str(Path(__file__).with_name("loads.py"))


class Schedule(Enum):
    """When a case runs: together with one other, alone, or beside all others because it is long and light."""

    USUAL = "usual"
    ALONE = "alone"
    BESIDE = "beside"


@dataclass(frozen=True, slots=True)
class Case:
    """A job of known cost: a `load` of `loads.py` with its arguments, or any other `command`."""

    name: str
    title: str
    load: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    curves: tuple[CurveCheck, ...] = ()
    outcome: JobOutcome = SUCCESS
    options: tuple[str, ...] = ()
    engine_bytes: int = 0
    schedule: Schedule = Schedule.USUAL
    again_without_cgroup: bool = False

    def command_line(self, report: str) -> list[str]:
        if self.command:
            return list(self.command)
        return [sys.executable, "-I", "-S", LOADS, report, *self.load]


def shell(text: str) -> tuple[str, ...]:
    return ("sh", "-c", text)


CASES = (
    Case(
        "one-process",
        "2 s of CPU in one process",
        load=("one-process", "2.0"),
        checks=(cpu(2.0),),
        again_without_cgroup=True,
    ),
    Case(
        "many-children",
        "200 children of 20 ms of CPU",
        load=("many-children", "200", "0.02"),
        checks=(cpu(200 * 0.02),),
        again_without_cgroup=True,
    ),
    Case(
        "crowd",
        "300 processes at once",
        load=("crowd", "300", "1.5"),
        checks=(processes_at_once(300), cpu(300 * 0.005)),
    ),
    Case(
        "nested-shells",
        "shells in shells, all of them busy",
        load=("nested-shells", "1.0"),
        checks=(cpu(1.0),),
        again_without_cgroup=True,
    ),
    Case(
        "two-threads",
        "two threads on two cores",
        load=("two-threads", "1.0"),
        checks=(cpu(2.0),),
        schedule=Schedule.ALONE,
        again_without_cgroup=True,
    ),
    Case(
        "daemon",
        "a daemon, forked twice, of 200 MiB and 1 s",
        load=("daemon", str(200 * MIB), "1.0"),
        checks=(cpu(1.0, processes=2), memory(200 * MIB)),
        options=("--after-exit", "wait"),
        again_without_cgroup=True,
    ),
    Case(
        "orphans",
        "a parent killed -9, its children go on",
        load=("orphans", "2", "0.5"),
        checks=(cpu(2 * 0.5, processes=3),),
        outcome=killed_by(SIGKILL),
        options=("--after-exit", "wait"),
        again_without_cgroup=True,
    ),
    Case(
        "sigchld-ignored",
        "a parent that ignores SIGCHLD",
        load=("sigchld-ignored", "5", "0.2"),
        checks=(cpu_or_incomplete(5 * 0.2, processes=6),),
        again_without_cgroup=True,
    ),
    Case(
        "spike",
        "400 MiB for 50 ms",
        load=("spike", str(400 * MIB), "0.05"),
        checks=(memory(400 * MIB),),
    ),
    Case(
        "large-engine",
        "true, while the engine holds 300 MiB",
        command=("true",),
        checks=(memory_below(12 * MIB, 300 * MIB),),
        engine_bytes=300 * MIB,
    ),
    Case(
        "storage",
        "64 MiB written to disk and read back",
        load=("storage", str(64 * MIB)),
        checks=(storage_written(64 * MIB), storage_read(64 * MIB)),
    ),
    Case(
        "file-twice",
        "a file of 32 MiB read twice in 4 s",
        load=("file-twice", str(32 * MIB), "2.0"),
        checks=(file_read("twice", 64 * MIB),),
        schedule=Schedule.BESIDE,
    ),
    Case(
        "network",
        "40 MiB sent over TCP in 4 s, on this machine",
        load=("network", str(40 * MIB), "4.0"),
        checks=(network_received(40 * MIB), network_sent(40 * MIB)),
        schedule=Schedule.BESIDE,
    ),
    Case(
        "shared",
        "300 MiB shared by 6 forks",
        load=("shared", str(300 * MIB), "6", "5.0"),
        checks=(memory_together(300 * MIB), memory_sampled(300 * MIB)),
        schedule=Schedule.BESIDE,
        again_without_cgroup=True,
    ),
    Case(
        "beside-daemon",
        "100 MiB, and 200 MiB of a daemon at the same time",
        load=("beside-daemon", str(100 * MIB), str(200 * MIB), "5.0"),
        checks=(memory_together(300 * MIB), memory_sampled(300 * MIB)),
        options=("--after-exit", "wait"),
        schedule=Schedule.BESIDE,
        again_without_cgroup=True,
    ),
    Case(
        "copy-on-write",
        "100 MiB shared by 2 forks, then written to by both",
        load=("copy-on-write", str(100 * MIB), "2", "5.0"),
        checks=(memory_together(300 * MIB), memory_sampled(300 * MIB)),
        schedule=Schedule.BESIDE,
        again_without_cgroup=True,
    ),
    Case(
        "leaves-cgroup",
        "2 s and 200 MiB of a process that leaves the job's cgroup",
        load=("leaves-cgroup", str(200 * MIB), "2.0"),
        checks=(cpu(2.0), cpu_outside_reported, memory_together(200 * MIB), memory_sampled(200 * MIB)),
        curves=(curve_matches, stays_within_cores),
        options=("--interval", "0.5s"),
        schedule=Schedule.BESIDE,
    ),
    Case(
        "background",
        "1 s of a child after its parent ended at once",
        load=("background", "1.0"),
        checks=(cpu(1.0, processes=2), mean_possible),
        outcome=replace(SUCCESS, flags=("left_running",)),
        again_without_cgroup=True,
    ),
    Case(
        "wave",
        "one core for 2 s, none for 2 s, twice",
        load=("wave", "2.0", "2"),
        checks=(cpu(2 * 2.0),),
        curves=(curve_matches, mean_matches, peak_matches, stays_within_cores),
        options=("--interval", "0.5s"),
        schedule=Schedule.BESIDE,
        again_without_cgroup=True,
    ),
    Case(
        "storm",
        "300 processes a second for 10 s",
        load=("storm", "300", "10.0"),
        checks=(cpu(0.0),),
        curves=(curve_matches, sum_matches, stays_within_cores),
        schedule=Schedule.BESIDE,
        again_without_cgroup=True,
    ),
    Case(
        "gpu-memory",
        "256 MiB of a GPU for 3 s",
        load=("gpu-memory", str(256 * MIB), "3.0"),
        checks=(gpu_memory(256 * MIB),),
        schedule=Schedule.BESIDE,
    ),
    Case(
        "energy",
        "the energy of 0.6 s of CPU",
        load=("one-process", "0.6"),
        checks=(energy_of_cpu,),
        options=("--interval", "0.2s"),
    ),
    Case(
        "short",
        "a command of 50 ms",
        command=("sleep", "0.05"),
        checks=(nothing_absent, lasts_at_least(0.05)),
    ),
    Case("exit-7", "exit 7", command=shell("exit 7"), outcome=exits(7)),
    Case("exit-137", "exit 137, which is no signal", command=shell("exit 137"), outcome=exits(137)),
    Case("sigkill", "killed by SIGKILL", command=shell("kill -KILL $$"), outcome=killed_by(SIGKILL)),
    Case("sigsegv", "killed by SIGSEGV", command=shell("ulimit -c 0; kill -SEGV $$"), outcome=killed_by(SIGSEGV)),
)
