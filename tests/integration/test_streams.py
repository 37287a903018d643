"""A job's standard streams: unchanged on their way through, whole in the log, whoever reads, leaves or stands still."""

import fcntl
import json
import os
import select
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from running import PYTHON, descendants, log_file, nothing_is_left, processes_of, running, show
from support import Jobtop, wait_for

__all__ = ["nothing_is_left"]

MIB = 1024 * 1024


def shell(jobtop: Jobtop, line: str, deadline: float = 30.0) -> subprocess.CompletedProcess[bytes]:
    """A line of bash in which `$J` is jobtop, without a terminal; PIPESTATUS is what a user would look at."""
    return subprocess.run(
        ["bash", "-c", line],
        env={**jobtop.env, "J": " ".join(jobtop.command())},
        cwd=jobtop.home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=deadline,
    )


def test_random_bytes_pass_through_and_into_the_log_unchanged(jobtop: Jobtop, tmp_path: Path) -> None:
    data = {name: os.urandom(20 * MIB + 1) for name in ("out", "err")}
    for name, content in data.items():
        (tmp_path / name).write_bytes(content)
    with running(jobtop, "--quiet", "--", "sh", "-c", f"cat {tmp_path}/out & cat {tmp_path}/err >&2; wait") as run:
        out, err = run.outputs()
        assert run.end() == 0
    record = run.record()
    assert out == data["out"]
    assert err == data["err"]
    assert log_file(jobtop, record, "stdout").read_bytes() == data["out"]
    assert log_file(jobtop, record, "stderr").read_bytes() == data["err"]


def test_raw_logs_are_both_streams_as_they_were(jobtop: Jobtop) -> None:
    odd = b"\x00\xff\xfe\r\n\x1b[31mred\x1b[0m no newline"
    script = f"import os; os.write(1, {odd!r}); os.write(2, {odd[::-1]!r})"
    with running(jobtop, "--quiet", "--", *PYTHON, script) as run:
        run.outputs()
    printed = subprocess.run(
        jobtop.command("logs", "--raw", "the-job"), env=jobtop.env, cwd=jobtop.home, capture_output=True
    )
    assert (printed.stdout, printed.stderr) == (odd, odd[::-1])


def test_output_to_a_file_is_appended_where_the_caller_appends(jobtop: Jobtop) -> None:
    done = shell(jobtop, "echo before > f; $J run --quiet -- echo job >> f; echo after >> f; cat f")
    assert done.stdout == b"before\njob\nafter\n"
    assert done.stderr == b""


def test_both_streams_into_one_file_keep_their_order(jobtop: Jobtop) -> None:
    """Two pipes have no common order; what the job waits for between two writes has."""
    done = shell(jobtop, "$J run --quiet -- sh -c 'echo 1; sleep 0.1; echo 2 >&2; sleep 0.1; echo 3' > f 2>&1; cat f")
    assert done.stdout == b"1\n2\n3\n"


def test_the_summary_follows_the_last_word_of_the_job(jobtop: Jobtop) -> None:
    done = shell(
        jobtop, "$J run -- sh -c 'seq 20000; seq 20001 40000 >&2' > f 2>&1; grep -n -m 1 '^jobtop: ' f; wc -l < f"
    )
    assert done.stdout.startswith(b"40001:jobtop: sh ")
    assert int(done.stdout.split()[-1]) < 40_020


@pytest.mark.parametrize("job", ["yes", "sh -c 'while :; do echo line || exit 3; done'"])
def test_a_reader_that_leaves_ends_the_job_as_it_would_without_us(jobtop: Jobtop, job: str) -> None:
    without = shell(jobtop, f"{job} | head -1; echo ${{PIPESTATUS[0]}}")
    done = shell(jobtop, f"$J run --quiet --external-id it -- {job} | head -1; echo ${{PIPESTATUS[0]}}")
    assert done.stdout == without.stdout
    assert done.stdout.endswith(b"\n141\n")
    assert done.stderr == b""
    record = show(jobtop, "it")
    assert (record["status"], record["signal"]) == ("failed", signal.SIGPIPE)


