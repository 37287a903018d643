"""Workflow files as Torc documents them: every feature is read, expanded and put into the right order."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobtop.core.model import RetryRule
from jobtop.core.workflow.examples import EXAMPLES
from jobtop.core.workflow.model import Requirements, Workflow
from jobtop.core.workflow.reading import load

DIAMOND = """
name: diamond
files:
  - {name: raw, path: /data/raw.csv}
  - {name: left, path: left.csv}
  - {name: right, path: right.csv}
jobs:
  - {name: join, command: "join ${files.input.left} ${files.input.right}"}
  - {name: left_side, command: "cut", input_files: [raw], output_files: [left]}
  - {name: right_side, command: "cut > ${files.output.right}", input_file_regexes: ["^raw$"]}
"""
STAGES = """
name: staged
jobs:
  - {name: "a_{i}", command: "true {i}", parameters: {i: "1:3"}}
  - {name: barrier, command: "true", depends_on_regexes: ["^a_\\\\d+$"]}
  - {name: "b_{i:02d}", command: "true", parameters: {i: "1:2"}, depends_on: [barrier]}
"""


def read(directory: Path, text: str, name: str = "flow.yaml") -> Workflow:
    path = directory / name
    path.write_text(text)
    found = load(str(path))
    assert found.sentences() == []
    assert found.workflow is not None
    return found.workflow


def after(workflow: Workflow) -> dict[str, tuple[str, ...]]:
    return {name: job.after for name, job in workflow.jobs.items()}


def test_files_make_a_diamond(tmp_path: Path) -> None:
    workflow = read(tmp_path, DIAMOND)
    assert after(workflow) == {"left_side": (), "right_side": (), "join": ("left_side", "right_side")}
    assert workflow.jobs["right_side"].inputs == ("raw",)
    assert workflow.jobs["join"].inputs == ("left", "right")


def test_stages_are_separated_by_a_barrier(tmp_path: Path) -> None:
    workflow = read(tmp_path, STAGES)
    assert list(workflow.jobs) == ["a_1", "a_2", "a_3", "barrier", "b_01", "b_02"]
    assert after(workflow)["barrier"] == ("a_1", "a_2", "a_3")
    assert after(workflow)["b_02"] == ("barrier",)
    assert workflow.jobs["a_2"].command == "true 2"
    assert workflow.jobs["a_2"].params == {"i": 2}


def test_a_hundred_jobs_of_one_entry(tmp_path: Path) -> None:
    workflow = read(
        tmp_path,
        'name: many\nparameters: {i: "1:100"}\n'
        'jobs: [{name: "job_{i:03d}", command: "echo {i} ${i} {unknown}", use_parameters: [i]}]\n',
    )
    assert len(workflow.jobs) == 100
    assert workflow.jobs["job_007"].command == "echo 7 ${i} {unknown}"


def test_a_job_without_a_parameter_in_its_name_waits_for_the_whole_sweep(tmp_path: Path) -> None:
    workflow = read(tmp_path, EXAMPLES["sweep"])
    assert len(workflow.jobs) == 19
    assert len(workflow.jobs["collect"].after) == 18
    assert workflow.jobs["train_lr0.0010_b16_adam"].params == {"lr": 0.001, "batch": 16, "optimizer": "adam"}


def test_zipped_parameters_go_together(tmp_path: Path) -> None:
    workflow = read(
        tmp_path,
        'name: z\njobs: [{name: "{a}_{b}", command: "x", parameter_mode: zip,'
        " parameters: {a: \"['x','y']\", b: [1, 2]}}]\n",
    )
    assert list(workflow.jobs) == ["x_1", "y_2"]


def test_user_data_lead_from_job_to_job(tmp_path: Path) -> None:
    workflow = read(
        tmp_path,
        "name: u\nuser_data: [{name: config, data: {lr: 0.1}}, {name: result, is_ephemeral: true}]\n"
        'jobs: [{name: b, command: "show ${user_data.input.result}"},'
        ' {name: a, command: "f ${user_data.output.result}", input_user_data: [config]}]\n',
    )
    assert after(workflow) == {"a": (), "b": ("a",)}
    assert workflow.user_data["config"].data == {"lr": 0.1}
    assert workflow.user_data["result"].is_ephemeral


def test_requirements_are_named_or_inline_and_have_torcs_defaults(tmp_path: Path) -> None:
    workflow = read(
        tmp_path,
        "name: r\nresource_requirements:\n  - {name: big, num_cpus: 4, memory: 2g, num_gpus: 1, runtime: PT30M}\n"
        "  - {name: plain, memory: 512k}\n"
        "jobs:\n  - {name: a, command: x, resource_requirements: big}\n"
        "  - {name: b, command: x, resource_requirements: plain, num_cpus: 2}\n"
        "  - {name: c, command: x, resource_requirements: {memory: 1m, runtime: P1DT2H}}\n  - {name: d, command: x}\n",
    )
    asked = {name: job.requirements for name, job in workflow.jobs.items()}
    assert asked["a"] == Requirements("big", 4, 2 << 30, 1, 1, 1800.0)
    assert asked["b"] == Requirements("plain", 2, 512 << 10, None, 1, 3600.0)
    assert asked["c"] == Requirements("", None, 1 << 20, None, 1, 93600.0)
    assert asked["d"] is None


def test_failure_handlers_actions_and_the_monitor(tmp_path: Path) -> None:
    workflow = read(
        tmp_path,
        "name: f\nfailure_handlers:\n  - name: again\n    rules:\n"
        "      - {exit_codes: [10, 11], recovery_script: ./fix.sh, max_retries: 2}\n"
        "      - {match_all_exit_codes: true}\n"
        "jobs: [{name: a, command: x, failure_handler: again, cancel_on_blocking_job_failure: false}]\n"
        "actions:\n  - {trigger_type: on_jobs_complete, action_type: run_commands, commands: [echo], "
        "job_name_regexes: [a]}\n  - {trigger_type: on_workflow_start, action_type: run_commands, commands: [date]}\n"
        "  - {trigger_type: on_workflow_start, action_type: schedule_nodes, scheduler: s}\n"
        "resource_monitor: {granularity: Time_Series, sample_interval_seconds: 1}\n"
        "slurm_schedulers: [{name: s, walltime: 01:00:00}]\nslurm_defaults: {qos: high}\n",
    )
    job = workflow.jobs["a"]
    assert job.failure_rules == (RetryRule((10, 11), "./fix.sh", 2), RetryRule((), None, 3))
    assert not job.cancel_on_failure
    assert [(action.trigger, action.jobs) for action in workflow.actions] == [
        ("on_jobs_complete", ("a",)),
        ("on_workflow_start", ()),
    ]
    assert (workflow.monitor.granularity, workflow.monitor.interval_seconds) == ("time_series", 1)
    assert any("slurm_defaults" in warning for warning in workflow.warnings)


def test_what_torc_does_not_have(tmp_path: Path) -> None:
    workflow = read(
        tmp_path,
        "name: more\njobs: [{name: a, command: x, tags: [nightly, team=ml], priority: 5, env: {A: 1}, image: box,"
        " timeout: 10m, retries: 2, num_cpus: 0.5}]\n",
    )
    job = workflow.jobs["a"]
    assert (job.tags, job.priority, job.env) == ({"nightly": "", "team": "ml"}, 5, {"A": "1"})
    assert (job.image, job.timeout_seconds, job.retries) == ("box", 600.0, 2)
    assert job.requirements == Requirements("", 0.5)


VALUE = {"name": "same", "jobs": [{"name": "a", "command": "x"}, {"name": "b", "command": "y", "depends_on": ["a"]}]}
IN_JSON5 = """// a comment
{name: 'same', jobs: [{name: 'a', command: 'x'}, {name: 'b', command: 'y', depends_on: ['a'],},],}
"""
IN_TOML = """name = "same"
[[jobs]]
name = "a"
command = "x"
[[jobs]]
name = "b"
command = "y"
depends_on = ["a"]
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("flow.json", json.dumps(VALUE, indent=1)),
        ("flow.json", json.dumps(VALUE, indent="\t")),
        ("flow.json5", IN_JSON5),
        ("flow.toml", IN_TOML),
        ("flow.yml", "name: same\njobs:\n- {name: a, command: x}\n- {name: b, command: y, depends_on: [a]}\n"),
    ],
)
def test_all_formats_mean_the_same(tmp_path: Path, name: str, text: str) -> None:
    workflow = read(tmp_path, text, name)
    assert (workflow.name, after(workflow)) == ("same", {"a": (), "b": ("a",)})


