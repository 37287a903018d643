"""What tests share and import: where the checkout is, how to wait, how to run jobtop, when a skip is a failure."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("core", "store", "lifecycle", "tui", "cli")
PACKAGES = ("jobtop", *ROOMS)

ALONE = {"JOBTOP_AGENT_IDLE": "0s", "JOBTOP_RUN_UI": "never"}  # agents leave with the last job, no console opens

T = TypeVar("T")

long_test = pytest.mark.skipif(not os.environ.get("LONG_TESTS"), reason="takes long: $LONG_TESTS is not set, as in CI")


def require(component: str, reason: str) -> NoReturn:
    """Skip because the component is missing; fail instead where $REQUIRE_REAL names it, as in CI."""
    if component in os.environ.get("REQUIRE_REAL", "").split():
        pytest.fail(f"{component} is required here, but {reason}", pytrace=False)
    pytest.skip(f"{component}: {reason}")


def wait_for(condition: Callable[[], T | None], deadline: float = 10.0) -> T:
    """The first truthy answer of the condition; fails when there is none within the deadline, in seconds.

    A condition that calls jobtop or reads all of /proc is asked half of the time at most: others need the CPU.
    """
    end = time.monotonic() + deadline
    while True:
        asked = time.monotonic()
        answer = condition()
        if answer:
            return answer
        now = time.monotonic()
        if now > end:
            pytest.fail(f"waited {deadline:g} s for {getattr(condition, '__qualname__', condition)}")
        time.sleep(min(max(0.01, now - asked), 0.25))


def open_files(root: Path) -> list[str]:
    """The files below a directory that this process has open."""
    paths = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of this very listing
            paths.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [path for path in paths if path.startswith(f"{root}/")]


def clean_environment(home: Path) -> dict[str, str]:
    """This environment without settings, with the home directory and jobtop's state below `home`."""
    dropped = ("JOBTOP_", "XDG_", "PYTHON", "DOCKER_", "CONTAINER_HOST")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    own = {"HOME": str(home), "JOBTOP_HOME": str(home / "state")}
    return kept | own | ALONE


@dataclass(frozen=True, slots=True)
class Jobtop:
    """A jobtop to call: `jobtop("history", "--json")`; everything it writes stays below `home`."""

    python: str
    home: Path
    env: Mapping[str, str]
    prefix: tuple[str, ...] = ()

    @property
    def state(self) -> Path:
        """The state directory, $JOBTOP_HOME."""
        return Path(self.env["JOBTOP_HOME"])

    def command(self, *args: str) -> list[str]:
        """The whole command line, for tests that start it themselves (with `env` and `cwd=home`)."""
        return [*self.prefix, self.python, "-m", "jobtop", *args]

    def __call__(
        self,
        *args: str,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end; standard input is empty unless given, `env` is added to the clean environment."""
        return subprocess.run(
            self.command(*args),
            input=stdin or "",
            env={**self.env, **(env or {})},
            cwd=cwd or self.home,
            timeout=timeout,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
        )

    def start(self, *args: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start it and return at once, with pipes on all three streams; the caller ends it."""
        return subprocess.Popen(
            self.command(*args),
            env={**self.env, **(env or {})},
            cwd=self.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="surrogateescape",
        )
