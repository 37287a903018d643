"""A store that cannot be written: the job runs, its exit code passes through, one line names the problem."""

import json
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from jobtop.core.model import Job, Kept
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.store.database import Database, open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.samples.series import SeriesStore
from jobtop.store.schema import VERSION
from jobtop.store.upkeep.checking import check
from jobtop.store.upkeep.compaction import vacuum
from records import HERE, assert_one_line, call, damage_pages, made_job
from running import nothing_is_left, processes_of
from sampled import kept_sampled, sample
from support import Jobtop, long_test, wait_for

__all__ = ["nothing_is_left"]
pytestmark = pytest.mark.usefixtures("home")

LOAD = ("sh", "-c", "echo out; echo err >&2; exit 3")


def store_of(jobtop: Jobtop) -> Path:
    return jobtop.state / f"{HERE}.db"


def run_it(jobtop: Jobtop, *options: str) -> list[str]:
    """Run the load, see its output and exit code come through, and return what jobtop said besides."""
    done = jobtop("run", "--no-ui", "--quiet", *options, "--", *LOAD)
    assert (done.returncode, done.stdout) == (3, "out\n"), done.stderr
    lines = done.stderr.splitlines()
    lines.remove("err")
    assert all(line.startswith("jobtop: ") for line in lines), lines
    return lines


def history(jobtop: Jobtop) -> list[dict[str, Any]]:
    """The jobs the next verb knows, the oldest first; it has to have nothing to complain of."""
    is_here = jobtop.state == Path(os.environ["JOBTOP_HOME"]) and not jobtop.prefix
    answer = (call if is_here else jobtop)("history", "--json", "--all", "--reverse")
    assert (answer.returncode, answer.stderr) == (0, "")
    listed: list[dict[str, Any]] = json.loads(answer.stdout)
    return listed


def names(jobtop: Jobtop) -> list[str]:
    return [job["name"] for job in history(jobtop)]


@pytest.fixture
def used(jobtop: Jobtop) -> Jobtop:
    """A jobtop that has recorded a job."""
    assert run_it(jobtop, "--name", "first") == []
    return jobtop


