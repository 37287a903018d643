"""Runs cases of the truth suite, each under its own `jobtop run`, in a temporary home."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobtop.core.model import Job, Sample
from jobtop.core.procfs import read_text
from jobtop.core.record import replace
from jobtop.core.selftest.cases import LOADS, Case, Schedule
from jobtop.core.selftest.curves import judge_curve
from jobtop.core.selftest.judge import CheckResult, Reference, Verdict, judge_outcome, read_reference

DEADLINE_SECONDS = 120.0
POLL_SECONDS = 0.1
WORKERS = 2
WITHOUT_CGROUP = "monitor.without=cgroup"
SAMPLING_SETTINGS = ("monitor.enabled=true", "monitor.granularity=time_series")
MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")
# Allocates memory, reports it as a load does, and continues as jobtop: a large engine.
LARGE_ENGINE = """\
import runpy, sys
held = bytearray(b"\\1") * int(sys.argv[1])
runpy.run_path(sys.argv[2])["write_report"](sys.argv[3])
sys.argv[1:] = sys.argv[4:]
from jobtop.__main__ import main
sys.exit(main())
"""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of one check, and its case."""

    case: Case
    without_cgroup: bool
    check: CheckResult

    def to_json(self) -> dict[str, Any]:
        case = {"case": self.case.name, "load": self.case.title, "without_cgroup": self.without_cgroup}
        return case | self.check.to_json()


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result of one `jobtop run`: no job if it wrote no record; `output` is what it printed."""

    job: Job | None
    returned: int | None
    reference: Reference
    output: str
    samples: Sequence[Sample] = ()


class Suite:
    """Runs cases, in parallel where they do not disturb each other; `stop` ends running ones.

    `samples_of` reads the samples of a job from the store of a state directory.
    """

    def __init__(
        self,
        home: Path,
        sets: Sequence[str],
        announce: Callable[[int, int, str], None],
        samples_of: Callable[[Path, Job], Sequence[Sample]],
    ) -> None:
        self.home, self.sets, self.announce, self.samples_of = home, tuple(sets), announce, samples_of
        self.state = home / "state"
        self.total = self.done = 0
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False
        self._lock = threading.Lock()

    def run(self, cases: Sequence[Case]) -> list[CaseResult]:
        """Return all results in the order of the cases, then those of cases that ran again without a cgroup."""
        self.total = len(cases)
        by_schedule = {schedule: [case for case in cases if case.schedule is schedule] for schedule in Schedule}
        with ThreadPoolExecutor(len(cases) or 1) as beside, ThreadPoolExecutor(WORKERS) as pool:
            try:
                found = {case.name: pool.submit(self._examine, case).result() for case in by_schedule[Schedule.ALONE]}
                futures = {beside.submit(self._examine, case): case.name for case in by_schedule[Schedule.BESIDE]}
                futures |= {pool.submit(self._examine, case): case.name for case in by_schedule[Schedule.USUAL]}
                found |= {futures[future]: future.result() for future in as_completed(futures)}
            except BaseException:
                for executor in (beside, pool):
                    executor.shutdown(wait=False, cancel_futures=True)
                self.stop()
                raise
        results = [result for case in cases for result in found[case.name]]
        return sorted(results, key=lambda result: result.without_cgroup)

    def stop(self) -> None:
        """End running jobs, and start no more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.terminate()

    def _examine(self, case: Case) -> list[CaseResult]:
        """Run a case and check it; if a cgroup was used, run and check it again without one."""
        self._announce(case)
        first = self._measure(case, without_cgroup=False)
        results = [CaseResult(case, False, check) for check in judge(case, first)]
        if case.again_without_cgroup and first.job is not None and had_cgroup(first.job):
            self.total += 1
            self._announce(case)
            again = self._measure(case, without_cgroup=True)
            results += [CaseResult(case, True, check) for check in judge(case, again)]
        return results

    def _announce(self, case: Case) -> None:
        self.announce(self.done, self.total, case.title)

    def _measure(self, case: Case, without_cgroup: bool) -> Measurement:
        place = Path(tempfile.mkdtemp(prefix=f"{case.name}-", dir=self.home))
        report, record = place / "report", place / "record.json"
        returned, output = self._run_command(self._command_line(case, without_cgroup, place, report, record), place)
        job = Job.from_json(json.loads(record.read_text())) if record.exists() else None
        if job is not None and "left_running" in job.flags:
            job = self._await_descendants(job, place)
        reference = read_reference(report.read_text()) if report.exists() else Reference()
        samples = self.samples_of(self.state, job) if job is not None and case.curves else ()
        with self._lock:
            self.done += 1
        return Measurement(job, returned, reference, output, samples)

    def _await_descendants(self, job: Job, place: Path) -> Job:
        """Wait until the last descendant has ended; return the final record with the flags of both records."""
        deadline, command = time.monotonic() + DEADLINE_SECONDS, self._jobtop("show", job.id, "--json")
        while time.monotonic() < deadline:
            returned, output = self._run_command(command, place)
            if returned != 0:
                break
            latest = Job.from_json(json.loads(output))
            if not any(why.startswith("all:") for why in latest.incomplete):
                return replace(latest, flags=tuple(sorted({*job.flags, *latest.flags})))
            time.sleep(POLL_SECONDS)
        return job

    def _jobtop(self, *output: str) -> list[str]:
        return [sys.executable, "-m", "jobtop", "--set", f"store.dir={self.state}", *output]

    def _command_line(self, case: Case, without_cgroup: bool, place: Path, report: Path, record: Path) -> list[str]:
        engine = ["-m", "jobtop"]
        if case.engine_bytes:
            engine = ["-c", LARGE_ENGINE, str(case.engine_bytes), LOADS, str(report)]
        sets = [
            *self.sets,
            f"store.dir={self.state}",
            *SAMPLING_SETTINGS,
            *((WITHOUT_CGROUP,) if without_cgroup else ()),
        ]
        options = ["--quiet", "--grace", "1s", "--cwd", str(place), "--record", str(record), *case.options]
        settings = [word for value in sets for word in ("--set", value)]
        return [sys.executable, *engine, *settings, "run", *options, "--", *case.command_line(str(report))]

    def _run_command(self, command: list[str], place: Path) -> tuple[int | None, str]:
        """Run a command to its end; return its exit code, None if it had to be stopped, and its output."""
        with self._lock:
            if self._stopped:
                return None, "stopped"
            process = subprocess.Popen(
                command,
                cwd=place,
                env=os.environ | {"JOBTOP_HOME": str(self.state)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            self._running.add(process)
        try:
            # The output ends when the shim exits, too; until then the shim may write to the home.
            output = process.communicate(timeout=DEADLINE_SECONDS)[0]
            return process.returncode, output.decode(errors="replace")
        except subprocess.TimeoutExpired:
            process.terminate()
            output = process.communicate()[0]
            return None, f"not done within {DEADLINE_SECONDS:g} s; {output.decode(errors='replace')}"
        finally:
            with self._lock:
                self._running.discard(process)


def had_cgroup(job: Job) -> bool:
    return any(source.startswith("cgroup") for source in job.sources.values())


def judge(case: Case, measurement: Measurement) -> list[CheckResult]:
    """Return the results of all checks of a case; a single result if the load could not run or was not recorded."""
    job, returned, reference = measurement.job, measurement.returned, measurement.reference
    if job is None or returned is None:
        why = measurement.output.strip() or f"no record was written; run returned {returned}"
        return [CheckResult("outcome", Verdict.FAIL, str(case.outcome), None, reason=why)]
    if reference.skip is not None:
        return [CheckResult("load", Verdict.SKIPPED, "as built", None, reason=reference.skip)]
    return [
        *(check(job, reference) for check in case.checks),
        *judge_curve(case.curves, job, reference, measurement.samples),
        judge_outcome(case.outcome, job, returned),
    ]


@contextmanager
def temporary_home() -> Iterator[Path]:
    """Yield a temporary directory, on a disk if possible, because I/O to memory file systems is not counted."""
    home = Path(tempfile.mkdtemp(prefix="jobtop-selftest-", dir=scratch_directory()))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def scratch_directory() -> str:
    """Return the default directory for temporary files, or another one if that is in memory."""
    in_memory = memory_devices(read_text("/proc/self/mountinfo"))
    usual = tempfile.gettempdir()
    for directory in (usual, "/var/tmp", os.getcwd()):
        try:
            device = os.stat(directory).st_dev
        except OSError:
            continue
        if f"{os.major(device)}:{os.minor(device)}" not in in_memory and os.access(directory, os.W_OK | os.X_OK):
            return directory
    return usual


def memory_devices(mountinfo: str) -> set[str]:
    """Return the devices, as major:minor, of mounted memory file systems."""
    rows = (line.partition(" - ") for line in mountinfo.splitlines())
    return {before.split()[2] for before, _, after in rows if after.split()[0] in MEMORY_FILE_SYSTEMS}