def test_a_summary_without_a_reader_changes_nothing(jobtop: Jobtop) -> None:
    done = shell(
        jobtop, "{ $J run --external-id it -- sh -c 'sleep 0.2; exit 4'; echo $? > code; } 2>&1 | true; cat code"
    )
    assert done.stdout == b"4\n"
    assert done.stderr == b""
    assert show(jobtop, "it")["exit_code"] == 4


def test_a_standard_error_without_a_reader_ends_the_writer(jobtop: Jobtop) -> None:
    job = "sh -c 'while :; do echo lost >&2; sleep 0.02; done'"
    done = shell(jobtop, f"{{ $J run --external-id it -- {job}; echo $? > code; }} 2> >(true); cat code")
    assert done.stdout == b"141\n"
    assert done.stderr == b""
    assert show(jobtop, "it")["signal"] == signal.SIGPIPE


def test_standard_input_passes_through(jobtop: Jobtop, tmp_path: Path) -> None:
    data = os.urandom(3 * MIB)
    (tmp_path / "data").write_bytes(data)
    assert shell(jobtop, f"cat {tmp_path}/data | $J run --quiet -- cat").stdout == data
    assert (
        shell(jobtop, f"$J run --quiet -- sh -c 'dd bs=1 count=4 2> {os.devnull}; cat' < {tmp_path}/data").stdout
        == data
    )
    assert shell(jobtop, "printf 'one\\ntwo\\n' | { $J run --quiet -- head -c 4; cat; }").stdout == b"one\ntwo\n"


