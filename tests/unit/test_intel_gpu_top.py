"""intel_gpu_top: its output in both styles and odd pieces, and a program of that name as a real child process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from drm import DATA, DrmMachine

from jobtop.core.measure.collectors.gpu import intel_program
from jobtop.core.measure.collectors.gpu.intel_gpu_top import (
    FIRST_RETRY_SECONDS,
    FRESH_SECONDS,
    LONGEST_RETRY_SECONDS,
    LONGEST_TEXT,
    MOST_STARTS,
    GpuTopSample,
    IntelGpuTop,
    JsonObjects,
    sample_of,
)
from jobtop.core.measure.collectors.gpu.intel_program import may_count, program_problem
from support import wait_for

STYLES = DATA / "intel_gpu_top"


class FakeProgram:
    """A program called intel_gpu_top: it notes its pid and arguments, then does what the test says."""

    def __init__(self, directory: Path, does: str) -> None:
        self.path, self._notes = directory / "intel_gpu_top", directory / "started"
        self.path.write_text(f'#!/bin/sh\necho "$$ $*" >>{self._notes}\n{does}\n')
        self.path.chmod(0o755)

    @property
    def starts(self) -> list[str]:
        return self._notes.read_text().splitlines() if self._notes.exists() else []

    @property
    def pid(self) -> int:
        return int(self.starts[-1].split()[0])


def prints(style: str) -> str:
    """The program writes captured output in pieces of 13 bytes, then nothing more until it is ended."""
    return f"dd if={STYLES / style}.txt bs=13 2>/dev/null\nexec sleep 60"


@pytest.fixture
def running() -> Iterator[list[IntelGpuTop]]:
    made: list[IntelGpuTop] = []
    yield made
    for each in made:
        each.close()


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
@pytest.mark.parametrize("style", ["array", "objects"])
def test_objects_are_found_in_pieces_of_any_size(style: str, size: int) -> None:
    text, objects = (STYLES / f"{style}.txt").read_text(), JsonObjects()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    found = [parsed for piece in pieces for parsed in objects.feed(piece)]
    assert [sample_of(parsed).percent for parsed in found] == [99.0, 21.5, 42.5]


def test_what_is_no_sample_is_left_out() -> None:
    objects = JsonObjects()
    assert objects.feed('oops } ], {"a": nan}, {"a": [1, 2}') == []
    assert objects.feed('{"engines": {}}') == [{"engines": {}}]
    assert objects.feed('{"a": "' + "x" * LONGEST_TEXT) == []
    assert objects.feed('{"b": 1}') == [{"b": 1}]  # what was too long is forgotten


@pytest.mark.parametrize(
    ("parsed", "expected"),
    [
        ({"engines": {"Render/3D": {"busy": "12.5"}}, "power": {"GPU": "1.5"}}, GpuTopSample(12.5, 1.5)),
        ({"engines": {"Render/3D": {"busy": 130}}}, GpuTopSample(100.0, None)),
        ({"engines": {"Render/3D": {"busy": "?"}, "Video": {"busy": -1}, "Blitter": 3}}, GpuTopSample(None, None)),
        ({"engines": [], "power": None}, GpuTopSample(None, None)),
        ({}, GpuTopSample(None, None)),
    ],
)
def test_numbers_may_be_text_and_may_be_missing(parsed: dict[str, object], expected: GpuTopSample) -> None:
    assert sample_of(parsed) == expected


@pytest.mark.parametrize(("style", "watts"), [("array", 2.5), ("objects", None)])
def test_the_newest_sample_of_the_program_counts_for_a_while(
    tmp_path: Path, running: list[IntelGpuTop], style: str, watts: float | None
) -> None:
    program = FakeProgram(tmp_path, prints(style))
    top = IntelGpuTop(str(program.path), "card0")
    running.append(top)
    wait_for(lambda: top.newest(5.0) == GpuTopSample(42.5, watts) or None)
    assert program.starts[0].endswith("-J -s 1000 -d drm:/dev/dri/card0")
    assert top.newest(5.0 + FRESH_SECONDS + 0.1) is None
    pid = program.pid
    top.close()
    assert not os.path.exists(f"/proc/{pid}")  # no zombie either


def test_the_first_sample_means_nothing(tmp_path: Path, running: list[IntelGpuTop]) -> None:
    text = tmp_path / "one"
    text.write_text((STYLES / "array.txt").read_text().partition("\n},")[0] + "\n},\n")
    program = FakeProgram(tmp_path, f"cat {text}")
    top = IntelGpuTop(str(program.path))
    running.append(top)
    wait_for(lambda: top.newest(0.0) is not None or top.reason)
    assert "ended" in str(top.reason)


def test_a_program_that_crashes_is_started_again_seldom_and_not_for_ever(
    tmp_path: Path, running: list[IntelGpuTop]
) -> None:
    program = FakeProgram(tmp_path, "kill -SEGV $$")
    top = IntelGpuTop(str(program.path))
    running.append(top)
    wait_for(lambda: top.newest(0.0) is not None or top.reason)
    assert f"status -{signal.SIGSEGV:d}" in str(top.reason)
    assert top.newest(FIRST_RETRY_SECONDS - 1) is None
    assert len(program.starts) == 1
    now = 0.0
    for _ in range(2 * MOST_STARTS):
        now += LONGEST_RETRY_SECONDS
        top.reason = None
        top.newest(now)
        if top._child is not None:
            wait_for(lambda now=now: top.newest(now) is not None or top.reason)  # type: ignore[misc]
    assert len(program.starts) == MOST_STARTS


def test_a_program_that_cannot_be_executed_is_a_reason(tmp_path: Path) -> None:
    top = IntelGpuTop(str(tmp_path / "none"))
    assert top.newest(0.0) is None
    assert "No such file" in str(top.reason)


def test_a_program_that_does_not_want_to_end_is_killed(tmp_path: Path) -> None:
    program = FakeProgram(tmp_path, "trap '' TERM\necho ready\nsleep 60 & wait; sleep 60 & wait")
    top = IntelGpuTop(str(program.path))
    top.newest(0.0)
    wait_for(lambda: program.starts or None)
    pid = program.pid
    children = Path(f"/proc/{pid}/task/{pid}/children")
    sleeping = wait_for(lambda: children.read_text().split() or None)
    top.close()
    assert not os.path.exists(f"/proc/{pid}")
    for each in sleeping:
        os.kill(int(each), signal.SIGKILL)


def test_the_program_ends_when_jobtop_is_killed(tmp_path: Path) -> None:
    program = FakeProgram(tmp_path, "while :; do echo '{}'; sleep 0.02; done")
    starting = (
        "import sys, time; from jobtop.core.measure.collectors.gpu.intel_gpu_top import IntelGpuTop\n"
        "top = IntelGpuTop(sys.argv[1]); top.newest(0.0); print(flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", starting, str(program.path)], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    parent.stdout.readline()
    wait_for(lambda: program.starts or None)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_for(lambda: not is_running(program.pid) or None)


def is_running(pid: int) -> bool:
    """Whether a process lives; one that nobody reaps here is dead too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture
