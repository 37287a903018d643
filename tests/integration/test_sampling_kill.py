"""`kill -9` of a run at any moment: its samples are whole and once, and an agent goes on with them."""

import os
import random
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import pairwise

import pytest

from agents import agents_of
from jobtop.core.clock import BOOTTIME
from jobtop.core.model import Sample
from running import PYTHON, children, descendants, ended, is_alive, nothing_is_left
from support import Jobtop, wait_for
from terminal import terminal
from watching import DEADLINE, QUICK, Watched, begun, cpu_times, values

__all__ = ["nothing_is_left"]

MIB = 1 << 20
# Says that it runs, and goes on until it is told to end.
STEADY = """
import os, sys, time
memory = bytearray(b"x") * (32 << 20)
open(sys.argv[1] + ".began", "w").close()
until = time.monotonic() + 60
while not os.path.exists(sys.argv[1] + ".end") and time.monotonic() < until:
    spun = time.process_time() + 0.002
    while time.process_time() < spun: pass
    time.sleep(0.01)
with open(sys.argv[1] + ".cpu", "w") as file: file.write(str(time.process_time()))
os._exit(0)
"""


@pytest.mark.parametrize("rounds", [1, pytest.param(40, marks=pytest.mark.soak)])
def test_of_runs_killed_at_any_moment_two_seconds_of_samples_are_lost_at_most(jobtop: Jobtop, rounds: int) -> None:
    """Five at once in one store: one agent goes on with all of them, and leaves."""
    for number in range(rounds):
        names = [f"{number}-{place}" for place in range(5)]
        with ThreadPoolExecutor(len(names)) as pool:
            killed = dict(zip(names, pool.map(lambda name: kill_in_time(jobtop, name), names), strict=True))
        for name, last_moment in killed.items():
            check_killed(jobtop, name, last_moment)
        wait_for(lambda: not agents_of(jobtop.state), DEADLINE)


@pytest.mark.parametrize("rounds", [1, pytest.param(50, marks=pytest.mark.soak)])
def test_an_agent_samples_what_a_killed_run_sampled_within_two_seconds(jobtop: Jobtop, rounds: int) -> None:
    for number in range(rounds):
        check_succeeded(jobtop, f"{number}")


def test_so_it_does_for_a_user_without_privileges(unprivileged: Jobtop) -> None:
    check_succeeded(unprivileged, "other")
    wait_for(lambda: not agents_of(unprivileged.state), DEADLINE)


def check_succeeded(jobtop: Jobtop, name: str) -> None:
    """No agent runs before. One comes, is no part of the job, and the series and the record are whole."""
    began = read_log(jobtop).count(" serves ")
    age = kill_in_time(jobtop, name)
    run = Watched(jobtop, None, jobtop.home / f"{name}.err")  # type: ignore[arg-type]
    after = wait_for(lambda: [one.elapsed for one in run.stored() if one.elapsed > age], DEADLINE)
    assert after[0] - age <= 2.0
    (agent,) = agents_of(jobtop.state)
    assert agent not in descendants(shim_of(run))
    (jobtop.home / f"{name}.end").touch()
    record = ended(jobtop, name)
    assert (record["status"], record["exit_code"]) == ("success", 0)
    wait_for(lambda: not agents_of(jobtop.state), DEADLINE)
    samples = run.stored()
    check_whole(samples)
    spent = float((jobtop.home / f"{name}.cpu").read_text())
    assert record["resource_usage"]["cpu_total_seconds"] == pytest.approx(spent, rel=0.02, abs=0.01)
    moments = [0.0, *(one.elapsed for one in samples), record["duration_seconds"]]
    gap = max(later - earlier for earlier, later in pairwise(moments))
    longest = record["monitor"]["longest_interval_seconds"]
    assert longest == pytest.approx(gap, abs=0.002) or gap < 1.5 * 0.1
    assert bool([entry for entry in record["incomplete"] if entry.startswith("samples:")]) is (gap > 2.0)
    assert read_log(jobtop).count(" serves ") == began + 1


@pytest.mark.parametrize("ui", ["never", "always"])
def test_a_job_is_sampled_on_after_run_and_its_terminal_were_killed(jobtop: Jobtop, ui: str) -> None:
    """With and without the console."""
    folder, script = jobtop.home / "job", jobtop.home / "job.py"
    script.write_text(STEADY)
    run = Watched(jobtop, None, jobtop.home / "it.err")  # type: ignore[arg-type]
    with terminal(jobtop) as shell:
        shell.enter(f"JOBTOP_RUN_UI={ui} $J run --interval 0.1s --external-id it -- {jobtop.python} {script} {folder}")
        wait_for(run.stored, DEADLINE)
        for pid in children(shell.shell()):
            os.kill(pid, signal.SIGKILL)
        age = time.clock_gettime(BOOTTIME) - (run.job.start_boottime or 0.0)
        shell.close_window()
    after = wait_for(lambda: [one.elapsed for one in run.stored() if one.elapsed > age], DEADLINE)
    assert after[0] - age <= 2.0
    folder.with_suffix(".end").touch()
    assert ended(jobtop, "it")["exit_code"] == 0


def test_runs_killed_at_once_are_succeeded_by_one_agent(jobtop: Jobtop) -> None:
    names = [f"one-{place}" for place in range(4)]
    with ExitStack() as stack:
        runs = [stack.enter_context(started(jobtop, name)) for name in names]
        for run in runs:
            run.process.kill()
    seen: set[int] = set()

    def are_adopted() -> bool:
        seen.update(agents_of(jobtop.state))
        recorders = {run.job.recorder for run in runs}
        return {recorder.pid for recorder in recorders if recorder is not None} == seen

    wait_for(are_adopted, DEADLINE)
    assert len(seen) == 1
    for name in names:
        (jobtop.home / f"{name}.end").touch()
        assert ended(jobtop, name)["exit_code"] == 0
    wait_for(lambda: not agents_of(jobtop.state), DEADLINE)


