"""Processes without a shim: all of a tree are paused, resumed and stopped, and no other process is."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from jobtop.core.measure.collectors.proc import identify
from jobtop.core.model import Identity
from jobtop.core.procfs import descendants, stat_fields
from jobtop.core.record import replace
from jobtop.core.run import process_tree
from running import is_alive, kill_if_alive, state
from support import wait_for

# A root that ends when it is told to, with a child that does not, and a grandchild.
CODE = """
import os, signal, sys
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.fork()
    os.write(1, b"x")
os.read(0, 1)
"""


@pytest.fixture
def family() -> Iterator[list[int]]:
    """The pids of the three; the root first."""
    words = [sys.executable, "-I", "-S", "-c", CODE]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.read(2)
        pids = [process.pid, *descendants(process.pid)]
        yield pids
        for pid in pids:
            kill_if_alive(pid)


@pytest.fixture
def root(family: list[int]) -> Identity:
    return identify(family[0])


def states(pids: list[int]) -> set[str]:
    return {state(pid) for pid in pids}


def test_all_of_a_tree_stand_still_and_go_on(root: Identity, family: list[int]) -> None:
    assert process_tree.members(root) == list(map(identify, family))
    process_tree.freeze(root)
    assert states(family) == {"T"}
    process_tree.thaw(root)
    wait_for(lambda: states(family) == {"S"})


def test_a_root_that_has_not_stopped_yet_is_waited_for(
    root: Identity, family: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def late(pid: int) -> list[str]:
        seen.append(pid)
        return ["R"] if len(seen) < 4 else stat_fields(pid)

    monkeypatch.setattr(process_tree, "stat_fields", late)
    process_tree.freeze(root)
    assert len(seen) >= 4
    assert set(seen) == {root.pid}
    assert stat_fields(root.pid)[0] in "Tt"


def test_a_kill_leaves_no_process(root: Identity, family: list[int]) -> None:
    process_tree.kill(root)
    wait_for(lambda: not any(map(is_alive, family)))


def test_who_does_not_end_when_told_is_killed_after_the_grace_though_its_parent_has_ended(
    root: Identity, family: list[int]
) -> None:
    began = time.monotonic()
    process_tree.end(root, grace_seconds=0.2)
    assert 0.2 < time.monotonic() - began < 10.0
    assert not any(map(is_alive, family))


def test_a_tree_that_stands_still_can_be_ended(root: Identity, family: list[int]) -> None:
    process_tree.freeze(root)
    process_tree.end(root, grace_seconds=0.1)
    assert not any(map(is_alive, family))


def test_another_process_with_the_number_of_a_root_is_let_be(root: Identity, family: list[int]) -> None:
    other = replace(root, start=(root.start or 0) + 1)
    assert process_tree.members(other) == []
    process_tree.freeze(other)
    process_tree.kill(other)
    process_tree.end(other, 0.0)
    assert not states(family) & {"T", "t", "Z", "X"}


def test_a_process_is_in_the_trees_above_it(root: Identity) -> None:
    assert process_tree.is_inside(identify(os.getpid()))
    assert process_tree.is_inside(identify(os.getppid()))
    assert not process_tree.is_inside(root)