def may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intel_program, "may_count", lambda *_: True)


@pytest.mark.usefixtures("may")
def test_the_busiest_engine_wins_over_the_time_awake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = FakeProgram(tmp_path, prints("array"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    machine = DrmMachine(tmp_path / "machine", "intel-i915")
    found = wait_for(lambda: values if (values := machine.device(0.5))["gpu.util"] == 42.5 else None)
    assert found["gpu.power"] == 2.5
    assert program.starts[0].endswith("-J -s 1000")
    machine.close()
    assert not is_running(program.pid)


@pytest.mark.usefixtures("may")
@pytest.mark.parametrize("tree", ["amd-dgpu", "intel-xe", "server-bmc"])
def test_without_a_card_of_i915_the_program_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tree: str
) -> None:
    program = FakeProgram(tmp_path, prints("array"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    machine = DrmMachine(tmp_path / "machine", tree)
    machine.collect()
    machine.close()
    assert program.starts == []


@pytest.mark.parametrize(
    ("capabilities", "paranoid", "expected"),
    [
        ("000001ffffffffff", "4", True),
        ("0000004000000000", "4", True),  # CAP_PERFMON
        ("0000000000200000", "4", True),  # CAP_SYS_ADMIN
        ("0000000000000000", "2", False),
        ("0000000000000000", "0", True),
        ("0000000000000000", "-1", True),
        ("0000000000000000", "", False),
    ],
)
def test_the_program_is_started_only_where_it_may_count(
    tmp_path: Path, capabilities: str, paranoid: str, expected: bool
) -> None:
    program = FakeProgram(tmp_path, "exit 1")
    (tmp_path / "self").mkdir()
    (tmp_path / "self/status").write_text(f"Name:\tx\nCapEff:\t{capabilities}\n")
    (tmp_path / "sys/kernel").mkdir(parents=True)
    (tmp_path / "sys/kernel/perf_event_paranoid").write_text(f"{paranoid}\n")
    assert may_count(str(program.path), str(tmp_path)) is expected
    found, problem = program_problem(str(tmp_path), str(tmp_path))
    assert (found is not None, problem is None) == (expected, expected)
    assert "not installed" in str(program_problem(str(tmp_path), str(tmp_path / "self"))[1])
