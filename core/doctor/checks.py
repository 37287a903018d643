"""Checks what jobtop's numbers depend on, a finding each; every file is read below a given root."""

import errno
import os
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum

from jobtop.core.measure.collectors import cgroup
from jobtop.core.measure.collectors.processes import MOST_DESCRIPTORS
from jobtop.core.procfs import read_text
from jobtop.core.record import fresh, record
from jobtop.core.run.facts import damage_in
from jobtop.core.units import format_bytes, number_of

OLDEST_PYTHON = (3, 11)
MIN_FREE_BYTES = 64 * 1024 * 1024
MAX_NAMED = 5
MIN_OPEN_FILES = 256  # a shim keeps open the io files of up to 128 members, besides logs and pipes
LOGIND_DIRECTORIES = ("etc/systemd", "run/systemd", "usr/local/lib/systemd", "usr/lib/systemd")
TRUE_WORDS = ("1", "yes", "y", "true", "t", "on")
SCOPE_REMEDY = "systemd-run --user --scope -p Delegate=yes jobtop run …"
ESSENTIAL = frozenset({"python", "/proc", "/dev/null", "shim", "child subreaper", "state directory", "history"})
PURE_V2_REMEDY = "as root: boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line"


class State(StrEnum):
    """Whether something works, fails, or does not exist here."""

    WORKS = "works"
    FAILS = "fails"
    ABSENT = "absent"


@record
class Finding:
    """The result of one check: its state, what that means, and the remedy if there is one."""

    name: str
    state: State
    meaning: str
    remedy: str | None = None

    @property
    def essential(self) -> bool:
        return self.name in ESSENTIAL


@record
class MachineFiles:
    """Reads the machine's files below `root`, on behalf of a user."""

    root: str = ""
    uid: int = fresh(default_factory=os.geteuid)
    user: str = "$USER"
    platform: str = sys.platform
    groups: tuple[int, ...] = fresh(default_factory=lambda: tuple(os.getgroups()))

    def path(self, *parts: str) -> str:
        return "/".join((self.root, *parts))

    def text(self, *parts: str) -> str:
        return read_text(self.path(*parts))

    def has(self, *parts: str) -> bool:
        return os.path.exists(self.path(*parts))

    @property
    def has_systemd(self) -> bool:
        return self.has("run/systemd/system")

    @property
    def has_user_manager(self) -> bool:
        return self.has(f"run/user/{self.uid}/systemd")


def python(version: tuple[int, ...], executable: str) -> Finding:
    text = f"{'.'.join(map(str, version[:3]))} at {executable}"
    if version[:2] >= OLDEST_PYTHON:
        return Finding("python", State.WORKS, text)
    return Finding("python", State.FAILS, text, "install Python 3.11 or newer, and jobtop with it")


def process_table(machine: MachineFiles) -> Finding:
    """Check /proc: without it only the end of a process can be known."""
    if machine.text("proc/self/stat"):
        return Finding("/proc", State.WORKS, "processes, their parents and start times")
    if machine.platform != "linux":
        return Finding("/proc", State.ABSENT, "not part of this system: less is known about a job")
    remedy = "as root: mount -t proc proc /proc"
    return Finding("/proc", State.FAILS, "not mounted: jobtop cannot identify processes", remedy)


def null_device(machine: MachineFiles) -> Finding:
    """Check /dev/null, which jobs and agents use as empty input and discarded output."""
    if machine.has("dev/null"):
        return Finding("/dev/null", State.WORKS, "empty input and discarded output")
    return Finding(
        "/dev/null", State.FAILS, "not there: no job can be started", "as root: mknod -m 666 /dev/null c 1 3"
    )


def open_files(soft: int, hard: int) -> Finding:
    """Check the limit of open files: sampling keeps two files per process open, in half of the largest limit."""
    text = f"{_limit_text(soft)}, at most {_limit_text(hard)}"
    most = max(soft, hard) if min(soft, hard) >= 0 else MOST_DESCRIPTORS
    kept = min(most, MOST_DESCRIPTORS) // 4
    if soft >= MIN_OPEN_FILES or soft < 0:
        return Finding("open files", State.WORKS, f"{text}: {kept} processes can be sampled at the lowest cost")
    could = hard >= MIN_OPEN_FILES or hard < 0
    remedy = f"ulimit -n {'unlimited' if hard < 0 else hard}" if could else "raise nofile in /etc/security/limits.conf"
    return Finding("open files", State.FAILS, f"{text}: too few to follow a job with many processes", remedy)


