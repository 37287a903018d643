"""Jobs in containers of a real engine, as tests run them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engines import IMAGE, PYTHON_BINDS, RealEngine
from jobtop.core.measure.collectors.docker.model import JOB_LABEL
from running import command_line, ended, processes_of, stat_of, the_log
from support import Jobtop, long_test

PYTHON = ("/usr/bin/python3", "-I", "-S", "-c")
IN_IMAGE = ("--image", IMAGE, "--network", "none")
WITH_PYTHON = (*IN_IMAGE, *(word for bind in PYTHON_BINDS for word in ("--volume", bind)))
# Speaks before and after a gate opens, in both streams, and says each time that it runs.
GATED = """
echo ran >>/gate/ran; echo out 1; echo err 1 >&2
while [ ! -e /gate/open ]; do sleep 0.05; done
echo out 2; echo err 2 >&2
exit 5
"""
EVERY_ENGINE = ["docker", pytest.param("podman", marks=long_test)]


@pytest.fixture(params=EVERY_ENGINE)
def engine(request: pytest.FixtureRequest) -> RealEngine:
    """Docker, and in CI Podman too."""
    found: RealEngine = request.getfixturevalue(f"{request.param}_engine")
    return found


def led_to(jobtop: Jobtop, engine: RealEngine) -> Jobtop:
    """The same jobtop; its containers are those of the engine."""
    return replace(jobtop, env={**jobtop.env, **engine.env})


def containers_of_jobs(jobtop: Jobtop, engine: RealEngine) -> list[dict[str, Any]]:
    """What the engine lists of the containers that jobs of this home started, ended ones too."""
    ids = {path.name for path in (jobtop.state / "jobs").glob("*")}
    with closing(engine.api()) as api:
        return [row for row in api.containers(all=True) if (row["Labels"] or {}).get(JOB_LABEL) in ids]


@contextmanager
def cleared(jobtop: Jobtop, engine: RealEngine) -> Iterator[Jobtop]:
    """The jobtop of `led_to`; in the end no container of its jobs may be left."""
    yield led_to(jobtop, engine)
    left = containers_of_jobs(jobtop, engine)
    for row in left:
        with suppress(Exception):
            engine.remove(row["Id"])
    assert not left, f"containers are left: {[row['Names'] for row in left]}"


def gated(home: Path) -> tuple[str, ...]:
    """The arguments of a job that waits for the gate."""
    (home / "gate").mkdir()
    return ("--volume", f"{home}/gate:/gate", *IN_IMAGE, "--", "sh", "-c", GATED)


def pid_of(jobtop: Jobtop, part: str) -> int | None:
    """The pid of a part of jobtop that cares for the only job."""
    words = {"agent": " agent run", "runner": "containers.runner", "shim": "containers.runner"}[part]
    pid = next((pid for pid in processes_of(jobtop) if words in command_line(pid)), None)
    if pid is None or part != "shim":
        return pid
    return int(stat_of(Path(f"/proc/{pid}/stat"))[1])


def check_whole(jobtop: Jobtop, reference: str) -> None:
    """The job ran once; its end and all of its output are known."""
    job = ended(jobtop, reference)
    assert (job["status"], job["exit_code"], job["signal"]) == ("failed", 5, None), job["reason"]
    assert the_log(jobtop, reference) == "out 1\nout 2\n"
    assert the_log(jobtop, reference, "stderr") == "err 1\nerr 2\n"
    assert (jobtop.home / "gate/ran").read_text() == "ran\n"
