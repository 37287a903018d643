"""Files of a shim are facts or a reason: damage costs only the job in question, and the record says what it is."""

import ast
import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fuzzing import fuzz, fuzzed, mutated
from jobtop.core.doctor.checks import State, evidence_files
from jobtop.core.job_id import JobId
from jobtop.core.measure.collectors.cgroup import PREFIX, mounted
from jobtop.core.model import Status
from jobtop.core.paths import StatePaths
from jobtop.core.run import facts as reader
from jobtop.core.run import outcome
from jobtop.core.run.facts import ENDED, MARKS, STARTED, damage_in, read_facts, read_marks, read_started
from jobtop.core.shim import facts as writer
from jobtop.lifecycle.kinds.registry import kind_of
from jobtop.lifecycle.reconcile import forget, reconcile
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs, columns_of
from records import HERE, NO_PROCESS, call, leave_ended, leave_started, made_job, running_job

VERBS = (
    ("history",),
    ("history", "--json"),
    ("queue",),
    ("stats",),
    ("show", "JOB"),
    ("logs", "JOB"),
    ("top", "--json", "JOB"),
)
WRONG_STARTED = {
    "a pid that is no number": ("shim", "x y"),
    "a pid of 0": ("shim", "0 1"),
    "a negative pid": ("main", "-1 5"),
    "a pid beyond 31 bits": ("main", f"{2**31} 5"),
    "one word": ("shim", "1"),
    "a start beyond 64 bits": ("shim", f"1 {2**64}"),
    "a moment that is none": ("start", "nan 1.0"),
    "a moment at the end of time": ("start", "1e300 1.0"),
    "another version": ("version", "2"),
    "a limit that is no number": ("memory_limit", "lots"),
    "a path that leads elsewhere": ("cgroup", "/sys/fs/cgroup/../../../victim"),
    "a directory of another program": ("cgroup", "/sys/fs/cgroup/victim"),
    "the cgroup of another job": ("cgroup", f"/sys/fs/cgroup/{PREFIX}other"),
}
WRONG_ENDED = {
    "no number": ("utime", "much"),
    "infinite": ("stime", "inf"),
    "negative": ("minflt", "-1"),
    "beyond 64 bits": ("rchar", str(2**63)),
    "thousands of digits": ("wchar", "9" * 5000),
    "digits of another script": ("seen", "٣"),
    "blocks beyond 64 bits in bytes": ("inblock", str(2**60)),
    "a status beyond 16 bits": ("status", str(2**40)),
    "a moment that is one word": ("end", "1700000000"),
    "no moment": ("last", "a b"),
    "an error of one word": ("exec_error", "start"),
    "a limit of one word": ("limit", "memory"),
    "a value of a megabyte": ("discarding", "x" * (1 << 20)),
}


def declared_facts(*classes: str) -> set[str]:
    """The keys of types that only the type checker sees."""
    tree = ast.parse(Path(writer.__file__).read_text(encoding="utf-8"))
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name in classes]
    assert len(bodies) == len(classes)
    rows = [row.target for body in bodies for row in body if isinstance(row, ast.AnnAssign)]
    return {row.id for row in rows if isinstance(row, ast.Name)}


def test_what_is_read_of_a_shim_is_what_it_writes() -> None:
    groups = declared_facts("LimitLines", "CgroupLines", "KilledLines", "LogLines")
    started, ended = declared_facts("Started"), declared_facts("Ended", "Counts")
    assert set(reader.NEEDED[STARTED]) <= started
    assert set(reader.NEEDED[ENDED]) <= ended
    checked = {*reader.INTEGERS, *reader.NUMBERS, *reader.MOMENTS, *reader.PROCESSES, *reader.CHECKS}
    assert checked - {"recorder_cpu", "recorder_rss"} <= started | ended | groups


def rewritten(file: Path, key: str, value: str | None) -> None:
    """The file with another value of a key, or without it."""
    lines = [line for line in file.read_text().splitlines() if line.partition(" ")[0] != key]
    added = [] if value is None else [f"{key} {value}"]
    file.write_text("\n".join([*lines[:1], *added, *lines[1:]]) + "\n")


def damaged_job(paths: StatePaths, damage: Callable[[Path], None]) -> str:
    """The id of a running job that is gone, with a sound `started` and `ended`, then damaged, beside a sound job."""
    database = open_to_write(paths)
    job = Jobs(database).insert(running_job())
    Jobs(database).insert(made_job(name="other"))
    database.close()
    leave_started(paths.job(job.id), "another boot", (NO_PROCESS, 5))
    leave_ended(paths.job(job.id))
    damage(paths.job(job.id))
    return job.id


