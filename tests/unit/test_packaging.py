"""What is installed is what is on disk: no package forgotten in pyproject.toml, no module missing from a wheel."""

import io
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import jobtop as installed
from jobtop.__main__ import main
from records import assert_one_line
from support import PACKAGES, ROOT, Jobtop

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
BUILD = """
import sys, setuptools.build_meta as backend
print(getattr(backend, sys.argv[1])(sys.argv[2]))
"""


def installed_path(path: Path) -> str:
    """Where a file of the checkout belongs once installed: core/units.py goes to jobtop/core/units.py."""
    relative = path.relative_to(ROOT)
    return str(relative if relative.parts[0] == "jobtop" else Path("jobtop") / relative)


def modules_on_disk() -> set[str]:
    return {installed_path(path) for package in PACKAGES for path in (ROOT / package).rglob("*.py")}


def build(hook: str, source: Path, target: Path) -> Path:
    """Call a hook of the build backend, as pip does; the result."""
    command = [sys.executable, "-c", BUILD, hook, str(target)]
    finished = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return target / finished.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, since setuptools leaves a build/lib behind that it takes old modules from."""
    source = tmp_path_factory.mktemp("source")
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, source)
        elif path.name in PACKAGES:
            shutil.copytree(path, source / path.name, ignore=shutil.ignore_patterns("__pycache__"))
    return build("build_sdist", source, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built from the source distribution, so that what either lacks is missing."""
    unpacked = tmp_path_factory.mktemp("unpacked")
    subprocess.run(["tar", "-xf", sdist, "-C", unpacked], check=True)
    (source,) = unpacked.iterdir()
    return zipfile.ZipFile(io.BytesIO(build("build_wheel", source, tmp_path_factory.mktemp("wheel")).read_bytes()))


def test_every_package_on_disk_is_listed() -> None:
    on_disk = {str(Path(module).parent).replace("/", ".") for module in modules_on_disk()}
    assert on_disk == set(PROJECT["tool"]["setuptools"]["packages"])


def test_every_listed_package_is_mapped_to_its_directory() -> None:
    mapping: dict[str, str] = PROJECT["tool"]["setuptools"]["package-dir"]
    assert set(mapping) == set(PROJECT["tool"]["setuptools"]["packages"])
    for package, directory in mapping.items():
        assert installed_path(ROOT / directory) == package.replace(".", "/")


def test_every_package_has_an_init_file() -> None:
    modules = modules_on_disk()
    assert {str(Path(module).parent / "__init__.py") for module in modules} <= modules


def test_a_wheel_built_from_the_sdist_holds_every_module_and_nothing_else_importable(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == modules_on_disk() | {"jobtop/py.typed"}


def test_a_wheel_carries_the_command_and_the_licence(wheel: zipfile.ZipFile) -> None:
    info = f"jobtop-{installed.__version__}.dist-info"
    assert b"jobtop = jobtop.__main__:main" in wheel.read(f"{info}/entry_points.txt")
    assert b"Apache License" in wheel.read(f"{info}/licenses/LICENSE")


def test_the_version_is_printed_in_one_line(jobtop: Jobtop) -> None:
    finished = jobtop("--version")
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, f"jobtop {installed.__version__}\n", "")


def test_a_user_without_privileges_can_run_it(unprivileged: Jobtop) -> None:
    command = [*unprivileged.prefix, unprivileged.python, "-c", "import os, jobtop.core; print(os.geteuid())"]
    uid = subprocess.run(command, env=unprivileged.env, cwd=unprivileged.home, check=True, capture_output=True).stdout
    assert int(uid) != 0
    assert unprivileged("--version").stdout == f"jobtop {installed.__version__}\n"


def test_windows_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(sys, "argv", ["jobtop", "history"])
    assert main() == 125
    assert capsys.readouterr().err.count("\n") == 1


OPENED = """
import os, sys
from jobtop.__main__ import open_standard_descriptors
open_standard_descriptors()
print("harmless"); print("harmless", file=sys.stderr)
null = os.stat(os.devnull)
for number in range(3):
    if os.path.samestat(os.fstat(number), null) and os.get_inheritable(number):
        os.write(int(sys.argv[1]), b"%d" % number)
os.write(int(sys.argv[1]), b" next %d" % os.open(os.devnull, os.O_RDONLY))
"""


