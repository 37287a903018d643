"""The truth suite passes as root and as an unprivileged user, and would not if a number were wrong."""

import ast
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import unprivileged as unprivileged_user
from jobtop.cli.main import main
from jobtop.core.job_id import NO_ID
from jobtop.core.model import Job, Status, Usage
from jobtop.core.record import fields, replace
from jobtop.core.selftest import judge
from jobtop.core.selftest.cases import CASES, LOADS, Case
from jobtop.core.selftest.judge import Check, JobOutcome, Reference, Verdict, exits, killed_by
from jobtop.core.selftest.suite import Measurement, memory_devices
from jobtop.core.selftest.suite import judge as judge_case
from support import Jobtop, clean_environment, require, wait_for

MIB = 1024 * 1024
SUITE_TIMEOUT_SECONDS = 290.0  # half a minute, and as long as a loaded machine takes for half a minute of CPU time
pytestmark = pytest.mark.timeout(SUITE_TIMEOUT_SECONDS + 10)
WITHOUT_CGROUP = {"rusage", "rusage+sampled", "pss", "rss"}
AGAIN = [case.name for case in CASES if case.again_without_cgroup]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the whole suite, and the home directory it ran in."""

    jobtop: Jobtop
    exit_code: int
    stderr: str
    answer: Mapping[str, Any]

    def results(self, case: str, without_cgroup: bool = False) -> list[dict[str, Any]]:
        return [
            result
            for result in self.answer["results"]
            if (result["case"], result["without_cgroup"]) == (case, without_cgroup)
        ]


@pytest.fixture(scope="module", params=["root", "unprivileged"])
def suite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The answer of `selftest --json`, once for each user."""
    if request.param == "root":
        request.getfixturevalue("root")
        home = tmp_path_factory.mktemp("root")
        jobtop = Jobtop(sys.executable, home, clean_environment(home))
    else:
        installation: unprivileged_user.Installation = request.getfixturevalue("unprivileged_installation")
        jobtop = installation.new_home()
    finished = jobtop("selftest", "--json", env={"TMPDIR": str(jobtop.home)}, timeout=SUITE_TIMEOUT_SECONDS)
    assert finished.returncode in (0, 1), finished.stderr
    return Run(jobtop, finished.returncode, finished.stderr, json.loads(finished.stdout))


def check_all_right(results: list[dict[str, Any]]) -> None:
    for result in results:
        if result["verdict"] == "skipped":
            require("disk" if result["case"] == "storage" else result["case"], result["reason"])
    wrong = [
        f"{result['load']}: {result['what']} is {result['measured']} instead of {result['relation']} "
        f"{result['expected']} ± {result['tolerance']} (source {result['source']}, reason {result['reason']})"
        for result in results
        if result["verdict"] != "pass"
    ]
    assert results
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize("case", [case.name for case in CASES])
def test_what_is_measured_is_true(suite: Run, case: str) -> None:
    check_all_right(suite.results(case))


@pytest.mark.parametrize("case", AGAIN)
def test_what_is_measured_is_true_without_a_cgroup(suite: Run, case: str) -> None:
    results = suite.results(case, without_cgroup=True) or suite.results(case)
    check_all_right(results)
    assert {result["source"] for result in results if result["what"] != "outcome"} <= WITHOUT_CGROUP


def test_the_curve_of_a_load_is_compared_at_every_sample(suite: Run) -> None:
    found = {result["what"] for case in ("wave", "storm") for result in suite.results(case)}
    assert found == {"cpu", "curve", "mean", "peak", "sum", "any sample", "outcome"}


def test_the_answer_counts_its_verdicts(suite: Run) -> None:
    verdicts = [result["verdict"] for result in suite.answer["results"]]
    assert suite.answer["schema_version"] == 1
    assert suite.answer["passed"] == verdicts.count("pass")
    assert suite.answer["failed"] == verdicts.count("fail")
    assert suite.exit_code == (1 if "fail" in verdicts else 0)
    assert suite.stderr == ""


