"""State and configuration are found where the environment says, and what is created is private."""

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobtop.core.errors import StoreUnavailable
from jobtop.core.paths import StatePaths, absolute_path, config_files, hostname, make_private_dir, state_dir
from records import numbered_id


@pytest.fixture
def unknown_user(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"JOBTOP_HOME": "/srv/jt", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/srv/jt"),
        ({"JOBTOP_HOME": "~/jt", "HOME": "/h"}, "/h/jt"),
        ({"JOBTOP_HOME": "~", "HOME": "/h"}, "/h"),
        ({"JOBTOP_HOME": "~other/jt", "HOME": "/h"}, f"{os.getcwd()}/~other/jt"),
        ({"JOBTOP_HOME": "a/../b", "HOME": "/h"}, f"{os.getcwd()}/b"),
        ({"JOBTOP_HOME": "", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/jobtop"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/jobtop"),
        ({"XDG_STATE_HOME": "", "HOME": "/h"}, "/h/.local/state/jobtop"),
        ({"HOME": "/h"}, "/h/.local/state/jobtop"),
    ],
)
def test_the_state_directory_follows_the_environment(environ: dict[str, str], expected: str) -> None:
    assert state_dir(environ) == expected


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "relative"}])
def test_without_a_usable_home_the_account_says_where_it_is(environ: dict[str, str]) -> None:
    assert state_dir(environ) == f"{pwd.getpwuid(os.getuid()).pw_dir}/.local/state/jobtop"


@pytest.mark.usefixtures("unknown_user")
def test_without_any_home_the_remedy_is_named() -> None:
    with pytest.raises(StoreUnavailable, match="set JOBTOP_HOME"):
        state_dir({})
    assert config_files({}, "/w") == ("/w/jobtop.toml", "/etc/jobtop/config.toml")


@pytest.mark.parametrize(
    ("environ", "user"),
    [
        ({"HOME": "/h"}, "/h/.config/jobtop/config.toml"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "/c"}, "/c/jobtop/config.toml"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "c"}, "/h/.config/jobtop/config.toml"),
    ],
)
def test_configuration_files_come_strongest_first(environ: dict[str, str], user: str) -> None:
    assert config_files(environ, "/w", "/r") == ("/w/jobtop.toml", user, "/r/etc/jobtop/config.toml")


@pytest.mark.parametrize(("path", "expected"), [("/a/b", "/a/b"), ("b", "/base/b"), ("../b", "/b"), ("~/b", "/h/b")])
def test_a_path_of_a_user_becomes_absolute(path: str, expected: str) -> None:
    assert absolute_path(path, "/base", {"HOME": "/h"}) == expected


def test_each_file_of_the_state_has_its_place() -> None:
    paths, job_id = StatePaths(Path("/s"), "atlas"), numbered_id(7)
    assert paths.store == Path("/s/atlas.db")
    assert paths.lock == Path("/s/atlas.lock")
    assert paths.jobs == Path("/s/jobs")
    assert paths.job(job_id) == Path(f"/s/jobs/{job_id}")
    assert paths.specs == Path("/s/specs")
    assert paths.spec(job_id) == Path(f"/s/specs/{job_id}.json")
    assert paths.log == Path("/s/jobtop.log")
    assert paths.unrecorded == Path("/s/unrecorded")


def test_paths_and_names_are_the_same_files() -> None:
    paths, job_id = StatePaths("/s", "atlas"), numbered_id(7)
    for name in ("root", "store", "lock", "agent", "jobs", "specs", "unrecorded", "log"):
        assert str(getattr(paths, name)) == getattr(paths.names, name)
    for name in ("job", "spec", "late_record"):
        assert str(getattr(paths, name)(job_id)) == getattr(paths.names, name)(job_id)
    assert paths == StatePaths(Path("/s/"), "atlas")
    assert len({paths, StatePaths("/s", "atlas"), StatePaths("/s", "other"), StatePaths("/t", "atlas")}) == 3


@pytest.mark.parametrize(
    ("nodename", "name"),
    [("atlas", "atlas"), ("a.b.example", "a.b.example"), ("a/b", "a_b"), ("..", "localhost"), ("", "localhost")],
)
def test_a_host_name_is_safe_as_a_file_name(nodename: str, name: str) -> None:
    assert hostname(nodename) == name


def test_the_host_is_this_one_by_default() -> None:
    assert hostname() == hostname(os.uname().nodename)


def test_a_directory_and_all_that_was_missing_above_it_is_private(tmp_path: Path, umask: int) -> None:
    tmp_path.chmod(0o755)
    deep = tmp_path / "state" / "jobtop" / "jobs"
    make_private_dir(deep)
    for made in (deep, deep.parent, deep.parent.parent):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_an_existing_directory_is_left_as_it_is(tmp_path: Path) -> None:
    existing = tmp_path / "shared"
    existing.mkdir()
    existing.chmod(0o750)
    make_private_dir(existing)
    assert stat.S_IMODE(existing.stat().st_mode) == 0o750


def test_a_file_in_the_way_of_a_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_private_dir(tmp_path / "file")
