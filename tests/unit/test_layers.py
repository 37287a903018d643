"""Imports point one way, cli → tui → lifecycle → store → core; a library has one owner; headless verbs stay light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobtop.core.run.supervisor import SHIM
from support import PACKAGES, ROOT, Jobtop

LAYERS = ("jobtop.core", "jobtop.store", "jobtop.lifecycle", "jobtop.tui", "jobtop.cli")
OWNERS = {
    "click": "jobtop.cli",
    "docker": "jobtop.core.measure.collectors.docker",
    "json5": "jobtop.core.workflow.document",
    "lightning": "jobtop.callback",
    "plotext": "jobtop.tui.chart.terminal_plot",
    "plotly": "jobtop.core.report.plotly_script",
    "psutil": "jobtop.core",
    "pytorch_lightning": "jobtop.callback",
    "pynvml": "jobtop.core.measure.collectors.gpu.nvidia",
    "resvg_py": "jobtop.core.series.png",
    "rich": "jobtop.tui",
    "sqlite3": "jobtop.store",
    "sqlite_utils": "jobtop.store",
    "textual": "jobtop.tui",
    "yaml": "jobtop.core.workflow.document",
}
HEAVY = {"docker", "json5", "plotext", "plotly", "psutil", "pynvml", "rich", "sqlite_utils", "textual", "yaml"}
# Modules that `run -- true` must not import: each of them, with those that it imports, takes 0.5 to 10 ms.
SLOW_FOR_RUN = set(
    "argparse ast asyncio click dataclasses datetime difflib fnmatch getpass glob hashlib importlib inspect ipaddress"
    " logging ntpath pathlib platform queue random runpy selectors shutil signal socket sqlite3 string subprocess"
    " tempfile threading tokenize tomllib traceback typing urllib uuid warnings".split()
)
# Own modules that few calls need.
RARE_IN_RUN = set(
    "cli.main core.alerts core.analysis core.config_files core.metrics core.run.scheduling lifecycle.alerts"
    " lifecycle.explaining lifecycle.reconcile store.alerts.alert_rows store.creation store.newest_schema store.origin"
    " store.queue_rows store.repair store.samples tui".split()
)


def module_name(path: Path) -> str:
    """The name a file below the checkout imports as: core/units.py is jobtop.core.units."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "jobtop" else ("jobtop", *parts)
    return ".".join(part for part in parts if part != "__init__")


def is_within(module: str, owner: str) -> bool:
    """Whether the module is the owner or lies below it."""
    return module == owner or module.startswith(f"{owner}.")


