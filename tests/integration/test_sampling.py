"""Real jobs sampled while they run: what is kept of them, and what becomes of it when something goes wrong."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

import unprivileged
from jobtop.core.paths import StatePaths
from records import HERE
from running import PYTHON, show
from support import Jobtop, clean_environment, wait_for
from watching import DEADLINE, QUICK, Watched, begun, cpu_times, values

MIB = 1 << 20
# Every job ends when its standard input does. A family of two that shares 64 MiB, computes a little and then waits:
FAMILY = f"""
import os, sys, time
memory = bytearray(b"x") * {64 * MIB}
child = os.fork()
while time.process_time() < 0.2: pass
sys.stdin.read()
if child: os.waitpid(child, 0)
"""
HOSTILE = f"""
import ctypes, os, sys, time
ctypes.CDLL(None).prctl(15, b") R 1 (", 0, 0, 0)
memory = bytearray(b"x") * {64 * MIB}
while time.process_time() < 0.5: pass
sys.stdin.read()
"""
CHURN = """
import os, select
while not select.select([0], [], [], 0.005)[0]:
    os.waitpid(os.posix_spawnp("true", ["true"], os.environ), 0)
"""
DEAF = """
import os, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
read, write = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        os.close(write)
        while time.process_time() < 0.3: pass
        os.read(read, 1)
        os._exit(0)
os.read(0, 1)
os.close(write)
sys.stdin.read()
"""
DEAF_CPU_SECONDS = 0.9
# Notes which files of /proc the program has opened: `sitecustomize` is imported by every Python that starts.
AUDIT = """
import os, sys
if "AUDIT" in os.environ:
    def note(event, details):
        if event == "open" and "smaps" in str(details[0]):
            with open(os.environ["AUDIT"], "a") as file: file.write("smaps")
    sys.addaudithook(note)
