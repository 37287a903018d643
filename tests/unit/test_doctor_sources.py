"""What the doctor finds of the sources of samples, on captured machines: works, or why not and the remedy."""

import errno
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from captured_hosts import below_machine, slow_reader
from machines import put

from jobtop.core.doctor import devices, gpus, sources
from jobtop.core.doctor.checks import Finding, MachineFiles, State
from jobtop.core.doctor.sources import MEMBER_FILES, PSI_REMEDY
from jobtop.core.measure.collectors.host.reading import SAMPLED_KEYS
from jobtop.core.measure.collectors.pressure import RESOURCES
from nvml import FakeGpu, fake_nvml
from support import Jobtop
from trees import DATA, capture

STALLED = "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"


def named(findings: list[Finding], name: str) -> Finding:
    (found,) = (finding for finding in findings if finding.name == name)
    return found


def test_every_file_of_a_member_works_here() -> None:
    found = sources.member_findings(sources.member_problems(os.getpid()), MachineFiles())
    assert [finding.name for finding in found] == [file.name for file in MEMBER_FILES.values()]
    assert named(found, "/proc/PID/io").state is State.WORKS


def test_files_that_are_missing_need_another_kernel(machine_files: MachineFiles, tmp_path: Path) -> None:
    directory = tmp_path / "7"
    (directory / "fd").mkdir(parents=True)
    (directory / "status").write_text("Name: x\n")
    (directory / "io").write_text("")
    problems = sources.member_problems(7, str(tmp_path))
    assert problems == {"io": errno.ENODATA, "smaps_rollup": errno.ENOENT, "schedstat": errno.ENOENT}
    found = sources.member_findings(problems, machine_files)
    assert [str(finding.state) for finding in found] == ["absent", "works", "works", "absent", "absent"]
    assert "CONFIG_PROC_PAGE_MONITOR" in str(named(found, "smaps_rollup").remedy)


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
    machine_files: MachineFiles, file: str, text: str, remedy: str | None
) -> None:
    put(machine_files, file, text)
    found = named(sources.member_findings({"smaps_rollup": errno.EACCES}, machine_files), "smaps_rollup")
    assert (found.state, found.remedy) == (State.FAILS, remedy)
    assert found.meaning.startswith("Permission denied: ")


def test_where_no_job_could_be_run_nothing_is_known_of_members(machine_files: MachineFiles) -> None:
    found = [sources.cpu_clocks(None), *sources.member_findings(None, machine_files)]
    assert {finding.state for finding in found} == {State.ABSENT}
    assert all("no job could be run" in finding.meaning for finding in found)


def test_clocks_that_cannot_be_read_are_a_limit() -> None:
    assert sources.cpu_clocks(True).state is State.WORKS
    assert (sources.cpu_clocks(False).state, bool(sources.cpu_clocks(False).remedy)) == (State.FAILS, True)


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
def test_hidden_processes_are_a_limit_with_a_remedy(
    machine_files: MachineFiles, options: str, state: str, words: str
) -> None:
    put(machine_files, "proc/self/mountinfo", f"22 27 0:20 / /proc rw,relatime shared:12 - proc proc {options}\n")
    found = sources.hidden_processes(machine_files)
    assert found.state == state
    assert words in f"{found.meaning} {found.remedy}"
    root = MachineFiles(machine_files.root, 0, "root", "linux")
    assert sources.hidden_processes(root).state is State.WORKS


def test_the_proc_that_is_mounted_last_counts(machine_files: MachineFiles) -> None:
    rows = ["22 27 0:20 / /proc rw - proc proc rw,hidepid=2", "99 22 0:44 / /proc rw - proc proc rw"]
    put(
        machine_files,
        "proc/self/mountinfo",
        "\n".join([*rows, "7 22 0:45 / /jail/procs rw - proc proc rw,hidepid=2"]) + "\n",
    )
    assert sources.hidden_processes(machine_files).state is State.WORKS


def test_lists_of_children_are_there_or_not(machine_files: MachineFiles) -> None:
    assert "CONFIG_PROC_CHILDREN" in str(sources.child_lists(machine_files).remedy)
    put(machine_files, "proc/self/task/77/children")
    assert sources.child_lists(machine_files).state is State.WORKS


def test_what_a_cgroup_of_its_own_counts_is_what_was_read_of_it(machine_files: MachineFiles) -> None:
    capture("v2", Path(machine_files.root))
    good = sources.own_cgroup(machine_files, {"cpu.user", "cpu.throttled", *RESOURCES})
    assert [str(finding.state) for finding in good] == ["works", "works"]
    assert "throttled" in good[0].meaning
    assert "cpu, memory, io" in good[1].meaning
    bad = sources.own_cgroup(machine_files, {"mem.used"})
    assert [str(finding.state) for finding in bad] == ["absent", "absent"]
    assert bad[1].remedy == sources.host_pressure(machine_files).remedy