def test_no_agent_comes_for_a_job_that_is_not_sampled(jobtop: Jobtop) -> None:
    with started(jobtop, "quiet", "--no-monitor") as run:
        shim = shim_of(run)
        run.process.kill()
    (jobtop.home / "quiet.end").touch()
    wait_for(lambda: not is_alive(shim), DEADLINE)
    assert (agents_of(jobtop.state), read_log(jobtop)) == ([], "")
    assert ended(jobtop, "quiet")["status"] == "success"


def test_where_no_agent_can_be_started_the_record_says_so_and_names_the_gap(jobtop: Jobtop) -> None:
    with started(jobtop, "alone") as run:
        settings = jobtop.home / ".config" / "jobtop" / "config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text("[agent]\nidle = 'never'\n")
        wait_for(run.stored, DEADLINE)
        run.process.kill()
    killed_at = time.monotonic()
    wait_for(lambda: time.monotonic() - killed_at > 4.0)
    settings.unlink()
    (jobtop.home / "alone.end").touch()
    record = ended(jobtop, "alone")
    assert record["exit_code"] == 0
    assert [entry for entry in record["incomplete"] if "agent" in entry]
    assert [entry for entry in record["incomplete"] if "none for" in entry]
    assert record["monitor"]["longest_interval_seconds"] > 2.0


def test_a_job_in_a_job_gets_an_agent_that_is_part_of_neither(jobtop: Jobtop) -> None:
    inner = jobtop.command("run", *QUICK, "--external-id", "inner", "--", *PYTHON, STEADY, str(jobtop.home / "inner"))
    with begun(jobtop, "outer", *QUICK, command=("sh", "-c", '"$@"; sleep 60', "sh", *inner)) as outer:
        wait_for((jobtop.home / "inner.began").exists, DEADLINE)
        run = Watched(jobtop, None, jobtop.home / "inner.err")  # type: ignore[arg-type]
        recorder = wait_for(lambda: run.job.recorder, DEADLINE)
        os.kill(recorder.pid, signal.SIGKILL)
        agent = wait_for(lambda: next(iter(agents_of(jobtop.state)), None), DEADLINE)
        assert agent not in descendants(shim_of(outer))
        wait_for(lambda: run.job.recorder not in (None, recorder), DEADLINE)
        (jobtop.home / "inner.end").touch()
        assert ended(jobtop, "inner")["exit_code"] == 0
        outer.process.terminate()


@contextmanager
def started(jobtop: Jobtop, name: str, *options: str) -> Iterator[Watched]:
    """A run with a running job."""
    folder = jobtop.home / name
    with begun(jobtop, name, *QUICK, *options, command=(jobtop.python, *PYTHON[1:], STEADY, str(folder))) as run:
        wait_for(folder.with_suffix(".began").exists, DEADLINE)
        yield run


def kill_in_time(jobtop: Jobtop, name: str) -> float:
    """Kill a run after a random part of its life; how old its job was then."""
    with started(jobtop, name) as run:
        time.sleep(random.uniform(0, 2.5))
        run.process.kill()
        moment = time.clock_gettime(BOOTTIME)
    assert run.process.returncode == -signal.SIGKILL
    start = wait_for(lambda: run.job.start_boottime, DEADLINE)
    return moment - start


def shim_of(run: Watched) -> int:
    shim = run.job.shim
    assert shim is not None
    return shim.pid


def read_log(jobtop: Jobtop) -> str:
    log = jobtop.state / "jobtop.log"
    return log.read_text() if log.exists() else ""


def check_killed(jobtop: Jobtop, name: str, age_seconds: float) -> None:
    """Every sample whole and once, of every two seconds up to the end; the record has them all."""
    run = Watched(jobtop, None, jobtop.home / f"{name}.err")  # type: ignore[arg-type]
    wait_for(lambda: [one for one in run.stored() if one.elapsed > age_seconds], DEADLINE)
    (jobtop.home / f"{name}.end").touch()
    record = ended(jobtop, name)
    assert (record["status"], record["exit_code"]) == ("success", 0)
    with run.store() as database, database.reading() as connection:
        assert database.notice is None
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    samples = run.stored()
    check_whole(samples)
    before = [one.elapsed for one in samples if one.elapsed <= age_seconds]
    assert age_seconds - (before[-1] if before else 0.0) <= 2.0
    usage = record["resource_usage"]
    assert usage["samples"] == len(samples) + 2
    used = values(samples, "mem.used")
    assert min(used) <= usage["memory_mean_bytes"] <= usage["memory_peak_bytes"] < 64 * MIB
    assert usage["memory_peak_bytes"] > 32 * MIB, "the peak is the kernel's: it knows what no sample saw"
    assert 0 <= usage["cpu_percent_min"] <= record["metrics"]["cpu.percent"]["mean"] <= usage["cpu_percent_peak"]


def check_whole(samples: list[Sample]) -> None:
    """One series: every sample complete, in order and once; the last may be of a job that has just ended."""
    moments = [one.elapsed for one in samples]
    assert moments == sorted(set(moments))
    assert cpu_times(samples) == sorted(cpu_times(samples))
    assert len(cpu_times(samples)) == len(samples)
    samples = samples if values(samples[-1:], "proc.count") else samples[:-1]
    for key in ("mem.rss", "mem.used", "proc.count"):
        assert len(values(samples, key)) == len(samples), key
