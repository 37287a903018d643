"""Workflows that run: order, failures, recovery, actions, retry, cancel, kills, and the shapes of Torc."""

import gzip
import json
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from records import assert_one_line
from running import nothing_is_left
from support import Jobtop, wait_for

__all__ = ["nothing_is_left"]
pytestmark = pytest.mark.usefixtures("nothing_is_left")
FEATURES = """
name: features
parameters: {lr: "[0.1,0.2]", b: "[1,2,3]"}
failure_handlers:
  - name: fixable
    rules:
      - exit_codes: [7]
        recovery_script: "[[ $TORC_RETURN_CODE == 7 ]] && echo $TORC_JOB_ID $TORC_ATTEMPT_ID > rescue; touch fixed"
        max_retries: 2
user_data:
  - {name: conf, data: {x: 1}}
actions:
  - {trigger_type: on_workflow_start, action_type: run_commands, commands: ["echo start >> order"]}
  - {trigger_type: on_workflow_complete, action_type: run_commands, commands: ["echo end >> order"]}
  - {trigger_type: on_jobs_ready, action_type: run_commands, jobs: [collect], commands: ["echo ready >> order"]}
  - {trigger_type: on_jobs_complete, action_type: run_commands, jobs: [flaky], commands: ["echo over >> order"]}
jobs:
  - {name: "t_{lr}_{b}", use_parameters: [lr, b], command: "echo t >> order"}
  - {name: collect, use_parameters: [lr, b], depends_on: ["t_{lr}_{b}"],
     command: "echo collect $(cat ${user_data.input.conf}) >> order"}
  - {name: flaky, failure_handler: fixable,
     command: "cat <(echo $TORC_JOB_ID $TORC_ATTEMPT_ID) >> tries; [[ -e fixed ]] || exit 7"}
  - {name: hopeless, failure_handler: fixable, command: "exit 8"}
  - {name: bad, command: "exit 4"}
  - {name: anyway, depends_on: [bad], cancel_on_blocking_job_failure: false, command: "true"}
  - {name: never, depends_on: [bad], command: "echo never >> order"}
"""
STAGES = """
name: stages
jobs:
  - {name: "first_{i:03d}", parameters: {i: "1:4"}, command: "echo first >> order"}
  - {name: barrier, depends_on_regexes: ["^first_\\\\d+$"], command: "echo barrier >> order"}
  - {name: "second_{a}_{b}", parameters: {a: "[1,2]", b: "['x','y']"}, parameter_mode: zip, depends_on: [barrier],
     command: "echo second_{a}{b} >> order"}
"""
DIAMOND = """
name: diamond
files:
  - {name: raw, path: raw.txt}
  - {name: left, path: left.txt}
  - {name: right, path: right.txt}
  - {name: both, path: both.txt}
resource_monitor: {granularity: time_series, sample_interval_seconds: 1}
jobs:
  - {name: make, command: "echo 1 > ${files.output.raw}"}
  - {name: left, command: "cat ${files.input.raw} > ${files.output.left}; echo left >> runs"}
  - {name: right, command: "cat ${files.input.raw} > ${files.output.right}; echo right >> runs; exit 3"}
  - {name: join, command: "cat ${files.input.left} ${files.input.right} > ${files.output.both}"}
"""


def write(jobtop: Jobtop, text: str) -> Path:
    path = jobtop.home / "flow.yaml"
    path.write_text(text)
    return path


def lines(jobtop: Jobtop, name: str = "order") -> list[str]:
    return (jobtop.home / name).read_text().splitlines()


