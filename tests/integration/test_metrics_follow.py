"""`jobtop metrics` beside a job that runs: every sample once, until it ends, or until the reader has enough."""

import json
import signal
import subprocess
import time

from jobtop.core.model import Job, Status
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.samples.series import SeriesStore
from records import HERE, running_job, this_process
from running import nothing_is_left, running
from sampled import steady
from support import Jobtop

__all__ = ["nothing_is_left"]


def elapsed(text: str) -> list[float]:
    return [json.loads(line)["elapsed"] for line in text.splitlines()]


def test_what_is_printed_live_is_what_is_printed_afterwards(jobtop: Jobtop) -> None:
    with running(jobtop, "--interval", "0.1s", "--", "sh", "-c", "echo up; sleep 2") as run:
        run.reads(b"up")
        live = jobtop("metrics", run.reference, "--json")
        assert run.end() == 0
    after = jobtop("metrics", run.reference, "--format", "jsonl")
    assert (live.returncode, live.stdout) == (0, after.stdout)
    moments = elapsed(live.stdout)
    assert len(moments) > 5
    assert moments == sorted(set(moments))
    assert moments[0] == 0.0
    assert moments[-1] > 0.8


def test_samples_that_are_sealed_meanwhile_come_once_and_in_order(jobtop: Jobtop) -> None:
    database = open_to_write(StatePaths(jobtop.state, HERE))
    jobs, store = Jobs(database), SeriesStore(database)
    job = jobs.insert(running_job(recorder=this_process(), start_time=time.time()))
    assert job.seq is not None
    samples = steady(600)
    store.append([(job.seq, sample) for sample in samples[:100]])
    follower = jobtop.start("metrics", job.id, "--format", "jsonl")
    assert follower.stdout
    printed = [follower.stdout.readline() for _ in range(101)]
    for begin in range(100, 600, 125):
        store.append([(job.seq, sample) for sample in samples[begin : begin + 60]])
        printed += [follower.stdout.readline() for _ in range(10)]
        store.seal_due(limit=1)
        store.append([(job.seq, sample) for sample in samples[begin + 60 : begin + 125]])
        store.trim()
    store.seal(job.seq)

    def end(row: Job) -> tuple[Job, tuple[()]]:
        return replace(row, status=Status.SUCCESS, duration_seconds=600.5, settled=True), ()

    jobs.change(job.id, end)
    database.close()
    printed += follower.stdout.readlines()
    assert follower.communicate(timeout=30)[1] == ""
    assert follower.returncode == 0
    assert elapsed("".join(printed)) == [0.0, *(sample.elapsed for sample in samples), 600.5]


def test_a_reader_that_has_enough_ends_it_quietly(jobtop: Jobtop) -> None:
    with running(jobtop, "--interval", "0.1s", "--", "sh", "-c", "echo up; exec sleep 60") as run:
        run.reads(b"up")
        follower = subprocess.Popen(
            jobtop.command("metrics", run.reference), env=jobtop.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert follower.stdout
        assert follower.stdout.readline().startswith(b"TIME ")
        follower.stdout.close()
        assert follower.wait(30) == -signal.SIGPIPE
        assert follower.stderr
        with follower.stderr as words:  # on a busy machine it may have come before the first sample
            assert [line for line in words if b"no samples" not in line] == []
        follower.stderr.close()
        interrupted = jobtop.start("metrics", run.reference, "--format", "csv")
        assert interrupted.stdout
        assert interrupted.stdout.readline().startswith("timestamp,elapsed,cpu.percent,")
        interrupted.stdout.readline()
        interrupted.send_signal(signal.SIGINT)
        assert (interrupted.communicate(timeout=30)[1].strip(), interrupted.returncode) == ("", 130)
        run.send(signal.SIGTERM)
        run.end()