@pytest.mark.parametrize("closed", [(), (0,), (1,), (2,), (0, 2), (0, 1, 2)], ids=str)
def test_closed_standard_descriptors_are_opened_on_dev_null(closed: tuple[int, ...]) -> None:
    reader, writer = os.pipe()
    redirections = " ".join(f"{number}>&-" for number in closed)
    command = ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-c", OPENED, str(writer)]
    finished = subprocess.run(command, input=b"", capture_output=True, pass_fds=[writer])
    os.close(writer)
    with os.fdopen(reader, "rb") as report:
        numbers, _, following = report.read().decode().partition(" next ")
    assert finished.returncode == 0
    assert numbers == "".join(map(str, closed))
    assert int(following) > 2


@pytest.mark.parametrize("chosen", [False, True])
def test_each_chosen_interpreter_has_an_environment_of_its_own(chosen: bool) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    command = ["make", "-n", "--no-print-directory", "test", *([f"PYTHON={sys.executable}"] if chosen else [])]
    clean = {name: value for name, value in os.environ.items() if name not in {"PYTHON", "MAKEFLAGS", "MAKEOVERRIDES"}}
    finished = subprocess.run(command, cwd=ROOT, env=clean, capture_output=True, text=True, check=True)
    directory = f".venv-{version}" if chosen else ".venv"
    assert finished.stdout.splitlines()[-1].startswith(f"{directory}/bin/python -m pytest")


def test_make_refuses_an_interpreter_that_is_too_old(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text('#!/bin/sh\ntest "$1" = -V && echo Python 3.10.1\n')
    old.chmod(0o755)
    finished = subprocess.run([ROOT / "tools/make-venv", tmp_path / "venv", old], capture_output=True, text=True)
    assert finished.returncode == 1
    assert "3.10.1" in finished.stderr
    assert not (tmp_path / "venv").exists()


def test_an_installation_that_is_not_whole_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    whole, other = tmp_path / "whole" / "jobtop", tmp_path / "other"
    for package in PACKAGES:
        (whole / package).parent.mkdir(parents=True, exist_ok=True)
        if package != "jobtop":
            (whole / package).symlink_to(ROOT / package)
    for file in (ROOT / "jobtop").glob("*.py"):
        (whole / file.name).symlink_to(file)
    (other / "click").mkdir(parents=True)
    for places, words in (([ROOT], "jobtop.cli is missing"), ([whole.parent, other], f"it is in {other}")):
        path = os.pathsep.join(map(str, places))
        command = [sys.executable, "-S", "-m", "jobtop", "history"]
        answer = subprocess.run(command, cwd="/", env={"PYTHONPATH": path}, capture_output=True, text=True)
        assert answer.returncode == 125
        assert_one_line(answer.stderr, words)
        assert "pip install jobtop" in answer.stderr


def test_a_light_finder_finds_what_the_one_of_setuptools_found_and_imports_nothing(tmp_path: Path) -> None:
    places = {"jobtop": tmp_path / "top", "jobtop.core": tmp_path / "rooms/core"}
    for place in places.values():
        place.mkdir(parents=True)
        (place / "__init__.py").touch()
    mapping = {name: str(place) for name, place in places.items()}
    finder = tmp_path / "__editable___jobtop_0_1_0_finder.py"
    finder.write_text(f"import pathlib\nNAMESPACES = {{}}\nMAPPING = {mapping!r}\n")

    def python(code: str) -> str:
        begin = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
        command = [sys.executable, "-I", "-S", "-c", begin + code]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    tool = str(ROOT / "tools/light_finder.py")
    python(f"import runpy; runpy.run_path({tool!r}, run_name='__main__')")
    shown = python(
        f"import {finder.stem} as f; f.install(); import jobtop.core as c; print(c.__file__, 'pathlib' in sys.modules)"
    )
    assert shown == f"{places['jobtop.core']}/__init__.py False\n"