def test_in_version_1_a_tree_of_version_2_beside_it_counts_pressure(machine_files: MachineFiles) -> None:
    capture("v1", Path(machine_files.root))
    found = sources.own_cgroup(machine_files, {"mem.used"})
    assert "mount -t cgroup -o cpuacct" in str(found[0].remedy)
    assert "mount -t cgroup2" in str(found[1].remedy)


def test_pressure_works_where_it_is_told(machine_files: MachineFiles) -> None:
    put(machine_files, "proc/pressure/cpu", STALLED)
    put(machine_files, "proc/pressure/io", STALLED)
    found = sources.host_pressure(machine_files)
    assert (found.state, "cpu, io" in found.meaning, "memory" in found.meaning) == (State.WORKS, True, False)


@pytest.mark.parametrize(
    ("files", "state", "remedy"),
    [
        ({"proc/pressure/cpu": ""}, "fails", PSI_REMEDY),
        ({"boot/config-6.1-x": "CONFIG_PSI=y\nCONFIG_PSI_DEFAULT_DISABLED=y\n"}, "fails", PSI_REMEDY),
        ({"boot/config-6.1-x": "# CONFIG_PSI is not set\n"}, "absent", "kernel with CONFIG_PSI"),
        ({}, "absent", PSI_REMEDY),
        ({"proc/cmdline": "quiet psi=0\n"}, "fails", "psi=0"),
        (
            {"proc/self/mountinfo": "9 2 0:5 / /proc/pressure ro - tmpfs tmpfs ro\n"},
            "fails",
            "as root: umount /proc/pressure",
        ),
    ],
)
def test_pressure_that_is_not_told_can_be_had(
    machine_files: MachineFiles, files: dict[str, str], state: str, remedy: str
) -> None:
    put(machine_files, "proc/sys/kernel/osrelease", "6.1-x\n")
    for path, text in files.items():
        put(machine_files, path, text)
    found = sources.host_pressure(machine_files)
    assert found.state == state
    assert remedy in str(found.remedy)


def test_the_kernel_s_own_copy_of_its_configuration_is_read(machine_files: MachineFiles) -> None:
    Path(machine_files.path("proc")).mkdir(parents=True)
    with gzip.open(machine_files.path("proc/config.gz"), "wt") as file:
        file.write("CONFIG_SMP=y\nCONFIG_PSI=y\n")
    assert sources.kernel_option(machine_files, "CONFIG_PSI") == "y"
    assert sources.kernel_option(machine_files, "CONFIG_NUMA") == "n"


def captured(name: str) -> MachineFiles:
    return MachineFiles(str(DATA / "host" / name), 1000, "ada", "linux")


def test_a_captured_machine_is_told_source_by_source(tmp_path: Path) -> None:
    found = sources.host_findings(captured("manycore"), str(tmp_path))
    assert named(found, "host CPU").state is State.WORKS
    assert named(found, "host memory").state is State.WORKS


def test_every_key_of_the_host_has_a_finding(machine_files: MachineFiles) -> None:
    found = sources.host_findings(machine_files, "/no/such/place")
    assert [finding.name for finding in found if finding.state is State.WORKS] == []
    assert "mount -t proc proc /proc" in str(named(found, "host CPU").remedy)
    assert "/no/such/place: No such file or directory" in named(found, "disk space").meaning
    covered = {key for _, keys in sources.HOST_ROWS for key in keys} | {*RESOURCES, "temp", "cpu.percent"}
    assert covered == {*SAMPLED_KEYS, "cpu.percent"}


def test_slow_devices_are_named_or_the_reason_why_there_are_none(tmp_path: Path, machine_files: MachineFiles) -> None:
    below_machine("manycore", tmp_path)
    found = devices.device_findings(MachineFiles(str(tmp_path), 1000, "ada", "linux"), slow_reader(tmp_path))
    assert {finding.state for finding in found} == {State.WORKS}
    assert "coretemp Package id 0" in named(found, "sensors").meaning
    assert "sda" in named(found, "space by disk").meaning
    assert "2 nodes" in named(found, "NUMA nodes").meaning
    assert "BAT0" in named(found, "batteries").meaning
    nothing = devices.device_findings(machine_files)
    assert {finding.state for finding in nothing} == {State.ABSENT}
    assert all(finding.meaning for finding in nothing)