def test_empty_standard_input_is_the_end_of_the_file(jobtop: Jobtop) -> None:
    done = shell(jobtop, f"$J run --quiet -- cat < {os.devnull}; echo $?")
    assert (done.stdout, done.stderr) == (b"0\n", b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_do_not_become_files_of_ours(jobtop: Jobtop, closed: str) -> None:
    job = "import os, sys; sys.exit(len([n for n in os.listdir('/proc/self/fd') if int(n) > 3]) + 40)"
    script = jobtop.home / "job.py"
    script.write_text(f"{job}\n")
    done = shell(jobtop, f"$J run --external-id it -- {sys.executable} -I -S job.py {closed}; echo $? > code; cat code")
    assert done.stdout.splitlines()[-1] == b"40"
    assert b"Traceback" not in done.stderr
    record = show(jobtop, "it")
    assert (record["status"], record["exit_code"]) == ("failed", 40)
    assert (jobtop.state / f"{record['host']}.db").read_bytes().startswith(b"SQLite format 3\0")


def test_output_to_a_closed_descriptor_is_still_in_the_log(jobtop: Jobtop) -> None:
    assert shell(jobtop, "$J run --quiet --external-id it -- echo kept >&-; echo $?").stdout == b"0\n"
    assert jobtop("logs", "it").stdout == "kept\n"


def test_a_full_device_fails_the_job_and_not_us(jobtop: Jobtop) -> None:
    job = "sh -c 'for n in 1 2 3 4 5; do echo $n || exit 9; sleep 0.1; done; exit 0'"
    done = shell(jobtop, f"$J run --quiet --external-id it -- {job} > /dev/full; echo $?")
    assert done.stdout in (b"141\n", b"9\n")
    assert b"Traceback" not in done.stderr
    assert show(jobtop, "it")["status"] == "failed"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_reader_that_stands_still_does_not_hold_up_a_stop(jobtop: Jobtop, name: str) -> None:
    reader, writer = os.pipe()
    try:
        with running(jobtop, "--quiet", "--grace", "20", "--", "yes", stdout=writer) as run:
            run.until(lambda: is_full(writer))
            run.send(signal.Signals[name])
            assert run.end(10) in (128 + signal.Signals[name], -signal.Signals[name])
        wait_for(lambda: not processes_of(jobtop), 5)
    finally:
        os.close(reader)
        os.close(writer)
    assert run.record()["status"] == "cancelled"
    assert run.record()["signal"] == signal.Signals[name]


def is_full(pipe: int) -> bool:
    """Whether a pipe takes nothing more; asked without blocking and without a trace."""
    return not select.select([], [pipe], [], 0)[1]


def test_a_slow_reader_gets_everything_though_the_job_has_ended(jobtop: Jobtop, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(os.urandom(MIB))
    done = shell(
        jobtop, f"$J run --quiet -- cat {tmp_path}/data | {{ sleep 0.5; cat; }} | cmp - {tmp_path}/data; echo $?"
    )
    assert done.stdout == b"0\n"


def test_not_blocking_is_not_passed_on_to_others(jobtop: Jobtop) -> None:
    """O_NONBLOCK belongs to the open file: set on a shared pipe it would break every other writer."""
    reader, writer = os.pipe()
    try:
        with running(jobtop, "--quiet", "--", "sh", "-c", "echo one; sleep 0.2", stdout=writer) as run:
            assert os.read(reader, 100) == b"one\n"
            assert fcntl.fcntl(writer, fcntl.F_GETFL) & os.O_NONBLOCK == 0
            run.end()
        assert fcntl.fcntl(writer, fcntl.F_GETFL) & os.O_NONBLOCK == 0
    finally:
        os.close(reader)
        os.close(writer)


def test_the_shim_closes_an_output_the_job_has_closed(jobtop: Jobtop) -> None:
    reader, writer = os.pipe()
    try:
        job = "import os, time; os.write(1, b'all'); os.close(1); time.sleep(30)"
        with running(jobtop, "--quiet", "--", *PYTHON, job, stdout=writer) as run:
            os.close(writer)
            assert os.read(reader, 100) == b"all"
            shim = run.shim()
            wait_for(lambda: not holds(shim, reader), 5)
            run.send(signal.SIGTERM)
            run.outputs()
    finally:
        os.close(reader)


@pytest.mark.parametrize("detached", [False, True], ids=["foreground", "detached"])
def test_a_log_beyond_its_cap_keeps_head_and_tail_and_says_what_is_left_out(jobtop: Jobtop, detached: bool) -> None:
    count = 200_000
    script = f"for number in range({count}): print('line', f'{{number:08d}}', 'x' * 40)"
    options = ("--detach",) if detached else ("--quiet",)
    command = ("--set", "run.log_max=1M", "run", "--external-id", "it", *options, "--", *PYTHON, script)
    assert jobtop(*command).returncode == 0
    assert jobtop("wait", "it").returncode == 0
    record = show(jobtop, "it")
    log = log_file(jobtop, record)
    line_bytes = len(f"line {0:08d} {'x' * 40}\n")
    assert log.stat().st_size == count * line_bytes
    assert log.stat().st_blocks * 512 <= MIB * 5 / 4
    printed = jobtop("logs", "it").stdout
    head, _, rest = printed.partition("\n[jobtop: ")
    said, _, tail = rest.partition("]\n")
    assert "left out here: run.log_max" in said
    everything = "".join(f"line {number:08d} {'x' * 40}\n" for number in range(count))
    assert everything.startswith(head)
    assert everything.endswith(tail)
    assert len(head) >= MIB / 2
    assert len(tail) >= MIB / 4
    assert said.startswith(f"{(len(everything) - len(head) - len(tail)) / MIB:.1f} MiB")
    assert jobtop("logs", "it", "--tail", "3").stdout == "".join(everything.splitlines(keepends=True)[-3:])


def test_logs_follow_a_job_to_its_end(jobtop: Jobtop, tmp_path: Path) -> None:
    job = f"echo first; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo last; echo oops >&2"
    with running(jobtop, "--quiet", "--", "sh", "-c", job) as run:
        run.reads(b"first")
        follower = jobtop.start("logs", "--follow", "the-job")
        assert follower.stdout
        assert follower.stdout.readline() == "first\n"
        (tmp_path / "go").touch()
        out, err = follower.communicate(timeout=20)
        run.outputs()
    assert (out, err, follower.returncode) == ("last\n", "oops\n", 0)


def test_a_log_that_cannot_be_kept_is_said_once_and_the_output_passes_on(jobtop: Jobtop) -> None:
    """A limit on the size of files is met by the shim's log as a full disk would be."""
    job = "import os; [os.write(1, b'x' * 65536) for _ in range(64)]"
    script = jobtop.home / "job.py"
    script.write_text(job)
    assert jobtop("run", "--quiet", "--", "true").returncode == 0
    done = shell(jobtop, f"ulimit -f 2048; $J run --quiet --external-id it -- {sys.executable} -I -S job.py | wc -c")
    assert done.stdout.strip() == str(64 * 65536).encode()
    assert done.stderr.count(b"\n") == 1
    assert b"cannot be kept" in done.stderr
    record = show(jobtop, "it")
    assert record["exit_code"] == 0
    assert any(why.startswith("log: ") for why in record["incomplete"])


def test_inherited_descriptors_reach_the_job(jobtop: Jobtop) -> None:
    done = shell(jobtop, "exec 7> seven; $J run --quiet -- sh -c 'echo seven >&7'; cat seven")
    assert done.stdout == b"seven\n"


def test_the_shim_keeps_no_descriptor_of_the_caller_open(jobtop: Jobtop) -> None:
    """A lock or a pipe that the job releases is free, though its shim lives."""
    job = "exec 7>&-; echo begun; exec sleep 30"
    reader, writer = os.pipe()
    try:
        with running(
            jobtop,
            "--quiet",
            "--",
            "sh",
            "-c",
            job,
            pass_fds=(writer,),
            prefix=("bash", "-c", f'exec 7>&{writer} {writer}>&-; exec "$@"', "bash"),
        ) as run:
            run.reads(b"begun")
            os.close(writer)
            members = descendants(run.pid)
            holders = [pid for pid in members if holds(pid, reader)]
            assert holders == []
            run.send(signal.SIGTERM)
            run.outputs()
    finally:
        os.close(reader)


def holds(pid: int, fd: int) -> bool:
    """Whether a process has the same pipe open as our descriptor."""
    wanted = os.readlink(f"/proc/self/fd/{fd}")
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if os.readlink(link) == wanted:
                return True
        except OSError:
            continue
    return False


def test_waiting_for_a_slow_reader_costs_nothing(jobtop: Jobtop, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    run = shlex.join(jobtop.command("run", "--quiet", "--record", str(record), "--", "seq", "200000"))
    counted = subprocess.run(["sh", "-c", f"{run} | (sleep 2; wc -l)"], env=jobtop.env, capture_output=True, timeout=60)
    assert counted.stdout.strip() == b"200000"
    assert json.loads(record.read_text())["monitor"]["cpu_seconds"] < 1.0


BURST = """
import os, sys, time
line = b"x" * (1 << 20)
open(sys.argv[1] + ".began", "w").close()
until = time.monotonic() + 60
while not os.path.exists(sys.argv[1] + ".go") and time.monotonic() < until: time.sleep(0.01)
for _ in range(1024): os.write(1, line)
"""


def test_a_log_that_a_detached_job_writes_fast_after_a_while_stays_near_its_limit(jobtop: Jobtop) -> None:
    """It is trimmed while it grows, however long nothing was written before."""
    limit, name = 256 << 20, str(jobtop.home / "burst")
    started = jobtop("--set", f"run.log_max={limit}", "run", "--detach", "--no-monitor", "--", *PYTHON, BURST, name)
    assert started.returncode == 0, started.stderr
    wait_for(Path(f"{name}.began").exists, 30)
    log = jobtop.state / "jobs" / started.stdout.strip() / "stdout.log"
    sizes: list[int] = []

    def is_over() -> bool:
        sizes.append(log.stat().st_blocks * 512)
        return (log.parent / "ended").exists()

    Path(f"{name}.go").touch()
    wait_for(is_over, 60)
    assert log.stat().st_size == 1 << 30
    assert limit < max(sizes) < 1.5 * limit
