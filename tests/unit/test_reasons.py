"""Why a job ended, in its record: one clean line in `reason`, the evidence in `findings`, the advice with an amount."""

import json
import shlex
import time
from pathlib import Path

import pytest

from jobtop.core.analysis.ending import LineKind, explain_end
from jobtop.core.analysis.evidence import Cause, Evidence, Source, evidence_of
from jobtop.core.analysis.reasons import Clues, explained
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.model import Job, Limits, Status, StopRequest, Usage
from jobtop.core.paths import StatePaths
from jobtop.lifecycle.explaining import TAIL_BYTES, read_clues
from jobtop.store.jobs import Jobs
from records import HOSTILE_TEXTS, holds_controls, made_job

DISK_FULL = "OSError: [Errno 28] No space left on device: '/data/x'"
OOM = Evidence(Cause.OUT_OF_MEMORY, "Out of memory: Killed process 7 (python)", Source.KERNEL_LOG, "7")


def failed(**values: object) -> Job:
    return made_job(**{"status": Status.FAILED, "exit_code": 1, "reason": "exit code 1"} | values)


def advice_of(job: Job) -> list[str]:
    return [line.text for line in explain_end(job) if line.kind is LineKind.ADVICE]


def test_the_reason_names_the_cause_and_the_findings_have_the_evidence() -> None:
    job = explained(failed(), Clues([["copying", DISK_FULL]]))
    assert job.reason == f"exit code 1: {DISK_FULL}"
    assert job.findings["evidence"] == [
        {"kind": "disk_full", "text": DISK_FULL, "source": "output", "subject": "/data/x"}
    ]
    assert json.dumps(job.findings)
    (advice,) = advice_of(job)
    assert "df -h /data/x" in advice


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("dd: error writing 'tiny/y': No space left on device", "/work dir/tiny/y"),
        ("dd: error writing ‘tiny/y’: No space left on device", "/work dir/tiny/y"),
        ("OSError: [Errno 28] No space left on device: 'tiny/y'", "/work dir/tiny/y"),
        ("OSError: [Errno 28] No space left on device: '/a/x' -> '/b/y'", "/b/y"),
        ("tee: ../out/y: No space left on device", "/out/y"),
        ('rsync: write failed on "/data/y": No space left on device (28)', "/data/y"),
    ],
)
def test_a_full_disk_is_the_one_that_the_message_names(line: str, path: str) -> None:
    (advice,) = advice_of(explained(failed(cwd="/work dir"), Clues([[line]])))
    assert advice.endswith(f": df -h {shlex.quote(path)}")


@pytest.mark.parametrize(
    "line",
    [
        "OSError: [Errno 28] No space left on device",
        "cat: write error: No space left on device",
        "run.sh: line 3: echo: write error: No space left on device",
    ],
)
def test_a_full_disk_that_no_message_names_is_not_guessed(line: str) -> None:
    assert advice_of(explained(failed(), Clues([[line]]))) == ["free space where it writes, or write elsewhere"]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "segfault at 0 ip 00007f9e sp 00007ffc error 4 in libc.so.6[167ad8,7f9e+155000]",
            "read address 0, in libc.so.6",
        ),
        ("segfault at 7f10 ip 00007f9e sp 00007ffc error 6 in my app[1000+1000]", "write address 0x7f10, in my app"),
        ("segfault at 10 ip 00000010 sp 00007ffc error 14", "execute address 0x10"),
        ("segfault at 10 ip 00000010 sp 00007ffc error 15 in a[1,2+3]", "execute address 0x10, in a"),
        ("trap invalid opcode ip:401136 sp:7ffd error:0 in prog[401000+1000]", "invalid opcode, in prog"),
        ("general protection fault ip:40 sp:7f error:0 in libc.so.6[2,4+1]", "general protection fault, in libc.so.6"),
        ("something new", "something new (kernel log)"),
    ],
)
def test_a_crash_is_told_without_the_registers_which_are_in_the_evidence(said: str, shown: str) -> None:
    crash = Evidence(Cause.CRASH, said, Source.KERNEL_LOG, "7")
    job = failed(exit_code=None, signal=11, reason="killed by SIGSEGV")
    job = explained(job, Clues(kernel=[crash]))
    assert job.reason == f"killed by SIGSEGV: {shown}"
    assert job.findings["evidence"][0]["text"] == said


