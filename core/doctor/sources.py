"""Checks the sources of samples, a finding each: files of a process, its cgroup, the machine."""

import errno
import os
import re
from collections.abc import Collection, Mapping

from jobtop.core.doctor.checks import Finding, MachineFiles, State, cgroup_kind, mounts
from jobtop.core.measure.collectors.host.files import DISK_KEYS, NET_KEYS
from jobtop.core.measure.collectors.host.reading import HostCollector, open_host
from jobtop.core.measure.collectors.pressure import RESOURCES
from jobtop.core.record import record
from jobtop.core.units import format_bytes, number_of

PSI_REMEDY = "as root: boot with psi=1 on the kernel's command line"
MAX_NAMES = 6
PERMISSION_ERRORS = (errno.EACCES, errno.EPERM)


@record
class MemberFile:
    """A file in /proc/PID: what it shows, what is missing without it, and the kernel option that provides it."""

    name: str
    tells: str
    without: str
    option: str


MEMBER_FILES = {
    "io": MemberFile(
        "/proc/PID/io",
        "bytes and calls that pass through the kernel, and storage traffic while a job runs",
        "bytes through system calls are not known; storage traffic is, at the end",
        "CONFIG_TASK_IO_ACCOUNTING",
    ),
    "status": MemberFile("/proc/PID/status", "swap and context switches", "they are not known", "CONFIG_PROC_FS"),
    "fd": MemberFile("/proc/PID/fd", "how many files are open", "that is not known", "CONFIG_PROC_FS"),
    "smaps_rollup": MemberFile(
        "smaps_rollup",
        "memory that processes share counts once (PSS)",
        "memory that processes share counts for each of them (RSS)",
        "CONFIG_PROC_PAGE_MONITOR (Linux 4.14)",
    ),
    "schedstat": MemberFile(
        "schedstat", "CPU time of threads in nanoseconds", "CPU time of threads in steps of 10 ms", "CONFIG_SCHED_INFO"
    ),
}

HOST_ROWS = (
    ("host CPU", ("cpu.percent", "cpu.iowait", "cpu.steal")),
    ("host load", ("load.1", "load.5", "load.15")),
    ("host memory", ("mem.total", "mem.available", "mem.used", "mem.cached")),
    ("host swap", ("swap.used", "swap.total")),
    ("host disks", DISK_KEYS),
    ("disk space", ("disk.used", "disk.total")),
    ("host network", NET_KEYS),
)


def read_problem(path: str) -> int | None:
    """Try to read a file or list a directory; return the error number, None if it worked."""
    try:
        if os.path.isdir(path):
            os.listdir(path)
            return None
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return None if os.read(fd, 1) else errno.ENODATA
        finally:
            os.close(fd)
    except OSError as error:
        return error.errno or errno.EIO


def member_problems(pid: int, proc: str = "/proc") -> dict[str, int]:
    """Return the files of a process that cannot be read, each with its error number."""
    problems = {name: read_problem(f"{proc}/{pid}/{name}") for name in MEMBER_FILES}
    return {name: problem for name, problem in problems.items() if problem is not None}


def member_findings(problems: Mapping[str, int] | None, machine: MachineFiles) -> list[Finding]:
    """Return a finding for each file of a process; `problems` is None if no process could be inspected."""
    found = []
    for key, file in MEMBER_FILES.items():
        if problems is None:
            found.append(Finding(file.name, State.ABSENT, "not known, since no job could be run"))
        elif (problem := problems.get(key)) is None:
            found.append(Finding(file.name, State.WORKS, file.tells))
        else:
            meaning = f"{os.strerror(problem)}: {file.without}"
            if problem in PERMISSION_ERRORS:
                found.append(Finding(file.name, State.FAILS, meaning, permission_remedy(machine)))
            else:
                found.append(Finding(file.name, State.ABSENT, meaning, f"use a kernel with {file.option}"))
    return found


def permission_remedy(machine: MachineFiles) -> str | None:
    """Return how to permit reading own processes, which only a security module forbids; None if unknown."""
    if machine.has("sys/fs/selinux/enforce"):
        return "as root: setsebool -P deny_ptrace off"
    profile = machine.text("proc/self/attr/current").rpartition(" (")[0]
    return f"as root: add `ptrace (read),` to the AppArmor profile {profile}" if profile else None