def encoding(name: str) -> Finding:
    if name.lower().replace("-", "").replace("_", "") == "utf8":
        return Finding("UTF-8", State.WORKS, "✓ ✗ – … can be shown")
    meaning = f"output is encoded as {name or 'ASCII'}: ✓ ✗ – … cannot be shown"
    return Finding("UTF-8", State.FAILS, meaning, "export LC_ALL=C.UTF-8")


def state_directory(directory: str) -> Finding:
    """Check by writing whether the state directory can be used: a quota or a full disk shows only then."""
    name, place = "state directory", nearest_existing(directory)
    problem = write_problem(place)
    if problem is not None:
        remedy = f"make {place} writable, or set JOBTOP_HOME to a directory that is"
        if problem == errno.ENOSPC:
            remedy = f"make room on the file system of {place}, or set JOBTOP_HOME to a directory elsewhere"
        meaning = f"{place}: {os.strerror(problem)}; jobs run, but nothing is recorded"
        return Finding(name, State.FAILS, meaning, remedy)
    space = os.statvfs(place)
    free = space.f_bavail * space.f_frsize
    if free < MIN_FREE_BYTES:
        meaning = f"{directory}: only {format_bytes(free)} are free"
        return Finding(name, State.FAILS, meaning, f"make room on the file system of {place}")
    made = "" if place == directory else ", created by the first job"
    return Finding(name, State.WORKS, f"{directory}{made}; {format_bytes(free)} free")


def nearest_existing(directory: str) -> str:
    """Return the directory, or its nearest parent that exists."""
    while not os.path.lexists(directory):
        directory = os.path.dirname(directory)
    return directory


def privacy(directory: str) -> Finding:
    """Check that other users cannot read the commands and output of jobs."""
    if not os.path.isdir(directory):
        return Finding("privacy", State.ABSENT, "nothing is recorded yet")
    found = os.stat(directory)
    mode = found.st_mode & 0o777
    if found.st_uid != os.geteuid():
        meaning = "it belongs to another user: only verbs that read use it"
        return Finding("privacy", State.FAILS, meaning, "set JOBTOP_HOME to a directory of your own")
    if mode & 0o077:
        meaning = f"other users can read what is kept (mode {mode:04o})"
        return Finding("privacy", State.FAILS, meaning, f"chmod 700 {directory}")
    return Finding("privacy", State.WORKS, f"only you can read what is kept (mode {mode:04o})")


def evidence_files(directory: str, patience_seconds: float = 2.0) -> Finding:
    """Check whether the files that shims wrote can be read; of very many jobs, as many as there is time for."""
    import time

    name, end = "job files", time.monotonic() + patience_seconds
    jobs, damages, checked = _names(directory), [], 0
    for job in jobs:
        if time.monotonic() > end:
            break
        checked += 1
        if (damage := damage_in(f"{directory}/{job}")) is not None:
            damages.append(damage)
    among = number_of(checked, "job")
    if checked < len(jobs):
        among = f"{checked} of {len(jobs)} jobs, as many as time allowed"
    if not damages:
        return Finding(name, State.WORKS, f"the files of supervisors can be read: {among}")
    more = f", and {len(damages) - MAX_NAMED} more" if len(damages) > MAX_NAMED else ""
    meaning = f"{len(damages)} of {among}, have damaged files: {'; '.join(damages[:MAX_NAMED])}{more}"
    return Finding(name, State.FAILS, meaning, "jobtop show says what is known of such a job; jobtop rm removes it")


