"""What the console keeps of containers: the newest lines, the tracks of what they used, and their processes."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from still_containers import AT, DOCKER, StillContainers, still_row

from jobtop.core.errors import EngineError
from jobtop.core.measure.collectors.docker.client import STDOUT
from jobtop.core.measure.collectors.docker.log_lines import LogLine
from jobtop.core.measure.live.container_processes import listed_processes, pids_in
from jobtop.core.record import replace
from jobtop.tui.data.containers.feed import MOST_MOMENTS, ContainerFeed, Track
from jobtop.tui.data.containers.log_tail import LogTail
from support import wait_for


class Lines:
    """A log with so many lines of a size; it fails at the end if it has to."""

    def __init__(self, count: int, size: int, problem: str | None = None) -> None:
        self.count, self.size, self.problem = count, size, problem
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[LogLine]:
        container = still_row("web").container
        for number in range(self.count):
            yield LogLine(container, STDOUT, AT, f"{number}".encode().ljust(self.size, b"."))
        if self.problem is not None:
            raise EngineError(self.problem)

    def close(self) -> None:
        self.closed.set()


@pytest.mark.parametrize(("most_lines", "most_bytes", "kept"), [(10, 1 << 20, 10), (1000, 500, 5)])
def test_only_the_newest_lines_are_kept(most_lines: int, most_bytes: int, kept: int) -> None:
    tail = LogTail(Lines(200, 100), most_lines, most_bytes).start()
    wait_for(lambda: tail.is_over)
    first, lines = tail.newest()
    assert (first, len(lines), tail.read) == (200 - kept, kept, 200)
    assert lines[-1].data.startswith(b"199.")


def test_the_problem_of_a_log_is_kept_and_closing_reaches_its_stream() -> None:
    log = Lines(1, 3, "the engine has gone")
    tail = LogTail(log).start()
    wait_for(lambda: tail.is_over)
    assert tail.problem == "the engine has gone"
    tail.close()
    assert log.closed.wait(10)


def test_a_track_is_bounded_and_what_is_not_known_is_absent() -> None:
    track, row = Track(), still_row("web")
    for second in range(MOST_MOMENTS + 50):
        track.add(AT + second, row)
    track.add(AT, row)  # an old reading
    unknown = replace(row, values={}, rates={})
    track.add(AT + 5000.0, unknown)
    assert len(track.curve("cpu.percent").values) == MOST_MOMENTS
    assert track.curve("mem.used").values[-1] is None
    assert track.last_minute("cpu.percent") == ((AT + 5000.0,), (None,))
    track.keep_longer()
    for second in range(MOST_MOMENTS):
        track.add(AT + 6000.0 + second, row)
    assert len(track.curve("net.rx_bytes").values) == 2 * MOST_MOMENTS


def test_what_was_known_stays_until_a_new_monitor_has_answers() -> None:
    source = StillContainers(still_row("web"))
    feed = ContainerFeed(source)
    feed.start()
    assert feed.look()
    assert not feed.look()
    source.show(engines=(replace(DOCKER, is_asked=False),))
    feed.list_every(True)
    assert not feed.look()
    assert [row.container.name for row in feed.now.rows] == ["web"]
    source.show(still_row("db", 2), engines=(DOCKER,))
    assert feed.look()
    assert [row.container.name for row in feed.now.rows] == ["db"]
    feed.stop()
    wait_for(lambda: source.monitors == [])


def test_processes_are_those_of_the_first_hierarchy_that_lists_any(tmp_path: Path) -> None:
    for name, text in (("empty", ""), ("v1", "7\n0\n"), ("v1/below", "9\n8\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").write_text(text)
    assert pids_in([str(tmp_path / name) for name in ("missing", "empty", "v1")]) == [7, 8, 9]


def test_an_engine_s_list_has_commands_without_secrets_and_no_numbers() -> None:
    titles = ["UID", "PID", "PPID", "C", "CMD"]
    rows = [["0", "12", "1", "0", "serve --password hunter2"], ["0", "13", "12", "0", "worker"], ["broken"]]
    first, second = listed_processes(titles, rows)
    assert (first.pid, first.parent, second.parent) == (12, 1, 12)
    assert "hunter2" not in first.command
    assert (first.cpu_percent, first.memory_bytes, first.threads, first.age_seconds) == (None,) * 4
    assert listed_processes(["NAME"], rows) == []


def test_a_container_of_this_machine_is_read_from_its_cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jobtop.core.measure.live import container_processes as module

    (tmp_path / "cgroup.procs").write_text(f"{os.getpid()}\n")
    monkeypatch.setattr(module, "container_cgroups", lambda *_: (str(tmp_path),))
    reader = module.ContainerProcesses(replace(still_row("web").container, pid=os.getpid()))
    assert reader.is_visible
    assert [row.pid for row in reader.read()] == [os.getpid()]
    (row,) = reader.read()
    assert row.cpu_percent is not None
    assert (row.memory_bytes or 0) > 1 << 20
