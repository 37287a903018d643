"""Verbs on the stores of several hosts: all named stores are read, only the store of this host is written."""

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jobtop.cli.main import ACTING_VERBS, READING_VERBS, VERBS
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Queued, Sample, Status
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.samples.series import SeriesStore
from records import HERE, assert_one_line, call, made_job, running_job
from support import open_files

START = 1_700_000_000.0


def keep(root: Path, host: str, *jobs: Job) -> Path:
    """Jobs in the store of a host, each with two samples."""
    paths = StatePaths(root, host)
    with closing(open_to_write(paths)) as database:
        kept = [Jobs(database).insert(job) for job in jobs]
        sample = tuple(map({"cpu.user": 1.0, "cpu.system": 0.0, "mem.used": 7 << 20}.get, JOB_COLUMNS))
        SeriesStore(database).append([(job.seq or 0, Sample(at, sample)) for job in kept for at in (0.0, 1.0)])
    return paths.store


def job_at(moment: float, host: str, name: str, **values: Any) -> Job:
    return made_job(name=name, host=host, submitted_at=START + moment, start_time=START + moment, **values)


@pytest.fixture
def shared(home: Path, tmp_path: Path) -> Path:
    """A directory with the stores of two other hosts."""
    root = tmp_path / "shared"
    keep(root, "alpha", job_at(1, "alpha", "train"), job_at(3, "alpha", "etl", tool="make"))
    keep(root, "beta", job_at(2, "beta", "train"))
    return root


def listed(*args: str) -> list[str]:
    found = call(*args, "--json")
    assert (found.returncode, found.stderr) == (0, ""), found.stderr
    return [f"{job['host']}:{job['name']}" for job in json.loads(found.stdout)]


def test_a_verb_closes_every_store_it_has_opened(shared: Path) -> None:
    keep(shared, HERE, job_at(4, HERE, "own"))
    for words in (("history",), ("stats",), ("show", "own"), ("show", "etl"), ("queue",), ("show", "nothing")):
        call("--store", str(shared), *words)
        assert open_files(shared) == [], words


EVERYTHING = ["alpha:etl", "beta:train", "alpha:train"]


def test_a_directory_means_all_its_stores_before_or_after_the_verb(shared: Path) -> None:
    alpha, beta = (str(shared / f"{host}.db") for host in ("alpha", "beta"))
    assert listed("--store", str(shared), "history") == EVERYTHING
    assert listed("history", "--store", str(shared)) == EVERYTHING
    assert listed("--store", alpha, "history", "--store", beta) == EVERYTHING
    assert listed("history", "--store", alpha, "--store", alpha) == ["alpha:etl", "alpha:train"]
    assert listed("history", "host:beta", "--store", str(shared)) == ["beta:train"]
    assert listed("job-history", "--store", beta) == ["beta:train"]


def test_every_verb_that_reads_or_acts_on_jobs_takes_stores(home: Path) -> None:
    assert VERBS.keys() >= READING_VERBS | ACTING_VERBS
    for verb in sorted(READING_VERBS | ACTING_VERBS):
        assert "--store PATH" in call(verb, "--help").stdout


@pytest.mark.parametrize("words", [("--store", "", "history"), ("history", "--store=")], ids=str)
def test_a_store_without_a_name_is_refused(home: Path, words: tuple[str, ...]) -> None:
    answer = call(*words)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert_one_line(answer.stderr, "--store", "empty")