def write_problem(directory: str) -> int | None:
    """Try to write a file in a directory; return the error number, None if it worked."""
    draft = f"{directory}/.jobtop-doctor-{os.getpid()}"
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return error.errno
    try:
        os.write(fd, bytes(4096))
        os.fsync(fd)
    except OSError as error:
        return error.errno
    finally:
        os.close(fd)
        os.unlink(draft)
    return None


def mounts(machine: MachineFiles) -> Iterator[tuple[str, str, str, str]]:
    """Yield type, path, mount options and file system options of every mount."""
    for line in machine.text("proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        words, (fstype, _, options) = before.split(), after.split(" ", 2)
        yield fstype, words[4], words[5], options


def cgroup_kind(machine: MachineFiles) -> str:
    """Return v1, v2, hybrid or none; a v1 tree without a controller, such as systemd's own, does not count."""
    types = {fstype for fstype, _, _, options in mounts(machine) if fstype == "cgroup2" or "name=" not in options}
    v1, v2 = "cgroup" in types, "cgroup2" in types
    return "hybrid" if v1 and v2 else "v2" if v2 else "v1" if v1 else "none"


def cgroups(machine: MachineFiles, made: cgroup.JobCgroup, joined: bool) -> list[Finding]:
    """Check the cgroup version, whether a job gets its own cgroup with the memory controller, and the OOM counter."""
    kind = cgroup_kind(machine)
    if kind == "none":
        return [
            Finding("cgroups", State.ABSENT, "none are mounted; totals come from process accounting"),
            oom_evidence(machine, has_own=False),
        ]
    kinds = {"v1": "version 1", "v2": "version 2", "hybrid": "versions 1 and 2 side by side"}
    found = [Finding("cgroups", State.WORKS, kinds[kind])]
    if not made.directories or not joined:
        return [*found, no_own_cgroup(machine, kind, made), oom_evidence(machine, has_own=False)]
    labels = {label for label, _ in made.files}
    has_memory = bool(labels & {"memory.events", "memory.oom_control"})
    found.append(Finding("own cgroup", State.WORKS, "every job gets one"))
    found.append(cgroup_memory(machine, kind, made, has_memory))
    return [*found, oom_evidence(machine, has_memory)]


def no_own_cgroup(machine: MachineFiles, kind: str, made: cgroup.JobCgroup) -> Finding:
    why = made.problems[0] if made.problems else "a job could not be moved into the one that was made"
    meaning = (
        f"{why}; totals come from process accounting; pressure and OOM kills are known only of the cgroup around a job"
    )
    if os.strerror(errno.EROFS) in why:
        remedy: str | None = (
            "start the container with a writable cgroup tree: docker run --security-opt writable-cgroups=true …"
            " (Docker 28), podman run --security-opt unmask=/sys/fs/cgroup …"
        )
    elif machine.uid == 0:
        remedy = None
    elif kind != "v1" and machine.has_user_manager:
        remedy = SCOPE_REMEDY
    elif kind != "v1" and machine.has_systemd:
        remedy = f"as root: loginctl enable-linger {machine.user}; log in again, then {SCOPE_REMEDY}"
    elif machine.has_systemd:
        remedy = f"{PURE_V2_REMEDY}, then {SCOPE_REMEDY}"
    else:
        remedy = _cgroup_v1_remedy(machine)
    return Finding("own cgroup", State.FAILS, meaning, remedy)


def cgroup_memory(machine: MachineFiles, kind: str, made: cgroup.JobCgroup, has_memory: bool) -> Finding:
    name = "cgroup memory"
    if has_memory:
        return Finding(name, State.WORKS, "the peak of all processes together, and OOM kills")
    parent = os.path.dirname(made.directories[0])
    if kind != "v2":
        meaning = "memory is counted by version 1, which is open to root only"
        return Finding(
            name, State.FAILS, meaning, PURE_V2_REMEDY if machine.has_systemd else _cgroup_v1_remedy(machine)
        )
    if "memory" not in read_text(f"{parent}/cgroup.controllers").split():
        meaning = f"{parent} was not given the memory controller"
        remedy = "as root: take cgroup_disable=memory from the kernel's command line, or add cgroup_enable=memory"
        return Finding(name, State.FAILS, meaning, SCOPE_REMEDY if machine.uid and machine.has_user_manager else remedy)
    meaning = f"{parent} does not enable the memory controller for its children"
    if machine.uid != 0:
        return Finding(name, State.FAILS, meaning, SCOPE_REMEDY if machine.has_user_manager else None)
    # Only the root of the whole tree has no cgroup.events; it may have both processes and controllers for its children.
    if not os.path.exists(f"{parent}/cgroup.events"):
        return Finding(name, State.FAILS, meaning, f"echo +memory > {parent}/cgroup.subtree_control")
    remedy = (
        f"D={parent}; mkdir $D/shell; for p in $(cat $D/cgroup.procs); do echo $p > $D/shell/cgroup.procs; done"
        " 2>/dev/null; echo +memory > $D/cgroup.subtree_control"
    )
    return Finding(name, State.FAILS, meaning, remedy)


def oom_evidence(machine: MachineFiles, has_own: bool) -> Finding:
    """Check for a counter of OOM kills; an exit code alone is never taken for one."""
    if has_own:
        return Finding("OOM evidence", State.WORKS, "the counter of the job's own cgroup")
    around = cgroup.ambient_oom_file(machine.path("proc/self"))
    if around is None:
        return Finding("OOM evidence", State.ABSENT, "no counter: jobtop cannot tell an OOM kill from another SIGKILL")
    return Finding("OOM evidence", State.WORKS, f"{around}: shows that there was an OOM kill, not in which job")


def logout(machine: MachineFiles) -> Finding:
    """Check whether systemd-logind kills jobs when their user logs out."""
    name = "logout"
    if not machine.has_systemd:
        return Finding(name, State.ABSENT, "no systemd-logind, which could end jobs at logout")
    settings = logind_settings(machine)
    kills = settings.get("KillUserProcesses", "no").lower() in TRUE_WORDS
    only, spared = settings.get("KillOnlyUsers", "").split(), settings.get("KillExcludeUsers", "root").split()
    if not kills or machine.user in spared or (only and machine.user not in only):
        return Finding(name, State.WORKS, "jobs outlive a logout")
    in_session = "/session-" in machine.text("proc/self/cgroup")
    if not in_session and machine.has("var/lib/systemd/linger", machine.user):
        return Finding(name, State.WORKS, "jobs outlive a logout: they are outside the session, and lingering is on")
    remedy = "loginctl enable-linger; then systemd-run --user --scope jobtop run --detach …"
    return Finding(name, State.FAILS, "systemd-logind ends jobs at logout (KillUserProcesses=yes)", remedy)


def logind_settings(machine: MachineFiles) -> Mapping[str, str]:
    """Read logind.conf and its drop-ins as systemd does; commented lines show the built-in defaults."""
    settings: dict[str, str] = {}
    main = next((text for place in LOGIND_DIRECTORIES if (text := machine.text(place, "logind.conf"))), "")
    drop_ins: dict[str, str] = {}
    for place in reversed(LOGIND_DIRECTORIES):
        folder = machine.path(place, "logind.conf.d")
        drop_ins |= {file: f"{folder}/{file}" for file in _names(folder) if file.endswith(".conf")}
    built_in = [line[1:] for line in main.splitlines() if line.startswith("#")]
    texts = ["\n".join(built_in), main, *(read_text(path) for _, path in sorted(drop_ins.items()))]
    for line in "\n".join(texts).splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith(("#", ";")):
            settings[key.strip()] = value.strip()
    return settings


def _cgroup_v1_remedy(machine: MachineFiles) -> str | None:
    """Return the commands that give a user a version 1 cgroup; root runs them once after each boot."""
    tree = next((tree for tree in cgroup.hierarchies(machine.path("proc/self")) if tree.kind == "memory"), None)
    if tree is None:
        return None
    return (
        f"as root: D={tree.mount}/{machine.user}; mkdir $D; chown {machine.user} $D $D/cgroup.procs;"
        " echo PID > $D/cgroup.procs (PID: that of your shell)"
    )


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _limit_text(count: int) -> str:
    return "unlimited" if count < 0 else str(count)