def found(paths: StatePaths, job_id: str) -> tuple[Status, str]:
    """The status and the reason of a job as the verbs leave it."""
    database = open_to_write(paths)
    job = Jobs(database).find(job_id)
    database.close()
    return job.status, job.reason or ""


@pytest.mark.parametrize(("key", "value"), WRONG_ENDED.values(), ids=WRONG_ENDED)
def test_an_end_with_a_wrong_fact_is_lost_with_the_reason(paths: StatePaths, key: str, value: str) -> None:
    job_id = damaged_job(paths, lambda directory: rewritten(directory / ENDED, key, value))
    assert call("history").returncode == 0
    status, reason = found(paths, job_id)
    assert status is Status.LOST
    assert f"{ENDED}: " in reason
    assert key in reason
    assert len(reason) < 500


@pytest.mark.parametrize("key", ["utime", "start", "status", "final", "own_cpu", "left", "rchar"])
def test_an_end_without_a_fact_is_lost_with_the_reason(paths: StatePaths, key: str) -> None:
    job_id = damaged_job(paths, lambda directory: rewritten(directory / ENDED, key, None))
    assert call("history").returncode == 0
    status, reason = found(paths, job_id)
    assert status is Status.LOST
    assert f"{key} is missing" in reason


@pytest.mark.parametrize(("key", "value"), WRONG_STARTED.values(), ids=WRONG_STARTED)
def test_a_start_with_a_wrong_fact_is_lost_with_the_reason(paths: StatePaths, key: str, value: str) -> None:
    def damage(directory: Path) -> None:
        (directory / ENDED).unlink()
        rewritten(directory / STARTED, key, value)

    job_id = damaged_job(paths, damage)
    assert call("history").returncode == 0
    status, reason = found(paths, job_id)
    assert status is Status.LOST
    assert f"{STARTED}: {key}" in reason


def test_a_sound_end_is_the_end_whatever_the_start_says(paths: StatePaths) -> None:
    job_id = damaged_job(paths, lambda directory: rewritten(directory / STARTED, "shim", "x"))
    assert call("history").returncode == 0
    assert found(paths, job_id)[0] is Status.FAILED


def make_huge(file: Path) -> None:
    file.unlink()
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)


def make_link(file: Path) -> None:
    file.rename(file.with_name("real"))
    file.symlink_to("real")


def make_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def make_fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize("make", [make_huge, make_link, make_directory, make_fifo])
def test_what_is_no_regular_file_is_damage_and_every_verb_answers(
    paths: StatePaths, make: Callable[[Path], None], verb: tuple[str, ...]
) -> None:
    def damage(directory: Path) -> None:
        (directory / MARKS).write_text("1.0 2 3\n")
        for name in (STARTED, ENDED, MARKS):
            make(directory / name)

    job_id = damaged_job(paths, damage)
    begun = time.monotonic()
    answer = call(*(job_id if word == "JOB" else word for word in verb))
    said = "" if verb[0] != "logs" else f"jobtop: job {job_id[:8]} wrote no output\n"
    assert (answer.returncode, answer.stderr) == (0, said)
    assert time.monotonic() - begun < 5
    assert found(paths, job_id)[0] is Status.LOST
    assert call("rm", job_id).returncode == 0


def test_the_doctor_names_damaged_files(paths: StatePaths) -> None:
    job_id = damaged_job(paths, lambda directory: rewritten(directory / ENDED, "utime", "x"))
    finding = evidence_files(str(paths.jobs))
    assert finding.state is State.FAILS
    assert f"{job_id}/{ENDED}" in finding.meaning
    assert "utime" in finding.meaning
    (paths.job(JobId(job_id)) / ENDED).unlink()
    assert evidence_files(str(paths.jobs)).state is State.WORKS
    (paths.job(JobId(job_id)) / MARKS).write_text("1.0 2 3\nx\n")
    assert MARKS in evidence_files(str(paths.jobs)).meaning


def test_a_crafted_cgroup_is_not_touched(paths: StatePaths, tmp_path: Path) -> None:
    job = running_job()
    victim = tmp_path / f"{PREFIX}{job.id}"
    (victim / f"{PREFIX}inner").mkdir(parents=True)
    (victim / "cgroup.procs").write_text(f"{os.getpid()}\n")
    leave_started(paths.job(job.id), "another boot", (NO_PROCESS, 5), (str(victim),))
    started = read_started(paths.job(job.id))
    assert started is not None
    assert started.cgroups == (), "it has the shape, but is in no cgroup file system"
    assert kind_of(job).survivors(paths, job) == []
    database = open_to_write(paths)
    job = Jobs(database).insert(job)
    reconcile(Jobs(database), paths)
    forget(paths, job)
    database.close()
    assert (victim / f"{PREFIX}inner").is_dir()


