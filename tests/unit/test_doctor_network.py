"""The doctor says whether the kernel tells what connections of jobs carry, and how to change that."""

import errno

import pytest

from jobtop.core.doctor.checks import MachineFiles, State
from jobtop.core.doctor.network import network_of_jobs, probe_sockets
from jobtop.core.measure.collectors.network.sock_diag import problem_of
from jobtop.core.record import replace


def test_this_machine_is_asked(machine_files: MachineFiles) -> None:
    finding = network_of_jobs(machine_files, probe_sockets)
    assert finding.state is State.WORKS


@pytest.mark.parametrize(
    ("number", "state", "remedy"),
    [
        (errno.ENOENT, State.FAILS, "as root: modprobe tcp_diag"),
        (errno.EPERM, State.ABSENT, None),
    ],
)
def test_a_kernel_that_refuses_has_a_reason_and_a_remedy_if_there_is_one(
    number: int, state: State, remedy: str | None, machine_files: MachineFiles
) -> None:
    def refuse() -> str | None:
        raise problem_of(number)

    finding = network_of_jobs(machine_files, refuse)
    assert (finding.state, finding.remedy) == (state, remedy)
    assert "namespace" in finding.meaning


def test_a_kernel_that_does_not_announce_closed_sockets_is_named(machine_files: MachineFiles) -> None:
    finding = network_of_jobs(machine_files, lambda: "no such group")
    assert finding.state is State.ABSENT
    assert "no such group" in finding.meaning


def test_other_systems_have_no_sock_diag(machine_files: MachineFiles) -> None:
    finding = network_of_jobs(replace(machine_files, platform="darwin"))
    assert (finding.state, finding.remedy) == (State.ABSENT, None)
