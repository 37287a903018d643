"""Why a job ended: each cause is made to happen, and the record names it."""

import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from running import descendants, running, show
from support import Jobtop, require, wait_for

LEAK = 'held = [open("/dev/null") for _ in range(99)]'


def ended(jobtop: Jobtop, *words: str) -> dict[str, Any]:
    """The record of a job that was run to its bad end, with `error_lines`."""
    finished = jobtop("run", "--quiet", "--external-id", "it", *words)
    assert finished.returncode not in (0, 2, 125), finished.stderr
    return show(jobtop, "it")


def kinds(record: dict[str, Any]) -> list[str]:
    return [entry["kind"] for entry in record["findings"]["evidence"]]


def test_a_traceback_is_the_reason_and_its_place_is_evidence(jobtop: Jobtop) -> None:
    script = jobtop.home / "train.py"
    script.write_text('import json\ndef main():\n    json.loads("{")\nmain()\n')
    record = ended(jobtop, "--", sys.executable, str(script))
    assert record["reason"].startswith("exit code 1: json.decoder.JSONDecodeError: ")
    (entry,) = record["findings"]["evidence"]
    assert (entry["kind"], entry["source"]) == ("exception", "output")
    assert entry["text"].endswith("at train.py:3 in main")
    shown = jobtop("show", "it").stdout
    assert "output: json.decoder.JSONDecodeError" in shown


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ("{python} -c 'import no_such_module'", "missing_module", "No module named 'no_such_module'"),
        ("no-such-command", "missing_command", "no-such-command: not found"),
        ("ulimit -n 20; {python} -c '" + LEAK + "'", "too_many_open_files", "[Errno 24] Too many open files"),
        ("ulimit -v 300000; {python} -c 'bytearray(1 << 30)'", "allocation_failed", "MemoryError"),
    ],
    ids=["module", "command", "files", "memory"],
)
def test_what_was_missing_or_too_little_is_named(jobtop: Jobtop, line: str, kind: str, words: str) -> None:
    record = ended(jobtop, "--shell", "--", line.format(python=sys.executable))
    assert words in record["reason"]
    assert kinds(record)[0] == kind


def test_a_crash_is_told_by_its_signal(jobtop: Jobtop) -> None:
    record = ended(jobtop, "--", sys.executable, "-S", "-c", "import ctypes; ctypes.string_at(0)")
    assert record["reason"].startswith("killed by SIGSEGV")
    assert "signal" in kinds(record)


def test_a_full_disk_is_named(jobtop: Jobtop, root: None) -> None:
    place = jobtop.home / "small"
    place.mkdir()
    script = f"mount -t tmpfs -o size=64k none {place} && head -c 99999 /dev/zero > {place}/filler"
    record = ended(jobtop, "--", "unshare", "-m", "sh", "-c", script)
    assert "No space left on device" in record["reason"]
    assert kinds(record) == ["disk_full"]
    assert "df -h" in jobtop("show", "it").stdout


@pytest.fixture
def few_processes(root: None) -> Iterator[Path]:
    """A cgroup that allows few processes."""
    tree = next((path for path in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup") if Path(path, "cgroup.procs").exists()), "")
    directory = Path(tree) / f"few-{uuid.uuid4()}"
    try:
        directory.mkdir()
        (directory / "pids.max").write_text("30")
    except OSError as error:
        require("cgroup-pids", f"processes cannot be limited here: {error}")
    yield directory
    wait_for(lambda: not (directory / "cgroup.procs").read_text())
    directory.rmdir()


def test_too_many_processes_are_told(jobtop: Jobtop, few_processes: Path) -> None:
    script = jobtop.home / "forks.py"
    script.write_text("import os, time\nwhile os.fork(): pass\ntime.sleep(1)")
    inside = f"echo $$ > {few_processes}/cgroup.procs && exec {sys.executable} -S {script}"
    record = ended(jobtop, "--after-exit", "kill", "--", "sh", "-c", inside)
    assert "Resource temporarily unavailable" in record["reason"]
    assert kinds(record) == ["too_many_processes"]


def test_a_job_that_lost_its_recorder_gets_its_reason_from_the_next_verb(jobtop: Jobtop, tmp_path: Path) -> None:
    script = f"import os, time\nwhile not os.path.exists('{tmp_path}/go'): time.sleep(0.01)\nraise ValueError('late')"
    with running(jobtop, "--quiet", "--", sys.executable, "-S", "-c", script, env=dict(jobtop.env)) as run:
        run.until(lambda: len(descendants(run.pid)) >= 2)
        os.kill(run.pid, 9)
        run.end()
        (tmp_path / "go").touch()
        record = wait_for(lambda: found if (found := run.record())["status"] == "failed" else None)
    assert record["reason"] == "exit code 1: ValueError: late"


def test_a_queued_job_gets_its_reason_from_the_agent(jobtop: Jobtop) -> None:
    submitted = jobtop("submit", "--external-id", "it", "--", sys.executable, "-c", "import no_such_module")
    assert submitted.returncode == 0, submitted.stderr
    jobtop("wait", "it")
    assert "No module named 'no_such_module'" in show(jobtop, "it")["reason"]


def test_output_of_a_job_that_succeeded_is_not_held_against_it(jobtop: Jobtop) -> None:
    said = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0"
    finished = jobtop("run", "--quiet", "--external-id", "it", "--", "echo", said)
    assert finished.returncode == 0
    record = show(jobtop, "it")
    assert (record["reason"], record["findings"]) == (None, {})
    assert jobtop("run", "--quiet", "--external-id", "bad", "--shell", "--", f"echo '{said}'; exit 1").returncode == 1
    assert show(jobtop, "bad")["reason"] == "exit code 1: CUDA out of memory: tried to allocate 2.00 GiB (GPU 0)"
