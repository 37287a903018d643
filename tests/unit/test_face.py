"""`import jobtop`: public names are imported when they are used, and type checkers know them."""

import ast
import importlib.util
import subprocess
import sys

import pytest

import jobtop
from support import ROOT

NAMES = list(jobtop._MODULES)


def existing_names() -> list[str]:
    """The public names whose module exists."""
    return [name for name, module in jobtop._MODULES.items() if importlib.util.find_spec(module) is not None]


def names_for_type_checkers() -> dict[str, str]:
    """The names that are imported below `if TYPE_CHECKING:`, with their modules."""
    tree = ast.parse((ROOT / "jobtop/__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.asname or "": node.module or "" for node in imports for alias in node.names}


def modules_after(source: str) -> set[str]:
    """The modules that are imported in a new interpreter after the source has run."""
    source += "\nimport sys\nprint(*sys.modules)"
    finished = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60)
    assert finished.returncode == 0, finished.stderr
    return set(finished.stdout.split())


def test_import_jobtop_imports_no_other_module() -> None:
    new = modules_after("import jobtop") - modules_after("")
    assert new == {"jobtop"}


def test_running_and_reading_need_no_library_of_the_console_and_the_verbs() -> None:
    names = "run submit open_store Store JobRecord DetachedJob StartError".split()
    new = modules_after("import jobtop\n" + "\n".join(f"jobtop.{name}" for name in names))
    assert "jobtop.running" in new
    assert new & {"click", "docker", "plotext", "psutil", "pynvml", "rich", "sqlite_utils", "textual"} == set()
    assert [name for name in new if name.startswith(("jobtop.cli", "jobtop.tui"))] == []


def test_the_reference_has_every_public_name() -> None:
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8").splitlines()
    assert [name for name in existing_names() if page.count(f"### {name}") != 1] == []


@pytest.mark.parametrize("name", existing_names())
def test_a_public_name_is_what_its_module_has(name: str) -> None:
    module = importlib.import_module(jobtop._MODULES[name])
    assert getattr(jobtop, name) is getattr(module, name)


def test_type_checkers_know_every_name_that_exists() -> None:
    assert names_for_type_checkers() == {name: jobtop._MODULES[name] for name in existing_names()}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        jobtop.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_dir_lists_names_that_are_not_imported_yet() -> None:
    assert set(NAMES) <= set(dir(jobtop))
