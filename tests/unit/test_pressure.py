"""Pressure is kept as seconds stalled since boot; a machine that does not tell says why."""

import errno
import os
from pathlib import Path

import pytest

from jobtop.core.measure.collectors.pressure import PressureCollector, Stall, stall
from support import ROOT

PRESSURE = ROOT / "tests/data/host/manycore/proc/pressure"


def test_the_totals_are_seconds_by_catalogue_key() -> None:
    collector = PressureCollector(str(PRESSURE))
    assert collector.available() is None
    assert collector.collect() == {
        "cpu.pressure": Stall(5.0, None),
        "mem.pressure": Stall(2.0, 1.0),
        "io.pressure": Stall(8.0, 2.0),
    }
    assert collector.missing == {}
    collector.close()


def test_a_cgroup_tells_also_when_all_its_tasks_waited_for_cpu(tmp_path: Path) -> None:
    text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n"
    for name in ("cpu", "memory", "io"):
        (tmp_path / f"{name}.pressure").write_text(text)
    collector = PressureCollector(str(tmp_path), suffix=".pressure")
    assert collector.collect()["cpu.pressure"] == Stall(1.5, 0.5)
    collector.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Stall()),
        ("some avg10=0.00 avg60=0.00 avg300=0.00 total=250000\n", Stall(0.25)),
        ("full avg10=0.00 avg60=0.00 avg300=0.00 total=250000\n", Stall(None, 0.25)),
        ("some avg10=0.00 avg60=0.0", Stall()),
        ("some total=\nfull total=1x\nmost total=7\ntotal=9\n", Stall()),
    ],
)
def test_torn_and_strange_lines_are_absent_not_zero(text: str, expected: Stall) -> None:
    assert stall(text) == expected


def test_a_kernel_without_pressure_says_so(tmp_path: Path) -> None:
    collector = PressureCollector(str(tmp_path / "pressure"))
    assert collector.collect() == {key: Stall() for key in ("cpu.pressure", "mem.pressure", "io.pressure")}
    reason = collector.missing["io.pressure"]
    assert reason.startswith(f"{tmp_path}/pressure/io: No such file or directory (")
    assert "psi=1" in reason
    assert collector.available() == collector.missing["cpu.pressure"]


def test_a_file_that_cannot_be_read_any_more_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cpu", "memory", "io"):
        (tmp_path / name).write_text("some avg10=0.00 total=1000000\n")
    collector = PressureCollector(str(tmp_path))
    assert collector.collect()["io.pressure"].some == 1.0
    before = len(os.listdir("/proc/self/fd"))

    def refuse(*_: object) -> bytes:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", refuse)
        assert collector.collect()["io.pressure"] == Stall()
    assert "Operation not supported" in collector.missing["io.pressure"]
    assert len(os.listdir("/proc/self/fd")) == before - 3
    (tmp_path / "io").unlink()
    (tmp_path / "io").write_text("some avg10=0.00 total=2000000\n")
    assert collector.collect()["io.pressure"].some == 2.0
    assert collector.missing == {}
    collector.close()
