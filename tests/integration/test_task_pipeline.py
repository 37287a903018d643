"""Scripts of tools through the queue: TaskPipeline and BenchmarkRunner, as the documents use them."""

import importlib.util
import json
import logging
import math
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from container_jobs import cleared, engine
from engines import IMAGE, RealEngine
from jobtop.benchmark import BenchmarkRunner
from jobtop.core.errors import ConfigError, UsageError
from jobtop.lifecycle.queue import NO_AGENT
from jobtop.task_pipeline import TaskPipeline
from nvml import three_gpus
from records import call
from running import nothing_is_left
from support import ROOT, Jobtop

__all__ = ["engine", "nothing_is_left"]
pytestmark = pytest.mark.usefixtures("nothing_is_left")

CONFIGURATION = """
[[tool]]
name = "fenicsx"
command = ["python3", "{script}"]
benchmark = "benchmarks/poisson.py"

[[tool]]
name = "lammps"
command = ["lmp", "-in", "{script}"]
"""
# Uses a known amount of CPU time and memory.
POISSON = """
import json, os, time
params = json.loads(os.environ["JOBTOP_PARAMS"])
held = bytearray(b"x") * (params.get("mesh_size", 1) << 20)
while time.process_time() < 0.2: pass
print("params", params)
"""
LMP = '#!/bin/sh\necho "running $2"\nexec sh "$2"\n'
SEED_TASK = """
from jobtop import TaskPipeline

pipeline = TaskPipeline()

# Submit task - monitoring happens automatically
task_id = pipeline.submit_task("fenicsx", "poisson.py", {"mesh_size": 64})

# Wait for completion
result = pipeline.wait_for_task(task_id)

# Result includes resource usage
print(f"Duration: {result['duration_seconds']}s")
print(f"CPU Time: {result['resource_usage']['cpu_total_seconds']}s")
print(f"Memory Peak: {result['resource_usage']['memory_peak_mb']} MB")
"""
SEED_WORKFLOW = """
from jobtop import TaskPipeline

pipeline = TaskPipeline()

# Submit workflow
tasks = [
    {"tool": "fenicsx", "script": "poisson.py", "params": {"mesh_size": 32}},
    {"tool": "lammps", "script": "example.lammps", "params": {}},
]

task_ids = pipeline.submit_workflow(tasks, sequential=True)

# Wait for completion
results = pipeline.wait_for_workflow(task_ids)
"""
SEED_WORKFLOW_HISTORY = """
# View history for all workflow tasks
from jobtop import get_monitor
monitor = get_monitor()

for task_id in task_ids:
    job = monitor.get_job_stats(task_id)
    print(f"{job['tool']}: {job['status']} - {job['duration_seconds']}s")
"""
SEED_BENCHMARK = """
from jobtop import BenchmarkRunner

runner = BenchmarkRunner()

# Run benchmark with profiling
result = runner.run_benchmark("fenicsx", device="cpu", runs=3)

# Access detailed profiles for each run
for run_result in result['runs']:
    profile = run_result.get('detailed_profile', {})
    print(f"Run {run_result['run_number']}:")
    print(f"  CPU mean: {profile.get('cpu', {}).get('mean_percent', 0)}%")
    print(f"  Memory peak: {profile.get('memory', {}).get('max_used_mb', 0)} MB")
"""
# The lines of the documents with `python3 cli.py`, which becomes `jobtop`; TASK stands for the id of a task.
SEED_LINES = """
submit fenicsx poisson.py --wait
job-history
job-history --limit 20
job-history --tool fenicsx
job-history --status failed
job-history --status failed --limit 5
job-stats
job-details TASK
"""


def write_tools(directory: Path) -> None:
    """The configuration of a user, and the scripts and the program of the tools."""
    for name, text in (
        (".config/jobtop/config.toml", CONFIGURATION),
        (".config/jobtop/benchmarks/poisson.py", POISSON),
        ("poisson.py", POISSON),
        ("example.lammps", "echo atoms\n"),
        ("bad.lammps", "echo lost atoms >&2; exit 3\n"),
        ("bin/lmp", LMP),
    ):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    os.chmod(directory / "bin/lmp", stat.S_IRWXU)