def said_at_once(jobtop: Jobtop, count: int) -> list[tuple[int, bytes]]:
    """The exit codes and words of many runs of `true` that are started together."""
    command = jobtop.command("run", "--no-ui", "--quiet", "--", "true")
    runs = [
        subprocess.Popen(
            command,
            env=jobtop.env,
            cwd=jobtop.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for _ in range(count)
    ]
    said = [run.communicate(timeout=100)[0] for run in runs]
    return [(run.returncode, words) for run, words in zip(runs, said, strict=True)]


@pytest.mark.parametrize("counts", [(24, 12), pytest.param((64, 32), marks=long_test)], ids=str)
def test_many_runs_at_once_are_all_recorded(jobtop: Jobtop, counts: tuple[int, ...]) -> None:
    expected = 0
    for count in counts:
        said = said_at_once(jobtop, count)
        assert said == [(0, b"")] * count
        expected += count
        jobs = history(jobtop)
        assert len({job["id"] for job in jobs}) == len(jobs) == expected
        assert {job["status"] for job in jobs} == {"success"}
        assert all(job["resource_usage"]["cpu_total_seconds"] is not None for job in jobs)


def test_a_file_that_is_no_database_is_set_aside_and_a_new_history_begun(used: Jobtop) -> None:
    store_of(used).write_bytes(b"garbage\n" * 1000)
    (line,) = run_it(used, "--name", "second")
    (aside,) = used.state.glob("*.damaged-*")
    assert aside.name in line
    assert aside.read_bytes() == b"garbage\n" * 1000
    assert names(used) == ["second"]


def test_a_store_with_damaged_pages_is_set_aside_and_a_new_history_begun(used: Jobtop) -> None:
    store = store_of(used)
    damaged = damage_pages(store)
    (line,) = run_it(used, "--name", "second")
    (aside,) = used.state.glob("*.damaged-*")
    assert aside.name in line
    assert aside.read_bytes() == damaged
    assert names(used) == ["second"]


def test_a_store_that_history_finds_damaged_is_set_aside_and_named_once(used: Jobtop) -> None:
    damaged = damage_pages(store_of(used))
    answer = used("history")
    (aside,) = used.state.glob("*.damaged-*")
    assert aside.read_bytes() == damaged
    assert aside.name in answer.stderr
    assert (answer.returncode, answer.stderr.count("\n")) == (0, 1)
    assert names(used) == []


def test_a_store_of_a_newer_jobtop_is_not_changed_and_gets_the_job_later(used: Jobtop) -> None:
    store = store_of(used)
    set_version(store, 99)
    before = store.read_bytes()
    (line,) = run_it(used, "--name", "second")
    assert "version 99" in line
    assert store.read_bytes() == before
    answer = used("history")
    assert (answer.returncode, answer.stdout, answer.stderr.count("\n")) == (125, "", 1)
    assert "upgrade jobtop" in answer.stderr
    set_version(store, VERSION)
    assert names(used) == ["first", "second"]


def set_version(store: Path, version: int) -> None:
    connection = sqlite3.connect(store)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


def test_a_foreign_database_is_not_changed(used: Jobtop) -> None:
    store = store_of(used)
    kept = store.rename(store.with_name("kept"))
    connection = sqlite3.connect(store)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    before = store.read_bytes()
    (line,) = run_it(used, "--name", "second")
    assert str(store) in line
    assert store.read_bytes() == before
    answer = used("history")
    assert (answer.returncode, answer.stdout, answer.stderr.count("\n")) == (125, "", 1)
    assert store.read_bytes() == before
    kept.rename(store)
    assert names(used) == ["first", "second"]


def test_a_directory_in_the_place_of_the_store_is_not_changed(used: Jobtop) -> None:
    store = store_of(used)
    kept = store.rename(store.with_name("kept"))
    (store / "inside").mkdir(parents=True)
    (line,) = run_it(used, "--name", "second")
    assert str(store) in line
    assert used("history").returncode == 125
    (store / "inside").rmdir()
    store.rmdir()
    kept.rename(store)
    assert names(used) == ["first", "second"]


def test_an_empty_file_becomes_the_store(jobtop: Jobtop) -> None:
    jobtop.state.mkdir()
    store_of(jobtop).touch()
    assert run_it(jobtop, "--name", "first") == []
    assert names(jobtop) == ["first"]


def test_a_file_in_the_place_of_the_state_directory_is_not_changed(jobtop: Jobtop) -> None:
    jobtop.state.write_text("mine")
    (line,) = run_it(jobtop)
    assert str(jobtop.state) in line
    answer = jobtop("history")
    assert "bug in jobtop" not in answer.stderr
    assert jobtop.state.read_text() == "mine"


@pytest.mark.parametrize(
    ("path", "mode"), [(f"{HERE}.db", 0o400), ("", 0o500), ("", 0o000)], ids=["file", "directory", "closed directory"]
)
def test_a_store_without_write_permission_stops_no_job(unprivileged: Jobtop, path: str, mode: int) -> None:
    run_it(unprivileged, "--name", "first")
    place = unprivileged.state / path
    before = place.stat().st_mode
    place.chmod(mode)
    try:
        (line,) = run_it(unprivileged, "--name", "second", "--record", "record.json")
        assert str(unprivileged.state) in line
        shown = unprivileged("history")
        assert "bug in jobtop" not in shown.stderr
        assert shown.stderr.count("\n") == 1
        if mode:
            assert shown.returncode == 0
            assert "first" in shown.stdout
        detached = unprivileged("run", "--detach", "--name", "third", "--", "true")
        assert detached.stderr.count("\n") == 1
    finally:
        place.chmod(before)
    record = json.loads((unprivileged.home / "record.json").read_text())
    assert (record["name"], record["exit_code"]) == ("second", 3)
    expected = ["first", "second", "third"] if "not in the history yet" in line else ["first"]
    assert wait_for(lambda: names(unprivileged) == expected or None, 20)
    assert {job["status"] for job in history(unprivileged)} <= {"failed", "success"}


def test_a_user_without_a_home_directory_can_run_jobs(unprivileged: Jobtop) -> None:
    env = {key: value for key, value in unprivileged.env.items() if key != "JOBTOP_HOME"} | {"HOME": "/nonexistent"}
    homeless = Jobtop(unprivileged.python, unprivileged.home, env, unprivileged.prefix)
    (line,) = run_it(homeless)
    assert "/nonexistent" in line


class Disk:
    """A disk of one MiB in a mount namespace of its own, on which the state directory lies."""

    def __init__(self, jobtop: Jobtop, holder: int, mount: Path) -> None:
        self.holder = holder
        prefix = ("nsenter", "-t", str(holder), "-m", "--")
        env: Mapping[str, str] = {**jobtop.env, "JOBTOP_HOME": str(mount / "state")}
        self.jobtop = Jobtop(jobtop.python, jobtop.home, env, prefix)
        self.files = Path(f"/proc/{holder}/root{mount}")
        self.mount = mount

    def remount(self, option: str) -> None:
        """As soon as no shim that ends has a file open any more."""
        command = [*self.jobtop.prefix, "mount", "-o", f"remount,{option}", str(self.mount)]
        wait_for(lambda: subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0)

    def fill(self) -> None:
        with (self.files / "filler").open("wb", buffering=0) as file:
            for size in (65536, 4096, 1):
                try:
                    while True:
                        file.write(b"\0" * size)
                except OSError:
                    continue

    def put(self, state: Path) -> None:
        """A state directory that was made elsewhere: SQLite would not find its way to the disk."""
        shutil.copytree(state, self.files / "state")

    @contextmanager
    def copied(self, target: Path) -> Iterator[Database]:
        """The store as it is on the disk now."""
        shutil.copytree(self.files / "state", target, ignore=shutil.ignore_patterns("*-shm"))
        with closing(open_to_write(StatePaths(target, HERE))) as database:
            yield database

    def free(self, size: int | None = None) -> None:
        """Make so much room, or all there is."""
        filler = self.files / "filler"
        if size is None:
            filler.unlink()
        else:
            os.truncate(filler, filler.stat().st_size - size)


@pytest.fixture
def disk(jobtop: Jobtop, root: None) -> Iterator[Disk]:
    """The disk is gone with the process that holds its namespace."""
    mount = jobtop.home / "disk"
    mount.mkdir()
    script = 'mount -t tmpfs -o size=1m none "$0" && echo mounted && exec sleep 600'
    command = ["unshare", "-m", "sh", "-c", script, str(mount)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"mounted\n"
            yield Disk(jobtop, holder.pid, mount)
        finally:
            holder.kill()


def test_a_full_disk_stops_no_job(disk: Disk) -> None:
    assert run_it(disk.jobtop, "--name", "first") == []
    disk.fill()
    (line,) = run_it(disk.jobtop, "--name", "second")
    assert "No space left on device" in line or "the disk is full" in line
    shown = disk.jobtop("history")
    assert (shown.returncode, shown.stderr.count("\n")) == (0, 1)
    assert "full" in shown.stderr
    assert "first" in shown.stdout
    disk.free()
    assert names(disk.jobtop)[0] == "first"
    assert run_it(disk.jobtop, "--name", "third") == []
    assert names(disk.jobtop)[-1] == "third"


def test_a_prune_on_a_full_disk_loses_nothing_and_continues_when_there_is_space(disk: Disk, tmp_path: Path) -> None:
    end = time.time() - 10 * 86400.0
    times = {"start_time": end - 15_000, "end_time": end, "duration_seconds": 15_000.0}
    noise = [sample(float(at), mem_used=hash(at * 7919.5) & 0xFFFFFFFF) for at in range(15_000)]
    old = [kept_sampled(tmp_path / "made", made_job(**times), noise, sealed=True) for _ in range(2)]
    with closing(open_to_write(StatePaths(tmp_path / "made", HERE))) as database:
        series = SeriesStore(database)
        while series.trim():
            pass
        vacuum(database)
        peaks = curve_peaks(database, old)
    disk.put(tmp_path / "made")
    for room in (0, 150_000):
        disk.fill()
        disk.free(room)
        done = disk.jobtop("prune")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (125, "", 1)
        disk.free()
        with disk.copied(tmp_path / f"after-{room}") as database:
            assert curve_peaks(database, old) == peaks
            assert list(check(database.path)) == []
            left = sum(SeriesStore(database).count(job.seq or 0) for job in old)
    assert left < 2 * len(noise), "it was in the middle"
    done = disk.jobtop("prune")
    assert (done.returncode, done.stderr) == (0, "")
    with disk.copied(tmp_path / "at-last") as database:
        assert [Jobs(database).find(job.id) for job in old] == [replace(job, kept=Kept.MINUTES) for job in old]
        assert curve_peaks(database, old) == peaks


def curve_peaks(database: Database, jobs: list[Job]) -> list[float]:
    series = [SeriesStore(database).series(job.seq or 0, ["mem.used"]).values["mem.used"] for job in jobs]
    return [max(value for value in values if value is not None) for values in series]


def test_a_disk_that_was_always_full_stops_no_job(disk: Disk) -> None:
    disk.fill()
    (line,) = run_it(disk.jobtop)
    assert str(disk.mount) in line
    disk.free()
    assert run_it(disk.jobtop, "--name", "second") == []
    assert names(disk.jobtop) == ["second"]


def test_a_disk_that_fills_up_does_not_stop_a_running_job(disk: Disk) -> None:
    filling = f"head -c 2000000 /dev/zero > {disk.mount}/filler 2>/dev/null; {LOAD[2]}"
    done = disk.jobtop("run", "--quiet", "--name", "first", "--", "sh", "-c", filling)
    assert (done.returncode, done.stdout) == (3, "out\n")
    said = [line for line in done.stderr.splitlines() if line.startswith("jobtop: ")]
    assert len(said) == 1
    disk.free()
    assert run_it(disk.jobtop, "--name", "second") == []
    assert names(disk.jobtop) == ["first", "second"]


def test_a_read_only_disk_stops_no_job_even_as_root(disk: Disk) -> None:
    assert run_it(disk.jobtop, "--name", "first") == []
    disk.remount("ro")
    (line,) = run_it(disk.jobtop, "--name", "second")
    assert "Read-only file system" in line
    shown = disk.jobtop("history")
    assert (shown.returncode, shown.stderr.count("\n")) == (0, 1)
    assert "first" in shown.stdout
    refused = disk.jobtop("run", "--detach", "--", "touch", str(disk.jobtop.home / "it-ran"))
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (125, "", 1)
    assert "place for its output" in refused.stderr
    disk.remount("rw")
    assert names(disk.jobtop) == ["first"]
    assert not (disk.jobtop.home / "it-ran").exists()


def test_only_the_owner_can_read_the_state_directory(jobtop: Jobtop) -> None:
    before = os.umask(0)
    try:
        run_it(jobtop)
        assert jobtop("run", "--", "no-such-command").returncode == 127
        assert jobtop("wait", jobtop("run", "--detach", "--", "echo", "x").stdout.strip()).returncode == 0
        wait_for(lambda: not processes_of(jobtop))  # SQLite would give a file of the agent the mode of the directory
        store_of(jobtop).rename(jobtop.state / "kept")
        store_of(jobtop).mkdir(0o700)
        run_it(jobtop)
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in (jobtop.state, *jobtop.state.rglob("*"))}
    assert {path.name for path in modes} >= {"jobs", "specs", "unrecorded", "jobtop.log", "stdout.log", "ended"}
    wrong = {path: oct(mode) for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)}
    assert wrong == {}


