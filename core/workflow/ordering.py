"""Puts the jobs of a workflow into an order in which they can run, or names a circle. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping


def ordered(after: Mapping[str, tuple[str, ...]]) -> tuple[list[str], list[str]]:
    """The names in order, each behind those that it needs, else as they were; and one circle, if there is one."""
    missing = {name: len(needed) for name, needed in after.items()}
    followers: dict[str, list[str]] = {name: [] for name in after}
    for name, needed in after.items():
        for other in needed:
            followers[other].append(name)
    ready = deque(name for name, count in missing.items() if count == 0)
    order: list[str] = []
    while ready:
        name = ready.popleft()
        order.append(name)
        for follower in followers[name]:
            missing[follower] -= 1
            if missing[follower] == 0:
                ready.append(follower)
    if len(order) == len(after):
        return order, []
    return order, _circle(after, {name for name, count in missing.items() if count})


def _circle(after: Mapping[str, tuple[str, ...]], left: set[str]) -> list[str]:
    """A circle among the jobs that are left: each of them needs another one of them."""
    name = min(left)
    path: list[str] = []
    places: dict[str, int] = {}
    while name not in places:
        places[name] = len(path)
        path.append(name)
        name = next(other for other in after[name] if other in left)
    return [*path[places[name] :], name]


def depths(after: Mapping[str, tuple[str, ...]], order: list[str]) -> dict[str, int]:
    """How many jobs must run one after the other before each one."""
    found: dict[str, int] = {}
    for name in order:
        found[name] = max((found[other] + 1 for other in after[name]), default=0)
    return found
