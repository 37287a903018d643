"""All processes of the machine: read from captured files, with the CPU time since the reading before."""

import os
from pathlib import Path

import pytest

from jobtop.core.measure.collectors.members import TICK_SECONDS
from jobtop.core.measure.live.machine_processes import IDLE_REREAD_PASSES, MachineProcess, MachineProcesses
from processes import MIB, FakeProc

KERNEL_FLAGS = "2129984"  # of a kernel thread, with PF_KTHREAD


class Machine:
    """A captured /proc, and a clock that goes a second on with every reading."""

    def __init__(self, root: Path) -> None:
        self.proc, self.now = FakeProc(root), 1000.0
        self.reader = MachineProcesses(proc=str(root), clock=self.proc.clock, now=lambda: self.now)

    def command(self, pid: int, *words: str) -> None:
        (self.proc.root / str(pid) / "cmdline").write_bytes(b"".join(os.fsencode(word) + b"\0" for word in words))

    def read(self) -> dict[int, MachineProcess]:
        self.now += 1.0
        return {process.pid: process for process in self.reader.read().processes}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_cpu_is_that_since_the_reading_before(machine: Machine) -> None:
    machine.proc.put(7, 1, cpu=90.0)
    assert machine.read()[7].cpu_percent is None
    machine.proc.put(7, 1, cpu=90.25)
    assert machine.read()[7].cpu_percent == pytest.approx(25.0)
    assert machine.read()[7].cpu_percent == 0.0


def test_a_process_that_never_runs_uses_nothing_from_the_second_reading_on(machine: Machine) -> None:
    machine.proc.put(7, 1, cpu=90.0)
    machine.read()
    assert machine.read()[7].cpu_percent == 0.0


def test_a_new_process_counts_from_its_start(machine: Machine) -> None:
    machine.proc.put(7, 1)
    machine.read()
    machine.proc.put(8, 7, start=round((machine.now + 0.5) / TICK_SECONDS), cpu=0.4)
    assert machine.read()[8].cpu_percent == pytest.approx(40.0)


def test_a_process_is_shown_with_all_that_its_files_say(machine: Machine) -> None:
    machine.proc.put(7, 3, start=4200, rss=5 * MIB, name="a) (b", state="D")
    machine.command(7, "/usr/bin/curl", "--user", "ada:hunter2", "http://x")
    process = machine.read()[7]
    assert process.key == (7, 4200)
    assert (process.parent, process.state, process.name, process.threads) == (3, "D", "a) (b", 1)
    assert process.memory_bytes == 5 * MIB
    assert process.uid == os.geteuid()
    assert process.command.startswith("/usr/bin/curl --user")
    assert "hunter2" not in process.command


def test_a_kernel_thread_and_a_zombie_have_no_memory(machine: Machine) -> None:
    machine.proc.put(2, 0, name="kthreadd", rss=0)
    stat = machine.proc.root / "2" / "stat"
    fields = stat.read_text().split()
    stat.write_text(" ".join([*fields[:8], KERNEL_FLAGS, *fields[9:]]) + "\n")
    machine.proc.put(9, 1, name="gone", state="Z", rss=0)
    found = machine.read()
    assert (found[2].is_kernel, found[2].command, found[2].memory_bytes) == (True, "[kthreadd]", None)
    assert (found[9].is_kernel, found[9].command, found[9].memory_bytes) == (False, "[gone]", None)


def test_a_process_that_exits_is_no_longer_listed(machine: Machine) -> None:
    machine.proc.put(7, 1)
    machine.proc.put(8, 1)
    assert machine.read().keys() == {7, 8}
    machine.proc.end(7)
    assert machine.read().keys() == {8}


def test_a_reused_pid_is_another_process(machine: Machine) -> None:
    machine.proc.put(7, 1, start=100, cpu=50.0, name="old")
    machine.read()
    machine.proc.put(7, 1, start=round(machine.now / TICK_SECONDS) + 50, cpu=0.1, name="new")
    process = machine.read()[7]
    assert process.name == "new"
    assert process.cpu_percent == pytest.approx(10.0)


def test_the_command_after_an_exec_is_the_new_one(machine: Machine) -> None:
    machine.proc.put(7, 1, name="sh")
    machine.command(7, "sh", "start")
    assert machine.read()[7].command == "sh start"
    machine.proc.put(7, 1, name="train", cpu=0.1)
    machine.command(7, "train", "--all")
    assert machine.read()[7].command == "train --all"


def test_an_idle_process_is_seen_below_its_new_parent_after_some_readings(machine: Machine) -> None:
    machine.proc.put(7, 5)
    assert machine.read()[7].parent == 5
    machine.proc.put(7, 1)
    assert [machine.read()[7].parent for _ in range(IDLE_REREAD_PASSES)][-1] == 1


def test_real_processes_are_read_with_their_users() -> None:
    reader = MachineProcesses()
    try:
        own = next(process for process in reader.read().processes if process.pid == os.getpid())
    finally:
        reader.close()
    assert own.uid == os.geteuid()
    assert own.memory_bytes
