"""`logs`: all of a job's output, its end, or as it comes; to a terminal only what is harmless."""

import os
import pty
import signal
import subprocess
import sys
import tty
from collections.abc import Sequence
from pathlib import Path

import pytest

from jobtop.store.output.logs import CHUNK_BYTES
from records import call, kept_jobs, made_job
from running import nothing_is_left, running
from support import Jobtop, wait_for

__all__ = ["nothing_is_left"]

WILD = b"\x1b[31mred\x1b[0m\x07\x9b\xff\xfe\0\r\n\xe2\x82\xac \xf0\x9f\x98\x80\n"


def kept_log(home: Path, stdout: bytes = b"", stderr: bytes = b"") -> str:
    """The id of an ended job with this output."""
    (job,) = kept_jobs(home, made_job())
    directory = home / "jobs" / job.id
    directory.mkdir(parents=True)
    (directory / "stdout.log").write_bytes(stdout)
    (directory / "stderr.log").write_bytes(stderr)
    return job.id


def printed(jobtop: Jobtop, *args: str) -> tuple[bytes, bytes]:
    """What `logs` writes to two pipes."""
    done = subprocess.run(jobtop.command("logs", *args), env=jobtop.env, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def start_on_terminal(jobtop: Jobtop, *args: str) -> tuple[subprocess.Popen[bytes], int]:
    """`logs` with a raw terminal on its standard output, and the other end of that."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    command = jobtop.command("logs", *args)
    process = subprocess.Popen(command, env=jobtop.env, stdin=slave, stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    return process, master


def read_terminal(process: subprocess.Popen[bytes], master: int) -> bytes:
    """Everything that comes out of the terminal until the process has ended well."""
    parts = []
    try:
        while part := os.read(master, 65536):
            parts.append(part)
    except OSError:  # EIO: the other end is closed
        pass
    os.close(master)
    _, words = process.communicate(timeout=60)
    assert (process.returncode, words) == (0, b"")
    return b"".join(parts)


def on_terminal(jobtop: Jobtop, *args: str) -> bytes:
    return read_terminal(*start_on_terminal(jobtop, *args))


def detached(jobtop: Jobtop, *command: str) -> str:
    return jobtop("run", "--detach", "--", *command).stdout.strip()


def test_each_stream_is_printed_to_its_own_byte_for_byte(jobtop: Jobtop) -> None:
    job = kept_log(jobtop.state, WILD, WILD[::-1])
    assert printed(jobtop, job, "--raw") == (WILD, WILD[::-1])
    assert printed(jobtop, job, "--stdout", "--raw") == (WILD, b"")
    assert printed(jobtop, job, "--stderr", "--raw") == (b"", WILD[::-1])


def test_a_pipe_gets_no_escape_sequences_and_plain_line_ends(jobtop: Jobtop) -> None:
    job = kept_log(jobtop.state, WILD, b"\x1b]0;title\x07err\x1b[2J\r\n")
    assert printed(jobtop, job) == (b"red\x07\x9b\xff\xfe\0\n\xe2\x82\xac \xf0\x9f\x98\x80\n", b"err\n")
    colored = subprocess.run(
        jobtop.command("--color", "always", "logs", job), env=jobtop.env, capture_output=True, timeout=60
    )
    assert colored.stdout.startswith(b"\x1b[31mred\x1b[0m\\x07")


@pytest.mark.parametrize("count", [0, 1, 2, 3, 1000])
@pytest.mark.parametrize(
    "content",
    [
        "",
        "one",
        "one\ntwo\nthree\n",
        "one\ntwo\nthree",
        "\n\n\n",
        "bar 1%\rbar 50%\rbar 100%\ndone\r\nand\x0bmore\x0c\n",
        "a\n" + "long" * CHUNK_BYTES + "\nb\n",
        "x\n" * CHUNK_BYTES,
    ],
    ids=["empty", "a word", "lines", "unfinished", "blank", "carriage returns", "long line", "many lines"],
)
def test_the_tail_is_what_tail_prints(home: Path, tmp_path: Path, content: str, count: int) -> None:
    job = kept_log(home, content.encode())
    log = home / "jobs" / job / "stdout.log"
    expected = subprocess.run(["tail", "-n", str(count), log], capture_output=True).stdout.decode()
    assert call("logs", job, "--raw", "--tail", str(count)).stdout == expected
    assert call("logs", job, "--tail", str(count)).stdout == expected.replace("\r\n", "\n")


@pytest.mark.parametrize(("count", "before"), [(1, ""), (2, "b"), (3, "a\nb"), (9, "a\nb")])
def test_the_tail_of_a_log_with_a_huge_hole_skips_it(home: Path, count: int, before: str) -> None:
    job = kept_log(home, b"a\nb")
    with open(home / "jobs" / job / "stdout.log", "r+b") as log:
        log.seek(1 << 40)
        log.write(b"c\nd\n")
    answer = call("logs", job, "--tail", str(count))
    assert answer.returncode == 0
    assert answer.stdout.startswith(before)
    assert answer.stdout.endswith("d\n")
    assert ("left out" in answer.stdout) == (count > 1)


def test_the_tail_is_of_each_stream(home: Path) -> None:
    job = kept_log(home, b"o1\no2\n", b"e1\ne2\n")
    answer = call("logs", "--tail", "1", job)
    assert (answer.stdout, answer.stderr) == ("o2\n", "e2\n")


def test_a_terminal_is_shown_colours_and_obeys_nothing_else(jobtop: Jobtop) -> None:
    job = kept_log(jobtop.state, WILD + b"tab\there\n" + "\u202eevil\u2028\n".encode())
    shown = on_terminal(jobtop, job)
    assert shown == ("\x1b[31mred\x1b[0m\\x07\ufffd\ufffd\ufffd\\x00\n€ 😀\ntab\there\n\\u202eevil\\u2028\n".encode())
    assert on_terminal(jobtop, job, "--raw") == (jobtop.state / "jobs" / job / "stdout.log").read_bytes()


def test_colours_end_with_the_output_and_can_be_switched_off(jobtop: Jobtop) -> None:
    job = kept_log(jobtop.state, b"\x1b[32mgreen\nstill\x1b[2J\n10 %\r20 %")
    assert on_terminal(jobtop, job) == b"\x1b[32mgreen\nstill\n20 %\x1b[0m"
    assert on_terminal(jobtop, job, "--tail", "1") == b"\x1b[32m20 %\x1b[0m"
    plain = Jobtop(jobtop.python, jobtop.home, {**jobtop.env, "NO_COLOR": "1"})
    assert on_terminal(plain, job) == b"green\nstill\n20 %"


def test_a_character_is_shown_whole_wherever_the_log_is_cut(jobtop: Jobtop) -> None:
    content = ("x" * (CHUNK_BYTES - 1) + "€" + "y" * (CHUNK_BYTES - 4) + "😀\n").encode()
    job = kept_log(jobtop.state, content)
    assert on_terminal(jobtop, job) == content


def test_a_character_that_comes_in_two_halves_is_shown_whole(jobtop: Jobtop) -> None:
    script = r"printf 'begun \342\202'; while [ ! -e go ]; do sleep 0.01; done; printf '\254 end\n'"
    job = detached(jobtop, "sh", "-c", script)
    process, master = start_on_terminal(jobtop, "--follow", job)
    heard = b""
    while b"begun" not in heard:
        heard += os.read(master, 100)
    (jobtop.home / "go").touch()
    assert heard + read_terminal(process, master) == "begun € end\n".encode()


def test_a_reader_who_leaves_early_is_no_mistake(jobtop: Jobtop) -> None:
    job = kept_log(jobtop.state, b"first\n" + b"more\n" * 500_000)
    logs = subprocess.Popen(jobtop.command("logs", job), env=jobtop.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert logs.stdout is not None
    head = subprocess.run(["head", "-1"], stdin=logs.stdout, capture_output=True)
    logs.stdout.close()
    assert head.stdout == b"first\n"
    assert logs.stderr is not None
    assert (logs.wait(60), logs.stderr.read()) == (-signal.SIGPIPE, b"")
    logs.stderr.close()


LINES = 400
TALKING = f"""
import os, sys, time
for number in range({LINES}):
    print("line", number, flush=True)
    print("word", number, file=sys.stderr, flush=True)
    if number % 50 == 0:
        time.sleep(0.05)
os.write(1, b"last\\n" * 20000)
"""
TALKED = b"".join(b"line %d\n" % number for number in range(LINES)) + b"last\n" * 20000
WORDS = b"".join(b"word %d\n" % number for number in range(LINES))


@pytest.mark.parametrize("kind", ["detached", "foreground"])
def test_following_ends_with_the_job_and_loses_nothing(jobtop: Jobtop, kind: str) -> None:
    command = (sys.executable, "-I", "-S", "-c", TALKING)
    if kind == "detached":
        assert printed(jobtop, "--follow", detached(jobtop, *command)) == (TALKED, WORDS)
        return
    with running(jobtop, "--quiet", "--", *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        wait_for(lambda: call_finds(jobtop, run.reference) or None)
        assert printed(jobtop, "-f", run.reference) == (TALKED, WORDS)
        assert run.end() == 0


def call_finds(jobtop: Jobtop, reference: str) -> bool:
    return jobtop("show", reference).returncode == 0


def test_following_from_the_tail_prints_the_last_line_and_what_comes(jobtop: Jobtop) -> None:
    script = "printf 'one\\ntwo\\n'; while [ ! -e go ]; do sleep 0.01; done; echo three"
    job = detached(jobtop, "sh", "-c", script)
    log = jobtop.state / "jobs" / job / "stdout.log"
    wait_for(lambda: log.read_bytes() == b"one\ntwo\n" or None)
    follow = jobtop.start("logs", "--follow", "--tail", "1", job)
    assert follow.stdout is not None
    assert follow.stdout.readline() == "two\n"
    (jobtop.home / "go").touch()
    assert follow.communicate(timeout=60) == ("three\n", "")
    assert follow.returncode == 0


def pid_of(jobtop: Jobtop, job: str, role: str) -> int:
    rows = (jobtop.state / "jobs" / job / "started").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith(f"{role} "))


def test_following_ends_when_the_supervisor_is_killed(jobtop: Jobtop) -> None:
    job = detached(jobtop, "sh", "-c", "echo begun; exec sleep 600")
    follow = jobtop.start("logs", "--follow", job)
    assert follow.stdout is not None
    assert follow.stdout.readline() == "begun\n"
    main = pid_of(jobtop, job, "main")
    os.kill(pid_of(jobtop, job, "shim"), signal.SIGKILL)
    os.kill(main, signal.SIGKILL)
    assert follow.communicate(timeout=60) == ("", "")
    assert follow.returncode == 0


def test_following_goes_on_when_run_is_killed_and_ends_with_the_job(jobtop: Jobtop) -> None:
    script = "echo begun; while [ ! -e go ]; do sleep 0.01; done; echo end"
    with running(jobtop, "--quiet", "--", "sh", "-c", script) as run:
        run.reads(b"begun")
        follow = jobtop.start("logs", "--follow", run.reference)
        assert follow.stdout is not None
        assert follow.stdout.readline() == "begun\n"
        run.send(signal.SIGKILL)
        run.end()
        (jobtop.home / "go").touch()
        assert follow.communicate(timeout=60) == ("end\n", "")
        assert follow.returncode == 0


def test_following_what_a_job_left_running_ends_when_that_ends(jobtop: Jobtop) -> None:
    script = "(while [ ! -e go ]; do sleep 0.01; done; echo late) & echo main"
    job = detached(jobtop, "sh", "-c", script)
    assert jobtop("wait", job).returncode == 0
    follow = jobtop.start("logs", "--follow", job)
    assert follow.stdout is not None
    assert follow.stdout.readline() == "main\n"
    assert follow.poll() is None
    (jobtop.home / "go").touch()
    assert follow.communicate(timeout=60) == ("late\n", "")


def test_the_middle_of_a_log_that_is_too_long_is_left_out_and_said_to_be(jobtop: Jobtop) -> None:
    count = 200_000
    quiet = ("--quiet", "--external-id", "long")
    done = jobtop("run", *quiet, "--", "seq", str(count), env={"JOBTOP_RUN_LOG_MAX": "256K"})
    assert done.stdout.endswith(f"\n{count}\n")
    out, _ = printed(jobtop, "long")
    assert out.startswith(b"1\n2\n3\n")
    assert out.endswith(b"\n%d\n" % count)
    assert out.count(b"left out here: run.log_max]") == 1
    assert len(out) < 600_000
    assert printed(jobtop, "long", "--tail", "2")[0] == b"%d\n%d\n" % (count - 1, count)


def test_a_job_without_output_here_says_where_it_ran(home: Path) -> None:
    (job,) = kept_jobs(home, made_job(host="elsewhere"))
    answer = call("logs", job.id)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "elsewhere" in answer.stderr


def test_a_job_with_a_terminal_has_one_stream(jobtop: Jobtop) -> None:
    command: Sequence[str] = ("sh", "-c", "echo out; echo err >&2")
    assert jobtop("run", "--quiet", "--pty", "--external-id", "pty", "--", *command).returncode == 0
    assert printed(jobtop, "pty") == (b"out\nerr\n", b"")
    assert printed(jobtop, "pty", "--raw") == (b"out\nerr\n", b"")
    out, words = printed(jobtop, "pty", "--stderr", "--follow")
    assert (out, words.count(b"\n")) == (b"", 1)
    assert b"jobtop logs" in words
