"""The parts of a shim, each by itself."""

import errno
import marshal
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobtop.core.run import supervisor
from jobtop.core.run.facts import Facts
from jobtop.core.shim import cgroups, facts, order, own_process, system_calls, totals
from jobtop.core.shim.totals import Ledger
from records import numbered_id
from shims import begin as begin
from trees import Kernel

ID = numbered_id(7)


@pytest.fixture(autouse=True)
def warnings() -> Iterator[None]:
    """Each test can cause the one warning of a shim."""
    system_calls.warnings.clear()
    yield
    system_calls.warnings.clear()


def test_a_line_break_never_breaks_a_line() -> None:
    text = facts.text_of({"a": "1\n2\\n", "b": None, "c": "caf\udce9", "more": [{"d": 0}, {"d": None, "e": 1}]})
    assert text == b"a 1\\n2\\\\n\nc caf\xe9\nd 0\ne 1\n"
    needed = "version 1\nboot b\nshim 1 1\nmain 1 1\nstart 1 1\nsubreaper 1\n"
    told = Facts(needed + text.decode("utf-8", "surrogateescape"))
    assert [told[key] for key in "acd"] == ["1\n2\\n", "caf\udce9", "0"]


def test_a_file_is_kept_whole_or_not_at_all(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    facts.write_ended(str(tmp_path), b"first")
    facts.write_ended(str(tmp_path), b"second")
    assert (tmp_path / "ended").read_bytes() == b"second"
    assert (tmp_path / "ended").stat().st_mode & 0o777 == 0o600
    facts.write_ended(str(tmp_path / "none"), b"lost")
    assert "cannot keep the end of this job" in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["ended"]


def test_a_draft_that_cannot_be_finished_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    facts.write_ended(str(tmp_path), b"text")
    assert list(tmp_path.iterdir()) == []


def test_cgroups_of_jobs_inside_are_removed_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch)
    outer, inner = tmp_path / "jobtop-1", tmp_path / "jobtop-1" / "jobtop-2"
    kernel.grow(outer)
    kernel.grow(inner)
    cgroups.remove_cgroups([str(outer), str(tmp_path / "gone")])
    assert not outer.exists()


def test_a_cgroup_that_a_dying_task_holds_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rmdir = os.rmdir
    refused: list[str] = []

    def busy_at_first(path: str) -> None:
        if len(refused) < 3:
            refused.append(path)
            raise OSError(errno.EBUSY, "busy")
        rmdir(path)

    (tmp_path / "jobtop-1").mkdir()
    monkeypatch.setattr(os, "rmdir", busy_at_first)
    cgroups.remove_cgroups([str(tmp_path / "jobtop-1")])
    assert not (tmp_path / "jobtop-1").exists()


def test_a_process_is_moved_by_writing_to_cgroup_procs(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch()
    assert cgroups.join_cgroup(str(tmp_path / "cgroup.procs"))
    assert (tmp_path / "cgroup.procs").read_text() == "0"
    assert not cgroups.join_cgroup(str(tmp_path / "gone/cgroup.procs"))


@pytest.mark.parametrize("sent", [b"", marshal.dumps({"a": 1})[:-1]], ids=["nothing", "a part"])
def test_an_order_that_did_not_come_whole_is_none(sent: bytes) -> None:
    reader, writer = os.pipe()
    os.write(writer, sent)
    os.close(writer)
    assert order.read_order(reader) is None


def dead(**changes: float) -> SimpleNamespace:
    """The rusage of a dead process."""
    return SimpleNamespace(**{f"ru_{key}": 1 for key in totals.RUSAGE_KEYS} | {"ru_maxrss": 100} | changes)


def test_a_ledger_adds_up_the_dead() -> None:
    account = Ledger(os.getpid())
    account.alive = {11}
    account.count(11, dead(ru_utime=0.5, ru_maxrss=300))
    account.count(12, dead(ru_utime=0.25))
    counts = account.counts()
    assert (counts["utime"], counts["stime"], counts["minflt"]) == ("0.750000", "2.000000", 2)
    assert (counts["maxrss"], counts["reaped"], counts["seen"]) == (300 * 1024, 2, 1)
    assert account.alive == set()


def test_a_dead_process_whose_characters_cannot_be_read_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Ledger(os.getpid())
    account.read_zombie(2**22 + 1)
    assert account.chars_missing == 1
    reader, writer = os.pipe()
    os.close(writer)
    account.io_fds[7] = reader
    account.read_zombie(7)
    assert (account.chars_missing, account.chars, account.io_fds) == (2, [0, 0], {})


def test_a_ledger_holds_a_bounded_number_of_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "MOST_OPEN_FILES", 1)
    account = Ledger(os.getpid())
    account.io_fds = {-1: -1, -2: -1}
    account.open_io(os.getpid())
    assert set(account.io_fds) == {-1, -2}


