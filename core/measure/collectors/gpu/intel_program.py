"""Whether intel_gpu_top is installed and may be used; light to import, since most machines do not have it."""

from __future__ import annotations

import os

from jobtop.core.procfs import read_text, word_in

PROGRAM = "intel_gpu_top"
CAP_SYS_ADMIN, CAP_PERFMON = 21, 38


def program_problem(proc: str = "/proc", path: str | None = None) -> tuple[str | None, str | None]:
    """The program, and why it cannot be used, one of them None: it must be installed and allowed to count."""
    program = _installed(path)
    if program is None:
        return None, f"{PROGRAM} is not installed"
    if may_count(program, proc):
        return program, None
    return None, f"{PROGRAM} is not allowed to count (CAP_PERFMON)"


def may_count(program: str, proc: str = "/proc") -> bool:
    """Whether the program may open the counters of the whole GPU; without that right it crashes."""
    held = int(word_in(read_text(f"{proc}/self/status"), "CapEff:") or "0", 16)
    if held & (1 << CAP_PERFMON | 1 << CAP_SYS_ADMIN):
        return True
    level = read_text(f"{proc}/sys/kernel/perf_event_paranoid").strip()
    if level.lstrip("-").isdigit() and int(level) <= 0:
        return True
    try:
        return bool(os.getxattr(program, "security.capability"))
    except OSError:
        return False


def _installed(path: str | None) -> str | None:
    """The first program of this name in PATH; `shutil` would take milliseconds to import."""
    directories = (os.environ.get("PATH", "") if path is None else path).split(":")
    found = (f"{directory}/{PROGRAM}" for directory in directories if directory)
    return next((each for each in found if os.path.isfile(each) and os.access(each, os.X_OK)), None)