@pytest.mark.parametrize(
    ("said", "values"),
    [
        ('"1:3"', [1, 2, 3]),
        ("1:3", [1, 2, 3]),
        ('"0:100:50"', [0, 50, 100]),
        ('"3:1:-1"', [3, 2, 1]),
        ('"0.0:0.3:0.1"', [0.0, 0.1, 0.2, 0.3]),
        ('"[1,5,10]"', [1, 5, 10]),
        ("\"['adam','sgd']\"", ["adam", "sgd"]),
        ("[a, 2]", ["a", 2]),
        ('"[adam, 0.5]"', ["adam", 0.5]),
        ("yes", ["yes"]),
        ("7", [7]),
    ],
)
def test_parameters_have_many_forms(tmp_path: Path, said: str, values: list[Any]) -> None:
    workflow = read(tmp_path, f"name: p\njobs:\n- name: j_{{v}}\n  command: x\n  parameters:\n    v: {said}\n")
    assert [job.params["v"] for job in workflow.jobs.values()] == values


def test_numbers_of_json5_have_all_its_forms(tmp_path: Path) -> None:
    path = tmp_path / "flow.json5"
    path.write_text("{name: 'w', jobs: [{name: 'a', command: 'x', priority: -0x1F, num_cpus: .5, retries: +2}]}")
    workflow = load(str(path)).workflow
    assert workflow is not None
    job = workflow.jobs["a"]
    assert (job.priority, job.retries) == (-31, 2)
    assert job.requirements is not None
    assert job.requirements.cpus == 0.5


def test_every_example_is_right(tmp_path: Path) -> None:
    for name, text in EXAMPLES.items():
        assert read(tmp_path, text, f"{name}.yaml").jobs


def test_a_thousand_jobs_with_three_thousand_edges_keep_their_order(tmp_path: Path) -> None:
    jobs = [{"name": f"j{i}", "command": "true", "depends_on": [f"j{i - k}" for k in (1, 7, 31) if i >= k]}
            for i in range(1000)]  # fmt: skip
    workflow = read(tmp_path, json.dumps({"name": "big", "jobs": list(reversed(jobs))}), "big.json")
    order = {name: place for place, name in enumerate(workflow.jobs)}
    assert workflow.edges == 999 + 993 + 969
    assert all(order[other] < order[name] for name, job in workflow.jobs.items() for other in job.after)