@pytest.mark.parametrize("status", [Status.SUCCESS, Status.TIMEOUT, Status.ERROR])
def test_output_says_nothing_about_a_job_that_ended_well_or_was_stopped(status: Status) -> None:
    job = failed(status=status, reason=None)
    assert explained(job, Clues([[DISK_FULL]])).reason is None


def test_a_signal_from_outside_is_not_explained_by_output_but_one_of_its_own_is() -> None:
    lines = ["a: a.c:3: main: Assertion `n > 0' failed."]
    outside = failed(exit_code=None, signal=15, reason="killed by SIGTERM")
    assert explained(outside, Clues([lines])).reason == "killed by SIGTERM"
    own = failed(exit_code=None, signal=6, reason="killed by SIGABRT")
    assert explained(own, Clues([lines])).reason == f"killed by SIGABRT: {lines[0]}"


def test_a_batch_system_explains_a_job_that_was_asked_to_stop() -> None:
    said = "slurmstepd: error: *** JOB 16 ON n1 CANCELLED AT 2026-11-16T01:33:40 DUE TO TIME LIMIT ***"
    job = made_job(
        status=Status.CANCELLED,
        reason="interrupted by SIGTERM",
        stop_request=StopRequest("SIGTERM", 1.0),
        exit_code=143,
    )
    job = explained(job, Clues([[said, DISK_FULL]]))
    assert job.reason == f"interrupted by SIGTERM: {said}"
    assert "more time" in advice_of(job)[0]


def test_a_missing_command_is_the_reason_only_with_the_exit_code_of_shells() -> None:
    lines = ["run.sh: line 1: module: command not found"]
    assert explained(failed(), Clues([lines])).reason == "exit code 1"
    assert "module" in str(explained(failed(exit_code=127, reason="exit code 127"), Clues([lines])).reason)
    assert [seen.kind for seen in evidence_of(explained(failed(), Clues([lines])).findings)] == [Cause.MISSING_COMMAND]


def ended_with(*lines: str, is_one_log: bool = False, **values: object) -> Job:
    values = {"exit_code": 3, "reason": "exit code 3"} | values
    return explained(failed(**values), Clues([lines], lines, is_one_log))


@pytest.mark.parametrize(
    "lines",
    [
        ["no input files given"],
        ["usage: train [-h] --data DATA", "train: error: the following arguments are required: --data"],
        ["working", 'psql: error: connection to server at "db" (10.0.0.9), port 5432 failed: Connection refused'],
        ["  0     0 --:--:-- --:--:--     0", "curl: (7) Failed to connect to 127.0.0.1 port 1 after 0 ms"],
        ["a", "cat: x: No such file or directory"],
        ["a", "Could not open the model"],
        ["a", "12/40 tests failed"],
        ["a", "ERROR: disk at 100 %: cannot go on"],
    ],
)
def test_a_message_of_no_known_kind_is_the_reason(lines: list[str]) -> None:
    job = ended_with(*lines)
    assert job.reason == f"exit code 3: {lines[-1]}"
    assert job.findings["evidence"] == [{"kind": "message", "text": lines[-1], "source": "output"}]
    assert advice_of(job) == []


@pytest.mark.parametrize(
    "hints",
    [["Try 'ls --help' for more information."], ["Usage: ls [OPTIONS]", "For more information, try '--help'."]],
)
def test_a_message_counts_more_than_the_hints_below_it(hints: list[str]) -> None:
    assert ended_with("ls: unrecognized option '--x'", *hints).reason == "exit code 3: ls: unrecognized option '--x'"
    assert ended_with("Usage: tool FILE").reason == "exit code 3: Usage: tool FILE"


@pytest.mark.parametrize(
    "line",
    [
        "train:  45%|####5     | 45/100 [00:03<00:04, 12.1it/s]",
        "failed: 100%|██████████| 10/10",
        "Downloading: 45 %",
        "[=====>    ] error rate 3",
        "Epoch 3/10",
        "Password:",
        "[sudo] password for ada: Sorry",
        "Overwrite invalid file? [y/N] n",
        "Remove missing files?",
        "mysql: invalid>",
        "INFO: stopped after an error",
        "=====",
        f"error: {'x' * 200}",
    ],
)
def test_progress_prompts_and_long_lines_are_no_message(line: str) -> None:
    assert ended_with(line).reason == "exit code 3"
    assert ended_with("before", line).findings == {}


