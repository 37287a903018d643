"""The sampler of a process reads for profiles what one of them needs, and nothing that none needs."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

import pytest

from jobtop.core.config import load
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.paths import StatePaths
from jobtop.lifecycle.tracking import serving
from jobtop.lifecycle.tracking.serving import BlockSampler, Profile


class FakeReader:
    """Remembers what it was opened without."""

    opened: list[set[str]]

    def __init__(self, without: Collection[str]) -> None:
        FakeReader.opened.append(set(without))

    def read(self) -> dict[str, Any]:
        return {}

    def close(self) -> None: ...


def test_a_source_is_read_if_any_profile_needs_it(paths: StatePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeReader.opened = []
    monkeypatch.setattr(serving, "ProfileReader", FakeReader)
    process = identify(os.getpid())
    assert process is not None
    sampler = BlockSampler(paths, load((), os.environ, "/"), process)
    for key, without in (("a", {"gpu", "host"}), ("b", {"gpu"}), ("c", set[str]()), ("d", {"gpu"})):
        sampler.profiles[key] = Profile(0.5, without)
        sampler._read_host()
    assert FakeReader.opened == [{"gpu", "host"}, {"gpu"}, set()]
