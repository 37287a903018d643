"""An engine that is absent, hangs or forbids access: every verb says so in one line, soon; nothing else changes."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines import RealEngine
from fake_engine import fake_engine
from jobtop.core.errors import ExitCode
from running import nothing_is_left, show
from support import Jobtop

__all__ = ["nothing_is_left"]

VERBS = [
    ("containers",),
    ("containers", "--all", "--json"),
    ("containers", "logs", "web"),
    ("containers", "inspect", "web"),
    ("containers", "stop", "web"),
    ("run", "--image", "box:1", "--", "true"),
    ("attach", "--container", "web"),
]
PROMISED_SECONDS, BUSY_SECONDS = 3.0, 12.0  # what is promised, and what seven verbs at once on a busy machine may add


@pytest.fixture
def short_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="jt-", dir="/tmp") as name:
        yield Path(name)


def check_told(jobtop: Jobtop, url: str, word: str) -> None:
    """All verbs, at once, say one line with the address and the word, and end with 125 soon."""
    began = time.monotonic()
    started = {verb: jobtop.start(*verb, env={"DOCKER_HOST": url}) for verb in VERBS}
    for verb, process in started.items():
        _, err = process.communicate(timeout=30)
        seconds = time.monotonic() - began
        told = f"{' '.join(verb)}: exit code {process.returncode} after {seconds:.1f} s, {err!r}"
        assert process.returncode == ExitCode.FAILED, told
        assert len(err.strip().splitlines()) == 1, told
        assert word in err, told
        assert url in err, told
        assert seconds < PROMISED_SECONDS + BUSY_SECONDS, told


def test_an_engine_that_does_not_run(jobtop: Jobtop) -> None:
    check_told(jobtop, "unix:///tmp/no-such-engine.sock", "does not run")


def test_an_engine_that_hangs(jobtop: Jobtop, short_directory: Path) -> None:
    with fake_engine(short_directory / "d.sock", []) as engine:
        engine.hang()
        check_told(jobtop, engine.url, "does not answer")


def test_an_engine_that_forbids_access(unprivileged: Jobtop, docker_engine: RealEngine) -> None:
    check_told(unprivileged, docker_engine.url, "permission denied")


def test_the_doctor_names_the_remedies(jobtop: Jobtop, short_directory: Path) -> None:
    with fake_engine(short_directory / "d.sock", []) as engine:
        engine.hang()
        began = time.monotonic()
        said = jobtop("doctor", env={"DOCKER_HOST": engine.url})
        assert time.monotonic() - began < PROMISED_SECONDS + BUSY_SECONDS + 2
    assert engine.url.removeprefix("unix://") in said.stdout


def test_other_jobs_do_not_notice_an_engine_that_hangs(jobtop: Jobtop, short_directory: Path) -> None:
    with fake_engine(short_directory / "d.sock", []) as engine:
        engine.hang()
        began = time.monotonic()
        finished = jobtop("run", "--external-id", "plain", "--", "echo", "fine", env={"DOCKER_HOST": engine.url})
        assert (finished.returncode, finished.stdout) == (0, "fine\n")
        assert time.monotonic() - began < PROMISED_SECONDS
        assert engine.asked == []
    assert show(jobtop, "plain")["status"] == "success"