def test_a_path_is_in_the_innermost_mount(tmp_path: Path) -> None:
    rows = [
        "1 0 0:1 / / rw - ext4 /dev/x rw",
        "2 1 0:2 / /sys/fs/cgroup rw - cgroup2 none rw",
        "3 2 0:3 / /sys/fs/cgroup/over rw - tmpfs none rw",
        "4 1 0:4 / /with\\040blank rw - cgroup none rw,memory",
    ]
    (tmp_path / "mountinfo").write_text("\n".join(rows) + "\n")
    inside, blank = "/sys/fs/cgroup/a/jobtop-1", "/with blank/jobtop-1"
    outside = ("/jobtop-1", "/sys/fs/cgroup/over/jobtop-1", "/sys/fs/cgroup", "/sys/jobtop-1")
    assert mounted((inside, blank, *outside), str(tmp_path)) == (inside, blank)


def test_marks_are_read_on_from_where_the_last_whole_line_ended(tmp_path: Path) -> None:
    file = tmp_path / MARKS
    file.write_bytes(b"1.0 10 20\nnan 1 1\n2.0 -1 1\n3.0 5\n1_0 1 1\n4.0 1")
    marks, offset = read_marks(tmp_path)
    assert marks == [(1.0, 10, 20), (3.0, 5, None)]
    with file.open("ab") as log:
        log.write(b"2 3\n")
    assert read_marks(tmp_path, offset)[0] == [(4.0, 12, 3)]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Files as shims write them."""
    return real_files(tmp_path_factory.mktemp("real") / "7")


def a_file(real: dict[str, bytes], dice: random.Random) -> tuple[str, bytes]:
    """One of them, most often damaged."""
    name = dice.choice((STARTED, ENDED, ENDED, MARKS))
    data = real[name]
    for _ in range(dice.choice((0, 1, 1, 2, 3))):
        data = mutated(dice, data)
    return name, data


@fuzzed("evidence", inputs=3000)
def test_any_file_is_facts_or_a_reason_and_what_follows_fits_the_store(
    tmp_path: Path, real: dict[str, bytes], count: int
) -> None:
    directory = tmp_path / "7"
    database = open_to_write(StatePaths(tmp_path, HERE))
    jobs, kept = Jobs(database), made_job(status=Status.RUNNING, exit_code=None, settled=False)

    def check(value: tuple[str, bytes]) -> None:
        name, data = value
        (directory / name).write_bytes(data)
        if name == MARKS:
            with database.writing() as connection:
                jobs.add_log_marks(seq, read_marks(directory)[0])
                connection.execute("DELETE FROM log_marks")
            return
        facts, damage = read_facts(directory, name)
        damage_in(directory)
        if facts is None:
            assert damage is None or name in damage
            return
        job = outcome.begin(kept, facts.started()) if name == STARTED else outcome.conclude(kept, facts)
        job.to_json()
        with database.alone() as connection:
            connection.execute(f"SELECT {', '.join('?' * len(columns_of(job)))}", tuple(columns_of(job).values()))

    directory.mkdir()
    seq = jobs.insert(kept)
    fuzz("evidence", partial(a_file, real), check, count, size=lambda value: len(value[1]))
    database.close()


def real_files(directory: Path) -> dict[str, bytes]:
    leave_started(directory, "5a7b-boot", (4711, 815), ("/sys/fs/cgroup/jobtop-7",))
    limits = "memory cgroup v2"
    leave_ended(
        directory,
        limit=limits,
        killed="12 sleep",
        oom_before=3,
        looked=1.5,
        stop="signal",
        **{
            "cgroup.cpu.stat": "usage_usec 3000000\\nuser_usec 2000000\\nsystem_usec 1000000\\n",
            "cgroup.memory.peak": "12345678\\n",
            "cgroup.memory.events": "low 0\\noom 1\\noom_kill 1\\n",
            "cgroup.oom_around": "oom_kill 4\\n",
        },
    )
    (directory / MARKS).write_text("".join(f"{number}.125 {number * 100} {number * 7}\n" for number in range(20)))
    return {name: (directory / name).read_bytes() for name in (STARTED, ENDED, MARKS)}