def test_the_suite_leaves_nothing_behind(suite: Run) -> None:
    assert list(suite.jobtop.home.iterdir()) == []


JOB = Job(
    id=NO_ID,
    name="load",
    command=("load",),
    host="here",
    user="me",
    cwd="/",
    status=Status.SUCCESS,
    exit_code=0,
    duration_seconds=0.06,
    usage=Usage(
        cpu_user_seconds=1.5,
        cpu_system_seconds=0.5,
        cpu_total_seconds=2.0,
        cpu_efficiency=1.0,
        memory_peak_bytes=400 * MIB,
        io_read_bytes=64 * MIB,
        io_write_bytes=64 * MIB,
        io_read_chars=1,
        io_write_chars=1,
        faults_minor=1,
        faults_major=0,
        switches_voluntary=1,
        switches_involuntary=0,
        processes_seen=1,
        processes_peak=300,
    ),
    sources={"cpu": "rusage", "memory_peak": "rusage", "io": "rusage"},
)
REFERENCE = Reference(
    processes=1,
    cpu_seconds=2.0,
    memory_bytes=400 * MIB,
    read_bytes=64 * MIB,
    written_bytes=64 * MIB,
    together_bytes=500 * MIB,
    network_bytes=40 * MIB,
)
RECEIVED, SENT = judge.network_received(40 * MIB), judge.network_sent(40 * MIB)
CPU, MEMORY, TOGETHER = judge.cpu(2.0), judge.memory(400 * MIB), judge.memory_together(500 * MIB)
READ, WRITTEN = judge.storage_read(64 * MIB), judge.storage_written(64 * MIB)
ENGINE = judge.memory_below(12 * MIB, 300 * MIB)
CROWD, LASTED = judge.processes_at_once(300), judge.lasts_at_least(0.05)


@pytest.mark.parametrize(
    ("check", "measured", "verdict"),
    [
        (CPU, {"cpu_total_seconds": 2.0199}, Verdict.PASS),
        (CPU, {"cpu_total_seconds": 1.9801}, Verdict.PASS),
        (CPU, {"cpu_total_seconds": 2.0201}, Verdict.FAIL),
        (CPU, {"cpu_total_seconds": 1.9799}, Verdict.FAIL),
        (CPU, {"cpu_total_seconds": 0.0}, Verdict.FAIL),
        (CPU, {"cpu_total_seconds": None}, Verdict.FAIL),
        (MEMORY, {"memory_peak_bytes": 411 * MIB}, Verdict.PASS),
        (MEMORY, {"memory_peak_bytes": 413 * MIB}, Verdict.FAIL),
        (MEMORY, {"memory_peak_bytes": 387 * MIB}, Verdict.FAIL),
        (MEMORY, {"memory_peak_bytes": None}, Verdict.FAIL),
        (TOGETHER, {"memory_peak_bytes": 525 * MIB}, Verdict.PASS),
        (TOGETHER, {"memory_peak_bytes": 475 * MIB}, Verdict.PASS),
        (TOGETHER, {"memory_peak_bytes": 526 * MIB}, Verdict.FAIL),
        (TOGETHER, {"memory_peak_bytes": 474 * MIB}, Verdict.FAIL),
        (TOGETHER, {"memory_peak_bytes": None}, Verdict.FAIL),
        (ENGINE, {"memory_peak_bytes": 12 * MIB - 1}, Verdict.PASS),
        (ENGINE, {"memory_peak_bytes": 12 * MIB}, Verdict.FAIL),
        (ENGINE, {"memory_peak_bytes": 0}, Verdict.FAIL),
        (ENGINE, {"memory_peak_bytes": None}, Verdict.FAIL),
        (READ, {"io_read_bytes": 64 * MIB + 600_000}, Verdict.PASS),
        (READ, {"io_read_bytes": 65 * MIB}, Verdict.FAIL),
        (READ, {"io_read_bytes": 0}, Verdict.FAIL),
        (WRITTEN, {"io_write_bytes": 64 * MIB - 600_000}, Verdict.PASS),
        (WRITTEN, {"io_write_bytes": 63 * MIB}, Verdict.FAIL),
        (WRITTEN, {"io_write_bytes": None}, Verdict.FAIL),
        (RECEIVED, {"net_rx_bytes": 40 * MIB + 800_000}, Verdict.PASS),
        (RECEIVED, {"net_rx_bytes": 40 * MIB + 850_000}, Verdict.FAIL),
        (RECEIVED, {"net_rx_bytes": None}, Verdict.FAIL),
        (SENT, {"net_tx_bytes": 40 * MIB - 800_000}, Verdict.PASS),
        (SENT, {"net_tx_bytes": 40 * MIB - 850_000}, Verdict.FAIL),
        (SENT, {"net_tx_bytes": 0}, Verdict.FAIL),
        (CROWD, {"processes_peak": 300}, Verdict.PASS),
        (CROWD, {"processes_peak": 299}, Verdict.FAIL),
        (CROWD, {"processes_peak": None}, Verdict.FAIL),
    ],
)
def test_a_number_passes_only_within_its_tolerance(check: Check, measured: dict[str, Any], verdict: Verdict) -> None:
    job = replace(JOB, usage=replace(JOB.usage, **measured))
    reference = REFERENCE if check is not ENGINE else replace(REFERENCE, memory_bytes=300 * MIB)
    assert check(job, reference).verdict is verdict