def test_a_line_without_the_look_of_a_message_counts_only_if_standard_error_has_no_other() -> None:
    assert ended_with("done so far", "wrote a file").reason == "exit code 3"
    assert ended_with("done so far", "loss: 0.25").reason == "exit code 3"
    assert ended_with("wrote a file", is_one_log=True).reason == "exit code 3"
    assert ended_with("cp: x: Is a directory", is_one_log=True).reason == "exit code 3: cp: x: Is a directory"


def test_the_last_line_of_one_log_is_evidence_and_not_the_reason() -> None:
    job = ended_with("loading", "config.yaml has no key 'lr'", is_one_log=True)
    assert job.reason == "exit code 3"
    (seen,) = evidence_of(job.findings)
    assert (seen.kind, seen.source) == (Cause.LAST_LINE, Source.OUTPUT)
    (shown,) = [line.text for line in explain_end(job) if line.kind is LineKind.EVIDENCE]
    assert shown == "the last line that it wrote: config.yaml has no key 'lr'"
    assert not advice_of(job)


@pytest.mark.parametrize(
    "line", ["Epoch 3/10", "45%|████▌     | 9/20", "INFO: saved the model", "Password: ", "done", "7"]
)
def test_progress_prompts_and_single_words_are_no_evidence(line: str) -> None:
    assert not ended_with("loading data", line, is_one_log=True).findings


def test_the_last_line_says_nothing_about_a_signal_or_beside_a_known_cause() -> None:
    assert not explained(failed(signal=15, exit_code=None), Clues([["saved it all"]], ["saved it all"], True)).findings
    known = ended_with(DISK_FULL, "cleaning up now", is_one_log=True)
    assert [seen.kind for seen in evidence_of(known.findings)] == [Cause.DISK_FULL]


def test_a_known_cause_and_a_signal_need_no_other_message() -> None:
    assert "Too many open" in str(ended_with("socket: Too many open files", "tool: error: stopped").reason)
    assert ended_with("a: error: b", exit_code=143, reason="exit code 143").reason == "exit code 143"
    assert (
        ended_with("a: error: b", exit_code=None, signal=15, reason="killed by SIGTERM").reason == "killed by SIGTERM"
    )
    assert ended_with("a: error: b", status=Status.CANCELLED, reason="stopped").reason == "stopped"
    missing = "run.sh: line 1: module: command not found"
    assert ended_with(missing).reason == "exit code 3"
    assert ended_with(missing, "cat: x: Is a directory").reason == "exit code 3: cat: x: Is a directory"


def test_a_message_is_redacted_as_other_text() -> None:
    lines = ["login failed with --password hunter2"]
    assert "hunter2" not in str(explained(failed(), Clues([lines], lines)).reason)


def test_only_standard_error_and_a_log_of_both_streams_have_messages(paths: StatePaths) -> None:
    job = failed()
    directory = paths.job(job.id)
    directory.mkdir(parents=True)
    (directory / "stdout.log").write_text("a: error: b\n")
    assert explained(job, read_clues(None, paths, job, ())).reason == "exit code 1: a: error: b"
    (directory / "stderr.log").write_text("")
    assert explained(job, read_clues(None, paths, job, ())).reason == "exit code 1"
    (directory / "stderr.log").write_text("\nno input\n")
    assert explained(job, read_clues(None, paths, job, ())).reason == "exit code 1: no input"


def test_standard_error_counts_more_than_standard_output() -> None:
    job = explained(failed(), Clues([["socket: Too many open files"], [DISK_FULL]]))
    assert "Too many open files" in str(job.reason)


def test_the_kernel_log_makes_a_hint_of_lack_of_memory_certain() -> None:
    hint = "killed by SIGKILL; the kernel's OOM killer was active around it, oom_kill +1"
    usage = Usage(memory_peak_bytes=8 << 30)
    job = explained(failed(exit_code=None, signal=9, reason=hint, usage=usage), Clues(kernel=[OOM]))
    assert job.reason == "killed by SIGKILL: the kernel's OOM killer (kernel log)"
    assert job.flags == ("oom_killed",)
    (advice,) = advice_of(job)
    assert f"jobtop rerun {job.id[:8]} --memory 12G" in advice


