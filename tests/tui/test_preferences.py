"""What is kept between runs: private, written whole or not at all, and never an obstacle."""

import json
import os
from pathlib import Path

import pytest

from jobtop.tui.preferences import Preferences
from jobtop.tui.widgets.columns import Sort


def test_theme_sort_and_hidden_columns_are_there_the_next_time(tmp_path: Path) -> None:
    file = tmp_path / "state/console.json"
    first = Preferences(file)
    assert (first.theme, first.sort("jobs"), first.hidden("jobs"), first.problem) == (None, None, frozenset(), None)
    first.keep_theme("jobtop-light")
    first.keep_sort("jobs", Sort("mem", descending=True))
    first.keep_sort("history", Sort("name"))
    first.keep_hidden("jobs", {"gpu", "io"})
    later = Preferences(file)
    assert later.theme == "jobtop-light"
    assert (later.sort("jobs"), later.sort("history")) == (Sort("mem", True), Sort("name", False))
    assert later.hidden("jobs") == {"gpu", "io"}
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in file.parent.iterdir()] == ["console.json"]


def test_an_unchanged_choice_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "console.json"
    kept = Preferences(file)
    kept.keep_theme("jobtop-dark")
    file.unlink()
    kept.keep_theme("jobtop-dark")
    kept.keep_hidden("jobs", ())
    assert not file.exists()


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1, 2]", b"[" * 100_000])
def test_a_damaged_file_is_ignored_with_a_message_and_written_again(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "console.json"
    file.write_bytes(content)
    kept = Preferences(file)
    assert kept.theme is None
    assert kept.problem is not None
    assert kept.problem.startswith(f"{file}: is damaged")
    kept.keep_theme("jobtop-light")
    assert (Preferences(file).theme, Preferences(file).problem) == ("jobtop-light", None)


def test_values_of_a_wrong_kind_count_as_none(tmp_path: Path) -> None:
    file = tmp_path / "console.json"
    file.write_text(json.dumps({"theme": 7, "sort": {"jobs": ["cpu"], "x": 1}, "hidden": {"jobs": "gpu"}, "new": 1}))
    kept = Preferences(file)
    assert (kept.theme, kept.sort("jobs"), kept.hidden("jobs")) == (None, None, frozenset())
    kept.keep_sort("jobs", Sort("cpu"))
    assert json.loads(file.read_text())["new"] == 1


def test_a_choice_that_cannot_be_written_lasts_until_the_end_and_is_reported(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the directory should be")
    kept = Preferences(tmp_path / "state/console.json")
    kept.keep_theme("jobtop-light")
    assert kept.theme == "jobtop-light"
    assert kept.problem is not None
    assert "lost when you leave" in kept.problem
    assert os.listdir(tmp_path) == ["state"]


def test_without_a_file_nothing_is_kept(tmp_path: Path) -> None:
    kept = Preferences(None)
    kept.keep_theme("jobtop-light")
    assert (kept.theme, kept.problem) == ("jobtop-light", None)
