"""Any signal, to any part of jobtop, at any moment: it ends, leaves nothing behind, and the record is true."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from running import (
    cgroups_of,
    children,
    is_alive,
    nothing_is_left,
    pids_in,
    processes_of,
    running,
    show,
)
from support import Jobtop, wait_for

__all__ = ["nothing_is_left"]

pytestmark = pytest.mark.soak

ENDS = {"success", "failed", "cancelled", "error", "lost"}
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGTSTP", "SIGSTOP", "SIGCONT", "SIGWINCH", "SIGKILL")
PLAIN = "echo $$ >> began; for n in 1 2 3 4 5 6 7 8; do echo $n; sleep 0.05; done; exit 3"
JOBS = {
    "plain": PLAIN,
    "stubborn": f"trap '' INT TERM HUP; {PLAIN}",
    "tree": "echo $$ >> began; for n in 1 2 3 4; do (trap '' TERM; sleep 0.3; echo $n) & done; wait; exit 3",
    "leaving": "echo $$ >> began; (sleep 0.5) > /dev/null 2>&1 & exit 3",
}


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_signalled_the_record_tells_what_happened(jobtop: Jobtop, seed: int) -> None:
    dice = random.Random(seed)
    for number in range(25):
        kind = dice.choice(list(JOBS))
        folder = jobtop.home / f"job-{number}"
        folder.mkdir()
        options = ("--quiet", "--grace", "0.3", "--cwd", str(folder), *dice.choice(((), ("--pty",))))
        plan = sorted((dice.uniform(0, 0.7), dice.choice(SIGNALS), dice.random()) for _ in range(dice.randint(1, 4)))
        words = f"seed {seed}, round {number}: {kind} {options[5:]} {plan}"
        reference = f"job-{number}"
        with running(
            jobtop, *options, "--", "sh", "-c", JOBS[kind], reference=reference, start_new_session=True
        ) as run:
            carry_out(run.pid, plan)
            wait_for(lambda: not is_alive(run.pid), 30)
            code = run.end()
            end_what_lives(jobtop)
        check(jobtop, reference, folder, code, words)
        assert cgroups_of(jobtop) == [], words


def carry_out(run: int, plan: list[tuple[float, str, float]]) -> None:
    """Send each signal at its time, mostly to run, sometimes to the shim; whatever was stopped goes on at the end."""
    began = time.monotonic()
    targets = {run}
    for moment, name, where in plan:
        time.sleep(max(0.0, began + moment - time.monotonic()))
        shims = children(run)
        target = shims[0] if shims and where > 0.8 else run
        targets.add(target)
        if is_alive(target):
            os.kill(target, signal.Signals[name])
    time.sleep(0.05)
    for target in targets:
        if is_alive(target):
            os.kill(target, signal.SIGCONT)


def end_what_lives(jobtop: Jobtop) -> None:
    """Jobs end by themselves within a second; stopped ones, and those without a shim, are helped."""
    end = time.monotonic() + 5
    while (left := processes_of(jobtop)) and time.monotonic() < end:
        for pid in left:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                continue
        time.sleep(0.02)
    assert not left


def check(jobtop: Jobtop, reference: str, folder: Path, code: int, words: str) -> None:
    times = len(pids_in(folder / "began"))
    shown = jobtop("show", reference)
    if shown.returncode == 2:
        assert times == 0, words
        return
    record = show(jobtop, reference)
    if record["status"] == "running":
        assert times == 0, words
        return
    assert record["status"] in ENDS, words
    assert times <= 1, words
    if code in (3, 0):
        assert record["exit_code"] == code, words
    if record["status"] == "failed":
        assert record["exit_code"] or record["signal"], words
    if times and record["status"] == "error":
        pytest.fail(f"ran, but is called an error: {words}: {record['reason']}")
