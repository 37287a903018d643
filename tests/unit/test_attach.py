"""Jobs that jobtop did not start: which are refused, what their roots count for, and what is known of their ends."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobtop.core.config import load
from jobtop.core.errors import UsageError
from jobtop.core.measure.attach import meet, refusal
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.measure.observation import Observation, seen_in
from jobtop.core.model import Job, Status, StopRequest, Usage
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.core.run import attached
from jobtop.lifecycle.attach import attach, refuse_known
from jobtop.lifecycle.reconcile import reconcile
from jobtop.lifecycle.start import request_again
from jobtop.store.jobs import Jobs
from jobtop.store.samples.series import SeriesStore
from processes import MIB, FakeProc, fold
from records import running_job, this_process
from sampled import steady

ROOT, START = 50, 100
STATUS = "Name:\twork\nState:\tS (sleeping)\nTgid:\t50\n"
JOB = running_job(
    kind="attached", usage=Usage(cpus_allowed=2.0, memory_peak_bytes=7 * MIB), sources={"memory_peak": "vmhwm"}
)


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    proc = FakeProc(tmp_path / "proc")
    proc.put(1, 0)
    proc.put(ROOT, 1, start=START, cpu=3.0, user=3.0, children=(2.0, 0.0))
    proc.put(51, ROOT, cpu=1.0, user=1.0)
    return proc


@pytest.fixture
def child() -> Iterator[int]:
    """A process that was not started by jobtop."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        process.kill()


def fields(state: str = "S", flags: int = 0) -> list[str]:
    """What `stat` says from the state on."""
    return [state, "1", *["0"] * 4, str(flags), *["0"] * 40]


def test_a_root_counts_with_what_it_and_those_it_waited_for_used_since_it_began(fake: FakeProc) -> None:
    table = fake.table()
    tree = table.add(ROOT, True, START)
    table.sweep()
    assert list(tree.members) == [ROOT, 51]
    values = fold(tree)
    assert values["cpu.user"] + values["cpu.system"] == pytest.approx(6.0)
    assert (values["proc.count"], values["mem.rss"]) == (2, 2 * MIB)


def test_what_a_root_used_is_still_known_when_it_is_gone(fake: FakeProc) -> None:
    table = fake.table()
    tree = table.add(ROOT, True, START)
    table.sweep()
    fake.end(ROOT)
    table.sweep()
    assert tree.root_is_gone
    values = fold(tree)
    assert values["cpu.user"] + values["cpu.system"] == pytest.approx(6.0)
    table.remove(tree)
    assert table.kept_descriptors == 0


def test_another_process_with_the_number_of_a_root_is_not_watched(fake: FakeProc) -> None:
    table = fake.table(most_descriptors=0)
    assert table.add(ROOT, True, START - 1).root_is_gone
    tree = table.add(ROOT, True, START)
    table.sweep()
    fake.put(ROOT, 1, start=START + 1, cpu=0.5, rss=100 * MIB)
    table.sweep()
    table.sweep()
    assert tree.root_is_gone
    assert ROOT not in tree.members
    assert fold(tree)["mem.rss"] < 10 * MIB


def test_the_highest_mark_of_a_member_is_kept_where_no_shim_keeps_it(fake: FakeProc) -> None:
    table = fake.table()
    tree = table.add(ROOT, True, START)
    (fake.root / str(ROOT) / "status").write_text("VmHWM:\t  300 kB\nThreads:\t1\n")
    table.sweep()
    table.read_details(1.0)
    assert tree.high_bytes == 300 * 1024


@pytest.mark.parametrize(
    ("pid", "stat", "status", "why"),
    [
        (50, [], "", "there is no process 50"),
        (50, fields("Z"), STATUS, "there is no process 50"),
        (51, fields(), STATUS, "51 is a thread of process 50: jobtop attach 50"),
        (50, fields(flags=0x00208040), STATUS, "a kernel thread"),
        (50, fields(), STATUS.replace("work", "jobtop-shim"), "a part of jobtop"),
        (1, fields(), STATUS.replace("50", "1"), "the first process"),
    ],
)
def test_what_cannot_be_watched_is_refused(pid: int, stat: list[str], status: str, why: str) -> None:
    assert why in str(refusal(pid, stat, status))


def test_an_ordinary_process_is_met_as_it_is(child: int) -> None:
    assert refusal(50, fields(flags=0x00400000), STATUS) is None
    found = meet(child)
    assert (found.identity, found.command, found.cwd) == (identify(child), ("sleep", "600"), os.getcwd())
    assert found.start_time == pytest.approx(time.time(), abs=5.0)
    with pytest.raises(UsageError, match="a part of jobtop"):
        meet(os.getpid())


