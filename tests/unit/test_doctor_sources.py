"""What the doctor finds of the sources of samples, on captured machines: works, or why not and the remedy."""

import errno
import gzip
import os
from pathlib import Path

import pytest

from jobtop.core.doctor import sources
from jobtop.core.doctor.checks import Finding, Machine, State
from jobtop.core.doctor.sources import MEMBER_FILES, PSI_ON
from jobtop.core.measure.collectors.host import SAMPLED_KEYS
from jobtop.core.measure.collectors.pressure import RESOURCES
from trees import DATA, capture

STALLED = "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine whose files are below a directory, and a user without privileges on it."""
    return Machine(str(tmp_path / "machine"), 1000, "ada", "linux", (1000, 27))


def put(machine: Machine, path: str, text: str = "") -> None:
    file = Path(machine.path(path))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def named(findings: list[Finding], name: str) -> Finding:
    (found,) = (finding for finding in findings if finding.name == name)
    return found


def test_every_file_of_a_member_works_here() -> None:
    found = sources.members(sources.member_problems(os.getpid()), Machine())
    assert [finding.name for finding in found] == [file.name for file in MEMBER_FILES.values()]
    assert named(found, "/proc/PID/io").state is State.WORKS


def test_files_that_are_missing_need_another_kernel(machine: Machine, tmp_path: Path) -> None:
    directory = tmp_path / "7"
    (directory / "fd").mkdir(parents=True)
    (directory / "status").write_text("Name: x\n")
    (directory / "io").write_text("")
    problems = sources.member_problems(7, str(tmp_path))
    assert problems == {"io": errno.ENODATA, "smaps_rollup": errno.ENOENT, "schedstat": errno.ENOENT}
    found = sources.members(problems, machine)
    assert [str(finding.state) for finding in found] == ["absent", "works", "works", "absent", "absent"]
    assert named(found, "smaps_rollup").remedy == "use a kernel with CONFIG_PROC_PAGE_MONITOR (Linux 4.14)"


@pytest.mark.parametrize(
    ("file", "text", "remedy"),
    [
        ("sys/fs/selinux/enforce", "1", "as root: setsebool -P deny_ptrace off"),
        (
            "proc/self/attr/current",
            "docker-default (enforce)\n",
            "as root: add `ptrace (read),` to the AppArmor profile docker-default",
        ),
        ("proc/self/attr/current", "unconfined\n", None),
    ],
)
def test_what_is_forbidden_is_so_by_a_security_module(
    machine: Machine, file: str, text: str, remedy: str | None
) -> None:
    put(machine, file, text)
    found = named(sources.members({"smaps_rollup": errno.EACCES}, machine), "smaps_rollup")
    assert (found.state, found.remedy) == (State.FAILS, remedy)
    assert found.meaning.startswith("Permission denied: ")


def test_where_no_job_could_be_run_nothing_is_known_of_members(machine: Machine) -> None:
    found = [sources.clocks(None), *sources.members(None, machine)]
    assert {(finding.state, finding.meaning) for finding in found} == {
        (State.ABSENT, "not known, since no job could be run")
    }


def test_clocks_that_cannot_be_read_are_a_limit() -> None:
    assert sources.clocks(True).state is State.WORKS
    assert (sources.clocks(False).state, bool(sources.clocks(False).remedy)) == (State.FAILS, True)


@pytest.mark.parametrize(
    ("options", "state", "words"),
    [
        ("rw", "works", "every process"),
        ("rw,hidepid=0", "works", "every process"),
        ("rw,hidepid=off", "works", "every process"),
        ("rw,hidepid=2", "fails", "as root: mount -o remount,hidepid=0 /proc"),
        ("rw,gid=28,hidepid=invisible", "fails", "usermod -aG 28 ada and log in again"),
        ("rw,gid=27,hidepid=invisible", "works", "not for your group 27"),
        ("rw,gid=27,hidepid=ptraceable", "fails", "hidepid=0 /proc"),
    ],
)
def test_hidden_processes_are_a_limit_with_a_remedy(machine: Machine, options: str, state: str, words: str) -> None:
    put(machine, "proc/self/mountinfo", f"22 27 0:20 / /proc rw,relatime shared:12 - proc proc {options}\n")
    found = sources.hidden_processes(machine)
    assert found.state == state
    assert words in f"{found.meaning} {found.remedy}"
    root = Machine(machine.root, 0, "root", "linux")
    assert sources.hidden_processes(root).state is State.WORKS


def test_the_proc_that_is_mounted_last_counts(machine: Machine) -> None:
    rows = ["22 27 0:20 / /proc rw - proc proc rw,hidepid=2", "99 22 0:44 / /proc rw - proc proc rw"]
    put(
        machine, "proc/self/mountinfo", "\n".join([*rows, "7 22 0:45 / /jail/procs rw - proc proc rw,hidepid=2"]) + "\n"
    )
    assert sources.hidden_processes(machine).state is State.WORKS


def test_lists_of_children_are_there_or_not(machine: Machine) -> None:
    assert sources.child_lists(machine).remedy == "use a kernel with CONFIG_PROC_CHILDREN"
    put(machine, "proc/self/task/77/children")
    assert sources.child_lists(machine).state is State.WORKS


def test_what_a_cgroup_of_its_own_counts_is_what_was_read_of_it(machine: Machine) -> None:
    capture("v2", Path(machine.root))
    good = sources.own_cgroup(machine, {"cpu.user", "cpu.throttled", *RESOURCES})
    assert [str(finding.state) for finding in good] == ["works", "works"]
    assert "throttled" in good[0].meaning
    assert "cpu, memory, io" in good[1].meaning
    bad = sources.own_cgroup(machine, {"mem.used"})
    assert [str(finding.state) for finding in bad] == ["absent", "absent"]
    assert bad[1].remedy == sources.host_pressure(machine).remedy