def test_one_percent_of_much_cpu_time_is_more_than_20_ms() -> None:
    used = replace(REFERENCE, cpu_seconds=10.0)
    right, wrong = (replace(JOB, usage=Usage(cpu_total_seconds=seconds)) for seconds in (10.099, 10.101))
    assert CPU(right, used).verdict is Verdict.PASS
    assert CPU(wrong, used).verdict is Verdict.FAIL


@pytest.mark.parametrize(("mebibytes", "verdict"), [(525, "pass"), (475, "pass"), (526, "fail"), (474, "fail")])
def test_what_samples_saw_passes_only_within_its_tolerance(mebibytes: int, verdict: str) -> None:
    check = judge.memory_sampled(500 * MIB)
    assert check(replace(JOB, metrics={"mem.used": {"peak": mebibytes * MIB}}), REFERENCE).verdict == verdict
    assert check(JOB, REFERENCE).verdict is Verdict.FAIL, "never sampled"


@pytest.mark.parametrize(
    ("check", "reference"),
    [
        (CPU, replace(REFERENCE, processes=0)),
        (CPU, replace(REFERENCE, cpu_seconds=1.9)),
        (MEMORY, replace(REFERENCE, memory_bytes=399 * MIB)),
        (TOGETHER, replace(REFERENCE, together_bytes=499 * MIB)),
        (ENGINE, replace(REFERENCE, memory_bytes=299 * MIB)),
        (READ, replace(REFERENCE, read_bytes=None)),
        (WRITTEN, replace(REFERENCE, written_bytes=63 * MIB)),
        (RECEIVED, replace(REFERENCE, network_bytes=39 * MIB)),
        (SENT, replace(REFERENCE, network_bytes=0)),
    ],
)
def test_a_load_that_cost_less_than_it_was_built_for_proves_nothing(check: Check, reference: Reference) -> None:
    result = check(JOB, reference)
    assert result.verdict is Verdict.FAIL
    assert result.reason is not None


def test_a_process_that_left_the_cgroup_has_to_be_said() -> None:
    assert judge.cpu_outside_reported(JOB, REFERENCE).verdict is Verdict.FAIL
    said = replace(JOB, incomplete=("cpu: a process left the cgroup",))
    assert judge.cpu_outside_reported(said, REFERENCE).verdict is Verdict.PASS


@pytest.mark.parametrize(("mean", "verdict"), [(50.0, "pass"), (None, "fail"), (0.0, "fail"), (1e6, "fail")])
def test_a_mean_has_to_be_there_and_possible(mean: float | None, verdict: str) -> None:
    job = replace(JOB, usage=replace(JOB.usage, cpu_percent_mean=mean))
    assert judge.mean_possible(job, REFERENCE).verdict == verdict