def cpu_clocks(has_clock: bool | None) -> Finding:
    name = "CPU clocks"
    if has_clock:
        return Finding(name, State.WORKS, "CPU time of live processes of all users, in nanoseconds")
    if has_clock is None:
        return Finding(name, State.ABSENT, "not known, since no job could be run")
    meaning = "not readable: live processes are not sampled; totals are exact at the end"
    return Finding(name, State.FAILS, meaning, "run outside of the sandbox (docker run --runtime=runc …)")


def hidden_processes(machine: MachineFiles) -> Finding:
    """Check the hidepid option of /proc; its values also have names since Linux 5.8."""
    options = next((after for fstype, place, _, after in reversed(list(mounts(machine))) if is_proc(fstype, place)), "")
    given = dict(option.partition("=")[::2] for option in options.split(","))
    mode, group = given.get("hidepid", "0"), given.get("gid", "")
    if mode in ("0", "off"):
        return Finding("hidepid", State.WORKS, "/proc shows every process")
    if machine.uid == 0:
        return Finding("hidepid", State.WORKS, f"hidepid={mode}, which does not hide anything from root")
    if group.isdigit() and int(group) in machine.groups and mode in ("1", "2", "noaccess", "invisible"):
        return Finding("hidepid", State.WORKS, f"hidepid={mode}, but not for your group {group}")
    remedy = "as root: mount -o remount,hidepid=0 /proc"
    if group.isdigit():
        remedy += f", or usermod -aG {group} {machine.user} and log in again"
    meaning = f"hidepid={mode}: members of a job that change user (sudo) cannot be seen while they run"
    return Finding("hidepid", State.FAILS, meaning, remedy)


def is_proc(fstype: str, place: str) -> bool:
    return fstype == "proc" and place.endswith("/proc")


def child_lists(machine: MachineFiles) -> Finding:
    name, tells = "children files", "the members of a job are found without scanning /proc"
    task = machine.path("proc/self/task")
    threads = sorted(os.listdir(task)) if os.path.isdir(task) else []
    if threads and machine.has("proc/self/task", threads[0], "children"):
        return Finding(name, State.WORKS, tells)
    meaning = "missing: members are found by scanning /proc, which is slower but as exact"
    return Finding(name, State.ABSENT, meaning, "use a kernel with CONFIG_PROC_CHILDREN")


def own_cgroup(machine: MachineFiles, keys: Collection[str]) -> list[Finding]:
    """Check what the job's own cgroup counts, by the keys read from it; memory has its own finding."""
    kind = cgroup_kind(machine)
    if "cpu.user" in keys:
        throttled = ", and time throttled" if "cpu.throttled" in keys else ""
        cpu = Finding("cgroup CPU", State.WORKS, f"CPU time, also of processes that were not reaped{throttled}")
    else:
        remedy = "as root: mount -t cgroup -o cpuacct cpuacct /sys/fs/cgroup/cpuacct" if kind == "v1" else None
        cpu = Finding("cgroup CPU", State.ABSENT, "not counted: CPU time comes from process accounting", remedy)
    if known := [file for key, file in RESOURCES.items() if key in keys]:
        text = f"time the job lost waiting for {', '.join(known)} (PSI)"
        return [cpu, Finding("cgroup pressure", State.WORKS, text)]
    meaning, remedy = "time that the job alone lost waiting is not counted", host_pressure(machine).remedy
    if kind == "v1":
        remedy = "as root: mkdir /sys/fs/cgroup/unified; mount -t cgroup2 none /sys/fs/cgroup/unified"
    return [cpu, Finding("cgroup pressure", State.ABSENT, meaning, remedy)]