"""


def until_idle(watched: Watched) -> None:
    """It has been seen at work, and then without."""

    def is_idle() -> bool:
        used = cpu_times(watched.stored())
        return len(used) >= 10 and used[-4] == used[-1] > 0

    wait_for(is_idle, DEADLINE)


def until_its_children_are_gone(watched: Watched) -> None:
    """They exit as soon as samples have seen all of their CPU time."""
    wait_for(lambda: (cpu_times(watched.stored()) or [0.0])[-1] >= DEAF_CPU_SECONDS, DEADLINE)
    assert watched.process.stdin is not None
    watched.process.stdin.write(b"x")
    watched.process.stdin.flush()
    wait_for(lambda: values(watched.stored(), "proc.count")[-3:] == [1, 1, 1], DEADLINE)


def until_reported(watched: Watched, reports: int = 2) -> None:
    wait_for(lambda: watched.stderr.count("\n") >= reports, DEADLINE)


def until_idle_and_often_reported(watched: Watched) -> None:
    """Longer than it takes to start all of these jobs at once: meanwhile samples come late on a small machine."""
    until_idle(watched)
    until_reported(watched, reports=7)


NEIGHBOURS = ("first", "second", "third")
all_neighbours = threading.Barrier(len(NEIGHBOURS), timeout=DEADLINE)


def until_the_machine_is_recorded(watched: Watched) -> None:
    """All three run until all were sampled five times, and none of them ends before the moments are noted."""
    wait_for(lambda: len(watched.stored()) >= 5 and watched.rows("host_head") >= 4, DEADLINE)
    all_neighbours.wait()
    with watched.store() as database, database.reading() as connection:
        rows = connection.execute("SELECT elapsed FROM host_head ORDER BY id").fetchall()
    watched.notes["moments"] = [row[0] for row in rows]
    all_neighbours.wait()


def hold_the_store(watched: Watched) -> None:
    """Another process writes for three seconds, and no other can meanwhile."""
    wait_for(watched.stored, DEADLINE)
    connection = sqlite3.connect(StatePaths(watched.jobtop.state, HERE).store, isolation_level=None, timeout=30)
    connection.execute("BEGIN IMMEDIATE")
    watched.notes["before"] = watched.stored()[-1].elapsed
    time.sleep(3.0)
    watched.notes["after"] = watched.stored()[-1].elapsed
    connection.close()
    wait_for(lambda: watched.stored()[-1].elapsed > watched.notes["after"] + 3, DEADLINE)


def count_what_is_open(watched: Watched) -> None:
    """Descriptors and threads of the run while processes of its job come and go."""
    wait_for(watched.stored, DEADLINE)

    def count() -> bool:
        folders = (f"/proc/{watched.process.pid}/{name}" for name in ("fd", "task"))
        watched.notes.setdefault("counts", []).append([len(os.listdir(folder)) for folder in folders])
        return len(watched.notes["counts"]) > 100

    wait_for(count, DEADLINE)


@dataclass(frozen=True)
class Plan:
    """A job to run, as long as `until` takes. Those of one `home` share their store."""

    options: tuple[str, ...]
    code: str
    until: Callable[[Watched], None]
    home: str = ""


PLANS = {
    "usual": Plan((*QUICK, "--report", "1s"), FAMILY, until_idle_and_often_reported),
    "thrifty": Plan((*QUICK, "--without", "pss,fds"), FAMILY, until_idle),
    "summary": Plan((*QUICK, "--granularity", "summary", "--report", "1s"), FAMILY, until_reported),
    "unwatched": Plan(("--no-monitor",), FAMILY, lambda _: time.sleep(0.5)),
    "hostile": Plan((*QUICK, "--without", "cgroup"), HOSTILE, until_idle),
    "deaf": Plan((*QUICK, "--without", "cgroup"), DEAF, until_its_children_are_gone),
    "churn": Plan((*QUICK, "--without", "host"), CHURN, count_what_is_open),
    "held": Plan(QUICK, FAMILY, hold_the_store),
    **{name: Plan((), FAMILY, until_the_machine_is_recorded, "neighbours") for name in NEIGHBOURS},
}


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory, unprivileged_installation: unprivileged.Installation
) -> dict[str, Watched]:
    """All of them at the same time: what is to be seen of them takes seconds."""
    hooks = tmp_path_factory.mktemp("hooks")
    (hooks / "sitecustomize.py").write_text(AUDIT)
    homes = {plan.home or name: tmp_path_factory.mktemp("home") for name, plan in PLANS.items()}
    with ThreadPoolExecutor(len(PLANS) + 2) as pool:
        futures = {name: pool.submit(carry_out, name, homes[plan.home or name], hooks) for name, plan in PLANS.items()}
        if os.geteuid() == 0:
            futures["full"] = pool.submit(on_a_disk_that_fills, tmp_path_factory.mktemp("home"))
        futures["read-only"] = pool.submit(where_nothing_may_be_written, unprivileged_installation.new_home())
        return {name: future.result() for name, future in futures.items()}


def carry_out(name: str, home: Path, hooks: Path) -> Watched:
    plan = PLANS[name]
    environment = clean_environment(home) | {"PYTHONPATH": str(hooks), "AUDIT": str(home / "audit")}
    jobtop = Jobtop(sys.executable, home, environment)
    with begun(jobtop, name, *plan.options, command=(*PYTHON, plan.code)) as watched:
        plan.until(watched)
    assert watched.process.returncode == 0, watched.stderr
    return watched


@contextmanager
def small_disk(home: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """A disk of two MiB in a mount namespace of its own: where it is seen from here, and how to enter it."""
    mount = home / "disk"
    mount.mkdir()
    script = 'mount -t tmpfs -o size=2m none "$0" && echo mounted && exec sleep 600'
    with subprocess.Popen(["unshare", "-m", "sh", "-c", script, str(mount)], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"mounted\n"
            yield Path(f"/proc/{holder.pid}/root{mount}"), ("nsenter", "-t", str(holder.pid), "-m", "--")
        finally:
            holder.kill()


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue


ENDS_WITH_3 = ("sh", "-c", "read line; exit 3")


def on_a_disk_that_fills(home: Path) -> Watched:
    with small_disk(home) as (disk, enter):
        environment = clean_environment(home) | {"JOBTOP_HOME": str(home / "disk/state")}
        jobtop = Jobtop(sys.executable, home, environment, enter)

        def kept() -> int:
            return jobtop("metrics", "full", "--no-follow", "--format", "jsonl").stdout.count("\n")

        with begun(jobtop, "full", *QUICK, "--report", "1s", command=ENDS_WITH_3) as run:
            wait_for(lambda: kept() > 2, DEADLINE)
            fill(disk)
            reported = run.stderr.count("\n")
            wait_for(lambda: run.stderr.count("\n") >= reported + 2, DEADLINE)
        (disk / "filler").unlink()
        run.notes["kept"] = kept()
        return run


def where_nothing_may_be_written(jobtop: Jobtop) -> Watched:
    assert jobtop("run", "--", "true").returncode == 0
    store = StatePaths(jobtop.state, HERE).store
    store.chmod(0o400)
    with begun(jobtop, "read-only", *QUICK, "--report", "1s", command=ENDS_WITH_3) as run:
        until_reported(run, reports=6)  # on a loaded machine a second has few samples
    store.chmod(0o600)
    return run


def test_the_first_sample_is_at_the_start_and_the_last_at_the_end(runs: dict[str, Watched]) -> None:
    usual = runs["usual"]
    samples = usual.samples()
    moments = [one.elapsed for one in samples]
    assert moments[0] == 0.0
    end = max(usual.record["duration_seconds"], usual.stored()[-1].elapsed)  # one may come before its end is told
    assert moments[-1] == pytest.approx(end, abs=0.002)
    assert moments == sorted(moments)
    assert len(samples) == usual.usage["samples"]
    assert cpu_times(samples)[-1] == pytest.approx(usual.usage["cpu_total_seconds"], abs=0.001)


def test_an_interval_that_was_asked_for_is_kept(runs: dict[str, Watched]) -> None:
    usual = runs["usual"]
    steps = sorted(after.elapsed - before.elapsed for before, after in pairwise(usual.stored()))
    assert usual.record["monitor"]["interval_seconds"] == 0.1
    assert "sampling_slowed" not in usual.events()
    assert len(steps) > 20
    assert steps[len(steps) // 2] == pytest.approx(0.1, abs=0.05)


def test_the_record_has_minima_means_and_peaks(runs: dict[str, Watched]) -> None:
    usage, metrics = runs["usual"].usage, runs["usual"].record["metrics"]
    for key in ("cpu.percent", "mem.used", "mem.rss", "proc.count", "io.read_chars", "proc.fds"):
        assert metrics[key]["min"] <= metrics[key]["mean"] <= metrics[key]["peak"], key
    assert usage["cpu_percent_min"] == 0
    assert 0 < metrics["cpu.percent"]["mean"] < usage["cpu_percent_peak"]
    assert usage["memory_min_bytes"] <= usage["memory_mean_bytes"] <= usage["memory_peak_bytes"]
    assert usage["processes_peak"] == metrics["proc.count"]["peak"] == 2


def test_what_a_family_shares_counts_once(runs: dict[str, Watched]) -> None:
    samples = runs["usual"].samples()
    assert max(values(samples, "mem.rss")) > 128 * MIB
    assert 64 * MIB < max(values(samples, "mem.used")) < 90 * MIB


def test_all_samples_of_a_job_that_has_ended_are_packed(runs: dict[str, Watched]) -> None:
    usual = runs["usual"]
    with usual.store() as database, database.reading() as connection:
        (packed,) = connection.execute("SELECT sum(samples) FROM blocks").fetchone()
    assert packed == len(usual.stored()) == usual.usage["samples"] - 2


def test_snapshots_are_taken_at_the_start_and_at_the_end(runs: dict[str, Watched]) -> None:
    churn = runs["churn"]
    snapshots, taken = churn.snapshots(), churn.stored()
    peopled = [one.elapsed for one in taken if values([one], "proc.count")]  # the last sample may be after the end
    assert snapshots[0].elapsed == pytest.approx(taken[0].elapsed, abs=0.001)
    assert peopled[-1] - 0.001 <= snapshots[-1].elapsed <= taken[-1].elapsed + 0.001
    assert len(snapshots) >= 2
    members = [member for snapshot in snapshots for member in snapshot.members]
    names = {member.command.split()[0].strip("[]") for member in members if member.command}  # the dead are in brackets
    assert names <= {sys.executable, "true"}
    assert any(member.command.startswith(f"{sys.executable} -I -S -c") for member in members)


def test_reports_go_to_standard_error_and_no_other_word(runs: dict[str, Watched]) -> None:
    for name in PLANS:
        lines = runs[name].stderr.splitlines()
        assert (len(lines) >= 2) is (name in ("usual", "summary"))
        assert all(line.startswith("[Resources] ") and "CPU" in line and "memory" in line for line in lines)
    assert "2 processes, 2 threads" in runs["usual"].stderr


def test_what_is_not_wanted_is_neither_read_nor_kept(runs: dict[str, Watched]) -> None:
    thrifty, usual = runs["thrifty"], runs["usual"]
    assert (usual.jobtop.home / "audit").exists(), "else this test could not fail"
    assert not (thrifty.jobtop.home / "audit").exists()
    assert not values(thrifty.samples(), "proc.fds")
    assert "proc.fds" not in thrifty.record["metrics"]
    family = [one for one in thrifty.samples() if values([one], "proc.count") == [2]]
    assert max(values(family, "mem.rss")) > 128 * MIB
    assert not values(family, "mem.pss")


def test_a_summary_has_the_sums_and_no_samples(runs: dict[str, Watched]) -> None:
    summary = runs["summary"]
    metrics = summary.record["metrics"]
    assert [summary.rows(table) for table in ("head", "blocks", "snapshots")] == [0, 0, 0]
    assert summary.usage["samples"] > 3
    assert summary.usage["memory_mean_bytes"] < 90 * MIB
    assert metrics["cpu.percent"]["min"] < metrics["cpu.percent"]["mean"] < metrics["cpu.percent"]["peak"]


def test_a_job_that_is_not_watched_has_no_samples_and_its_totals(runs: dict[str, Watched]) -> None:
    unwatched = runs["unwatched"]
    absent = ("samples", "cpu_percent_min", "cpu_percent_peak", "memory_mean_bytes", "memory_min_bytes")
    assert [unwatched.usage[key] for key in absent] == [None] * len(absent)
    assert (unwatched.record["metrics"], unwatched.record["monitor"]["interval_seconds"]) == ({}, None)
    assert unwatched.usage["cpu_total_seconds"] >= 0.4
    assert unwatched.rows("head") == 0


def test_a_process_that_calls_itself_like_a_line_of_stat_has_right_numbers(runs: dict[str, Watched]) -> None:
    hostile = runs["hostile"]
    samples = hostile.stored()
    assert max(values(samples, "proc.count")) == max(values(samples, "proc.threads")) == 1
    assert 64 * MIB < max(values(samples, "mem.used")) < 90 * MIB
    assert cpu_times(samples)[-1] == pytest.approx(hostile.usage["cpu_total_seconds"], rel=0.01, abs=0.02)
    assert [member.parent for member in hostile.snapshots()[-1].members] == [getattr(hostile.job.shim, "pid", None)]


def test_children_that_are_not_waited_for_make_nothing_fall(runs: dict[str, Watched]) -> None:
    deaf = runs["deaf"]
    used = cpu_times(deaf.samples())
    assert any(why.startswith("cpu:") for why in deaf.record["incomplete"])
    assert used == sorted(used)
    assert used[-1] >= DEAF_CPU_SECONDS, "what was seen stays, though the kernel forgets it"
    lowest = {key: row["min"] for key, row in deaf.record["metrics"].items()}
    assert min(lowest.values()) >= 0, lowest


def test_an_engine_has_few_threads_and_no_more_open_than_its_job_needs(runs: dict[str, Watched]) -> None:
    descriptors, threads = zip(*runs["churn"].notes["counts"], strict=True)
    # Its own, the sampler, the writer, and one for each slow source: open files and the network.
    assert set(threads) == {5}
    assert max(descriptors[-10:]) <= min(descriptors) + 8, "two of each of three processes, and what it reads just now"


def test_a_store_held_by_another_process_loses_no_sample_and_delays_nothing(runs: dict[str, Watched]) -> None:
    held = runs["held"]
    assert held.notes["before"] == held.notes["after"], "else it was not held"
    begin = held.notes["before"]
    meanwhile = [one for one in held.stored() if begin < one.elapsed < begin + 3]
    assert len(meanwhile) >= 5, "30 on a machine with nothing else to do"
    assert len(held.samples()) == held.usage["samples"]
    # On a loaded machine the first sample may come late, before the store is held.
    assert [gap for gap in held.record["incomplete"] if "from 0s" not in gap] == []


def test_of_three_neighbours_one_records_the_machine(runs: dict[str, Watched]) -> None:
    first = runs["first"]
    with first.store() as database, database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM hosts").fetchone()[0] == 1
        assert connection.execute("SELECT count(*) FROM leases").fetchone()[0] == 0, "it is released at the end"
    for name in NEIGHBOURS:
        moments = runs[name].notes["moments"]
        assert len(moments) < moments[-1] - moments[0] + 2, f"one a second, of which the first may be late: {moments}"
        assert runs[name].usage["samples"] > 4


def test_a_disk_that_fills_while_a_job_is_sampled_harms_nothing_but_its_samples(
    root: None, runs: dict[str, Watched]
) -> None:
    full = runs["full"]
    check_unharmed(full, "full")
    assert 2 < full.notes["kept"] < full.usage["samples"]


def test_a_store_that_may_not_be_written_harms_nothing_but_the_samples(runs: dict[str, Watched]) -> None:
    refused = runs["read-only"]
    check_unharmed(refused, "read-only")
    shown = show(refused.jobtop, "read-only")
    assert (shown["exit_code"], shown["resource_usage"]["samples"]) == (3, refused.usage["samples"])


def check_unharmed(run: Watched, why: str) -> None:
    """Its exit code, its sums, one word of warning; and the record says what is not kept."""
    said = [line for line in run.stderr.splitlines() if not line.startswith("[Resources] ")]
    assert (run.process.returncode, run.record["exit_code"]) == (3, 3)
    assert [line.partition(" ")[0] for line in said] == ["jobtop:"], said
    assert [text for text in run.record["incomplete"] if text.startswith("samples: ") and why in text]
    assert run.usage["samples"] > 10
    assert run.record["metrics"]["cpu.percent"]["min"] == 0
