"""Small promises to a person at the keyboard, each once broken."""

import json
import os
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from running import descendants, running, state
from support import Jobtop, wait_for


def the_job(jobtop: Jobtop) -> dict[str, object]:
    (job,) = json.loads(jobtop("history", "--json").stdout)
    return dict(job)


def test_a_job_starts_while_another_process_holds_the_store(jobtop: Jobtop, tmp_path: Path) -> None:
    assert jobtop("run", "--quiet", "--", "true").returncode == 0
    (store,) = jobtop.state.glob("*.db")
    holder = sqlite3.connect(store, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with running(jobtop, "--quiet", "--name", "late", "--", "touch", str(tmp_path / "ran")) as run:
        wait_for((tmp_path / "ran").exists, 10)
        holder.execute("ROLLBACK")
        holder.close()
        assert run.end() == 0
    newest = json.loads(jobtop("history", "--limit", "1", "--json").stdout)[0]
    assert (newest["name"], newest["status"], newest["exit_code"]) == ("late", "success", 0)


def test_output_that_cannot_be_written_is_no_success(jobtop: Jobtop) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            jobtop.command("run", "--quiet", "--", "seq", "3"), env=jobtop.env, stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 125
    assert done.stderr.decode().count("\n") == 1
    assert "No space left on device" in done.stderr.decode()
    job = the_job(jobtop)
    assert job["status"] == "success"
    assert "No space left" in str(job["incomplete"])


def test_what_outlived_its_shim_can_be_killed_and_is_not_forgotten_before(jobtop: Jobtop) -> None:
    with running(jobtop, "--quiet", "--", "sleep", "600") as run:
        (sleeper,) = wait_for(lambda: [pid for pid in descendants(run.pid) if name_of(pid) == "sleep"], 10)
        os.kill(run.shim(), signal.SIGKILL)
        assert run.end() == 125
    job = str(the_job(jobtop)["id"])
    assert jobtop("rm", job).returncode == 2
    assert jobtop("kill", job).returncode == 0
    assert name_of(sleeper) != "sleep"
    assert jobtop("rm", job).returncode == 0


def stop_outside_of_a_transaction(pid: int, jobtop: Jobtop) -> None:
    """Stop a process while it does not write the store: what it holds then, no other process gets."""
    (store,) = jobtop.state.glob("*.db")

    def is_stopped() -> bool:
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: state(pid) == "T")
        with closing(sqlite3.connect(store, isolation_level=None, timeout=0)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                os.kill(pid, signal.SIGCONT)
                return False
            return True

    wait_for(is_stopped)


def test_an_end_is_kept_though_its_run_stands_still(jobtop: Jobtop, tmp_path: Path) -> None:
    begun, may_end = tmp_path / "begun", tmp_path / "may-end"
    script = 'touch "$1"; until [ -e "$2" ]; do sleep 0.01; done'
    with running(jobtop, "--quiet", "--", "sh", "-c", script, "sh", str(begun), str(may_end)) as run:
        wait_for(begun.exists, 30)
        wait_for(lambda: any(job["pid"] for job in json.loads(jobtop("history", "--json").stdout)), 30)
        stop_outside_of_a_transaction(run.pid, jobtop)
        may_end.touch()
        began = time.monotonic()
        assert jobtop("wait", str(the_job(jobtop)["id"])).returncode == 0
        assert time.monotonic() - began < 30
        os.kill(run.pid, signal.SIGCONT)
        assert run.end() == 0


@pytest.mark.parametrize("option", [("--record", "x"), ("--pty",)])
def test_what_needs_company_is_refused_for_a_detached_job(jobtop: Jobtop, option: tuple[str, ...]) -> None:
    refused = jobtop("run", "--detach", *option, "--", "true")
    assert refused.returncode == 2
    assert not jobtop.state.exists()


def test_modules_meant_for_the_job_are_not_ours(jobtop: Jobtop, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong module')")
    done = jobtop("run", "--quiet", "--", "printenv", "PYTHONPATH", env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}\n")


def test_many_arguments_are_not_memory_of_the_job(jobtop: Jobtop) -> None:
    assert jobtop("run", "--quiet", "--", "true", *map(str, range(20_000))).returncode == 0
    assert dict(the_job(jobtop)["sources"])["memory_peak"] != "rusage"  # type: ignore[call-overload]


def name_of(pid: int) -> str:
    """The name of a living process; nothing for one that is gone or a zombie."""
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return ""
    return "" if rest.split()[0] == "Z" else name