def test_the_kernel_log_counts_the_oom_kills_of_a_container_whose_cgroup_is_gone() -> None:
    limits, usage = Limits(memory_bytes=64 << 20, enforced=True), Usage(memory_cgroup_peak_bytes=64 << 20)
    container = {"container": {"id": "0123456789ab"}}
    job = failed(exit_code=137, reason="exit code 137", usage=usage, limits=limits, findings=container)
    assert explained(job, Clues()).flags == ()  # an exit code alone is no evidence
    job = explained(job, Clues(kernel=[OOM]))
    assert (job.flags, job.usage.oom_kills, job.sources["oom_kills"]) == (("oom_killed",), 1, "kernel_log")
    assert job.reason == "exit code 137: over its memory limit of 64.0 MiB (kernel log)"


def test_counted_oom_kills_keep_their_words_and_the_kernel_log_is_evidence() -> None:
    reason = "killed by SIGKILL: over its memory limit of 200.0 MiB (oom_kill +1)"
    limits = Limits(memory_bytes=200 << 20, enforced=True)
    job = failed(exit_code=None, signal=9, reason=reason, usage=Usage(oom_kills=1), limits=limits)
    job = explained(job, Clues(kernel=[OOM]))
    assert job.reason == reason
    assert [entry["source"] for entry in job.findings["evidence"]] == ["kernel log", "cgroup"]
    assert f"jobtop rerun {job.id[:8]} --memory 512M" in advice_of(job)[0]


def test_a_lost_job_keeps_its_words_and_gets_those_of_the_kernel() -> None:
    job = made_job(status=Status.LOST, exit_code=None, reason="jobtop's supervisor died; exit status unknown")
    job = explained(job, Clues([[DISK_FULL]], kernel=[OOM]))
    assert job.reason == "jobtop's supervisor died; exit status unknown; the kernel's OOM killer (kernel log)"
    assert {entry["kind"] for entry in job.findings["evidence"]} == {"out_of_memory", "disk_full"}


def test_a_closed_terminal_names_what_outlives_it() -> None:
    asked = StopRequest("SIGHUP", 1.0)
    job = made_job(
        status=Status.CANCELLED, exit_code=None, signal=1, stop_request=asked, reason="interrupted by SIGHUP"
    )
    job = explained(job, Clues())
    assert [entry["kind"] for entry in job.findings["evidence"]] == ["closed_terminal"]
    (advice,) = advice_of(job)
    assert f"jobtop rerun {job.id[:8]} --detach" in advice
    assert "jobtop submit" in advice


def test_a_timeout_advises_twice_the_time() -> None:
    job = failed(status=Status.TIMEOUT, limits=Limits(timeout_seconds=90.0), reason="stopped after its timeout")
    assert f"jobtop rerun {job.id[:8]} --timeout 3m00s" in advice_of(explained(job, Clues()))[0]


def test_limits_that_samples_saw_are_evidence_and_give_amounts() -> None:
    files = failed(metrics={"limit.fds": {"min": 1024.0, "mean": 1024.0, "peak": 1024.0}})
    files = explained(files, Clues([["socket: Too many open files"]]))
    assert "which was 1024, first: ulimit -n 4096" in advice_of(files)[0]
    lowered = {"process_limits": [{"name": "open_files", "at_start": 1024, "lowest": 20}]}
    files = failed(metrics={"limit.fds": {"peak": 20.0}}, findings=lowered)
    files = explained(files, Clues([["socket: Too many open files"]]))
    assert advice_of(files) == [
        "the job itself lowered its limit of open files from 1024 to 20: change that in its command or script"
    ]
    forks = failed(metrics={"proc.forks_denied": {"peak": 0.5}, "limit.pids": {"peak": 30.0}})
    (entry,) = explained(forks, Clues()).findings["evidence"]
    assert (entry["kind"], entry["source"]) == ("too_many_processes", "cgroup")
    assert "30" in entry["text"]
    assert explained(failed(metrics={"proc.forks_denied": {"peak": 0.0}}), Clues()).findings == {}


