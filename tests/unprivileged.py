"""A jobtop that an unprivileged user can run, whoever runs the tests and wherever the checkout lies."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support import PACKAGES, ROOMS, ROOT, Jobtop, clean_environment, require

NO_AGENT = 65534
PROBE = "import ctypes, sqlite3, sys; sys.exit(sys.version_info < (3, 11))"
INTERPRETERS = [
    str(Path(folder, name))
    for folder in ("/usr/bin", "/usr/local/bin")
    for name in ("python3", "python3.14", "python3.13", "python3.12", "python3.11")
]


@dataclass(frozen=True, slots=True)
class Installation:
    """The interpreter of an environment that holds jobtop, and the prefix that makes a command unprivileged."""

    prefix: tuple[str, ...]
    python: str
    homes: Path

    def new_home(self) -> Jobtop:
        """A jobtop with an empty home directory that belongs to the unprivileged user."""
        home = Path(tempfile.mkdtemp(dir=self.homes))
        if self.prefix:
            os.chown(home, NO_AGENT, NO_AGENT)
        return Jobtop(self.python, home, clean_environment(home), self.prefix)


@contextmanager
def installation() -> Iterator[Installation]:
    """As root, a copy that everybody can read: a checkout or an interpreter in root's home is closed to others."""
    if os.geteuid() != 0:
        with tempfile.TemporaryDirectory(prefix="jobtop-tests-") as directory:
            yield Installation((), sys.executable, Path(directory))
        return
    prefix = unprivileged_prefix()
    base = usable_interpreter(prefix)
    parent = open_directory(prefix)
    with tempfile.TemporaryDirectory(prefix="jobtop-tests-", dir=parent, ignore_cleanup_errors=True) as name:
        root = Path(name)
        root.chmod(0o755)
        homes = root / "homes"
        homes.mkdir(mode=0o755)
        subprocess.run([base, "-m", "venv", "--without-pip", root / "venv"], check=True)
        (packages,) = root.glob("venv/lib/python*/site-packages")
        copy_jobtop(packages)
        copy_dependencies(packages)
        # The unprivileged user cannot store compiled files: every call would compile again.
        subprocess.run([root / "venv/bin/python", "-m", "compileall", "-q", packages / "jobtop", packages / "click"])
        subprocess.run(["chmod", "-R", "a+rX", root / "venv"], check=True)
        yield Installation(prefix, str(root / "venv/bin/python"), homes)


def unprivileged_prefix() -> tuple[str, ...]:
    """The command that drops root, all groups and every capability before it executes another."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        require("unprivileged", "setpriv (util-linux) is not installed")
    # setpriv executes its command with root's capabilities still effective; `env` executes it without.
    return (setpriv, f"--reuid={NO_AGENT}", f"--regid={NO_AGENT}", "--clear-groups", "env")


def usable_interpreter(prefix: tuple[str, ...]) -> str:
    """The interpreter of these tests if others may execute it, else one of the system's."""
    for python in (os.path.realpath(sys.executable), *INTERPRETERS):
        probe = subprocess.run([*prefix, python, "-I", "-c", PROBE], cwd="/", capture_output=True)
        if probe.returncode == 0:
            return python
    require("unprivileged", f"no Python 3.11 or newer that uid {NO_AGENT} may execute")


def open_directory(prefix: tuple[str, ...]) -> str:
    """A directory for temporary files that others can enter."""
    for directory in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        if subprocess.run([*prefix, "test", "-x", directory], cwd="/", capture_output=True).returncode == 0:
            return directory
    require("unprivileged", f"no temporary directory that uid {NO_AGENT} may enter")


def copy_jobtop(packages: Path) -> None:
    """The rooms where a wheel puts them."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / PACKAGES[0], packages / "jobtop", ignore=ignore)
    for room in ROOMS:
        shutil.copytree(ROOT / room, packages / "jobtop" / room, ignore=ignore)


def copy_dependencies(packages: Path) -> None:
    """What jobtop needs at run time, as installed beside these tests."""
    for name in runtime_closure("jobtop") - {"jobtop"}:
        for file in importlib.metadata.files(name) or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target = packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file.locate(), target)


def runtime_closure(name: str) -> set[str]:
    """The installed distributions that `name` needs, itself included, without extras."""
    closure: set[str] = set()
    pending = [name]
    while pending:
        current = pending.pop()
        try:
            requirements = importlib.metadata.requires(current) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        closure.add(current)
        names = [re.split(r"[^\w.-]", line)[0] for line in requirements if "extra ==" not in line]
        pending += [dependency for dependency in names if dependency not in closure]
    return closure
