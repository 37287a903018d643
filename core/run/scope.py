"""A cgroup for a user who may make none, in a scope of their own systemd: as `systemd-run --user --scope` gets one.

The supervisor of the job is moved into the scope before it starts the command, and the scope is delegated to us. Inside
it the job has a cgroup of its own, so that a limit ends the job and not who tells how it ended. systemd removes the
scope with its last process.
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

PATIENCE_SECONDS = 3.0
OBJECT, INTERFACE = "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"
NO_LIMIT = (1 << 64) - 1
SUPERVISOR = "supervisor"
LINGER = "loginctl enable-linger"
ENDS_AT_LOGOUT = "your systemd ends with your last session"
ABOUT = "your systemd (systemctl --user) does not help"
NOT_THERE = "none runs for you"
NOT_GIVEN = "it was not given the controller for"


class Manager:
    """The user's own systemd, which we talk to: the cgroup it was given, and the controllers that came with it."""

    def __init__(self, connection: Connection, proc: str = "/proc") -> None:
        self.connection, self.proc = connection, proc
        pid, uid = connection.peer
        if uid != os.geteuid():
            raise Refused("it is somebody else's")
        trees = {tree.kind: tree for tree in cgroup.all_hierarchies(f"{proc}/{pid}")}
        around = {tree.kind: tree for tree in cgroup.all_hierarchies(f"{proc}/self")}
        if "v2" not in trees or "v2" not in around:
            raise Refused("its cgroup is not to be seen from here")
        self.here: Hierarchy = around["v2"]
        self.mount, self.service = trees["v2"].mount, os.path.dirname(trees["v2"].own)
        self.controllers = frozenset(read_text(f"{self.mount}{self.service}/cgroup.controllers").split())

    def start_scope(self, name: str, pid: int, controllers: Collection[str], most_tasks: int) -> None:
        """Have a process moved into a new scope that is ours; returns when it is there."""
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
        self.connection.introduce()
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
    """The user's manager, if there is one to talk to. It has to be closed."""
    directory = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    try:
        connection = Connection(f"{directory}/systemd/private", PATIENCE_SECONDS)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise Refused(NOT_THERE) from error
    try:
        return Manager(connection, proc)
    except Refused:
        connection.close()
        raise


def make(
    job_id: JobId, wanted: Collection[str], held: Collection[str], is_detached: bool, come_up: Callable[[], int]
) -> JobCgroup:
    """A cgroup with the controllers that are wanted, if more of them can be had than are held already.

    `come_up` gives the number of the supervisor once it can be moved.
    """
    try:
        manager = reach()
    except (OSError, Refused) as error:
        return refused(error)
    try:
        useful, lacking = set(wanted) & manager.controllers, set(wanted) - manager.controllers
        if not useful > set(held):
            raise Refused(f"{NOT_GIVEN} {', '.join(sorted(lacking))}")
        check_logout(manager.here, manager.service, is_detached)
        most_tasks = leave(manager.here, manager.service)
        name, pid = f"{cgroup.PREFIX}{job_id}.scope", come_up()
        manager.start_scope(name, pid, useful, most_tasks)
        made = settle(manager, name, pid, job_id, useful)
        return replace(made, problems=(f"{ABOUT}: {NOT_GIVEN} {', '.join(lacking)}",)) if lacking else made
    except (OSError, Refused) as error:
        return refused(error)
    finally:
        manager.connection.close()


def refused(error: Exception) -> JobCgroup:
    words = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return cgroup.JobCgroup(problems=(f"{ABOUT}: {words}",))


def leave(here: Hierarchy, service: str) -> int:
    """How many tasks there may be where we come from; refused where we would leave another limit or a job behind."""
    own, most = here.own, NO_LIMIT
    while not f"{service}/".startswith(f"{own}/"):
        place = here.mount + own
        if os.path.basename(own).startswith(cgroup.PREFIX):
            raise Refused("a job inside a job stays inside")
        if cgroup.is_limited(place, but="pids.max"):
            raise Refused(f"{place} has a limit that is not to be left")
        tasks = read_text(f"{place}/pids.max").strip()
        most = min(most, int(tasks) if tasks.isdigit() else NO_LIMIT)
        own = os.path.dirname(own) if own.count("/") > 1 else ""
    return most


def check_logout(here: Hierarchy, service: str, is_detached: bool) -> None:
    """Refuse a job that outlives its session a place that does not."""
    if is_detached and not here.own.startswith(f"{service}/") and not lingers():
        raise Refused(ENDS_AT_LOGOUT)


def detached_problem() -> str | None:
    """Why a job that nobody stays with gets no scope where others do."""
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
    """Whether the user's systemd stays when the user is gone."""
    import pwd

    try:
        return os.path.exists(f"{directory}/{pwd.getpwuid(os.geteuid()).pw_name}")
    except KeyError:
        return False


def settle(manager: Manager, name: str, pid: int, job_id: JobId, controllers: Collection[str]) -> JobCgroup:
    """Make room in the scope: one place for the supervisor, and one for the job, which gets the controllers."""
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