WAITS_ON_DEMAND = """
import os, signal, sys
child = os.fork()
if not child:
    signal.pause()
    os._exit(0)
print(child, flush=True)
sys.stdin.readline()
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
print("waited", flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(not totals.HAS_CHILDREN, reason="the kernel has no lists of children")
def test_a_child_that_is_waited_for_during_a_census_was_not_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", WAITS_ON_DEMAND]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        said = parent.stdout
        child = int(said.readline())
        account = Ledger(os.getpid())
        account.census()
        assert {parent.pid, child} <= set(account.parents)
        answers: list[str] = []

        def ask(pid: int) -> int | None:
            """The clock of a process; the child ends after its parent was looked at and before the child is."""
            if pid == child and not answers:
                print(file=parent.stdin)
                answers.append(said.readline())
            return cpu_nanoseconds(pid)

        cpu_nanoseconds = totals.cpu_nanoseconds
        monkeypatch.setattr(totals, "cpu_nanoseconds", ask)
        account.census()
        assert answers == ["waited\n"]
        assert child not in account.parents
        account.census()
        assert account.discarding is None
        print(file=parent.stdin)


def test_a_shim_without_a_comm_file_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise FileNotFoundError(errno.ENOENT, "not Linux")

    monkeypatch.setattr(os, "open", refuse)
    own_process.set_name("anything")


def test_a_new_id_is_a_uuid_and_new() -> None:
    ids = [supervisor.new_id() for _ in range(100)]
    assert len(set(ids)) == 100
    for text in ids:
        assert str(uuid.UUID(text)) == text
        assert uuid.UUID(text).version == 4
        assert uuid.UUID(text).variant == uuid.RFC_4122


def test_where_no_session_can_be_asked_for_the_shim_makes_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def spawn(path: str, arguments: list[str], env: object, file_actions: object, **options: bool) -> int:
        asked.append(options)
        if options:
            raise NotImplementedError("setsid")
        return 4711

    monkeypatch.setattr(os, "posix_spawn", spawn)
    assert supervisor.spawn(["python"]) == 4711
    assert asked == [{"setsid": True}, {}]


def test_the_code_of_a_shim_needs_no_file(tmp_path: Path) -> None:
    names = [name for name, _ in marshal.loads(supervisor.shim_code())]
    assert (names[:2], names[-len(supervisor.SHIM) :]) == (["jobtop", "jobtop.core"], [*supervisor.SHIM])


def test_the_code_of_a_module_is_that_of_its_source_whatever_was_compiled_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "CORE", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    source = tmp_path / "part.py"

    def value() -> object:
        names: dict[str, object] = {}
        exec(marshal.loads(supervisor.compiled("jobtop.core.part")), names)
        return names["value"]

    source.write_text("value = 1")
    assert value() == 1
    cached = Path(cache_from_source(str(source)))
    cached.write_bytes(cached.read_bytes()[:16] + marshal.dumps(compile("value = 2", "part.py", "exec")))
    assert value() == 2, "a .pyc file that is up to date is not compiled again"
    source.write_text("value = 30")
    assert value() == 30
    cached.write_bytes(b"damaged")
    assert value() == 30


def test_a_job_inherits_our_environment_and_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "1")
    env = supervisor.job_environment({"EXTRA": "2"}, ID)
    assert (env["KEPT"], env["EXTRA"], env["JOBTOP_JOB_ID"]) == ("1", "2", ID)


@pytest.mark.parametrize(
    ("original", "is_kept"),
    [("A=1\0LC_CTYPE=C.UTF-8\0", True), ("LC_CTYPE=C.UTF-8\0", True), ("A=1\0XLC_CTYPE=C\0", False), ("", False)],
)
def test_a_locale_that_python_made_up_is_not_the_job_s(
    monkeypatch: pytest.MonkeyPatch, original: str, is_kept: bool
) -> None:
    monkeypatch.setenv("LC_CTYPE", "C.UTF-8")
    monkeypatch.setattr(supervisor, "read_text", lambda _: original)
    assert ("LC_CTYPE" in supervisor.job_environment({}, ID)) is is_kept


APART = """
import os, sys, time
from jobtop.core.shim import revival
from jobtop.core.procfs import descendants
from jobtop.core.shim.system_calls import c_call
c_call("prctl", revival.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
if sys.argv[1] == "without":
    revival.CLONE = {}
pid, failed = revival.start_outside_job(["/bin/sleep", "60"])
print(pid, failed, pid in descendants(os.getpid()), os.getsid(pid) == pid, revival.start_outside_job(["/none"])[1])
"""


@pytest.mark.parametrize("clone", ["with", "without"])
def test_a_program_started_apart_is_no_descendant(clone: str) -> None:
    said = subprocess.run([sys.executable, "-c", APART, clone], capture_output=True, text=True, check=True)
    pid, failed, is_below, leads_its_session, missing = said.stdout.split()
    try:
        assert (failed, is_below, leads_its_session) == ("0", "False", "True")
        assert int(missing) == errno.ENOENT
    finally:
        os.kill(int(pid), signal.SIGKILL)
