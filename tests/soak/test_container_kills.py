"""`kill -9` of parts of jobtop at any moment of the life of a container: nothing of it is lost."""

import os
import random
import signal
import time
from collections.abc import Iterator

import pytest

from container_jobs import check_whole, cleared, engine, gated, pid_of
from engines import RealEngine
from running import nothing_is_left, show
from support import Jobtop, wait_for

__all__ = ["engine", "nothing_is_left"]

pytestmark = pytest.mark.soak
PARTS = ("agent", "shim", "runner")
ROUNDS = 40


@pytest.fixture
def contained(jobtop: Jobtop, engine: RealEngine) -> Iterator[Jobtop]:
    with cleared(jobtop, engine) as found:
        yield found


@pytest.mark.parametrize("number", range(ROUNDS))
def test_parts_killed_at_any_moment(contained: Jobtop, number: int) -> None:
    """After the container has begun; what is killed before may run never, and is then recorded so."""
    chance = random.Random(number)
    started = contained("run", "--detach", "--external-id", "gated", *gated(contained.home))
    assert started.returncode == 0, started.stderr
    wait_for((contained.home / "gate/ran").exists, 30)
    for part in chance.sample(PARTS, chance.randint(1, 3)):
        time.sleep(chance.uniform(0, 0.3))
        if pid := pid_of(contained, part):
            os.kill(pid, signal.SIGKILL)
        if chance.random() < 0.3:
            show(contained, "gated")
        if chance.random() < 0.3:
            (contained.home / "gate/open").touch()
    (contained.home / "gate/open").touch()
    check_whole(contained, "gated")
