"""Real, cheap processes to sample: any number in any number of jobs, active on demand."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.report import MeasurementError
from jobtop.core.procfs import pid_clock, stat_fields

# Processes that wait for a signal, run a little and report it, unless they are to be silent; they end when standard
# input is closed.
FARM = """\
import os, signal, sys
jobs, processes, is_silent = map(int, sys.argv[1:])
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
def wait():
    while True:
        signal.sigwait([signal.SIGUSR1])
        sum(range(2000))
        if not is_silent:
            os.write(1, b".")
for job in range(jobs):
    if not os.fork():
        pids = [os.getpid()]
        for _ in range(processes * (job + 1) // jobs - processes * job // jobs):
            pids.append(os.fork())
            if not pids[-1]:
                wait()
        os.write(1, (" ".join(map(str, pids)) + "\\n").encode())
        signal.pause()
sys.stdin.read()
os.killpg(0, signal.SIGKILL)
"""


class Farm:
    """Real processes in jobs: the pid of each job's parent process, which stands for a shim, and of its members."""

    def __init__(self, process: subprocess.Popen[bytes], jobs: int, is_silent: bool) -> None:
        assert process.stdout is not None
        self.answers, self.is_silent = process.stdout.fileno(), is_silent
        text = b""
        while text.count(b"\n") < jobs:
            text += self._read()
        rows = [[int(word) for word in line.split()] for line in text.splitlines()]
        self.shims = [shim for shim, *_ in rows]
        self.members = [pid for _, *members in rows for pid in members]
        self.rng = random.Random(0)
        self.let_run(1.0)  # so that all have allocated their memory

    def let_run(self, share: float) -> None:
        """Make this share of the processes run a little, and wait until they have."""
        active = self.rng.sample(self.members, round(share * len(self.members)))
        before = {pid: cpu_ns(pid) for pid in active} if self.is_silent else {}
        for pid in active:
            os.kill(pid, signal.SIGUSR1)
        answered = 0
        while answered < len(active) and not self.is_silent:
            answered += len(self._read())
        while late := [pid for pid, ran in before.items() if cpu_ns(pid) == ran]:
            for pid in late:  # a signal is lost if another one was still pending
                os.kill(pid, signal.SIGUSR1)
            time.sleep(0.001)
        while active := [pid for pid in active if stat_fields(pid)[:1] in (["R"], ["D"])]:  # not yet waiting again
            time.sleep(0.001)

    def _read(self) -> bytes:
        if not (part := os.read(self.answers, 65536)):
            raise MeasurementError("the processes to be watched ended early")
        return part


def cpu_ns(pid: int) -> int:
    return time.clock_gettime_ns(pid_clock(pid))


@contextmanager
def farm(jobs: int, processes: int, is_silent: bool = False) -> Iterator[Farm]:
    """So many processes in so many jobs; silent ones read and write nothing while they run."""
    command = [sys.executable, "-I", "-S", "-c", FARM, str(jobs), str(processes), str(int(is_silent))]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) as process:
        try:
            yield Farm(process, jobs, is_silent)
        finally:
            process.kill() if process.stdin is None else process.stdin.close()
