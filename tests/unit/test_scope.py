"""When systemd is asked for a scope, in which words, and what is made of its answers, which were recorded."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobtop.core.doctor import probes
from jobtop.core.doctor.checks import MachineFiles, State
from jobtop.core.doctor.probes import LimitSupport
from jobtop.core.measure.collectors import cgroup
from jobtop.core.measure.collectors.cgroup import Hierarchy, JobCgroup
from jobtop.core.model import JobSpec
from jobtop.core.run import scope, supervisor
from jobtop.core.run.dbus import Connection, Refused, call, put
from jobtop.core.run.limits import BY_SYSTEMD, enforce
from records import numbered_id
from support import ROOT
from trees import capture

ID = numbered_id(7)

RECORDED = ROOT / "tests/data/systemd"  # what systemd 252 was sent and answered
PID = 688  # of the process that was to move then
USER = "/user.slice/user-1000.slice"
SERVICE = f"{USER}/user@1000.service"
BOTH = {"memory", "cpu"}


def recorded(name: str) -> list[bytes]:
    return [bytes.fromhex(line) for line in (RECORDED / f"{name}.hex").read_text().split()]


@contextmanager
def systemd(path: Path, answers: list[bytes]) -> Iterator[list[bytes]]:
    """A manager that says what one said before; what it was sent. Without answers it is silent."""
    heard: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def talk() -> None:
        peer, _ = listener.accept()
        with peer:
            heard.append(peer.recv(4096))
            if answers:
                peer.sendall(answers[0])
                heard.append(peer.recv(7))
                heard.append(peer.recv(4096))
                peer.sendall(b"".join(answers[1:]))
            peer.recv(1)

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        yield heard
    finally:
        thread.join()
        listener.close()


@contextmanager
def manager_at(path: Path, proc: Path) -> Iterator[scope.Manager]:
    """One that is seen as it would be in a captured tree."""
    connection = Connection(str(path), 5.0)
    files = proc / str(connection.peer[0])
    files.mkdir(exist_ok=True)
    for name in ("cgroup", "mountinfo"):
        (files / name).write_text((proc / "self" / name).read_text())
    try:
        yield scope.Manager(connection, str(proc))
    finally:
        connection.close()


def start(tmp_path: Path, answers: list[bytes]) -> list[bytes]:
    proc = capture("v2", tmp_path).parent
    with systemd(tmp_path / "private", answers) as heard, manager_at(tmp_path / "private", proc) as manager:
        manager.start_scope("jobtop-7.scope", PID, BOTH, 345)
    return heard


def test_systemd_is_asked_in_the_words_that_it_took_and_waited_for_until_its_job_is_done(tmp_path: Path) -> None:
    granted = recorded("done")
    assert [message.count(b"JobRemoved") for message in granted[-2:]] == [1, 1], "the first is that of a slice"
    introduction, begin, request = start(tmp_path, granted)
    assert introduction.startswith(b"\0AUTH EXTERNAL 3")
    assert (begin, request) == (b"BEGIN\r\n", recorded("request")[0])


def test_without_the_end_of_its_own_job_nothing_is_taken_for_granted(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="closed the connection"):
        start_and_hang_up(tmp_path, recorded("done")[:-1])


def start_and_hang_up(tmp_path: Path, answers: list[bytes]) -> None:
    own, peer = socket.socketpair()
    peer.sendall(b"".join(answers))
    peer.shutdown(socket.SHUT_WR)
    manager = scope.Manager.__new__(scope.Manager)
    manager.connection = Connection.__new__(Connection)
    manager.connection.socket = own
    with own, peer:
        manager.start_scope("jobtop-7.scope", PID, BOTH, 345)


def test_what_systemd_refuses_is_said_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"Unit jobtop-7\.scope was already loaded"):
        start(tmp_path, recorded("exists"))


def test_a_scope_that_could_not_be_started_is_none(tmp_path: Path) -> None:
    failed = bytearray(call("/", "i", "JobRemoved", "uoss"))
    body = bytearray()
    for kind, value in (("u", 2), ("o", "/job/2"), ("s", "jobtop-7.scope"), ("s", "failed")):
        put(body, kind, value)
    failed[4:8] = len(body).to_bytes(4, "little")
    with pytest.raises(Refused, match="its job ended as failed"):
        start_and_hang_up(tmp_path, [recorded("done")[0], bytes(failed + body)])


def test_no_job_is_handed_to_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "systemd").mkdir()
    with systemd(tmp_path / "systemd/private", []):
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
        (why,) = scope.make(ID, BOTH, (), False, never).problems
    assert "another user" in why


def place(tmp_path: Path, own: str, **limits: str) -> Hierarchy:
    directory = tmp_path / own.strip("/")
    directory.mkdir(parents=True)
    for name, text in limits.items():
        (directory / name.replace("_", ".")).write_text(text + "\n")
    return Hierarchy("v2", str(tmp_path), own)


def test_a_login_session_can_be_left(tmp_path: Path) -> None:
    (tmp_path / USER.strip("/")).mkdir(parents=True)
    (tmp_path / USER.strip("/") / "memory.max").write_text("1000\n")  # is around both
    here = place(tmp_path, f"{USER}/session-3.scope", memory_max="max", cpu_max="max 100000")
    assert scope.task_limit(here, SERVICE) == scope.NO_LIMIT


def test_as_many_tasks_as_where_it_comes_from_a_job_may_have_in_its_scope(tmp_path: Path) -> None:
    here = place(tmp_path, f"{SERVICE}/app.slice/terminal.scope", pids_max="345")
    assert scope.task_limit(here, SERVICE) == 345


@pytest.mark.parametrize(
    ("own", "limits", "why"),
    [
        (f"{USER}/session-3.scope", {"memory_max": "1000"}, "session-3.scope has a limit that the job must not leave"),
        (f"{SERVICE}/app.slice/box.scope/inner", {"cpu_max": "50000 100000"}, "inner has a limit"),
        ("/slurm/job_4711", {"cpuset_cpus": "0-3"}, "job_4711 has a limit"),
        (f"{SERVICE}/app.slice/jobtop-8.scope/jobtop-8", {}, "a job inside a job stays inside"),
    ],
)
def test_no_job_leaves_a_limit_or_an_outer_job(tmp_path: Path, own: str, limits: dict[str, str], why: str) -> None:
    with pytest.raises(Refused, match=why):
        scope.task_limit(place(tmp_path, own, **limits), SERVICE)


def test_a_job_that_outlives_its_session_is_not_put_where_it_would_end_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, inside = (Hierarchy("v2", "", own) for own in (f"{USER}/session-3.scope", f"{SERVICE}/app.slice/x"))
    monkeypatch.setattr(scope, "lingers", lambda: False)
    scope.check_logout(session, SERVICE, is_detached=False)
    scope.check_logout(inside, SERVICE, is_detached=True)
    with pytest.raises(Refused, match="ends with your last session"):
        scope.check_logout(session, SERVICE, is_detached=True)
    monkeypatch.setattr(scope, "lingers", lambda: True)
    scope.check_logout(session, SERVICE, is_detached=True)


def never() -> int:
    raise AssertionError("there is no process to move")


def test_without_a_systemd_of_the_user_the_job_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    expected = "your systemd (systemctl --user) cannot be used: none is running for you"
    assert scope.make(ID, BOTH, (), False, never) == JobCgroup(problems=(expected,))


def test_a_systemd_without_the_controllers_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = capture("v2", tmp_path).parent
    with systemd(tmp_path / "private", []), manager_at(tmp_path / "private", proc) as manager:
        service = Path(manager.mount + manager.service)
        service.mkdir(parents=True)
        (service / "cgroup.controllers").write_text("memory pids\n")
        manager.controllers = frozenset({"memory", "pids"})
        monkeypatch.setattr(scope, "reach", lambda: manager)
        (why,) = scope.make(ID, BOTH, {"memory"}, False, never).problems
    assert why.endswith("it does not have the controller for cpu")


def test_a_systemd_that_does_not_answer_is_not_waited_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = capture("v2", tmp_path).parent
    with systemd(tmp_path / "private", []), manager_at(tmp_path / "private", proc) as manager:
        manager.connection.socket.settimeout(0.01)
        manager.controllers = frozenset(BOTH)
        monkeypatch.setattr(scope, "reach", lambda: manager)
        (why,) = scope.make(ID, BOTH, (), False, lambda: PID).problems
    assert why.endswith("timed out")


def test_what_the_own_cgroup_cannot_hold_the_one_in_a_scope_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, scoped = tmp_path / "own", tmp_path / "scoped"
    for directory, names in ((own, ()), (scoped, ("memory.max", "cpu.max"))):
        directory.mkdir()
        for name in names:
            (directory / name).touch()
    monkeypatch.setattr(scope, "make", lambda *_: JobCgroup((str(scoped),)))
    spec = JobSpec(ID, ("true",), "/", {}, hold_memory_bytes=1 << 20, hold_cpus=0.5)
    made, told = enforce(spec, JobCgroup((str(own),)), lambda: PID)
    assert (made.directories, own.exists()) == ((str(scoped),), False)
    assert told["limits"] == [(what, "cgroup v2 (systemd scope)", str(scoped)) for what in ("memory", "cpus")]
    assert (scoped / "cpu.max").read_text() == "50000 100000"


def test_systemd_is_asked_for_what_is_lacking_only_and_its_no_leaves_all_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse(job_id: str, wanted: set[str], held: set[str], is_detached: bool, _: object) -> JobCgroup:
        asked.append((wanted, held, is_detached))
        return JobCgroup(problems=("no",))

    monkeypatch.setattr(scope, "make", refuse)
    (tmp_path / "memory.max").touch()
    own = JobCgroup((str(tmp_path),), problems=("before",))
    spec = JobSpec(ID, ("true",), "/", {}, hold_memory_bytes=1 << 20)
    assert enforce(spec, own, lambda: PID)[0] == own
    assert asked == []
    both = JobSpec(ID, ("true",), "/", {}, hold_memory_bytes=1 << 20, hold_cpus=1.0, detached=True)
    assert enforce(both, own, None)[0] == own
    assert asked == []
    made, told = enforce(both, own, lambda: PID)
    assert (made.directories, made.problems) == (own.directories, ("before", "no"))
    assert told["limits"] == [("memory", "cgroup v2", str(tmp_path)), ("cpus", "affinity", "")]
    assert asked == [(BOTH, {"memory"}, True)]


@pytest.fixture
def machine(tmp_path: Path) -> MachineFiles:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    capture("v2", tmp_path)
    return MachineFiles(str(tmp_path), 1000, "ada", "linux")


def test_the_doctor_says_who_holds_limits_and_what_would_make_the_kernel_do_it(machine: MachineFiles) -> None:
    assert probes.limits(LimitSupport(), machine).state is State.ABSENT
    scoped = {"memory": BY_SYSTEMD, "cpus": BY_SYSTEMD}
    found = probes.limits(LimitSupport(scoped), machine)
    assert (found.state, found.remedy, found.meaning.count("systemd scope")) == (State.WORKS, None, 2)
    found = probes.limits(LimitSupport(scoped, (), scope.ENDS_AT_LOGOUT), machine)
    assert (found.state, found.remedy) == (State.WORKS, "loginctl enable-linger")
    without = {"memory": "sampling", "cpus": "affinity"}
    remedies = {scope.NOT_THERE: "as root: loginctl enable-linger ada", scope.NOT_GIVEN: "Delegate=yes", "no": None}
    for why, remedy in remedies.items():
        found = probes.limits(LimitSupport(without, (f"does not help: {why}",)), machine)
        assert (found.state, why in found.meaning) == (State.FAILS, True)
        assert (found.remedy is None) if remedy is None else (remedy in str(found.remedy))


def test_the_doctor_has_limits_held_for_real_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = supervisor.new_id()
    monkeypatch.setattr(supervisor, "new_id", lambda: job_id)
    holding = probes.probe_limits()
    assert holding.by is not None
    assert holding.by.keys() == {"memory", "cpus"}
    assert not any(map(os.path.exists, cgroup.possible_directories(job_id)))