def test_a_limit_of_address_space_is_evidence_for_an_allocation_that_failed() -> None:
    limit = {"name": "address_space", "at_start": None, "lowest": 512 << 20}
    job = failed(findings={"process_limits": [limit]})
    found = evidence_of(explained(job, Clues([["MemoryError"]])).findings)
    assert [(seen.kind, seen.source) for seen in found] == [
        (Cause.ALLOCATION, Source.OUTPUT),
        (Cause.ALLOCATION, Source.LIMIT),
    ]
    assert found[1].text == "its address space was limited to 512.0 MiB (ulimit -v), which the job set itself"
    shown = [line.text for line in explain_end(explained(job, Clues([["MemoryError"]])))]
    assert found[1].text in shown
    inherited = failed(findings={"process_limits": [limit | {"at_start": 512 << 20}]})
    assert evidence_of(explained(inherited, Clues([["MemoryError"]])).findings)[1].text.endswith("(ulimit -v)")
    assert len(evidence_of(explained(job, Clues([["socket: Too many open files"]])).findings)) == 1
    broken: list[object] = [7, [None], [limit | {"lowest": "x"}], [limit | {"at_start": []}]]
    for entries in broken:
        damaged = explained(failed(findings={"process_limits": entries}), Clues([["MemoryError"]]))
        assert len(evidence_of(damaged.findings)) == 1


def test_text_from_outside_is_one_short_clean_line_without_secrets() -> None:
    secret = "ValueError: --password hunter2 and my-own-secret"
    job = explained(
        failed(),
        Clues([["Traceback (most recent call last):", '  File "a.py", line 1', secret]], secrets=["my-own-s.*"]),
    )
    assert "hunter2" not in str(job.reason)
    assert "own-secret" not in json.dumps(job.findings)
    for text in HOSTILE_TEXTS.values():
        hostile = explained(failed(), Clues([[f"No space left on device: {text}"]]))
        assert len(str(hostile.reason)) <= 200
        assert not holds_controls(str(hostile.reason))
        assert not any(holds_controls(entry["text"]) for entry in hostile.findings["evidence"])


def test_damaged_evidence_is_left_out() -> None:
    entries: list[object] = [{"kind": "crash", "text": "x", "source": "output"}, None, {"kind": "new", "text": "x"}, {}]
    assert [seen.text for seen in evidence_of({"evidence": entries})] == ["x"]
    assert evidence_of({"evidence": 7}) == []
    assert explain_end(failed(findings={"evidence": [{"text": ["x"]}]}))


def test_only_the_end_of_a_long_log_is_read(paths: StatePaths) -> None:
    job = failed()
    directory = paths.job(job.id)
    directory.mkdir(parents=True)
    (directory / "stderr.log").write_bytes(b"early\n" + b"x" * TAIL_BYTES + b"\n\x1b[31mlate\x1b[0m\r\n")
    (directory / "stdout.log").write_bytes(b"10%\r20%\r30%\nend")
    error, out = read_clues(None, paths, job).outputs
    assert error[-1] == "late"
    assert "early" not in error
    assert out == ["30%", "end"]


@pytest.mark.parametrize("status", [Status.LOST, Status.UNKNOWN, Status.FAILED])
def test_the_kernel_log_is_asked_for_the_pid_of_the_job(
    jobs: Jobs, paths: StatePaths, tmp_path: Path, status: Status
) -> None:
    log = tmp_path / "kmsg"
    moment = int(1e6 * (time.monotonic() - 5))
    log.write_text(f"3,1,{moment},-;Out of memory: Killed process 4711 (python) total-vm:1kB, anon-rss:2048kB\n")
    now = time.time()
    job = made_job(status=status, exit_code=137, pid=4711, start_time=now - 9, end_time=now - 4, shim=identify(1))
    clues = read_clues(jobs, paths, jobs.insert(job), (), str(log))
    assert [seen.kind for seen in clues.kernel] == [Cause.OUT_OF_MEMORY]
    other = made_job(status=status, exit_code=137, pid=4712, start_time=now - 9, end_time=now - 4, shim=identify(1))
    assert read_clues(jobs, paths, other, (), str(log)).kernel == []
