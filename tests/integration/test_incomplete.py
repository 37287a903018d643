"""What the kernel cannot know is said to be missing, and nothing else is."""

import json
from pathlib import Path

import pytest

from support import Jobtop

SA_NOCLDWAIT = """\
import ctypes, os, time
class Action(ctypes.Structure):
    _fields_ = [("handler", ctypes.c_void_p), ("mask", ctypes.c_ulong * 16), ("flags", ctypes.c_int)]
assert ctypes.CDLL(None).sigaction(17, ctypes.byref(Action(flags=2)), None) == 0
"""
WAITING = "import os, time\n"
CHILDREN = """\
for _ in range(4):
    child = os.fork()
    if child == 0:
        began = time.process_time()
        while time.process_time() - began < 0.2:
            pass
        os._exit(0)
    try:
        os.waitpid(child, 0)
    except ChildProcessError:
        pass
time.sleep(2.5)
"""


@pytest.mark.parametrize(("start", "missing"), [(SA_NOCLDWAIT, True), (WAITING, False)], ids=["discarded", "waited"])
def test_children_nobody_waits_for_are_said_to_be_missing(
    jobtop: Jobtop, tmp_path: Path, start: str, missing: bool
) -> None:
    (tmp_path / "job.py").write_text(start + CHILDREN)
    record = tmp_path / "record.json"
    options = ("--set", "monitor.without=cgroup", "run", "--quiet", "--record", str(record))
    assert jobtop(*options, "--", jobtop.python, str(tmp_path / "job.py")).returncode == 0
    job = json.loads(record.read_text())
    assert any(entry.startswith("cpu: ") for entry in job["incomplete"]) == missing
    assert (job["resource_usage"]["cpu_total_seconds"] < 0.8) == missing