# Keeps as an engine does, told what on standard input: `keep N` more samples of every job, which wait while the disk
# is full, or `step`, one unit of housekeeping. It answers with `ok`, or why not.
KEEPER = """
import sys
from pathlib import Path
from jobtop.core.errors import StoreError
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Sample, Status
from jobtop.core.paths import StatePaths
from jobtop.core.measure.sampler import Batch
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.samples.sink import StoreSink
paths, jobs = StatePaths(Path(sys.argv[1]), sys.argv[2]), sys.argv[3:]
for job in jobs:
    Jobs(open_to_write(paths)).insert(Job(job, "kept", ("true",), paths.host, "ada", "/", Status.RUNNING))
sink, number, held = StoreSink(paths, network=False), 0, []
for line in sys.stdin:
    what, _, count = line.partition(" ")
    try:
        if what == "keep":
            for number in range(number + 1, number + 1 + int(count)):
                held.append(Batch([(job, Sample(float(number), (number,) * len(JOB_COLUMNS))) for job in jobs]))
            sink.keep(held)
            held = []
        else:
            sink.step()
        print("ok", flush=True)
    except StoreError as error:
        print(error, flush=True)
"""
KEPT = tuple(f"{number}0000000-0000-4000-8000-000000000000" for number in range(1, 4))


