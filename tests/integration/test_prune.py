"""`jobtop prune` beside an engine that samples, and killed during a pass: only old samples are deleted."""

import json
import random
import subprocess
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from jobtop.core.errors import UnknownJob
from jobtop.core.model import Job, Kept
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.store.database import open_to_read
from jobtop.store.jobs import Jobs
from jobtop.store.samples.series import SeriesStore
from jobtop.store.upkeep.checking import check
from records import HERE, made_job
from running import nothing_is_left, running
from sampled import kept_sampled, sample
from support import Jobtop, wait_for

__all__ = ["nothing_is_left"]

DAY = 86400.0
SAMPLES = 8_000
PEAK = 1 << 34
# A run that does at once what others do after a minute.
AT_ONCE = """
from jobtop.store.samples import sink
sink.RETENTION_SECONDS = 0.0
from jobtop.__main__ import main
raise SystemExit(main())
"""


def old_job(root: Path, age_days: float, samples: int = SAMPLES) -> Job:
    """A job with a curve that does not compress, and one peak in it."""
    chance, end = random.Random(age_days), time.time() - age_days * DAY
    memory = [chance.randrange(1 << 33) for _ in range(samples)]
    memory[samples // 3] = PEAK
    rows = [sample(float(at), cpu_user=at * 0.5, mem_used=value) for at, value in enumerate(memory)]
    job = made_job(start_time=end - samples, end_time=end, duration_seconds=float(samples))
    return kept_sampled(root, job, rows, sealed=True)


def as_kept(root: Path, job: Job) -> tuple[Job, int, float]:
    """The record of a job, how many samples it has, a minute counted as one, and their peak."""
    with closing(open_to_read(StatePaths(root, HERE).store)) as database:
        series = SeriesStore(database)
        memory = series.series(job.seq or 0, ["mem.used"]).values["mem.used"]
        peak = max((value for value in memory if value is not None), default=0)
        return Jobs(database).find(job.id), series.count(job.seq or 0), peak


def moments(root: Path, reference: str) -> list[float]:
    with closing(open_to_read(StatePaths(root, HERE).store)) as database:
        try:
            job = Jobs(database).find(reference)
        except UnknownJob:  # not yet
            return []
        return [one.elapsed for one in SeriesStore(database).samples(job.seq or 0)]


def test_an_engine_continues_sampling_while_old_jobs_are_pruned(jobtop: Jobtop) -> None:
    old, young = old_job(jobtop.state, 10.0), old_job(jobtop.state, 1.0, 2000)
    with running(jobtop, "--interval", "0.1", "--", "sleep", "60") as run:
        run.until(lambda: len(moments(jobtop.state, "the-job")) > 5)
        pruned = jobtop("prune", "--json")
        assert (pruned.returncode, pruned.stderr) == (0, "")
        seen = len(moments(jobtop.state, "the-job"))
        wait_for(lambda: len(moments(jobtop.state, "the-job")) > seen)
        gaps = moments(jobtop.state, "the-job")
        assert jobtop("stop", "the-job").returncode == 0
    assert max(after - before for before, after in pairwise(gaps)) < 2.0
    shape = json.loads(pruned.stdout)
    assert shape["samples"] == SAMPLES
    assert shape["file_bytes_after"] < shape["file_bytes_before"] / 2
    found, minutes, peak = as_kept(jobtop.state, old)
    assert (found, peak) == (replace(old, kept=Kept.MINUTES), PEAK)
    assert abs(minutes - SAMPLES / 60) < 5
    assert as_kept(jobtop.state, young) == (young, 2000, PEAK)


def test_a_run_prunes_old_jobs_by_itself(jobtop: Jobtop) -> None:
    old = old_job(jobtop.state, 10.0, 600)
    command = [jobtop.python, "-c", AT_ONCE, "run", "--quiet", "--interval", "0.1", "--", "sleep", "60"]
    with subprocess.Popen(command, env=jobtop.env, cwd=jobtop.home) as process:
        wait_for(lambda: as_kept(jobtop.state, old)[0].kept is Kept.MINUTES or None, 20)
        process.terminate()
    assert as_kept(jobtop.state, old)[1:] == (10, PEAK)


@pytest.mark.parametrize("rounds", [3, pytest.param(60, marks=pytest.mark.soak)])
def test_a_prune_that_is_killed_loses_nothing_and_the_next_one_continues(jobtop: Jobtop, rounds: int) -> None:
    thinned, gone = old_job(jobtop.state, 10.0, rounds * 3000), old_job(jobtop.state, 100.0, 2000)
    young = old_job(jobtop.state, 1.0, 1000)
    chance = random.Random()
    for _ in range(rounds):
        process = subprocess.Popen(jobtop.command("prune"), env=jobtop.env, cwd=jobtop.home, stdout=subprocess.DEVNULL)
        try:
            process.wait(chance.uniform(0.2, 0.7))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert list(check(StatePaths(jobtop.state, HERE).store)) == []
        found, _, peak = as_kept(jobtop.state, thinned)
        assert (replace(found, kept=Kept.WHOLE), peak) == (thinned, PEAK)
        assert as_kept(jobtop.state, young) == (young, 1000, PEAK)
    assert jobtop("prune").returncode == 0
    found, minutes, peak = as_kept(jobtop.state, thinned)
    assert (found.kept, peak) == (Kept.MINUTES, PEAK)
    assert abs(minutes - rounds * 3000 / 60) < 5 * rounds
    assert as_kept(jobtop.state, gone) == (replace(gone, kept=Kept.RECORD), 0, 0)