def test_something_of_a_source_may_be_missing() -> None:
    found = sources.host_finding(
        "host CPU", ("cpu.percent", "cpu.steal"), "", {"cpu.steal": "/proc/stat: does not tell"}
    )
    assert (found.state, found.remedy) == (State.ABSENT, None)
    assert "/proc/stat: does not tell" in found.meaning
    assert "cpu.steal" in found.meaning
    refused = sources.host_finding("host load", ("load.1",), "", {"load.1": "/proc/loadavg: Permission denied"})
    assert refused.state is State.FAILS
    assert "chmod a+r /proc/loadavg" in str(refused.remedy)


@pytest.mark.parametrize(
    ("cpuinfo", "words"),
    [
        ("vendor_id\t: GenuineIntel\nflags\t\t: fpu hypervisor sse\n", "virtual machine"),
        ("vendor_id\t: GenuineIntel\nflags\t\t: fpu sse\n", "modprobe coretemp"),
        ("vendor_id\t: AuthenticAMD\nflags\t\t: fpu sse\n", "modprobe k10temp"),
        ("CPU implementer\t: 0x41\n", "no sensor"),
    ],
)
def test_a_machine_without_a_sensor_may_lack_a_driver(machine_files: MachineFiles, cpuinfo: str, words: str) -> None:
    put(machine_files, "proc/cpuinfo", cpuinfo)
    found = sources.temperature(machine_files, None, {"temp": "no sensor"})
    assert found.state is State.ABSENT
    assert words in f"{found.meaning} {found.remedy}"
    assert sources.temperature(machine_files, 41.6, {}).meaning == "42 °C"


def test_of_many_names_a_few_are_told() -> None:
    assert sources.name_list(["b", "a"]) == "a, b"
    assert sources.name_list([f"veth{number}" for number in range(9)]).endswith("veth5 and 3 more")


def card(machine_files: MachineFiles, vendor: str) -> None:
    directory = Path(machine_files.path("sys/bus/pci/devices/0000:01:00.0"))
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "vendor").write_text(f"{vendor}\n")
    (directory / "class").write_text("0x030000\n")


def by_name(machine_files: MachineFiles) -> dict[str, Finding]:
    return {finding.name: finding for finding in gpus.gpu_findings(machine_files, {})}


def test_a_card_that_is_not_read_is_told_with_a_remedy(machine_files: MachineFiles) -> None:
    assert {finding.state for finding in by_name(machine_files).values()} == {State.ABSENT}
    for vendor, name in (("0x10de", "NVIDIA GPUs"), ("0x1002", "AMD GPUs"), ("0x8086", "Intel GPUs")):
        card(machine_files, vendor)
        found = by_name(machine_files)
        assert {each.name for each in found.values() if each.state is State.FAILS} == {name}
        assert "modprobe" in str(found[name].remedy)


@pytest.mark.parametrize(
    ("extra", "state", "word"),
    [
        ((), State.WORKS, "NVIDIA Test 0"),
        (("fail nvmlInit 9",), State.FAILS, "modprobe"),
        (("fail nvmlInit 18",), State.FAILS, "boot"),
        (("lost GPU-aaaaaaaa-0000",), State.FAILS, "reset"),
    ],
)
def test_gpus_are_read_to_see_whether_they_can_be(
    jobtop: Jobtop, tmp_path: Path, extra: tuple[str, ...], state: State, word: str
) -> None:
    nvml = fake_nvml(tmp_path)
    nvml.show(FakeGpu("GPU-aaaaaaaa-0000"), extra=extra)
    found = json.loads(jobtop("doctor", "--json", env=nvml.env).stdout)
    row = next(row for row in found if row["name"] == "NVIDIA GPUs")
    assert row["state"] == state
    assert word in f"{row['meaning']} {row['remedy']}"
    printed = jobtop("doctor", env=nvml.env).stdout
    assert state is State.WORKS or "Everything works" not in printed


def test_a_library_of_nvidia_that_cannot_be_loaded_fails_where_there_is_a_card(
    machine_files: MachineFiles, tmp_path: Path
) -> None:
    program = (
        "import os, sys; from jobtop.core.doctor import gpus; from jobtop.core.doctor.checks import MachineFiles\n"
        "print([str(gpus.nvidia_gpus(MachineFiles(sys.argv[1]), os.environ).state)])"
    )
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")

    def states() -> str:
        command = [sys.executable, "-c", program, machine_files.root]
        env = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.strip()

    assert states() == "['absent']"
    card(machine_files, "0x10de")
    assert states() == "['fails']"