def test_a_process_of_a_job_that_runs_is_refused_with_the_job(jobs: Jobs, paths: StatePaths, child: int) -> None:
    job = jobs.insert(running_job(shim=this_process(), name="outer"))
    with pytest.raises(UsageError, match=rf"process {child} already belongs to job {job.id[:8]} \(outer\)"):
        refuse_known(jobs, paths, child)
    jobs.change(job.id, lambda row: (replace(row, shim=replace(this_process(), start=1)), ()))
    refuse_known(jobs, paths, child)


def test_what_watches_a_job_and_what_has_a_watched_one_below_it_are_refused(
    jobs: Jobs, paths: StatePaths, child: int
) -> None:
    job = jobs.insert(running_job(recorder=identify(child)))
    with pytest.raises(UsageError, match=f"the jobtop that monitors job {job.id[:8]}"):
        refuse_known(jobs, paths, child)
    jobs.change(job.id, lambda row: (replace(row, recorder=None, kind="attached", shim=identify(child)), ()))
    with pytest.raises(UsageError, match=rf"job {job.id[:8]} \(train\) is below process {os.getpid()}"):
        refuse_known(jobs, paths, os.getpid())


def test_an_attached_job_has_the_identity_of_its_process_and_is_found_gone(
    jobs: Jobs, paths: StatePaths, child: int
) -> None:
    job = attach(jobs, paths, load((), {}, paths.root), child, {"name": "it", "tags": {"a": "b"}})
    assert (job.shim, job.pid, job.kind) == (identify(child), child, "attached")
    assert (job.name, job.tool, job.tags, job.status) == ("it", "sleep", {"a": "b"}, Status.RUNNING)
    reconcile(jobs, paths)
    assert jobs.find(job.id).status is Status.RUNNING
    assert job.seq is not None
    SeriesStore(jobs.database).append([(job.seq, one) for one in steady(9)])
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    reconcile(jobs, paths)
    done = jobs.find(job.id)
    assert (done.status, done.exit_code, done.settled) == (Status.UNKNOWN, None, True)
    assert done.reason == "it ended; its exit status is not known, since jobtop did not start it"
    assert done.end_time == pytest.approx((job.start_time or 0) + 9.0)
    assert done.usage.cpu_total_seconds == pytest.approx(4.5)
    with pytest.raises(UsageError, match="jobtop did not start it"):
        request_again(paths, done)


def test_totals_are_those_of_the_last_sample_and_the_record_says_what_is_missing() -> None:
    done = concluded(seen_in(steady(9)), elapsed=9.75)
    usage = done.usage
    assert [usage.cpu_total_seconds, usage.cpu_percent_mean, usage.cpu_efficiency] == pytest.approx([4.5, 50, 0.25])
    assert done.sources["cpu"] == "sampled"
    assert done.incomplete == ("all: what it did in its last 750ms was not seen",)
    assert (done.duration_seconds, done.end_time) == (9.75, (JOB.start_time or 0) + 9.75)


def test_an_end_that_was_not_seen_is_when_it_was_seen_last() -> None:
    done = concluded(seen_in(steady(9)), elapsed=None)
    assert done.duration_seconds == 9.0
    assert done.incomplete == ("all: what it did after its last sample was not seen",)
    never = concluded(None, elapsed=None)
    assert never.usage.cpu_total_seconds is None
    assert never.incomplete == ("all: it ended before it was sampled",)


def test_the_memory_peak_is_the_highest_of_marks_and_samples() -> None:
    sampled = seen_in(steady(9))
    assert concluded(sampled).usage.memory_peak_bytes == 9 * MIB
    high = concluded(replace(sampled, high_bytes=30 * MIB))
    assert (high.usage.memory_peak_bytes, high.sources["memory_peak"]) == (30 * MIB, "vmhwm")


def test_a_stopped_one_is_cancelled_by_whom() -> None:
    asked = replace(JOB, stop_request=StopRequest("jobtop stop", 5.0))
    done = attached.ended(asked, 2.0)
    assert done.status is Status.CANCELLED
    assert done.reason == "stopped by jobtop stop; its exit status is not known, since jobtop did not start it"


def concluded(seen: Observation | None, elapsed: float | None = 10.0) -> Job:
    done = attached.ended(JOB, elapsed)
    return done if seen is None else seen.of(attached.with_sampled_totals(done, seen))
