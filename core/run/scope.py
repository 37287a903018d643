"""A cgroup for a job that the systemd of the user makes, in a scope like that of `systemd-run --user --scope`.

It is used where jobtop may not make a cgroup itself.

systemd moves the shim of the job into the scope before the shim starts the command, and delegates the scope to us.
Inside the scope the job has its own cgroup: a memory limit then ends the job and not the shim, which reports the end.
systemd removes the scope when its last process has exited.
"""

from __future__ import annotations

import os

from jobtop.core.measure.collectors import cgroup
from jobtop.core.procfs import read_text
from jobtop.core.record import replace
from jobtop.core.run.dbus import ERROR, Connection, Refused, call, strings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jobtop.core.job_id import JobId
    from jobtop.core.measure.collectors.cgroup import Hierarchy, JobCgroup

TIMEOUT_SECONDS = 3.0
OBJECT, INTERFACE = "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"
NO_LIMIT = (1 << 64) - 1
SUPERVISOR = "supervisor"
LINGER = "loginctl enable-linger"
ENDS_AT_LOGOUT = "your systemd ends with your last session"
ABOUT = "your systemd (systemctl --user) cannot be used"
NOT_THERE = "none is running for you"
NOT_GIVEN = "it does not have the controller for"


class Manager:
    """A connection to the systemd of the user, its cgroup, and the controllers that it can delegate."""

    def __init__(self, connection: Connection, proc: str = "/proc") -> None:
        self.connection, self.proc = connection, proc
        pid, uid = connection.peer
        if uid != os.geteuid():
            raise Refused("it belongs to another user")
        trees = {tree.kind: tree for tree in cgroup.all_hierarchies(f"{proc}/{pid}")}
        around = {tree.kind: tree for tree in cgroup.all_hierarchies(f"{proc}/self")}
        if "v2" not in trees or "v2" not in around:
            raise Refused("its cgroup is not visible here")
        self.here: Hierarchy = around["v2"]
        self.mount, self.service = trees["v2"].mount, os.path.dirname(trees["v2"].own)
        self.controllers = frozenset(read_text(f"{self.mount}{self.service}/cgroup.controllers").split())

    def start_scope(self, name: str, pid: int, controllers: Collection[str], most_tasks: int) -> None:
        """Have systemd make a scope that is delegated to us and move a process into it; returns when that is done."""
        properties = [
            ("Description", ("s", "a job of jobtop with limits that hold")),
            ("PIDs", ("au", [pid])),
            ("DelegateControllers", ("as", sorted(controllers))),
            ("TasksMax", ("t", most_tasks)),
            ("CollectMode", ("s", "inactive-or-failed")),
        ]
        request = call(
            *(OBJECT, INTERFACE, "StartTransientUnit", "ssa(sv)a(sa(sv))"),
            *(("s", name), ("s", "fail"), ("a(sv)", properties), ("a(sa(sv))", ())),
        )
        self.connection.authenticate()
        self.connection.send(request)
        while True:
            kind, fields, body = self.connection.receive()
            if kind == ERROR:
                raise Refused(next(strings(body), "it gave no reason"))
            if b"JobRemoved\0" in fields:  # uoss: number, path, unit, result
                _, unit, result, *_ = (*strings(body, 4), "", "", "")
                if unit == name and result != "done":
                    raise Refused(f"its job ended as {result}")
                if unit == name:
                    return


def reach(proc: str = "/proc") -> Manager:
    """Connect to the systemd of the user, or raise Refused. The caller closes the connection."""
    directory = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    try:
        connection = Connection(f"{directory}/systemd/private", TIMEOUT_SECONDS)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise Refused(NOT_THERE) from error
    try:
        return Manager(connection, proc)
    except Refused:
        connection.close()
        raise