def test_stores_are_named_by_a_variable_or_by_an_option_instead(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alpha, beta = (str(shared / f"{host}.db") for host in ("alpha", "beta"))
    monkeypatch.setenv("JOBTOP_STORES", os.pathsep.join((alpha, beta, "")))
    assert listed("history") == EVERYTHING
    assert listed("history", "--store", beta) == ["beta:train"]
    monkeypatch.setenv("JOBTOP_STORES", os.pathsep.join((alpha, str(shared / "gone"))))
    found = call("history", "--json")
    assert found.returncode == 0
    assert_one_line(found.stderr, "JOBTOP_STORES", str(shared / "gone"), "no such file")
    monkeypatch.setenv("JOBTOP_STORES", str(shared / "gone"))
    assert call("history").returncode == 2


def test_a_table_of_several_stores_has_a_column_of_hosts(shared: Path) -> None:
    head, *rows = call("history", "--store", str(shared)).stdout.splitlines()
    assert head.split()[:4] == ["ID", "NAME", "HOST", "STATUS"]
    assert [row.split()[2] for row in rows] == ["alpha", "beta", "alpha"]
    assert "HOST" not in call("history", "--store", str(shared / "alpha.db")).stdout


def test_pages_continue_across_stores(shared: Path) -> None:
    found: list[dict[str, Any]] = []
    while True:
        after = ["--page-after", found[-1]["id"][:8]] if found else []
        page = json.loads(call("history", "--store", str(shared), "--limit", "1", "--json", *after).stdout)
        if not page:
            break
        found += page
    assert [f"{job['host']}:{job['name']}" for job in found] == EVERYTHING
    empty = call("history", "--store", str(shared), "--page-after", found[-1]["id"])
    assert (empty.returncode, empty.stdout.count("\n")) == (0, 1)
    assert "2 stores" in empty.stdout


def test_show_finds_a_job_in_any_store(shared: Path) -> None:
    keep(shared, "gamma", job := made_job(host="gamma", name="far"))
    directory = StatePaths(shared, "gamma").job(job.id)
    directory.mkdir(parents=True)
    (directory / "stdout.log").write_text("from afar\n")
    named = (job.id[:8], "--store", str(shared))
    assert json.loads(call("show", *named, "--json").stdout)["host"] == "gamma"
    assert "ada on gamma" in call("show", *named).stdout
    assert call("logs", *named).stdout == "from afar\n"
    assert len(call("metrics", *named, "--format", "jsonl").stdout.splitlines()) >= 2
    assert "far" in call("plot", *named).stdout
    assert call("top", *named, "--once").returncode == 0
    assert call("wait", *named).returncode == 0
    assert call("export", *named).stdout.count("\n") >= 3


def test_stats_and_exports_include_all_stores(shared: Path) -> None:
    stats = json.loads(call("stats", "--by", "host", "--store", str(shared), "--json").stdout)
    assert stats["total_jobs"] == 3
    assert {host: group["count"] for host, group in stats["by_host"].items()} == {"alpha": 2, "beta": 1}
    exported = call("export", "--format", "snakemake", "--store", str(shared)).stdout.splitlines()
    assert len(exported) == 4


def test_queued_jobs_of_other_hosts_are_listed_by_host(home: Path, tmp_path: Path) -> None:
    waiting = {"status": Status.QUEUED, "settled": False, "exit_code": None, "end_time": None, "start_time": None}
    for host in ("alpha", HERE):
        keep(home, host, made_job(host=host, name=f"on {host}", queue=Queued(), duration_seconds=None, **waiting))
    shapes = json.loads(call("queue", "--store", str(home), "--json").stdout)
    assert {shape["host"] for shape in shapes} == {"alpha", HERE}
    why = {shape["host"]: shape["waits_for"] for shape in shapes}
    assert "alpha" in why["alpha"]
    assert "alpha" not in why[HERE]
    assert call("queue", "--store", str(home)).stdout.splitlines()[0].split()[3] == "HOST"


@pytest.mark.parametrize("verb", ["stop", "kill", "pause", "resume", "rm", "retry"])
def test_verbs_refuse_to_act_on_a_job_of_another_host(home: Path, shared: Path, verb: str) -> None:
    (job,) = json.loads(call("history", "host:beta", "--store", str(shared), "--json").stdout)
    before = (shared / "beta.db").read_bytes()
    for own in (False, True):
        if own:
            keep(home, HERE, made_job())
        refused = call(verb, job["id"][:8], "--store", str(shared))
        assert (refused.returncode, refused.stdout) == (2, "")
        assert_one_line(refused.stderr, f"job {job['id'][:8]} ", "beta")
    assert (shared / "beta.db").read_bytes() == before


def test_verbs_that_write_use_only_the_store_of_this_host(home: Path, shared: Path) -> None:
    own = keep(home, HERE, made_job())
    for verb in (("run", "--", "true"), ("submit", "--", "true"), ("store", "vacuum"), ("import", "x"), ("prune",)):
        refused = call("--store", str(shared), *verb)
        assert refused.returncode == 2
        assert_one_line(refused.stderr, "--store", f"jobtop {verb[0]} ", str(own))
    assert call("--store", str(own), "store", "vacuum").returncode == 0


def test_an_own_job_can_be_removed_while_other_stores_are_named(home: Path, shared: Path) -> None:
    keep(home, HERE, job := made_job())
    assert call("rm", job.id, "--store", str(shared), "--store", str(home)).returncode == 0
    assert listed("history") == []


def test_wrong_paths_are_wrong_usage(shared: Path) -> None:
    for path, words in ((shared / "nothing", "no such file or directory"), (shared.parent / "home", "no such")):
        refused = call("history", "--store", str(path))
        assert refused.returncode == 2
        assert f"--store: {path}" in refused.stderr
        assert words in refused.stderr
    (shared.parent / "empty").mkdir()
    assert_one_line(call("history", "--store", str(shared.parent / "empty")).stderr, "HOST.db")


def test_an_unreadable_store_is_an_error_only_if_it_is_the_only_one(shared: Path) -> None:
    (shared / "notes.db").write_text("no database " * 100)
    found = call("history", "--store", str(shared), "--json")
    assert found.returncode == 0
    assert len(json.loads(found.stdout)) == 3
    assert found.stderr.startswith(f"jobtop: left out: {shared / 'notes.db'}: ")
    assert found.stderr.count("\n") == 1
    refused = call("history", "--store", str(shared / "notes.db"))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.count("\n") == 1


def test_a_job_without_heartbeats_from_its_host_is_stale(home: Path, shared: Path) -> None:
    now, rows = time.time(), []
    for name, heard in (("silent", now - 3 * 3600), ("lively", now - 5), ("unheard", None)):
        job = running_job(host="gamma", name=name, start_time=now - 4 * 3600, submitted_at=now - 4 * 3600)
        rows.append((heard, job.id))
        store = keep(shared, "gamma", job)
    with closing(open_to_write(StatePaths(shared, "gamma"))) as database, database.writing() as connection:
        connection.executemany("UPDATE jobs SET heartbeat = ? WHERE id = ?", rows)
    jobs = {job["name"]: job for job in json.loads(call("history", "--store", str(store), "--json").stdout)}
    assert {name: job["stale"] for name, job in jobs.items()} == {"silent": True, "lively": False, "unheard": None}
    assert {job["status"] for job in jobs.values()} == {"running"}
    assert jobs["unheard"]["last_heard"] is None
    assert jobs["silent"]["last_heard"] < jobs["lively"]["last_heard"]
    for word, names in (("stale:yes", ["silent"]), ("stale:no", ["lively"]), ("!stale:no", ["silent", "unheard"])):
        assert sorted(job.partition(":")[2] for job in listed("history", "--store", str(store), word)) == names
    table = call("history", "--store", str(store)).stdout
    assert "running (stale, last heard 3h00m ago)" in table
    assert "running (not heard of)" in table
    assert call("show", rows[0][1], "--store", str(store)).stdout.splitlines()[0].split("  ")[1].endswith("ago)")


def test_a_live_job_of_this_host_is_reconciled_and_never_stale(home: Path) -> None:
    keep(home, HERE, job := running_job(submitted_at=START))
    (found,) = json.loads(call("history", "--store", str(home), "--json").stdout)
    assert (found["id"], found["stale"]) == (job.id, False)
    assert found["status"] != "running"


def test_a_live_job_of_this_host_is_stale_in_a_copy_of_its_store(home: Path, shared: Path) -> None:
    now = time.time()
    job = running_job(host=HERE, start_time=now - 900, submitted_at=now - 900)
    copy = keep(shared, HERE, job)
    with closing(open_to_write(StatePaths(shared, HERE))) as database, database.writing() as connection:
        connection.execute("UPDATE jobs SET heartbeat = ? WHERE id = ?", (now - 600, job.id))
    (found,) = json.loads(call("history", "--store", str(copy), "--json").stdout)
    assert (found["status"], found["stale"]) == ("running", True)
    assert "stale, last heard 10m0" in call("show", job.id, "--store", str(copy)).stdout
    for words in ((), ("--store", str(shared / "alpha.db"))):
        assert len(listed("history", "--store", str(copy), *words, "stale:yes")) == 1
        assert job.id[:8] not in call("history", "--store", str(copy), *words, "stale:no").stdout
    waiting = [sys.executable, "-m", "jobtop", "wait", job.id, "--store", str(copy)]
    with subprocess.Popen(waiting, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        process.kill()
    assert f"in {copy}, " in said
    assert "copy" in said


MERGED_RUNNING = {"silent": -3 * 3600.0, "unheard": None, "of the future": 9e9, "lively": -5.0}


@pytest.mark.parametrize("name", MERGED_RUNNING)
def test_a_merged_job_of_another_host_is_removed_unless_its_heartbeat_is_recent(
    home: Path, tmp_path: Path, name: str
) -> None:
    now, heard = time.time(), MERGED_RUNNING[name]
    store = keep(tmp_path, "gamma", job := running_job(host="gamma", name=name, start_time=now, submitted_at=now))
    with closing(open_to_write(StatePaths(tmp_path, "gamma"))) as database, database.writing() as connection:
        connection.execute("UPDATE jobs SET heartbeat = ?", (None if heard is None else now + heard,))
    assert call("store", "merge", str(store)).returncode == 0
    waiting = [sys.executable, "-m", "jobtop", "wait", job.id]
    with subprocess.Popen(waiting, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        process.kill()
    assert "gamma" in said
    directory = StatePaths(home, HERE).job(job.id)
    directory.mkdir(parents=True)  # as on a shared file system
    removed = call("rm", job.id)
    if name == "lively":
        assert removed.returncode == 2
        assert "gamma" in removed.stderr
    else:
        assert (removed.returncode, removed.stderr) == (0, "")
    assert len(json.loads(call("history", "--json").stdout)) == (1 if name == "lively" else 0)
    assert directory.is_dir()
