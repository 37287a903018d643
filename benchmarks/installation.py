"""Installs what is measured: jobtop and con-duct in a virtual environment below build/, as users install them.

Not editable, because the import hook of an editable installation slows every start of Python.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import MeasurementError

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
FOREIGN_SETTINGS = ("PYTHON", "JOBTOP_", "XDG_", "DUCT_")


@dataclass(frozen=True, slots=True)
class Installation:
    """The virtual environment with both tools."""

    directory: Path

    def tool(self, name: str) -> str:
        return str(self.directory / "bin" / name)


def installation() -> Installation:
    """Return the installation of the current checkout; reinstalled only if a source has changed."""
    directory, mark = BUILD / "bench-venv", BUILD / "bench-venv" / "sources"
    wanted = fingerprint()
    if not mark.exists() or mark.read_text() != wanted:
        print(f"installing jobtop and con-duct into {directory.relative_to(ROOT)}", file=sys.stderr)
        install(directory)
        mark.write_text(wanted)
    return Installation(directory)


def fingerprint() -> str:
    """Return a digest of the Python version and of every installed file."""
    digest = hashlib.sha256(f"{sys.version} {sys.base_prefix}".encode())
    for path in sources():
        digest.update(f"{path.relative_to(ROOT)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def sources() -> Iterator[Path]:
    """Yield the files that an installation is built from."""
    yield from sorted(path for path in ROOT.iterdir() if path.name in ("pyproject.toml", "LICENSE", "README.md"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for directory in project["tool"]["setuptools"]["package-dir"].values():
        yield from sorted(
            path for path in (ROOT / directory).iterdir() if path.suffix == ".py" or path.name == "py.typed"
        )


def install(directory: Path) -> None:
    """Install from a copy of the sources: in the checkout, setuptools would reuse old modules of build/lib."""
    copy = BUILD / "bench-source"
    shutil.rmtree(copy, ignore_errors=True)
    for path in sources():
        target = copy / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    python = str(directory / "bin" / "python")
    commands = (
        [sys.executable, "-m", "venv", "--clear", str(directory)],
        [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", f"{copy}[bench]"],
        [python, "-m", "compileall", "-q", str(directory / "lib")],
    )
    for command in commands:
        finished = subprocess.run(command, env=environment(Path.home()), capture_output=True, text=True, check=False)
        if finished.returncode != 0:
            raise MeasurementError(f"{' '.join(command)} failed:\n{finished.stderr.strip()}")
    shutil.rmtree(copy)


def environment(home: Path) -> dict[str, str]:
    """Return this environment without the user's settings; Python may write and use its compiled files."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN_SETTINGS)}
    return kept | {"HOME": str(home), "JOBTOP_HOME": str(home / "state")}
