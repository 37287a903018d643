"""What a job finds around it: environment, arguments, directory, limits exactly as its caller gave them."""

import json
import os
import resource
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from running import PYTHON, nothing_is_left, show
from support import Jobtop

__all__ = ["nothing_is_left"]

OWN = {b"JOBTOP_JOB_ID"}


def run_bytes(
    jobtop: Jobtop, *command: str | bytes, env: dict[bytes, bytes] | None = None, prefix: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[bytes]:
    """`jobtop run` with words and an environment of any bytes."""
    words = [*prefix, *jobtop.command("run", "--quiet", "--external-id", "it", "--"), *command]
    surroundings = {os.fsencode(key): os.fsencode(value) for key, value in jobtop.env.items()} if env is None else env
    return subprocess.run(words, env=surroundings, cwd=jobtop.home, capture_output=True, timeout=30)


def environment_of_the_job(jobtop: Jobtop, env: dict[bytes, bytes]) -> dict[bytes, bytes]:
    done = run_bytes(jobtop, "cat", "/proc/self/environ", env=env)
    assert done.returncode == 0, done.stderr
    pairs = (line.partition(b"=") for line in done.stdout.split(b"\0") if line)
    return {key: value for key, _, value in pairs if key not in OWN}


@pytest.mark.parametrize(
    "locale", [{}, {b"LC_ALL": b"C"}, {b"LC_ALL": b"POSIX"}, {b"LANG": b"C.UTF-8"}, {b"LC_CTYPE": b"C"}], ids=repr
)
def test_the_environment_reaches_the_job_exactly(jobtop: Jobtop, locale: dict[bytes, bytes]) -> None:
    env = {
        b"JOBTOP_HOME": os.fsencode(jobtop.state),
        b"PATH": b"/usr/bin:/bin",
        b"BYTES": bytes(range(1, 256)),
        b"EMPTY": b"",
        b"EQUALS": b"a=b=c",
        b"\xff\xfe": b"\xc3\x28",
        **locale,
    }
    assert environment_of_the_job(jobtop, env) == env


def test_an_environment_of_nothing_stays_nothing(jobtop: Jobtop) -> None:
    env = {b"JOBTOP_HOME": os.fsencode(jobtop.state)}
    assert environment_of_the_job(jobtop, env) == env


def test_a_large_environment_and_a_long_command_reach_the_job(jobtop: Jobtop) -> None:
    env = {b"JOBTOP_HOME": os.fsencode(jobtop.state)} | {b"V%d" % number: b"x" * 10_000 for number in range(60)}
    assert environment_of_the_job(jobtop, env) == env
    words = ["y" * 10_000] * 60
    done = run_bytes(jobtop, *PYTHON, "import sys; print(sum(map(len, sys.argv[1:])))", *words)
    assert done.stdout == b"600000\n"


def test_arguments_of_any_bytes_reach_the_job(jobtop: Jobtop) -> None:
    words: list[str | bytes] = [b"\xff\xfe", "ä€".encode(), bytes(range(1, 256)), b"", b"--", b"-x", b"a b\n'\"$(x)`"]
    done = run_bytes(jobtop, "printf", "%s\\0", *words)
    assert done.stdout.split(b"\0")[:-1] == words
    assert show(jobtop, "it")["status"] == "success"


def test_directory_umask_limits_and_priority_are_the_callers(jobtop: Jobtop) -> None:
    told = "import os, resource, json; print(json.dumps([os.getcwd(), os.umask(0), os.nice(0), limits()]))"
    script = jobtop.home / "told.py"
    script.write_text(
        "import resource\n"
        "names = [name for name in sorted(dir(resource)) if name.startswith('RLIMIT_')]\n"
        "def limits(): return [[name, *resource.getrlimit(getattr(resource, name))] for name in names]\n" + told
    )
    command = (sys.executable, "-I", "-S", str(script))
    setting = ("sh", "-c", 'umask 027; ulimit -n 333; ulimit -c 0; ulimit -S -s 4096; exec nice -n 3 "$@"', "sh")
    without = subprocess.run([*setting, *command], cwd=jobtop.home, env=jobtop.env, capture_output=True, check=True)
    with_us = run_bytes(jobtop, *command, prefix=setting)
    assert json.loads(with_us.stdout) == json.loads(without.stdout)
    assert json.loads(with_us.stdout)[1] == 0o027
    assert ["RLIMIT_NOFILE", 333, 333] in json.loads(with_us.stdout)[3]


def test_the_directory_is_the_one_asked_for(jobtop: Jobtop, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    script = tmp_path / "there" / "here.sh"
    script.write_text("#!/bin/sh\npwd\n")
    script.chmod(0o755)
    done = jobtop("run", "--quiet", "--cwd", "there", "--external-id", "it", "--", "./here.sh")
    assert done.stdout == f"{tmp_path}/there\n"
    assert show(jobtop, "it")["cwd"] == f"{tmp_path}/there"


def test_the_job_leads_no_group_it_was_not_given(jobtop: Jobtop) -> None:
    """Its own process group, so that nothing signals it but us."""
    script = "import os; print(os.getpgrp() == os.getpid(), os.getsid(0) != os.getpid())"
    assert run_bytes(jobtop, *PYTHON, script).stdout == b"True True\n"


def test_the_job_has_no_signal_blocked_or_ignored_that_its_caller_had_not(jobtop: Jobtop) -> None:
    words = ("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")
    without = subprocess.run(words, capture_output=True, check=True).stdout
    assert list(map(usable_signals, run_bytes(jobtop, *words).stdout.splitlines())) == [
        usable_signals(line) for line in without.splitlines()
    ]


def usable_signals(line: bytes) -> int:
    """A mask of /proc/PID/status without 32 and 33, which are the C library's own and ignored after posix_spawn."""
    return int(line.split()[1], 16) & ~(0b11 << 31)


def test_a_script_without_an_interpreter_line_is_run_by_the_shell(jobtop: Jobtop, tmp_path: Path) -> None:
    script = tmp_path / "plain"
    script.write_text('echo "$0" "$1"\nexit 5\n')
    script.chmod(0o755)
    done = jobtop("run", "--quiet", "--", str(script), "one")
    assert (done.returncode, done.stdout) == (5, f"{script} one\n")
    done = jobtop("run", "--quiet", "--", "plain", "two", env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert (done.returncode, done.stdout) == (5, f"{script} two\n")


@pytest.mark.parametrize(
    ("name", "mode", "code"),
    [("absent", None, 127), ("plain", stat.S_IRUSR, 126), ("folder", stat.S_IFDIR, 126), ("", None, 127)],
)
def test_a_command_that_cannot_be_executed_is_an_error_with_the_shells_code(
    jobtop: Jobtop, tmp_path: Path, name: str, mode: int | None, code: int
) -> None:
    if mode == stat.S_IFDIR:
        (tmp_path / name).mkdir()
    elif mode is not None:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(mode)
    command = str(tmp_path / name) if name else ""
    done = jobtop("run", "--external-id", "it", "--", command)
    assert done.returncode == code
    assert done.stderr.count("\n") == 1
    record = show(jobtop, "it")
    assert (record["status"], record["exit_code"]) == ("error", code)


def test_a_command_is_found_along_the_path_of_its_own_environment(jobtop: Jobtop, tmp_path: Path) -> None:
    for folder, mode in (("first", 0o644), ("second", 0o755)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tool").write_text(f"#!/bin/sh\necho {folder}\n")
        (tmp_path / folder / "tool").chmod(mode)
    path = f"{tmp_path}/nowhere:{tmp_path}/first:{tmp_path}/second:/usr/bin:/bin"
    done = jobtop("run", "--quiet", "--env", f"PATH={path}", "--", "tool")
    assert (done.returncode, done.stdout) == (0, "second\n")


def test_a_directory_that_may_not_be_entered_hides_nothing(root: None, unprivileged: Jobtop) -> None:
    with tempfile.TemporaryDirectory() as closed:
        env = {"PATH": f"{closed}:/usr/bin:/bin"}
        assert unprivileged("run", "--quiet", "--", "true", env=env).returncode == 0
        assert unprivileged("run", "--", "no-such-command-here", env=env).returncode == 127


def test_the_limit_of_our_own_descriptors_is_not_the_jobs(jobtop: Jobtop) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    done = run_bytes(jobtop, *PYTHON, "import resource; print(*resource.getrlimit(resource.RLIMIT_NOFILE))")
    assert done.stdout == f"{soft} {hard}\n".encode()
