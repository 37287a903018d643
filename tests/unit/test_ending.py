"""Why a job ended: from its record, its timeline and its last words, the most telling first."""

import pytest

from jobtop.core.analysis.ending import LineKind, explain_end
from jobtop.core.measure.process_order import family
from jobtop.core.measure.snapshot import ProcessRow
from jobtop.core.model import Limits, Status, StopRequest, Usage
from jobtop.core.text.event_text import BAD, GOOD, PLAIN, WARNING, event_text, severity
from records import holds_controls, made_job, running_job


def said(kind: LineKind, **values: object) -> list[str]:
    """What is said of a job that failed, but for what is given."""
    job = made_job(**{"status": Status.FAILED, "exit_code": 1, "reason": "exit code 1"} | values)
    return [line.text for line in explain_end(job) if line.kind is kind]


def test_nothing_is_explained_while_a_job_runs_or_if_it_went_well() -> None:
    assert explain_end(running_job()) == []
    assert explain_end(made_job()) == []
    assert explain_end(made_job(status=Status.UNKNOWN)) == []


def test_the_verdict_comes_first_and_the_last_words_come_last() -> None:
    job = made_job(status=Status.FAILED, exit_code=3, reason="exit code 3", duration_seconds=192.0)
    lines = explain_end(job, last_output=["Traceback …", "ValueError: \x1b[31mno"])
    assert lines[0].kind is LineKind.VERDICT
    assert all(word in lines[0].text for word in ("failed", "3m12s", "exit code 3"))
    assert [line.text for line in lines if line.kind is LineKind.OUTPUT] == ["Traceback …", "ValueError: \x1b[31mno"]
    assert lines[-1].kind is LineKind.OUTPUT


def test_a_kill_for_lack_of_memory_is_told_with_the_peak_and_what_to_do() -> None:
    lack = {
        "exit_code": None,
        "signal": 9,
        "reason": "killed by SIGKILL: the kernel's OOM killer, oom_kill +1",
        "flags": ("oom_killed",),
        "usage": Usage(oom_kills=1, memory_peak_bytes=4 << 30),
        "limits": Limits(memory_bytes=4 << 30, enforced=True),
    }
    (evidence,) = said(LineKind.EVIDENCE, **lack)
    assert evidence.count("4.0 GiB") == 2
    assert "100 %" in evidence
    assert "more memory" in said(LineKind.ADVICE, **lack)[0]


def test_a_job_that_lost_a_child_to_the_oom_killer_is_explained_even_if_it_succeeded() -> None:
    lines = explain_end(made_job(flags=("oom_killed",), usage=Usage(oom_kills=2)))
    (evidence,) = (line.text for line in lines[1:])
    assert "OOM killer" in evidence
    assert "2 processes" in evidence


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"exit_code": None, "signal": 11}, ["SIGSEGV", "memory"]),
        ({"exit_code": None, "signal": 9}, ["SIGKILL", "not known"]),
        ({"exit_code": 139}, ["139 is 128 + 11", "SIGSEGV"]),
        ({"flags": ("left_running",)}, ["descendants", "running"]),
    ],
)
def test_signals_and_what_shells_make_of_them_are_explained(values: dict[str, object], words: list[str]) -> None:
    (evidence,) = said(LineKind.EVIDENCE, **values)
    assert all(word in evidence for word in words)


def test_an_exit_code_of_137_alone_is_not_called_out_of_memory() -> None:
    (evidence,) = said(LineKind.EVIDENCE, exit_code=137)
    assert "SIGKILL" in evidence
    assert "memory" not in evidence


def test_who_asked_for_the_end_is_told_and_how_long_that_took() -> None:
    asked = StopRequest("jobtop stop", 1_700_000_060.5)
    evidence = said(
        LineKind.EVIDENCE,
        status=Status.CANCELLED,
        exit_code=None,
        signal=15,
        stop_request=asked,
        end_time=1_700_000_070.5,
    )
    (text,) = evidence
    assert all(word in text for word in ("jobtop stop", "1m00s after its start", "10s later"))


def test_a_timeout_names_the_option_and_a_machine_that_slept_is_told() -> None:
    limits = Limits(timeout_seconds=5.0)
    (advice,) = said(LineKind.ADVICE, status=Status.TIMEOUT, limits=limits)
    assert "--timeout" in advice
    assert "5s" in advice
    job = made_job(status=Status.LOST, exit_code=None, reason="vanished")
    lines = explain_end(job, events=[(0.0, "suspended", {"seconds": 60.0}), (1.0, "suspended", {"seconds": None})])
    assert "suspended for 1m00s" in lines[-1].text


@pytest.mark.parametrize(
    ("kind", "detail", "words", "weight"),
    [
        ("started", {"pid": 7}, "started, pid 7", PLAIN),
        ("stop_requested", {"by": "Ctrl-C"}, "Ctrl-C", WARNING),
        ("exited", {"status": "success", "reason": None}, "success", GOOD),
        ("exited", {"status": "failed", "reason": "exit code 2"}, "failed (exit code 2)", BAD),
        ("exited", {"status": "cancelled", "reason": "x\n"}, "cancelled (x\\n)", WARNING),
        ("suspended", {"seconds": 90.0}, "suspended for 1m30s", WARNING),
        ("sampling_slowed", {"factor": 4.0}, "4 times less often", WARNING),
        ("alert", {"severity": "critical", "text": "memory\n"}, "memory\\n", BAD),
        ("alert", {}, "alert", WARNING),
        ("lost", {"reason": "gone"}, "lost (gone)", BAD),
        ("some_new\x1b", {}, "some new\\x1b", PLAIN),
        ("started", {}, "started", PLAIN),
        ("suspended", {"seconds": "long"}, "a while", WARNING),
    ],
)
def test_what_happened_is_said_in_words(kind: str, detail: dict[str, object], words: str, weight: str) -> None:
    assert words in event_text(kind, detail)
    assert not holds_controls(event_text(kind, detail))
    assert severity(kind, detail) == weight


def process(pid: int, parent: int) -> ProcessRow:
    return ProcessRow(pid, parent, f"p{pid}", 0.0, None, None, 1, 0.0, "S")


def test_processes_stand_below_their_parents() -> None:
    rows = [process(30, 10), process(11, 10), process(10, 1), process(12, 11), process(20, 1)]
    assert [(depth, row.pid) for depth, row in family(rows)] == [(0, 10), (1, 11), (2, 12), (1, 30), (0, 20)]


def test_a_ring_of_parents_loses_no_process() -> None:
    rows = [process(10, 11), process(11, 10), process(12, 12), process(13, 10)]
    assert sorted(row.pid for _, row in family(rows)) == [10, 11, 12, 13]