class Keeper:
    """An engine's keeper of samples on a small disk."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def __call__(self, words: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(words, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().rstrip()


@contextmanager
def keeping(disk: Disk) -> Iterator[Keeper]:
    command = [*disk.jobtop.prefix, disk.jobtop.python, "-c", KEEPER, str(disk.jobtop.state), HERE, *KEPT]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=disk.jobtop.env, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        yield Keeper(process)
        _, said = process.communicate(timeout=30)
        assert (process.returncode, said) == (0, "")


def moments(disk: Disk, job: str) -> list[float]:
    """When the samples of a job are, as a reader gets them, its start among them."""
    answer = disk.jobtop("metrics", job, "--no-follow", "--format", "jsonl")
    assert answer.returncode == 0, answer.stderr
    return [json.loads(line)["elapsed"] for line in answer.stdout.splitlines()]


def test_a_full_disk_during_a_seal_loses_no_sample_and_the_seal_continues_later(
    disk: Disk,
) -> None:
    with keeping(disk) as keeper:
        assert keeper("keep 130") == "ok"
        disk.fill()
        refusal = keeper("step")
        assert refusal.startswith(f"{store_of(disk.jobtop)}: the disk is full")
        assert keeper("keep 10") == refusal
        assert moments(disk, KEPT[0]) == [*range(131)]
        disk.free()
        assert [keeper(words) for words in ("keep 10", "step") * 3] == ["ok"] * 6
    info = json.loads(disk.jobtop("store", "info", "--json").stdout)
    assert (info["sealed_samples"], info["raw_samples"]) == (3 * 120, 3 * 50)
    assert [moments(disk, job) for job in KEPT] == [[*range(171)]] * 3
    assert disk.jobtop("store", "check").returncode == 0


def keystone_file(path: Path, count: int) -> Path:
    """Finished jobs of Keystone."""
    line = json.loads((Path(__file__).parents[1] / "data" / "import" / "jobs_history.jsonl").read_text().split("\n")[0])
    path.write_text("".join(json.dumps(line | {"task_id": f"{path.stem}-{number}"}) + "\n" for number in range(count)))
    return path


def test_a_full_disk_during_an_import_keeps_whole_batches_and_the_import_continues_later(
    disk: Disk,
) -> None:
    jobtop = disk.jobtop
    few, many = (keystone_file(jobtop.home / f"{name}.jsonl", count) for name, count in (("few", 20), ("many", 1200)))
    refused = jobtop("import", str(few), str(many))
    assert (refused.returncode, refused.stdout) == (125, "")
    assert_one_line(refused.stderr, str(store_of(jobtop)), "disk is full")
    assert [job["external_id"] for job in history(jobtop)] == [f"few-{number}" for number in range(20)]
    disk.remount("size=32m")
    done = jobtop("import", str(few), str(many), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads(done.stdout)
    assert (summary["jobs"], summary["already_there"]) == (1200, 20)
    assert json.loads(jobtop("store", "info", "--json").stdout)["jobs"] == {"success": 1220}
    assert jobtop("store", "check").returncode == 0