def host_pressure(machine: MachineFiles) -> Finding:
    """Check the machine's PSI files; without PSI there is no directory, or reading fails with EOPNOTSUPP."""
    name = "host pressure"
    known = [file for file in RESOURCES.values() if "total=" in machine.text("proc/pressure", file)]
    if known:
        return Finding(name, State.WORKS, f"time lost waiting for {', '.join(known)} (PSI)")
    what = "time lost waiting for CPU, memory and I/O is not known"
    if any(place.endswith("/proc/pressure") for _, place, _, _ in mounts(machine)):
        remedy = "as root: umount /proc/pressure; for a container: docker run --security-opt systempaths=unconfined …"
        return Finding(name, State.FAILS, f"something is mounted over /proc/pressure: {what}", remedy)
    if read_problem(machine.path("proc/pressure/cpu")) in PERMISSION_ERRORS:
        return Finding(name, State.FAILS, f"not readable: {what}", "as root: chmod a+r /proc/pressure/*")
    if "psi=0" in machine.text("proc/cmdline").split():
        remedy = "as root: take psi=0 from the kernel's command line and boot"
        return Finding(name, State.FAILS, f"switched off: {what}", remedy)
    if machine.has("proc/pressure") or kernel_option(machine, "CONFIG_PSI") == "y":
        return Finding(name, State.FAILS, f"switched off: {what}", PSI_REMEDY)
    if kernel_option(machine, "CONFIG_PSI") is None:
        return Finding(name, State.ABSENT, f"not there: {what}", f"{PSI_REMEDY} (it needs CONFIG_PSI)")
    return Finding(name, State.ABSENT, f"not part of this kernel: {what}", "use a kernel with CONFIG_PSI")


def host_findings(machine: MachineFiles, disk_path: str) -> list[Finding]:
    """Check what can be sampled of the machine, with the collector that does it."""
    proc, sys = machine.path("proc"), machine.path("sys")
    linux = machine.platform == "linux"
    source = HostCollector(proc, sys, disk_path) if linux else open_host(disk_path, proc, sys)
    sample, missing = source.collect(), source.missing
    source.close()
    values = sample.values
    swap, cores = values.get("swap.total"), len(sample.cores)
    texts = {
        "host CPU": f"{number_of(cores, 'core')}, each measured separately",
        "host load": "the averages of 1, 5 and 15 minutes",
        "host memory": format_bytes(values.get("mem.total")),
        "host swap": "this machine has none" if swap == 0 else format_bytes(swap),
        "host disks": name_list(sample.disks),
        "disk space": f"{format_bytes(values.get('disk.total'))} where the state directory is",
        "host network": name_list(sample.interfaces),
    }
    found = [host_finding(name, keys, texts[name], missing) for name, keys in HOST_ROWS]
    return [*found, *([host_pressure(machine)] if linux else []), temperature(machine, values.get("temp"), missing)]


def name_list(names: Collection[str]) -> str:
    """Return the first names in order, and how many more there are."""
    shown = sorted(names)[:MAX_NAMES]
    left_out = len(names) - len(shown)
    return ", ".join(shown) + (f" and {left_out} more" if left_out else "")


def host_finding(name: str, keys: Collection[str], text: str, missing: Mapping[str, str]) -> Finding:
    """Return a finding for some host metrics; it names those that are missing."""
    lacking = [key for key in keys if key in missing]
    if not lacking:
        return Finding(name, State.WORKS, text)
    reason = missing[lacking[0]]
    path = reason.partition(":")[0]
    remedy = f"as root: chmod a+r {path}" if os.strerror(errno.EACCES) in reason else None
    if os.strerror(errno.ENOENT) in reason and "/proc/" in path:
        remedy = "as root: mount -t proc proc /proc"
    what = "" if len(lacking) == len(keys) else f" ({', '.join(lacking)} not known)"
    return Finding(name, State.FAILS if remedy else State.ABSENT, reason + what, remedy)


def temperature(machine: MachineFiles, degrees: float | None, missing: Mapping[str, str]) -> Finding:
    if degrees is not None:
        return Finding("temperature", State.WORKS, f"{degrees:.0f} °C")
    about = machine.text("proc/cpuinfo")
    if re.search(r"^flags\b.*\bhypervisor\b", about, re.MULTILINE):
        return Finding("temperature", State.ABSENT, "a virtual machine has no sensors")
    drivers = {"GenuineIntel": "coretemp", "AuthenticAMD": "k10temp"}
    driver = next((driver for vendor, driver in drivers.items() if vendor in about), None)
    return Finding("temperature", State.ABSENT, missing["temp"], f"as root: modprobe {driver}" if driver else None)


def kernel_option(machine: MachineFiles, name: str) -> str | None:
    """Return the value of a kernel build option, n if not set; None if the configuration cannot be read."""
    import gzip

    release = machine.text("proc/sys/kernel/osrelease").strip()
    text = machine.text(f"boot/config-{release}")
    if not text:
        try:
            with gzip.open(machine.path("proc/config.gz"), "rt") as file:
                text = file.read()
        except (OSError, EOFError):
            return None
    found = re.search(rf"^{name}=(\w)", text, re.MULTILINE)
    return found[1] if found else "n"