def shown(jobtop: Jobtop, *words: str) -> dict[str, Any]:
    done = jobtop("workflow", "show", *words, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_feature_of_a_file_runs_to_the_right_end_in_the_right_order(jobtop: Jobtop) -> None:
    write(jobtop, FEATURES)
    done = jobtop("workflow", "run", "flow.yaml", "-j", "3", "--json")
    assert done.returncode == 1
    run = json.loads(done.stdout)
    jobs = {job["name"]: job for job in run["jobs"]}
    statuses = {name: job["status"] for name, job in jobs.items() if job["role"] == "job"}
    bad = {"bad": "failed", "hopeless": "failed", "never": "cancelled"}
    assert statuses == dict.fromkeys(statuses, "success") | bad
    assert len(statuses) == 12
    assert {job["status"] for job in run["jobs"] if job["role"] == "action"} == {"success"}
    order = lines(jobtop)
    assert (order[0], order[-1]) == ("start", "end")
    assert "never" not in order
    assert order.count("t") == 6
    last_t = max(index for index, line in enumerate(order) if line == "t")
    assert last_t < order.index("ready") < order.index('collect {"x": 1}')
    attempts = {job["name"]: job["attempt"] for job in run["jobs"]}
    assert (attempts["flaky"], attempts["hopeless"]) == (2, 1)
    first, second = (line.split() for line in lines(jobtop, "tries"))
    assert (first[1], second) == ("1", [str(jobs["flaky"]["job_id"]), "2"])
    assert lines(jobtop, "rescue") == [" ".join(first)]


def test_stages_patterns_and_zipped_parameters_run_one_after_the_other(jobtop: Jobtop) -> None:
    write(jobtop, STAGES)
    done = jobtop("workflow", "run", "flow.yaml")
    assert done.returncode == 0, done.stderr
    assert lines(jobtop)[:5] == ["first"] * 4 + ["barrier"]
    assert sorted(lines(jobtop)[5:]) == ["second_1x", "second_2y"]
    assert "7 of 7 jobs ended" in done.stdout
    assert "[7/7]" in done.stderr


def test_a_retry_runs_only_what_failed_or_changed(jobtop: Jobtop) -> None:
    path = write(jobtop, DIAMOND)
    assert jobtop("workflow", "run", "flow.yaml").returncode == 1
    assert sorted(lines(jobtop, "runs")) == ["left", "right"]
    assert_one_line(jobtop("workflow", "retry", "nosuch").stderr, "nosuch", "workflow list")
    path.write_text(path.read_text().replace("; exit 3", ""))
    again = jobtop("workflow", "retry", "--json")
    assert again.returncode == 0, again.stderr
    run = json.loads(again.stdout)
    assert (run["run_id"], run["kept"], run["status"]) == (2, 2, "success")
    assert sorted(lines(jobtop, "runs")) == ["left", "right", "right"]
    nothing = jobtop("workflow", "retry")
    assert nothing.returncode == 0
    assert "nothing to run again" in nothing.stdout
    (jobtop.home / "left.txt").unlink()
    plan = json.loads(jobtop("workflow", "retry", "--dry-run", "--json").stdout)
    assert [each["name"] for each in plan if each["role"] == "job"] == ["left", "join"]
    assert shown(jobtop, "diamond", "--run-id", "1")["status"] == "failed"


def test_a_time_series_is_written_as_torc_keeps_it(jobtop: Jobtop) -> None:
    plots = "granularity: time_series, generate_plots: true"
    write(jobtop, DIAMOND.replace("; exit 3", "; sleep 1.2").replace("granularity: time_series", plots))
    assert jobtop("workflow", "run", "flow.yaml", "-o", "results").returncode == 0
    run = shown(jobtop)
    files = {path.name: path for path in (jobtop.home / "results" / "resource_utilization").iterdir()}
    path = files.pop(f"resource_metrics_{run['host']}_1_1.db")
    pages = {f"resource_plot_job_{job['job_id']}.html" for job in run["jobs"] if job["role"] == "job"}
    all_jobs = {f"resource_plot_{name}.html" for name in ("cpu_all_jobs", "memory_all_jobs", "summary")}
    assert files.keys() == pages | all_jobs | {"report.html"}
    assert "<h1>diamond, workflow 1, run 1</h1>" in files["report.html"].read_text()
    assert jobtop("plot", "diamond", "--html", "--shared-js", "-o", "again").returncode == 0
    assert "<h1>diamond, workflow 1, run 1</h1>" in (jobtop.home / "again" / "report.html").read_text()
    assert jobtop("export", "diamond", "--output", "samples.jsonl.gz").returncode == 0
    with gzip.open(jobtop.home / "samples.jsonl.gz", "rt") as samples:
        assert len({json.loads(line)["job_id"] for line in samples}) == 4
    with closing(sqlite3.connect(path)) as connection:
        columns = {
            table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            for table in ("job_resource_samples", "job_metadata")
        }
        names = dict(connection.execute("SELECT job_id, job_name FROM job_metadata"))
        ids = {row[0] for row in connection.execute("SELECT DISTINCT job_id FROM job_resource_samples")}
    assert columns == {
        "job_resource_samples": ["id", "job_id", "timestamp", "cpu_percent", "memory_bytes", "num_processes"],
        "job_metadata": ["job_id", "job_name"],
    }
    assert names == {job["job_id"]: job["name"] for job in run["jobs"] if job["role"] == "job"}
    assert ids <= names.keys()
    assert ids
    summary = ("peak_cpu_percent", "avg_cpu_percent", "peak_memory_gb", "avg_memory_gb")
    right = next(job for job in run["jobs"] if job["name"] == "right")
    assert all(isinstance(right[key], float) for key in summary)
    assert right["peak_cpu_percent"] >= right["avg_cpu_percent"]


def test_a_summary_keeps_no_samples_and_has_the_same_totals(jobtop: Jobtop) -> None:
    text = "name: s\nresource_monitor: {granularity: summary, sample_interval_seconds: 1}\njobs:\n"
    write(jobtop, text + "  - {name: a, command: \"python3 -c 'import time; time.sleep(2.2)'\"}\n")
    assert jobtop("workflow", "run", "flow.yaml").returncode == 0
    (job,) = shown(jobtop)["jobs"]
    assert job["peak_memory_gb"] > 0.001
    assert job["avg_memory_gb"] > 0.001
    ends = jobtop("metrics", "a", "--format", "jsonl").stdout.splitlines()
    assert len(ends) <= 2, "the start and the end, which the record has; no sample between them"


def test_over_use_of_memory_cpu_and_time_is_found_in_a_workflow(jobtop: Jobtop) -> None:
    hold = "python3 -c 'import time; x = bytearray(200 << 20); time.sleep(0.5)'"
    burn = "for i in 1 2; do timeout 1 sh -c 'while :; do :; done' & done; wait"
    text = f"""
name: greedy
resource_monitor: {{sample_interval_seconds: 1}}
jobs:
  - {{name: memory, command: "{hold}", memory: 100m}}
  - {{name: cpu, command: "{burn}", num_cpus: 0.1}}
  - {{name: time, command: "sleep 2", runtime: PT1S}}
  - {{name: modest, command: "sleep 0.2", memory: 1g, num_cpus: 1, runtime: PT1M}}
"""
    write(jobtop, text)
    assert jobtop("workflow", "run", "flow.yaml").returncode == 0
    done = jobtop("check-resource-utilization", "greedy", "--format", "json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert list(found) == [
        *("schema_version", "workflow_id", "run_id", "total_results", "over_utilization_count", "violations")
    ]
    assert (found["workflow_id"], found["run_id"], found["total_results"]) == (1, None, 4)
    over = {(each["job_name"], each["resource_type"]): each for each in found["violations"]}
    assert over.keys() == {("memory", "Memory"), ("cpu", "CPU"), ("time", "Runtime")}
    assert found["over_utilization_count"] == 3
    memory = over["memory", "Memory"]
    assert list(memory) == ["job_id", "job_name", "resource_type", "specified", "peak_used", "over_utilization"]
    assert memory["specified"] == "0.10 GB"
    assert 100 < float(memory["over_utilization"].strip("+%")) < 120
    below = json.loads(jobtop("check", "1", "--all", "--run-id", "1", "--json").stdout)
    under = {each["resource_type"] for each in below["violations"] if each["job_name"] == "modest"}
    assert under == {"Memory", "CPU", "Runtime"}
    assert below["run_id"] == 1
    flagged = json.loads(jobtop("history", "flag:over_memory", "--json").stdout)
    assert [job["name"] for job in flagged] == ["memory"]


CHAIN = """
name: chain
jobs:
  - {name: "a_{i}", parameters: {i: "1:12"}, command: "echo a_{i} >> runs; sleep 0.2"}
  - {name: last, depends_on_regexes: ["^a_"], command: "echo last >> runs"}
"""


def test_a_killed_run_is_finished_by_a_retry_and_no_job_runs_twice(jobtop: Jobtop) -> None:
    write(jobtop, CHAIN)
    process = jobtop.start("workflow", "run", "flow.yaml", "-j", "2")
    wait_for(lambda: (jobtop.home / "runs").exists() and len(lines(jobtop, "runs")) >= 3)
    process.kill()
    process.communicate()
    again = jobtop("workflow", "retry", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["status"] == "success"
    ran = lines(jobtop, "runs")
    assert sorted(ran) == sorted({*(f"a_{number}" for number in range(1, 13)), "last"})
    assert ran[-1] == "last"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_run_cancels_it(jobtop: Jobtop, number: signal.Signals) -> None:
    write(jobtop, CHAIN.replace("sleep 0.2", "sleep 60"))
    process = jobtop.start("workflow", "run", "flow.yaml", "-j", "2")
    wait_for(lambda: (jobtop.home / "runs").exists() and len(lines(jobtop, "runs")) == 2)
    os.kill(process.pid, number)
    process.communicate(timeout=60)
    assert process.returncode == 128 + number
    run = shown(jobtop)
    assert {job["status"] for job in run["jobs"]} == {"cancelled"}
    assert run["status"] == "cancelled"


def test_a_submitted_workflow_is_listed_and_cancelled(jobtop: Jobtop) -> None:
    write(jobtop, CHAIN.replace("sleep 0.2", "sleep 60"))
    assert "no workflow" in jobtop("workflow", "list").stdout
    assert jobtop("workflow", "submit", "flow.yaml").stdout == "1\n"
    wait_for((jobtop.home / "runs").exists)
    assert jobtop("workflow", "status", "chain").returncode == 0
    (row,) = json.loads(jobtop("workflow", "list", "--json").stdout)
    assert (row["workflow_id"], row["name"], row["total"], row["status"]) == (1, "chain", 13, "running")
    done = jobtop("workflow", "cancel")
    assert done.returncode == 0, done.stderr
    assert jobtop("workflow", "status").returncode == 1
    assert shown(jobtop)["counts"] == {"cancelled": 13}
    assert "ended already" in jobtop("workflow", "cancel").stdout


def test_a_job_stays_failed_if_its_recovery_script_fails(jobtop: Jobtop) -> None:
    rule = '{exit_codes: [5], recovery_script: "exit 3"}'
    handler = f"failure_handlers:\n  - {{name: h, rules: [{rule}]}}\n"
    write(jobtop, f"name: x\n{handler}jobs:\n  - {{name: bad, failure_handler: h, command: exit 5}}\n")
    assert jobtop("workflow", "run", "flow.yaml").returncode == 1
    (job,) = shown(jobtop)["jobs"]
    assert (job["status"], job["return_code"]) == ("failed", 5)
    assert "not tried again" in job["reason"]


def test_a_second_signal_kills_jobs_that_ignore_the_first(jobtop: Jobtop) -> None:
    stubborn = "trap '' TERM INT; echo up > runs; while :; do sleep 0.1; done"
    write(jobtop, f'name: x\njobs:\n  - {{name: a, command: "{stubborn}"}}\n')
    process = jobtop.start("workflow", "run", "flow.yaml")
    wait_for((jobtop.home / "runs").exists)
    os.kill(process.pid, signal.SIGINT)
    assert process.stderr is not None
    assert any("is cancelled" in line for line in iter(process.stderr.readline, ""))
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=8)
    assert process.returncode == 128 + signal.SIGINT


def test_mistakes_in_a_file_run_nothing(jobtop: Jobtop) -> None:
    write(jobtop, "name: x\njobs:\n  - {name: a, comand: true}\n  - {name: b, command: b, num_cpus: 100000}\n")
    done = jobtop("workflow", "run", "flow.yaml")
    assert done.returncode == 2
    assert "comand" in done.stderr
    write(jobtop, "name: x\njobs:\n  - {name: b, command: b, num_cpus: 100000}\n")
    done = jobtop("workflow", "submit", "flow.yaml")
    assert done.returncode == 2
    assert "100000 CPUs" in done.stderr
    assert "no workflow" in jobtop("workflow", "list").stdout


def test_a_plan_is_printed_and_nothing_runs(jobtop: Jobtop) -> None:
    write(jobtop, STAGES)
    done = jobtop("workflow", "run", "flow.yaml", "--dry-run")
    assert done.returncode == 0
    assert "stage 3: 2 jobs" in done.stdout
    assert not (jobtop.home / "order").exists()
