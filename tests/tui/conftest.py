"""Fixtures of the console's tests."""

from pathlib import Path

import pytest

from jobtop.core.paths import StatePaths
from records import HERE


@pytest.fixture
def paths(home: Path) -> StatePaths:
    """The state of a clean home on this host."""
    return StatePaths(home, HERE)
