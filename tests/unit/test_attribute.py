"""Attributes of /sys: what is torn, empty or no number is not known, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobtop.core.measure.collectors.attribute import read_attribute, read_name, read_number


@pytest.mark.parametrize(
    ("content", "number", "name"),
    [
        (b"42\n", 42, "42"),
        (b"-5000\n", -5000, "-5000"),
        (b"42", None, None),
        (b"", None, None),
        (b"\n", None, None),
        (b"9" * 5000 + b"\n", None, None),
        ("²\n".encode(), None, None),
        (b"Package  id 0\n", None, "Package id 0"),
        (b"\x01\x02\n", None, None),
    ],
)
def test_only_a_complete_line_is_a_value(tmp_path: Path, content: bytes, number: int | None, name: str | None) -> None:
    path = tmp_path / "attribute"
    path.write_bytes(content)
    assert (read_number(str(path)), read_name(str(path))) == (number, name)


def test_the_problem_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "temp1_input"
    missing = read_attribute(str(path))
    assert (missing.text, missing.is_there) == (None, False)
    assert missing.problem == f"{path}: No such file or directory"
    path.write_text("4200")
    torn = read_attribute(str(path))
    assert (torn.text, torn.is_there, torn.problem) == (None, True, f"{path}: torn")
