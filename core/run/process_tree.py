"""A process and everything below it where no shim is above: held by identities, made to stand still, ended."""

import os
import signal
import time
from contextlib import suppress

from jobtop.core.measure.collectors.proc import identify, is_alive, send, send_to_members
from jobtop.core.model import Identity
from jobtop.core.procfs import descendants, freeze_descendants, stat_fields

POLL_SECONDS = 0.02
STOP_SECONDS = 2.0


def lineage(pid: int) -> list[int]:
    """A process, its parent, and so on."""
    line: list[int] = []
    while pid > 0 and pid not in line:
        line.append(pid)
        fields = stat_fields(pid)
        pid = int(fields[1]) if len(fields) > 1 else 0
    return line


def is_inside(root: Identity) -> bool:
    """Whether this very process is in the tree."""
    return root.pid in lineage(os.getpid()) and is_alive(root)


def members(root: Identity) -> list[Identity]:
    """Everybody who is there now, parents before children; nobody if the root is gone."""
    return [root, *map(identify, descendants(root.pid))] if is_alive(root) else []


def freeze(root: Identity) -> None:
    """STOP to all, until all of them stand still; a root of another user (sudo) goes on."""
    with suppress(PermissionError):
        if not send(root, signal.SIGSTOP):
            return
        # It stops when it is next scheduled, which takes a while on a busy machine.
        deadline = time.monotonic() + STOP_SECONDS
        while (fields := stat_fields(root.pid)) and fields[0] not in "TtZX" and time.monotonic() < deadline:
            time.sleep(0.002)
    freeze_descendants(root.pid)


def thaw(root: Identity) -> None:
    """CONT to all."""
    send_to_members(root, signal.SIGCONT)
    _tell(root, signal.SIGCONT)


def kill(root: Identity) -> None:
    """KILL to all; who stands still forks nobody meanwhile."""
    freeze(root)
    for who in members(root)[::-1]:
        _tell(who, signal.SIGKILL)


def end(root: Identity, grace_seconds: float, patience_seconds: float) -> None:
    """TERM to all, after the grace KILL to who is left, orphans among them; after the patience whoever is there is."""
    known = set(members(root))
    send_to_members(root, signal.SIGTERM)
    _tell(root, signal.SIGTERM)
    thaw(root)
    began = time.monotonic()
    while left := [who for who in known if is_alive(who)]:
        waited = time.monotonic() - began
        if waited > patience_seconds:
            return
        known.update(below for who in left for below in members(who))
        if waited > grace_seconds:
            for who in left:
                kill(who)
        time.sleep(POLL_SECONDS)


def _tell(who: Identity, number: int) -> bool:
    """Whether it was there to be told; who belongs to another user (sudo) is let be."""
    with suppress(PermissionError):
        return send(who, number)
    return True
