"""The table `gpu_metrics` of amdgpu in the revisions that are known, torn, and unknown."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from drm import DrmMachine

from jobtop.core.measure.collectors.gpu.amd_metrics import AmdMetrics, parse_metrics

NONE = 0xFFFF_FFFF_FFFF_FFFF
SIZES = {(1, 3): 120, (1, 4): 288, (1, 5): 360, (1, 6): 1664, (1, 7): 1792}


def table(revision: tuple[int, int], place: int, value: int) -> bytes:
    size = SIZES[revision]
    return struct.pack("<HBB", size, *revision) + bytes(place - 4) + struct.pack("<Q", value) + bytes(size - place - 8)


@pytest.mark.parametrize(("revision", "place"), [((1, 4), 24), ((1, 5), 88), ((1, 6), 16), ((1, 7), 24)], ids=str)
def test_energy_is_where_the_revision_has_it(revision: tuple[int, int], place: int) -> None:
    assert parse_metrics(table(revision, place, 3 << 16)) == AmdMetrics(3.0, None)
    assert parse_metrics(table(revision, place, NONE)) == AmdMetrics(None, None)


@pytest.mark.parametrize(
    ("bits", "reasons"),
    [
        (0, ()),
        (1 << 0, ("power cap",)),
        (1 << 16, ("power cap",)),
        (1 << 36, ("thermal",)),
        (1 << 0 | 1 << 47, ("power cap", "thermal")),
        (1 << 57, ()),  # for the sake of reliability, not of heat or power
    ],
)
def test_the_reasons_of_a_slowdown_are_words(bits: int, reasons: tuple[str, ...]) -> None:
    assert parse_metrics(table((1, 3), 112, bits)).slowdowns == reasons


@pytest.mark.parametrize(
    "torn",
    [
        b"",
        b"\x01",
        table((1, 4), 24, 5)[:40],
        struct.pack("<HBB", 96, 1, 4) + bytes(92),  # another size than that of the revision
        struct.pack("<HBB", 120, 2, 2) + bytes(116),
        struct.pack("<HBB", 4, 1, 6),
    ],
)
def test_a_table_that_is_torn_or_not_known_says_nothing(torn: bytes) -> None:
    assert parse_metrics(torn) == AmdMetrics(None, None)


def test_a_counter_of_energy_is_preferred_to_power(tmp_path: Path) -> None:
    amd = DrmMachine(tmp_path, "amd-dgpu")
    metrics = amd.file("gpu_busy_percent").with_name("gpu_metrics")
    metrics.write_bytes(table((1, 4), 24, 1000 << 16))
    assert amd.device()["energy.gpu"] == 1000.0
    [reader] = amd.source._cards.readers(amd.now)
    assert reader.energy_method.startswith("gpu_metrics energy counter")
    metrics.unlink()
    assert amd.device()["energy.gpu"] is None  # and not that of the power
    amd.close()


def test_a_slowdown_is_an_event_with_its_reason(tmp_path: Path) -> None:
    amd = DrmMachine(tmp_path, "amd-dgpu")
    metrics = amd.file("gpu_busy_percent").with_name("gpu_metrics")
    metrics.write_bytes(table((1, 3), 112, 0))
    assert amd.device()["gpu.throttled"] == 0
    metrics.write_bytes(table((1, 3), 112, 1 << 36))
    readings = amd.collect()
    [(_, values)] = readings.devices
    assert values["gpu.throttled"] == 1
    assert [(kind, detail["reasons"]) for _, kind, detail in readings.events] == [("gpu_throttled", ["thermal"])]
    amd.close()
