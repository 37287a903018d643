"""Signals to a process and all its descendants, for jobs without a shim: stop, continue, end, kill."""

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from jobtop.core.measure.collectors.proc import identify, is_alive, send, send_to_members
from jobtop.core.model import Identity
from jobtop.core.procfs import descendants, freeze_descendants, stat_fields

POLL_SECONDS = 0.02
STOP_SECONDS = 2.0
KILL_SECONDS = 10.0  # how long the kernel may take to end what was killed


def lineage(pid: int) -> list[int]:
    """The pids of a process, its parent, and so on up to init."""
    line: list[int] = []
    while pid > 0 and pid not in line:
        line.append(pid)
        fields = stat_fields(pid)
        pid = int(fields[1]) if len(fields) > 1 else 0
    return line


def is_inside(root: Identity) -> bool:
    """Whether this process is the root or a descendant of it."""
    return root.pid in lineage(os.getpid()) and is_alive(root)


def members(root: Identity) -> list[Identity]:
    """The processes of the tree, parents before children; none if the root is gone."""
    return [root, *map(identify, descendants(root.pid))] if is_alive(root) else []


def freeze(root: Identity) -> None:
    """Send STOP to all until all are stopped; a root that belongs to another user (sudo) keeps running."""
    with suppress(PermissionError):
        if not send(root, signal.SIGSTOP):
            return
        # A process stops when it is next scheduled, which takes a while on a busy machine.
        deadline = time.monotonic() + STOP_SECONDS
        while (fields := stat_fields(root.pid)) and fields[0] not in "TtZX" and time.monotonic() < deadline:
            time.sleep(0.002)
    freeze_descendants(root.pid)


def thaw(root: Identity) -> None:
    """Send CONT to all."""
    send_to_members(root, signal.SIGCONT)
    _send(root, signal.SIGCONT)


def kill(root: Identity) -> None:
    """Send KILL to all; they are stopped first, so that they fork nothing meanwhile."""
    freeze(root)
    for identity in members(root)[::-1]:
        _send(identity, signal.SIGKILL)


def end(root: Identity, grace_seconds: float) -> None:
    """Send TERM to all, and after the grace period KILL to those that are left, even if their parents have exited."""
    known = set(members(root))

    def tree() -> Iterable[Identity]:
        known.update(below for identity in list(known) if is_alive(identity) for below in members(identity))
        return known

    def ask() -> None:
        send_to_members(root, signal.SIGTERM)
        _send(root, signal.SIGTERM)
        thaw(root)

    stop_with_grace(tree, kill, grace_seconds, ask)


def stop_with_grace(
    processes: Callable[[], Iterable[Identity]],
    kill_one: Callable[[Identity], object],
    grace_seconds: float,
    ask: Callable[[], None] | None = None,
) -> None:
    """Ask processes to end with `ask` or TERM; after the grace period kill those left, for at most `KILL_SECONDS`."""
    known = set(processes())
    if ask is not None:
        ask()
    else:
        for identity in known:
            _send(identity, signal.SIGTERM)
    asked_at = time.monotonic()
    while left := [identity for identity in known if is_alive(identity)]:
        waited = time.monotonic() - asked_at
        if waited > grace_seconds + KILL_SECONDS:
            return
        known.update(processes())
        if waited > grace_seconds:
            for identity in left:
                kill_one(identity)
        time.sleep(POLL_SECONDS)


def _send(identity: Identity, number: int) -> bool:
    """Send a signal; False if the process is gone. A process that belongs to another user (sudo) is skipped."""
    with suppress(PermissionError):
        return send(identity, number)
    return True