@pytest.mark.parametrize("what", ["duration_seconds", "exit_code"])
def test_an_absent_fact_of_a_short_command_is_noticed(what: str) -> None:
    result = judge.nothing_absent(replace(JOB, **{what: None}), REFERENCE)
    assert (result.verdict, result.measured) == (Verdict.FAIL, what)


@pytest.mark.parametrize("what", [key for key in fields(Usage) if getattr(JOB.usage, key) is not None])
def test_an_absent_total_of_a_short_command_is_noticed(what: str) -> None:
    result = judge.nothing_absent(replace(JOB, usage=replace(JOB.usage, **{what: None})), REFERENCE)
    assert (result.verdict, result.measured) == (Verdict.FAIL, what)
    assert judge.nothing_absent(JOB, REFERENCE).verdict is Verdict.PASS


def test_a_command_cannot_have_been_shorter_than_it_was() -> None:
    assert LASTED(JOB, REFERENCE).verdict is Verdict.PASS
    assert LASTED(replace(JOB, duration_seconds=0.049), REFERENCE).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("source", "incomplete", "cpu_seconds", "verdict"),
    [
        ("cgroup+rusage", (), 2.0, Verdict.PASS),
        ("cgroup+rusage", (), 0.1, Verdict.FAIL),
        ("rusage", ("cpu: its children's times are lost",), 0.1, Verdict.PASS),
        ("rusage", ("io: its children's blocks are lost",), 0.1, Verdict.FAIL),
        ("rusage", (), 2.0, Verdict.FAIL),
        ("rusage+sampled", ("cpu: its children's times are lost",), 2.01, Verdict.PASS),
        ("rusage+sampled", ("cpu: its children's times are lost",), 2.03, Verdict.FAIL),
    ],
)
def test_lost_cpu_time_is_counted_by_a_cgroup_or_said_to_be_lost(
    source: str, incomplete: tuple[str, ...], cpu_seconds: float, verdict: Verdict
) -> None:
    usage = Usage(cpu_total_seconds=cpu_seconds)
    job = replace(JOB, usage=usage, sources={"cpu": source}, incomplete=incomplete)
    assert judge.cpu_or_incomplete(2.0, processes=1)(job, REFERENCE).verdict is verdict


@pytest.mark.parametrize(
    ("expected", "ended", "returned"),
    [
        (exits(7), exits(0), 0),
        (exits(7), exits(7), 0),
        (exits(137), killed_by(signal.SIGKILL), 137),
        (killed_by(signal.SIGKILL), exits(137), 137),
        (killed_by(signal.SIGKILL), killed_by(signal.SIGSEGV), 139),
        (killed_by(signal.SIGKILL), replace(killed_by(signal.SIGKILL), flags=("oom_killed",)), 137),
        (killed_by(signal.SIGKILL), replace(killed_by(signal.SIGKILL), status="cancelled"), 137),
    ],
    ids=str,
)
def test_a_wrong_end_is_noticed(expected: JobOutcome, ended: JobOutcome, returned: int) -> None:
    job = replace(JOB, status=Status(ended.status), exit_code=ended.exit_code, signal=ended.signal, flags=ended.flags)
    wrong = judge.judge_outcome(expected, job, returned)
    assert wrong.verdict is Verdict.FAIL
    assert wrong.expected != wrong.measured
    assert judge.judge_outcome(replace(ended, returned=returned), job, returned).verdict is Verdict.PASS


def test_a_run_without_a_record_fails_with_what_it_said() -> None:
    (result,) = judge_case(CASES[0], Measurement(None, 125, Reference(), "jobtop: no\n"))
    assert (result.verdict, result.reason) == (Verdict.FAIL, "jobtop: no")