@pytest.fixture
def tools(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with scripts for two tools."""
    write_tools(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_source(source: str) -> dict[str, Any]:
    """The names that a source has defined; it runs in this process."""
    names: dict[str, Any] = {}
    exec(source, names)
    return names


def test_the_task_of_keystones_document_runs_and_its_numbers_are_true(
    tools: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run_source(SEED_TASK)["result"]
    printed = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in printed] == ["Duration", "CPU Time", "Memory Peak"]
    keys = "task_id tool script params start_time end_time duration_seconds status returncode resource_usage error"
    assert set(keys.split()) <= set(result)
    assert (result["tool"], result["script"], result["params"]) == ("fenicsx", "poisson.py", {"mesh_size": 64})
    assert (result["status"], result["returncode"], result["error"]) == ("success", 0, None)
    assert result["stdout"] == "params {'mesh_size': 64}\n"
    usage = result["resource_usage"]
    assert usage["cpu_total_seconds"] == pytest.approx(usage["cpu_user_seconds"] + usage["cpu_system_seconds"])
    assert 0.2 <= usage["cpu_total_seconds"] <= result["duration_seconds"] * 1.1
    assert 64 < usage["memory_peak_mb"] < 96
    profile = result["detailed_profile"]
    assert profile["process_memory"]["max_mb"] == usage["memory_peak_mb"]
    seed = {"cpu", "memory", "process_cpu", "process_memory", "io_stats", "gpu_stats", "container_stats"}
    assert seed | {"duration_seconds", "samples_collected", "sampling_interval_seconds"} <= set(profile)


def test_submit_task_and_submit_with_a_tool_make_the_same_job(tools: Path) -> None:
    by_hand = call("submit", "--tool", "fenicsx", "poisson.py", "--param", "mesh_size=2").stdout.strip()
    task_id = TaskPipeline().submit_task("fenicsx", "poisson.py", {"mesh_size": 2})
    TaskPipeline().wait_for_workflow([by_hand, task_id])
    specs = [json.loads((tools / f"state/specs/{job}.json").read_text()) for job in (by_hand, task_id)]
    assert [spec["env"].pop("JOBTOP_JOB_ID") for spec in specs] == [spec.pop("id") for spec in specs]
    assert specs[0] == specs[1]
    rows = [json.loads(call("show", job, "--json").stdout) for job in (by_hand, task_id)]
    measured = {"id", "seq", "pid", "submitted_at", "start_time", "end_time", "duration_seconds", "resource_usage"}
    measured |= {"metrics", "monitor", "cost", "findings", "limited_by", "last_heard", "incomplete"}
    same = [{key: value for key, value in row.items() if key not in measured} for row in rows]
    assert same[0] == same[1]
    assert same[0]["queue"] is not None


def test_the_workflow_of_keystones_document_runs_in_its_order(tools: Path) -> None:
    names = run_source(SEED_WORKFLOW)
    first, second = names["results"]
    assert [result["task_id"] for result in (first, second)] == names["task_ids"]
    assert (first["status"], second["status"], second["stdout"]) == (
        *("success", "success"),
        "running example.lammps\natoms\n",
    )
    assert first["end_time"] <= second["start_time"]


@pytest.mark.skipif(importlib.util.find_spec("jobtop.job_monitor") is None, reason="jobtop has no get_monitor yet")
def test_the_monitor_finds_the_tasks_of_a_workflow(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_source(SEED_WORKFLOW + SEED_WORKFLOW_HISTORY)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" - ")[0] for line in lines] == ["fenicsx: success", "lammps: success"]


def test_a_task_that_fails_cancels_those_after_it_in_a_sequence_only(tools: Path) -> None:
    tasks = [{"tool": "lammps", "script": f"{name}.lammps"} for name in ("bad", "example")]
    pipeline = TaskPipeline()
    failed, cancelled = pipeline.wait_for_workflow(pipeline.submit_workflow(tasks))
    assert (failed["status"], failed["returncode"], failed["stderr"]) == ("failed", 3, "lost atoms\n")
    assert "exit code 3" in failed["error"]
    assert (cancelled["status"], cancelled["start_time"]) == ("cancelled", None)
    absent = (cancelled["duration_seconds"], cancelled["returncode"], *cancelled["resource_usage"].values())
    assert all(map(math.isnan, absent))
    beside = pipeline.wait_for_workflow(pipeline.submit_workflow(tasks, sequential=False))
    assert [result["status"] for result in beside] == ["failed", "success"]


def test_a_workflow_with_one_wrong_task_queues_nothing(tools: Path) -> None:
    good = {"tool": "lammps", "script": "example.lammps"}
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"tool": "lamps", "script": "example.lammps"}, ConfigError, "lammps"),
        ({"tool": "lammps", "script": "nothing.lammps"}, UsageError, r"nothing\.lammps"),
        ({"tool": "lammps"}, UsageError, "script"),
        ({"tool": "lammps", "script": "example.lammps", "parms": {}}, UsageError, "params"),
        ({"tool": "lammps", "script": "example.lammps", "params": [1]}, UsageError, "params"),
    ]
    for task, error, word in wrong:
        with pytest.raises(error, match=word):
            TaskPipeline().submit_workflow([good, task])
    assert json.loads(call("history", "--json").stdout) == []
    assert list((tools / "state/specs").glob("*")) == []


def test_waiting_ends_with_the_timeout_and_the_task_goes_on(tools: Path) -> None:
    (tools / "waits.lammps").write_text("until test -e go; do sleep 0.02; done\n")
    task_id = TaskPipeline().submit_task("lammps", "waits.lammps")
    with pytest.raises(TimeoutError, match=task_id):
        TaskPipeline().wait_for_task(task_id, timeout=0.2)
    (tools / "go").touch()
    assert TaskPipeline().wait_for_task(task_id)["status"] == "success"


def test_a_task_without_an_agent_is_a_warning(
    tools: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("jobtop.lifecycle.queue.Queue.call_agent", lambda *_: NO_AGENT)
    with caplog.at_level(logging.WARNING, "jobtop"):
        task_id = TaskPipeline().submit_task("lammps", "example.lammps")
    assert (caplog.messages, len(task_id)) == ([NO_AGENT], 36)


def test_the_benchmark_of_keystones_document_runs(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_source(SEED_BENCHMARK)["result"]
    assert capsys.readouterr().out.count("Memory peak: ") == 3
    assert [run["run_number"] for run in result["runs"]] == [1, 2, 3]
    assert all("detailed_profile" in run and run["params"] == {"device": "cpu"} for run in result["runs"])
    assert result["successful_runs"] == 3
    cpu = result["statistics"]["cpu_total_seconds"]
    known = [run["resource_usage"]["cpu_total_seconds"] for run in result["runs"]]
    assert (cpu["count"], cpu["min"], cpu["max"], cpu["median"]) == (3, min(known), max(known), sorted(known)[1])
    assert cpu["mean"] == pytest.approx(sum(known) / 3)
    jobs = json.loads(call("history", "tag:benchmark=fenicsx", "--json").stdout)
    assert sorted(job["tags"]["run"] for job in jobs) == ["1", "2", "3"]


def test_gpus_are_hidden_from_a_benchmark_on_the_cpu_and_given_to_one_on_a_gpu(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in three_gpus(tools).items():
        monkeypatch.setenv(key, value)
    # This process has looked for libraries already; what the machine has is seen by the agent.
    monkeypatch.setattr("jobtop.benchmark.refuse_impossible", lambda _: None)
    monkeypatch.setattr("jobtop.lifecycle.submit.refuse_impossible", lambda _: None)
    (tools / "gpu.lammps").write_text('echo "[$CUDA_VISIBLE_DEVICES] $JOBTOP_PARAMS"\n')
    runner = BenchmarkRunner()
    results = [runner.run_benchmark("lammps", device, 1, script="gpu.lammps") for device in ("cpu", "gpu")]
    on_cpu, on_gpu = (result["runs"][0]["stdout"].splitlines()[1] for result in results)
    assert (on_cpu, on_gpu) == ('[] {"device": "cpu"}', '[0] {"device": "gpu"}')


def test_a_script_runs_in_the_image_of_its_tool(jobtop: Jobtop, engine: RealEngine) -> None:
    write_tools(jobtop.home)
    tool = f'[[tool]]\nname = "boxed"\nimage = "{IMAGE}"\ncommand = ["sh", "{{script}}", "{{n}}"]\n'
    (jobtop.home / ".config/jobtop/config.toml").write_text(tool)
    (jobtop.home / "show.sh").write_text('echo "$1 $JOBTOP_PARAMS $(pwd)"; test -e /.dockerenv || ls /run\n')
    with cleared(jobtop, engine) as contained:
        words = ("submit", "boxed", "show.sh", "--network", "none", "--param", "n=3", "--wait")
        finished = contained(*words, timeout=120)
        assert finished.returncode == 0, finished.stderr
        record = json.loads(contained("show", "last", "--json").stdout)
        assert (record["kind"], record["script"], record["tool"]) == ("container", "show.sh", "boxed")
        assert contained("logs", "last").stdout.startswith(f'3 {{"n": 3}} {jobtop.home}\n')


@pytest.fixture
def shell(jobtop: Jobtop) -> dict[str, str]:
    """The environment of a shell in which `jobtop` and the program of a tool are found."""
    write_tools(jobtop.home)
    program = shutil.which("jobtop", path=str(Path(sys.executable).parent))
    assert program is not None
    path = f"{jobtop.home}/bin:{Path(program).parent}:{os.environ['PATH']}"
    return {**jobtop.env, "PATH": path}


def run_in(directory: Path, env: dict[str, str], *command: str) -> str:
    """What a command printed; it succeeded."""
    done = subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def test_the_command_lines_of_keystones_documents_run(jobtop: Jobtop, shell: dict[str, str]) -> None:
    jobtop("run", "--quiet", "--tool", "lammps", "--", "sh", "-c", "exit 3")
    printed, task = {}, ""
    for line in SEED_LINES.split("\n")[1:-1]:
        printed[line] = run_in(jobtop.home, shell, "jobtop", *line.replace("TASK", task).split())
        task = task or printed[line].strip()
    assert printed["job-history"].splitlines()[0].startswith(f"1. {task[:8]}  poisson  ")
    parts = ("tool     fenicsx, script poisson.py", " user, ", " system)", "MiB peak")
    assert [part for part in parts if part not in printed["job-history --tool fenicsx"]] == []
    failed = printed["job-history --status failed"]
    assert ("error    exit code 3" in failed, "poisson" in failed) == (True, False)
    assert "EFFICIENCY" in printed["job-stats"]
    assert "fenicsx" in printed["job-details TASK"]


def test_a_job_of_a_tool_runs_again_with_other_parameters(jobtop: Jobtop, shell: dict[str, str]) -> None:
    run_in(jobtop.home, shell, "jobtop", "run", "--quiet", "fenicsx", "poisson.py", "--param", "mesh_size=2")
    again = run_in(jobtop.home, shell, "jobtop", "rerun", "--quiet", "last", "--param", "mesh_size=3")
    assert again == "params {'mesh_size': 3}\n"
    record = json.loads(run_in(jobtop.home, shell, "jobtop", "show", "last", "--json"))
    assert (record["params"], record["tool"], record["script"]) == ({"mesh_size": 3}, "fenicsx", "poisson.py")


def blocks(language: str) -> list[str]:
    """The blocks of the page in one language."""
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", (ROOT / "docs/pipeline.md").read_text(encoding="utf-8"))


def test_everything_on_the_page_runs(jobtop: Jobtop, shell: dict[str, str]) -> None:
    (jobtop.home / ".config/jobtop/config.toml").write_text(blocks("toml")[0])
    run_in(jobtop.home, shell, "sh", "-ec", blocks("sh")[0])
    assert len(blocks("python")) == 3
    outputs = [run_in(jobtop.home, shell, sys.executable, "-c", source) for source in blocks("python")]
    assert "Status: success, exit code 0" in outputs[0]
    assert outputs[1].splitlines() == ["fenicsx success None", "lammps success None"]
    assert len(outputs[2].splitlines()) == 5
    (saved,) = (jobtop.state / "benchmarks").iterdir()
    assert (saved.name, stat.S_IMODE(saved.stat().st_mode)) == ("before.json", 0o600)
