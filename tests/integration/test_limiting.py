"""What limited a job, with real loads: computing, sleeping, computing with a CPU limit, writing to a slow disk."""

import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from running import running
from support import Jobtop, require, wait_for

SECONDS = 2.3  # a little more than a run needs to be judged
SPIN = f"import time\nbegun = time.monotonic()\nwhile time.monotonic() - begun < {SECONDS}: pass"
SLEEP = f"import time\ntime.sleep({SECONDS})"
WRITE = f"""
import mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_DIRECT, 0o600)
begun = time.monotonic()
while time.monotonic() - begun < {SECONDS}:
    os.pwrite(fd, mmap.mmap(-1, 1 << 17), 0)
"""
OFTEN = ("--interval", "0.2s", "--quiet")


def python(script: str, *words: str) -> tuple[str, ...]:
    return ("--", sys.executable, "-S", "-c", script, *words)


def run_together(jobtop: Jobtop, loads: dict[str, tuple[str, ...]]) -> dict[str, dict[str, Any]]:
    """The records of jobs that ran at the same time, by their names."""
    with ExitStack() as stack:
        runs = [stack.enter_context(running(jobtop, *OFTEN, *words, reference=name)) for name, words in loads.items()]
        for run in runs:
            run.outputs()
        return {run.reference: run.record() for run in runs}


def test_a_load_is_told_by_what_it_does(jobtop: Jobtop) -> None:
    records = run_together(jobtop, {"cpu": python(SPIN), "waiting": python(SLEEP)})
    assert {name: record["limited_by"] for name, record in records.items()} == {"cpu": "cpu", "waiting": "waiting"}
    assert [len(record["findings"]["limited"]) for record in records.values()] == [10, 10]
    assert "limited by waiting: " in jobtop("show", "waiting").stdout
    assert jobtop("history", "limited:waiting", "--columns", "limited").stdout.split() == ["LIMITED", "waiting"]


@pytest.fixture
def slow_disk(root: None, tmp_path: Path) -> Iterator[Path]:
    """A cgroup that writes to the disk of this directory with 512 KiB a second."""
    device = os.stat(tmp_path).st_dev
    tree = Path("/sys/fs/cgroup/blkio")
    directory = tree / f"slow-{uuid.uuid4()}"
    try:
        directory.mkdir()
        (directory / "blkio.throttle.write_bps_device").write_text(
            f"{os.major(device)}:{os.minor(device)} {512 * 1024}"
        )
    except OSError as error:
        require("cgroup-v1", f"the disk cannot be slowed down here: {error}")
    yield directory
    wait_for(lambda: not (directory / "cgroup.procs").read_text())
    directory.rmdir()


def test_a_cpu_limit_and_a_slow_disk_are_told(jobtop: Jobtop, slow_disk: Path, tmp_path: Path) -> None:
    script = tmp_path / "write.py"
    script.write_text(WRITE)
    inside = f"echo $$ > {slow_disk}/cgroup.procs && exec {sys.executable} -S {script} {tmp_path}/data"
    records = run_together(
        jobtop,
        {"storage": ("--", "sh", "-c", inside), "throttling": ("--cpus", "0.1", "--enforce", *python(SPIN))},
    )
    assert {name: record["limited_by"] for name, record in records.items()} == {
        "storage": "storage",
        "throttling": "throttling",
    }
    assert "io.pressure" in str(records["storage"]["findings"]["limited_whole"])