def test_a_load_that_cannot_be_built_here_is_skipped_with_its_reason() -> None:
    reference = judge.read_reference(
        '{"skip": "no disk", "cpu_seconds": 1, "memory_bytes": 1, "read_bytes": null, "written_bytes": null}\n'
    )
    (result,) = judge_case(CASES[0], Measurement(JOB, 0, reference, ""))
    assert (result.verdict, result.reason) == (Verdict.SKIPPED, "no disk")


def test_the_report_of_several_processes_is_added_up_but_not_their_memory() -> None:
    line = {"skip": None, "cpu_seconds": 0.5, "memory_bytes": 7, "read_bytes": None, "written_bytes": 3}
    reference = judge.read_reference("".join(f"{json.dumps(line)}\n" for _ in range(2)))
    assert reference == Reference(
        processes=2, cpu_seconds=1.0, memory_bytes=7, read_bytes=None, written_bytes=6, skip=None
    )


def test_selftest_returns_1_and_says_why_when_something_is_wrong(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Case("wrong", "exit 7 taken for exit 8", command=("sh", "-c", "exit 7"), outcome=exits(8))
    monkeypatch.setattr("jobtop.cli.verbs.selftest.CASES", (wrong,))
    monkeypatch.setattr(sys, "argv", ["jobtop", "selftest"])
    assert main() == 1
    printed = capsys.readouterr().out
    assert "failed, exit 8" in printed
    assert "failed, exit 7" in printed
    assert "fail: exit code 7" in printed
    assert "0 of 1 right" in printed
    assert not home.exists()


def test_one_case_can_be_chosen_and_printed_as_lines(jobtop: Jobtop) -> None:
    finished = jobtop("selftest", "--only", "exit-7", "--format", "jsonl")
    (result,) = map(json.loads, finished.stdout.splitlines())
    assert (finished.returncode, finished.stderr) == (0, "")
    assert (result["case"], result["what"], result["verdict"]) == ("exit-7", "outcome", "pass")


def test_the_cases_can_be_listed_without_running_any(jobtop: Jobtop) -> None:
    finished = jobtop("selftest", "--list", "--json")
    assert [case["name"] for case in json.loads(finished.stdout)] == [case.name for case in CASES]
    assert list(jobtop.home.iterdir()) == []


def test_an_unknown_case_is_wrong_usage_and_names_the_nearest(jobtop: Jobtop) -> None:
    finished = jobtop("selftest", "--only", "exit-8")
    assert (finished.returncode, finished.stdout) == (2, "")
    assert 'did you mean "exit-7"?' in finished.stderr
    assert finished.stderr.count("\n") == 1


def test_progress_is_shown_on_a_terminal(jobtop: Jobtop) -> None:
    terminal, stderr = os.openpty()
    command = jobtop.command("selftest", "--only", "exit-7", "--only", "exit-137", "--json")
    finished = subprocess.run(
        command, env=jobtop.env, cwd=jobtop.home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr
    )
    os.close(stderr)
    shown = b""
    with suppress(OSError):  # the other end is closed, and everything is read
        while part := os.read(terminal, 65536):
            shown += part
    os.close(terminal)
    progress = shown.decode()
    assert finished.returncode == 0
    assert "0 of 2  exit 7" in progress
    assert progress.endswith("\r\x1b[K")
    assert json.loads(finished.stdout)["passed"] == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_selftest_ends_its_jobs_and_leaves_nothing(jobtop: Jobtop, number: signal.Signals) -> None:
    process = jobtop.start("selftest", "--only", "two-threads", env={"TMPDIR": str(jobtop.home)})

    def started() -> list[tuple[str, str]] | None:
        """What the shim says of the job's start, once all of it is there."""
        for file in jobtop.home.glob("jobtop-selftest-*/state/jobs/*/started"):
            facts = [(key, value) for key, _, value in (line.partition(" ") for line in file.read_text().splitlines())]
            return facts if "subreaper" in dict(facts) else None
        return None

    facts = wait_for(started, 30)
    left = [f"/proc/{dict(facts)['main'].split()[0]}", *(value for key, value in facts if key == "cgroup")]
    assert os.path.exists(left[0])
    process.send_signal(number)
    assert process.communicate(timeout=30)[0] == ""
    assert process.returncode == 128 + number
    assert list(jobtop.home.iterdir()) == []
    wait_for(lambda: not any(map(os.path.exists, left)))


@pytest.mark.parametrize(
    ("name", "numbers", "built"),
    [
        ("one-process", ("0.1",), Reference(1, 0.1)),
        ("many-children", ("5", "0.02"), Reference(1, 0.1)),
        ("nested-shells", ("0.1",), Reference(1, 0.1)),
        ("two-threads", ("0.05",), Reference(1, 0.1)),
        ("daemon", (str(32 * MIB), "0.1"), Reference(2, 0.1, 32 * MIB)),
        ("orphans", ("2", "0.05"), Reference(3, 0.1)),
        ("sigchld-ignored", ("2", "0.05"), Reference(3, 0.1)),
        ("spike", (str(32 * MIB), "0.01"), Reference(1, 0.0, 32 * MIB)),
        ("storage", (str(4 * MIB),), Reference(1, read_bytes=4 * MIB, written_bytes=4 * MIB)),
        ("network", (str(MIB), "0.05"), Reference(2, network_bytes=MIB)),
        ("crowd", ("20", "0.01"), Reference(1, 0.1)),
        ("shared", (str(32 * MIB), "3", "0.01"), Reference(1, memory_bytes=32 * MIB, together_bytes=32 * MIB)),
        ("beside-daemon", (str(16 * MIB), str(32 * MIB), "0.01"), Reference(1, together_bytes=48 * MIB)),
        ("copy-on-write", (str(32 * MIB), "2", "0.01"), Reference(1, memory_bytes=32 * MIB, together_bytes=96 * MIB)),
        ("background", ("0.1",), Reference(2, 0.1)),
        ("wave", ("0.05", "2"), Reference(1, 0.1, curve=((0.2, 0.1),))),
        ("storm", ("100", "0.1"), Reference(1, curve=((0.1, 0.0),))),
    ],
)
def test_a_load_by_itself_says_that_it_cost_what_it_was_built_to_cost(
    tmp_path: Path, name: str, numbers: tuple[str, ...], built: Reference
) -> None:
    report = tmp_path / "report"
    finished = subprocess.run([sys.executable, LOADS, report, name, *numbers], cwd=tmp_path, timeout=60)
    said = wait_for(lambda: complete_report(report, built.processes), 30)
    if said.skip:
        require("disk", said.skip)
    assert finished.returncode == (-signal.SIGKILL if name == "orphans" else 0)
    assert said.cpu_seconds >= built.cpu_seconds
    assert said.memory_bytes >= built.memory_bytes
    assert built.together_bytes <= said.together_bytes < built.together_bytes + 32 * MIB
    assert bool(said.curve) is bool(built.curve)
    for seconds, used in built.curve:
        assert said.curve[-1][0] - said.curve[0][0] >= seconds * 0.99
        assert said.curve[-1][1] == said.cpu_seconds
        assert said.curve[-1][1] - said.curve[0][1] >= used
        assert list(said.curve) == sorted(said.curve)
    assert (said.read_bytes or 0) >= (built.read_bytes or 0)
    assert (said.written_bytes or 0) >= (built.written_bytes or 0)
    assert said.network_bytes == built.network_bytes
    assert list(tmp_path.iterdir()) == [report]


def complete_report(report: Path, processes: int) -> Reference | None:
    said = judge.read_reference(report.read_text())
    return said if said.processes == processes else None


def test_the_loads_know_nothing_of_jobtop() -> None:
    tree = ast.parse(Path(LOADS).read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_file_systems_in_memory_are_told_from_disks() -> None:
    mountinfo = (
        "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        "23 22 0:24 / /tmp rw shared:2 - tmpfs tmpfs rw,size=4k\n"
    )
    assert memory_devices(mountinfo) == {"0:24"}
