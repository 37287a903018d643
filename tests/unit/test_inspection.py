"""A quick look at a store gives its state and changes nothing."""

from pathlib import Path

import pytest

from jobtop.core.paths import StatePaths
from jobtop.store.schema import VERSION
from jobtop.store.upkeep import inspection
from jobtop.store.upkeep.inspection import Inspection, inspect
from records import HERE, damage_pages, kept_jobs, made_job


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of thirty jobs."""
    kept_jobs(tmp_path / "state", *(made_job(note="n" * 500) for _ in range(30)))
    return StatePaths(tmp_path / "state", HERE).store


def test_an_intact_store_gives_its_version_its_jobs_and_its_size(store: Path) -> None:
    assert inspect(store) == Inspection(None, VERSION, 30, store.stat().st_size, True, None)


def test_a_check_that_takes_too_long_is_abandoned(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "STEPS_BETWEEN_CLOCK_READS", 1)
    found = inspect(store, check_seconds=-1.0)
    assert (found.problem, found.is_sound, found.jobs) == (None, None, 30)


@pytest.mark.parametrize("damage", ["pages", "all", "newer", "empty"])
def test_damage_is_reported_and_not_repaired(store: Path, damage: str) -> None:
    if damage == "pages":
        content = damage_pages(store)
    else:
        content = {"all": b"garbage" * 1000, "newer": store.read_bytes(), "empty": b""}[damage]
        if damage == "newer":  # user_version is at byte 60 of the header
            content = content[:60] + (99).to_bytes(4, "big") + content[64:]
        store.write_bytes(content)
    found = inspect(store)
    if damage == "empty":
        assert (found.problem, found.version, found.jobs) == (None, 0, 0)
    else:
        assert str(store) in (found.problem or "")
    assert store.read_bytes() == content
    assert not list(store.parent.glob("*.damaged-*"))


def test_a_missing_store_is_a_problem(tmp_path: Path) -> None:
    found = inspect(tmp_path / "none.db")
    assert (found.problem or "").startswith(f"{tmp_path / 'none.db'}: ")
    assert found == Inspection(problem=found.problem)
    assert not (tmp_path / "none.db").exists()