def imported_modules(module: str, source: str) -> Iterator[str]:
    """Everything the source imports, at whatever depth, as absolute names; `from a import b` gives a.b."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=origin, names=names, level=0):
                yield from (f"{origin}.{alias.name}" for alias in names)
            case ast.ImportFrom(module=origin, names=names, level=level):
                parent = ".".join(module.split(".")[:-level])
                yield from (".".join(filter(None, (parent, origin, alias.name))) for alias in names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name


def layer(module: str) -> int | None:
    """The height of the room a module belongs to; None for the face and for other libraries."""
    return next((height for height, room in enumerate(LAYERS) if is_within(module, room)), None)


def violations(module: str, source: str) -> list[str]:
    """What the module imports and must not: a room above its own, or a library that another module owns."""
    own = layer(module)
    wrong = []
    for imported in imported_modules(module, source):
        other = layer(imported)
        if own is not None and other is not None and other > own:
            wrong.append(f"{module} imports {imported}, a room above its own")
        if own is not None and is_within(imported, "jobtop") and other is None and imported != "jobtop.__version__":
            wrong.append(f"{module} imports {imported} from the face of the package")
        library = imported.split(".")[0]
        if library in OWNERS and not is_within(module, OWNERS[library]):
            wrong.append(f"{module} imports {library}, which belongs to {OWNERS[library]}")
    return wrong


SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_a_module_imports_only_what_lies_below_it_and_what_it_owns(path: Path) -> None:
    # A relative import in __init__.py counts from the package itself.
    module = module_name(path) + (".__init__" if path.name == "__init__.py" else "")
    assert violations(module, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("jobtop.core.units", "from jobtop.store import jobs"),
        ("jobtop.core.units", "import jobtop.store.jobs"),
        ("jobtop.core.units", "from jobtop import tui"),
        ("jobtop.core.units", "from ..store import jobs"),
        ("jobtop.core.__init__", "from ..store import jobs"),
        ("jobtop.core.analysis.ending", "from ... import cli"),
        ("jobtop.core.units", "def late():\n    from jobtop.cli.main import main"),
        ("jobtop.store.jobs", "import importlib\nimportlib.import_module('jobtop.tui')"),
        ("jobtop.tui.app", "from jobtop.cli import output"),
        ("jobtop.store.jobs", "from jobtop.lifecycle import queue"),
        ("jobtop.lifecycle.agent", "import sqlite3"),
        ("jobtop.core.units", "from jobtop.__main__ import main"),
        ("jobtop.core.units", "import sqlite3"),
        ("jobtop.core.units", "from sqlite3 import connect"),
        ("jobtop.cli.main", "from rich.table import Table"),
        ("jobtop.store.jobs", "import click"),
        ("jobtop.core.measure.collectors.docker_extra", "import docker"),
        ("jobtop.core.measure.collectors.amd", "import pynvml"),
        ("jobtop.cli.app", "import plotext as plt"),
    ],
)
def test_a_wrong_import_is_noticed(module: str, source: str) -> None:
    assert len(violations(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("jobtop.cli.main", "from jobtop.core.units import size\nfrom jobtop.store import jobs\nimport click"),
        ("jobtop.store.jobs", "from . import schema\nfrom ..core import model\nimport sqlite3"),
        ("jobtop.core.measure.collectors.docker", "import docker"),
        ("jobtop.core.units", "from jobtop import __version__"),
        ("jobtop.__main__", "from jobtop.cli.main import main"),
    ],
)
def test_a_right_import_is_not_complained_about(module: str, source: str) -> None:
    assert violations(module, source) == []


def test_the_shim_imports_nothing_but_the_standard_library() -> None:
    for module in SHIM:
        source = (ROOT / f"{module.removeprefix('jobtop.').replace('.', '/')}.py").read_text(encoding="utf-8")
        others = {
            name for name in imported_modules(module, source) if name.split(".")[0] not in sys.stdlib_module_names
        }
        unwanted = {name for name in others if not name.startswith(SHIM)}
        assert unwanted <= {"psutil"}, "psutil serves where there is no /proc, and a shim is told the boot id"


@pytest.mark.parametrize(
    "arguments",
    [("--version",), ("--help",), ("history",), ("stats",), ("run", "--", "true"), ("doctor",)],
    ids=" ".join,
)
def test_a_headless_verb_imports_no_heavy_library(jobtop: Jobtop, arguments: tuple[str, ...]) -> None:
    finished = jobtop(*arguments, env={"PYTHONPROFILEIMPORTTIME": "1"})
    reports = [line for line in finished.stderr.splitlines() if line.startswith("import time:")]
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in reports}
    assert finished.returncode == 0, finished.stderr
    assert "jobtop" in imported
    assert imported & HEAVY == set()


def test_the_version_is_printed_without_importing_click(jobtop: Jobtop) -> None:
    finished = jobtop("--version", env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert "jobtop" in finished.stderr
    assert "click" not in finished.stderr


def imported_by_run(jobtop: Jobtop, library: Path) -> set[str]:
    """The modules that a `run` imports, without the hook of an editable install, which imports some of them first."""
    start = "import sys; sys.path.insert(0, sys.argv.pop(1)); from jobtop.__main__ import main; main()"
    # A sampled job imports more if it is not over at once, which depends on the load of the machine.
    words = (str(library), "run", "--no-ui", "--no-monitor", "--", "true")
    finished = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", "-c", start, *words],
        env={**jobtop.env},
        cwd=jobtop.home,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert finished.returncode == 0, finished.stderr
    reports = [line for line in finished.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in reports}


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A directory from which jobtop can be imported."""
    package = tmp_path / "library" / "jobtop"
    package.mkdir(parents=True)
    for source in (ROOT / "jobtop").glob("*.py"):
        (package / source.name).symlink_to(source)
    for room in LAYERS:
        name = room.removeprefix("jobtop.")
        (package / name).symlink_to(ROOT / name)
    return package.parent


def test_a_run_imports_no_slow_module(jobtop: Jobtop, library: Path) -> None:
    with_new_store, with_store = imported_by_run(jobtop, library), imported_by_run(jobtop, library)
    assert {"jobtop.cli.run.launch", "jobtop.store.creation"} <= with_new_store
    for imported in (with_new_store, with_store):
        assert {name.split(".")[0] for name in imported} & SLOW_FOR_RUN == set()
    assert {name for name in with_store for rare in RARE_IN_RUN if is_within(name, f"jobtop.{rare}")} == set()
