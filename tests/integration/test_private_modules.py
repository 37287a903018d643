"""Private modules of Python are used because they are small; where they are missing, the public ones serve."""

import json
import subprocess

import pytest

from support import Jobtop

BLOCK = """
import ctypes, importlib.util, signal, sys  # before they are blocked, since the public ones need the private ones
sys.modules["_ctypes"] = sys.modules["_signal"] = sys.modules["_frozen_importlib_external"] = None
"""
# Here and in the shim.
WITHOUT_PRIVATE_MODULES = f"""{BLOCK}
from jobtop.core import procfs
from jobtop.core.run import supervisor
assert procfs.signals is signal
supervisor.BOOTSTRAP = {BLOCK!r} + supervisor.BOOTSTRAP
from jobtop.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize(("script", "expected"), [("exit 7", 7), ("kill -9 $$", 137), ("sleep 60 & wait", 124)])
def test_a_job_runs_without_private_modules(jobtop: Jobtop, script: str, expected: int) -> None:
    record = jobtop.home / "record.json"
    options = ("--no-ui", "--quiet", "--timeout", "1s", "--record", str(record))
    command = [jobtop.python, "-c", WITHOUT_PRIVATE_MODULES, "run", *options, "--", "sh", "-c", script]
    finished = subprocess.run(command, env=jobtop.env, cwd=jobtop.home, capture_output=True, text=True, timeout=60)
    assert finished.returncode == expected, finished.stderr
    job = json.loads(record.read_text())
    (started,) = jobtop.state.glob(f"jobs/{job['id']}/started")
    assert "subreaper 1\n" in started.read_text()
    assert job["incomplete"] == []