def test_in_version_1_a_tree_of_version_2_beside_it_counts_pressure(machine: Machine) -> None:
    capture("v1", Path(machine.root))
    found = sources.own_cgroup(machine, {"mem.used"})
    assert "mount -t cgroup -o cpuacct" in str(found[0].remedy)
    assert "mount -t cgroup2" in str(found[1].remedy)


def test_pressure_works_where_it_is_told(machine: Machine) -> None:
    put(machine, "proc/pressure/cpu", STALLED)
    put(machine, "proc/pressure/io", STALLED)
    found = sources.host_pressure(machine)
    assert (found.state, found.meaning) == (State.WORKS, "time lost waiting for cpu, io (PSI)")


@pytest.mark.parametrize(
    ("files", "state", "remedy"),
    [
        ({"proc/pressure/cpu": ""}, "fails", PSI_ON),
        ({"boot/config-6.1-x": "CONFIG_PSI=y\nCONFIG_PSI_DEFAULT_DISABLED=y\n"}, "fails", PSI_ON),
        ({"boot/config-6.1-x": "# CONFIG_PSI is not set\n"}, "absent", "use a kernel with CONFIG_PSI"),
        ({}, "absent", f"{PSI_ON} (it needs CONFIG_PSI)"),
        ({"proc/cmdline": "quiet psi=0\n"}, "fails", "as root: take psi=0 from the kernel's command line and boot"),
        (
            {"proc/self/mountinfo": "9 2 0:5 / /proc/pressure ro - tmpfs tmpfs ro\n"},
            "fails",
            "as root: umount /proc/pressure; for a container: docker run --security-opt systempaths=unconfined …",
        ),
    ],
)
def test_pressure_that_is_not_told_can_be_had(
    machine: Machine, files: dict[str, str], state: str, remedy: str | None
) -> None:
    put(machine, "proc/sys/kernel/osrelease", "6.1-x\n")
    for path, text in files.items():
        put(machine, path, text)
    found = sources.host_pressure(machine)
    assert (found.state, found.remedy) == (state, remedy)


def test_the_kernel_s_own_copy_of_its_configuration_is_read(machine: Machine) -> None:
    Path(machine.path("proc")).mkdir(parents=True)
    with gzip.open(machine.path("proc/config.gz"), "wt") as file:
        file.write("CONFIG_SMP=y\nCONFIG_PSI=y\n")
    assert sources.kernel_option(machine, "CONFIG_PSI") == "y"
    assert sources.kernel_option(machine, "CONFIG_NUMA") == "n"


def captured(name: str) -> Machine:
    return Machine(str(DATA / "host" / name), 1000, "ada", "linux")


def test_a_captured_machine_is_told_source_by_source(tmp_path: Path) -> None:
    found = sources.host(captured("manycore"), str(tmp_path))
    assert named(found, "host CPU").state is State.WORKS
    assert named(found, "host memory").state is State.WORKS


def test_every_key_of_the_host_has_a_finding(machine: Machine) -> None:
    found = sources.host(machine, "/no/such/place")
    assert [finding.name for finding in found if finding.state is State.WORKS] == []
    assert named(found, "host CPU").remedy == "as root: mount -t proc proc /proc"
    assert named(found, "disk space").meaning == "/no/such/place: No such file or directory"
    covered = {key for _, keys in sources.HOST_ROWS for key in keys} | {*RESOURCES, "temp", "cpu.percent"}
    assert covered == {*SAMPLED_KEYS, "cpu.percent"}


def test_something_of_a_source_may_be_missing() -> None:
    found = sources.host_finding(
        "host CPU", ("cpu.percent", "cpu.steal"), "", {"cpu.steal": "/proc/stat: does not tell"}
    )
    assert (found.state, found.remedy) == (State.ABSENT, None)
    assert found.meaning == "/proc/stat: does not tell (cpu.steal not known)"
    refused = sources.host_finding("host load", ("load.1",), "", {"load.1": "/proc/loadavg: Permission denied"})
    assert (refused.state, refused.remedy) == (State.FAILS, "as root: chmod a+r /proc/loadavg")


@pytest.mark.parametrize(
    ("cpuinfo", "words"),
    [
        ("vendor_id\t: GenuineIntel\nflags\t\t: fpu hypervisor sse\n", "a virtual machine has no sensors"),
        ("vendor_id\t: GenuineIntel\nflags\t\t: fpu sse\n", "as root: modprobe coretemp"),
        ("vendor_id\t: AuthenticAMD\nflags\t\t: fpu sse\n", "as root: modprobe k10temp"),
        ("CPU implementer\t: 0x41\n", "no sensor"),
    ],
)
def test_a_machine_without_a_sensor_may_lack_a_driver(machine: Machine, cpuinfo: str, words: str) -> None:
    put(machine, "proc/cpuinfo", cpuinfo)
    found = sources.temperature(machine, None, {"temp": "no sensor"})
    assert found.state is State.ABSENT
    assert words in (found.meaning, found.remedy)
    assert sources.temperature(machine, 41.6, {}).meaning == "42 °C"


def test_of_many_names_a_few_are_told() -> None:
    assert sources.listed(["b", "a"]) == "a, b"
    assert sources.listed([f"veth{number}" for number in range(9)]).endswith("veth5 and 3 more")