def make(
    job_id: JobId,
    wanted: Collection[str],
    present: Collection[str],
    is_detached: bool,
    wait_until_ready: Callable[[], int],
) -> JobCgroup:
    """A cgroup in a new scope with more of the wanted controllers than we have without systemd; else why there is none.

    `present`: the wanted controllers that we have without systemd. `wait_until_ready` returns the pid of the shim once
    the shim can be moved.
    """
    try:
        manager = reach()
    except (OSError, Refused) as error:
        return refused(error)
    try:
        useful, lacking = set(wanted) & manager.controllers, set(wanted) - manager.controllers
        if not useful > set(present):
            raise Refused(f"{NOT_GIVEN} {', '.join(sorted(lacking))}")
        check_logout(manager.here, manager.service, is_detached)
        most_tasks = task_limit(manager.here, manager.service)
        name, pid = f"{cgroup.PREFIX}{job_id}.scope", wait_until_ready()
        manager.start_scope(name, pid, useful, most_tasks)
        made = split_scope(manager, name, pid, job_id, useful)
        return replace(made, problems=(f"{ABOUT}: {NOT_GIVEN} {', '.join(lacking)}",)) if lacking else made
    except (OSError, Refused) as error:
        return refused(error)
    finally:
        manager.connection.close()


def refused(error: Exception) -> JobCgroup:
    """A result without a cgroup, and the reason in words."""
    words = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return cgroup.JobCgroup(problems=(f"{ABOUT}: {words}",))


def task_limit(here: Hierarchy, service: str) -> int:
    """The task limit for the scope: the lowest of the cgroups that the shim leaves.

    Raises Refused if the shim would also leave another limit or an outer job.
    """
    own, most = here.own, NO_LIMIT
    while not f"{service}/".startswith(f"{own}/"):
        place = here.mount + own
        if os.path.basename(own).startswith(cgroup.PREFIX):
            raise Refused("a job inside a job stays inside")
        if cgroup.is_limited(place, but="pids.max"):
            raise Refused(f"{place} has a limit that the job must not leave")
        tasks = read_text(f"{place}/pids.max").strip()
        most = min(most, int(tasks) if tasks.isdigit() else NO_LIMIT)
        own = os.path.dirname(own) if own.count("/") > 1 else ""
    return most


def check_logout(here: Hierarchy, service: str, is_detached: bool) -> None:
    """Raise Refused for a detached job if the systemd of the user, and so the scope, ends at the last logout."""
    if is_detached and not here.own.startswith(f"{service}/") and not lingers():
        raise Refused(ENDS_AT_LOGOUT)


def detached_problem() -> str | None:
    """Why a foreground job gets a scope here and a detached job does not; None if both do, or neither."""
    try:
        manager = reach()
    except (OSError, Refused):
        return None
    manager.connection.close()
    try:
        check_logout(manager.here, manager.service, is_detached=True)
    except Refused as error:
        return str(error)
    return None


def lingers(directory: str = "/var/lib/systemd/linger") -> bool:
    """Whether the systemd of the user keeps running after the last logout."""
    import pwd

    try:
        return os.path.exists(f"{directory}/{pwd.getpwuid(os.geteuid()).pw_name}")
    except KeyError:
        return False


def split_scope(manager: Manager, name: str, pid: int, job_id: JobId, controllers: Collection[str]) -> JobCgroup:
    """Make two cgroups in the scope: one for the shim, and one with the controllers for the job, which is returned."""
    inside = {tree.kind: tree.own for tree in cgroup.all_hierarchies(f"{manager.proc}/{pid}")}.get("v2", "")
    scope = manager.mount + inside
    if os.path.basename(scope) != name:
        raise Refused("the supervisor of the job was not moved")
    job, supervisor = f"{scope}/{cgroup.PREFIX}{job_id}", f"{scope}/{SUPERVISOR}"
    os.mkdir(supervisor)
    write(f"{supervisor}/cgroup.procs", str(pid))
    write(f"{scope}/cgroup.subtree_control", " ".join(f"+{name}" for name in sorted(controllers)))
    os.mkdir(job)
    return cgroup.JobCgroup((job,), cgroup.evidence_files("v2", job))


def write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
