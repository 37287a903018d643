"""Saving a changed alert rule to the user's configuration file."""

import os
import stat
from pathlib import Path

import pytest

from jobtop.core.alerts.rule_set import load_rule_set
from jobtop.core.config import Config, load
from jobtop.core.errors import ConfigError
from jobtop.tui.data.rule_saving import RuleFile, level_input, rule_file, seconds_input

FILE = (
    '# mine\n[run]\ngrace = "20s"  # slow\n\n[[alert]]\nname = "busy"\nmetric = "cpu.percent"\nabove = 90 # percent\n'
)


@pytest.fixture
def path(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration file, with one rule."""
    monkeypatch.chdir(tmp_path)
    found = Path(os.environ["HOME"]) / ".config/jobtop/config.toml"
    found.parent.mkdir(parents=True)
    found.write_text(FILE)
    return found


def read(tmp_path: Path) -> Config:
    return load((), os.environ, tmp_path, root=tmp_path)


def file_of(config: Config) -> RuleFile:
    found = rule_file(config)
    assert found is not None
    return found


def test_a_rule_of_the_file_is_changed_there_and_nothing_else(path: Path, tmp_path: Path) -> None:
    path.chmod(0o640)
    config = read(tmp_path)
    file_of(config).save(load_rule_set(config).find("busy"), {"above": 95.0, "severity": "critical"})
    assert path.read_text() == FILE.replace("above = 90", "above = 95") + 'severity = "critical"\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [file.name for file in path.parent.iterdir()] == ["config.toml"]
    assert load_rule_set(read(tmp_path)).find("busy").above == 95.0


def test_a_rule_of_jobtop_gets_a_table_of_its_own_and_keeps_its_other_fields(path: Path, tmp_path: Path) -> None:
    config = read(tmp_path)
    file_of(config).save(load_rule_set(config).find("job-memory-limit"), {"above": "95%"})
    assert path.read_text() == FILE + '\n[[alert]]\nname = "job-memory-limit"\nabove = "95%"\n'
    changed = load_rule_set(read(tmp_path)).find("job-memory-limit")
    assert (changed.above, changed.for_seconds) == (0.95, 10.0)


def test_a_new_file_is_made_for_its_user_alone(path: Path, tmp_path: Path) -> None:
    path.unlink()
    path.parent.rmdir()
    config = read(tmp_path)
    file_of(config).save(load_rule_set(config).find("gpu-hot"), {"enabled": False})
    assert path.read_text() == '[[alert]]\nname = "gpu-hot"\nenabled = false\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_stays_a_link(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.toml"
    path.rename(target)
    path.symlink_to(target)
    config = read(tmp_path)
    file_of(config).save(load_rule_set(config).find("busy"), {"above": 95.0})
    assert path.is_symlink()
    assert "above = 95" in target.read_text()


@pytest.mark.parametrize("changes", [{"above": "lots"}, {"for": "soon"}, {"severity": "bad"}, {"above": "4GiB"}])
def test_a_wrong_value_is_refused_before_anything_is_written(
    path: Path, tmp_path: Path, changes: dict[str, str | int | float | bool]
) -> None:
    config = read(tmp_path)
    with pytest.raises(ConfigError, match=next(iter(changes))):
        file_of(config).save(load_rule_set(config).find("busy"), changes)
    assert path.read_text() == FILE


def test_a_rule_of_a_project_is_refused_and_its_file_is_named(path: Path, tmp_path: Path) -> None:
    (tmp_path / "jobtop.toml").write_text('[[alert]]\nname = "theirs"\nmetric = "cpu.percent"\nabove = 9\n')
    config = read(tmp_path)
    rule = load_rule_set(config).find("theirs")
    assert str(tmp_path / "jobtop.toml") in str(file_of(config).refusal(rule))
    with pytest.raises(ConfigError, match="project"):
        file_of(config).save(rule, {"above": 8})


def test_a_file_that_may_not_be_written_is_refused_and_named(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = read(tmp_path)
    monkeypatch.setattr(os, "access", lambda name, _: Path(name) != path)
    assert str(path) in str(file_of(config).refusal(load_rule_set(config).find("busy")))


def test_a_file_that_another_program_changed_meanwhile_is_not_overwritten(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = read(tmp_path)
    real = os.fsync

    def change_first(fd: int) -> None:
        path.write_text("# theirs\n")
        real(fd)

    monkeypatch.setattr(os, "fsync", change_first)
    with pytest.raises(ConfigError, match="another program"):
        file_of(config).save(load_rule_set(config).find("busy"), {"above": 95.0})
    assert path.read_text() == "# theirs\n"
    assert [file.name for file in path.parent.iterdir()] == ["config.toml"]


def test_a_rule_that_alerts_off_names_cannot_be_switched_on_here(path: Path, tmp_path: Path) -> None:
    path.write_text(FILE + '[alerts]\noff = ["busy"]\n')
    config = read(tmp_path)
    with pytest.raises(ConfigError, match=r"alerts\.off"):
        file_of(config).save(load_rule_set(config).find("busy"), {"enabled": True})


def test_levels_are_offered_as_a_user_writes_them() -> None:
    assert [level_input("ratio", 0.9), level_input("bytes", 4 * 2**30), level_input("percent", 50.0)] == [
        *("90%", "4GiB", "50"),
    ]
    assert level_input("bytes/s", 100 * 2**20) == "100MiB/s"
    assert [seconds_input(seconds) for seconds in (0.0, 30.0, 90.0, 300.0, 3600.0)] == ["0", "30s", "90s", "5m", "1h"]
