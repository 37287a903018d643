"""What the kernel log says about a job: its own processes, in its own time, from captured records of /dev/kmsg."""

from pathlib import Path

from jobtop.core.analysis.evidence import Cause, Source
from jobtop.core.analysis.kernel_log import Members, find_in_kernel_log
from jobtop.lifecycle.explaining import read_kernel_log
from support import ROOT

JOB = "5c56a937-742e-4ce4-870e-150de26a5bed"
LOG = (ROOT / "tests/data/kmsg.txt").read_text()


def found(*pids: int, since: float = 11000.0, until: float = 12000.0, job: str = "other") -> list[tuple[Cause, str]]:
    evidence = find_in_kernel_log(LOG, Members(pids, job), since, until)
    assert all(seen.source is Source.KERNEL_LOG for seen in evidence)
    return [(seen.kind, seen.text) for seen in evidence if seen.kind is not Cause.IO_ERROR]


def test_an_oom_kill_belongs_to_the_job_by_pid_or_by_the_name_of_its_cgroup() -> None:
    ((cause, text),) = found(4711)
    assert cause is Cause.OUT_OF_MEMORY
    assert "Killed process 4711 (solver), which held 4 MiB" in text
    ((cause, text),) = found(job=JOB)
    assert cause is Cause.OUT_OF_MEMORY
    assert "31749 (a b), which held 199 MiB" in text


def test_a_name_in_brackets_is_kept() -> None:
    text = "3,1,1000000,-;Out of memory: Killed process 7 ((sd-pam)) total-vm:1kB, anon-rss:2048kB, file-rss:0kB\n"
    (seen,) = find_in_kernel_log(text, Members((7,), "other"), 0.0, 2.0)
    assert seen.text.endswith("Killed process 7 ((sd-pam)), which held 2 MiB")


def test_crashes_are_told_by_what_the_kernel_says() -> None:
    assert found(30253) == [
        (Cause.CRASH, "segfault at 0 ip 000056470d67b181 sp 00007ffc04bfecb0 error 6 in crash[1181,56470d67b000+1000]")
    ]
    ((cause, text),) = found(30254)
    assert cause is Cause.CRASH
    assert text.startswith("trap invalid opcode")
    ((cause, text),) = found(30255)
    assert cause is Cause.GPU_ERROR
    assert text.startswith("Xid")


def test_other_processes_and_other_times_are_left_out() -> None:
    assert found(1, 2, 3) == []
    assert found(4711, until=11000.0) == []
    assert found(4711, since=11900.0) == []


def test_storage_errors_belong_to_no_process() -> None:
    kinds = [seen.kind for seen in find_in_kernel_log(LOG, Members((), "other"), 11000.0, 12000.0)]
    assert kinds == [Cause.IO_ERROR]


def test_a_kernel_log_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert read_kernel_log(str(tmp_path / "none")) == ""
    (tmp_path / "log").write_text(LOG)
    assert read_kernel_log(str(tmp_path / "log")) == LOG
    assert find_in_kernel_log("torn,1\n6,x,y,-;oom\n", Members((), "x"), 0.0, 1.0) == []


def test_an_oom_kill_belongs_to_a_container_by_the_name_of_its_cgroup() -> None:
    text = LOG.replace(f"jobtop-{JOB}", "libpod-0123456789ab")
    assert [seen.kind for seen in find_in_kernel_log(text, Members((), "other"), 11000.0, 11172.0)] == []
    members = Members((), "other", "0123456789ab")
    (seen,) = find_in_kernel_log(text, members, 11000.0, 11172.0)
    assert (seen.kind, seen.subject) == (Cause.OUT_OF_MEMORY, "31749")
