"""Tracked blocks without measuring: what `jobtop.tracking` offers, with records that a test chooses."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest

from jobtop.core.clock import iso
from jobtop.core.track.profile import ProfileTally

STARTED = 1_760_524_200.0  # 2025-10-15T10:30:00


@dataclass
class FakeBlock:
    """A block of 330.12 seconds."""

    options: dict[str, Any]
    id: str
    is_lost: bool = False
    profile: dict[str, Any] | None = None
    closed: list[tuple[str | None, int | None, str | None]] = field(default_factory=list)

    def close(
        self, status: str | None = None, returncode: int | None = None, error: str | None = None
    ) -> dict[str, Any]:
        self.closed.append((status, returncode, error))
        if self.is_lost:
            return {}
        if self.options["profile"]:
            tally = ProfileTally()
            tally.add({"job": {"mem.used": 1 << 20, "cpu.percent": 50.0}})
            self.profile = tally.summary(330.12, self.options["interval"])
        used = {"cpu_user_seconds": 285.45, "cpu_system_seconds": 12.34, "cpu_total_seconds": 297.79}
        return {
            "id": self.id,
            "tool": self.options.get("tool"),
            "script": self.options.get("script"),
            "params": dict(self.options["params"] or {}),
            "start_time": iso(STARTED),
            "end_time": iso(STARTED + 330.12),
            "duration_seconds": 330.12,
            "status": status or "success",
            "exit_code": returncode,
            "signal": None,
            "error": error,
            "resource_usage": used | {"memory_peak_bytes": 2048 << 20, "io_read_bytes": 3 << 20, "io_write_bytes": 0},
        }


class FakeTracking:
    """Takes the place of `jobtop.tracking`; `blocks` has all that were opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.blocks: list[FakeBlock] = []
        self.is_lost = False
        module = ModuleType("jobtop.tracking")
        module.open_block = self.open_block  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "jobtop.tracking", module)

    def open_block(self, name: str, **options: Any) -> FakeBlock:
        options = {"name": name, "params": None, "profile": False, "interval": None} | options
        block = FakeBlock(options, f"00000000-0000-4000-8000-{len(self.blocks):012}", self.is_lost)
        self.blocks.append(block)
        return block
