"""What a caller asks for, and the record and the order that are made of it."""

import os
from pathlib import Path

import pytest

from jobtop.core.config import Config, load
from jobtop.core.errors import BadValue
from jobtop.core.model import Job, Limits
from jobtop.core.run.request import Request, cpus, pairs, prepare, variable
from records import numbered_id

ID = numbered_id(7)


@pytest.fixture
def config(home: Path, tmp_path: Path) -> Config:
    return load(("run.grace=3s", "monitor.interval=5s"), os.environ, tmp_path)


def test_what_is_not_given_comes_from_the_settings_and_the_command(config: Config) -> None:
    job, spec = prepare(Request(("python3.12", "-u", "/x/train.py", "1"), "/x"), ID, "atlas", config)
    assert (job.id, job.name, job.tool, job.script, job.host) == (ID, "train", "python3.12", "/x/train.py", "atlas")
    assert (job.grace_seconds, spec.grace_seconds, spec.after_exit) == (3.0, 3.0, "leave")
    assert job.monitor.interval_seconds == 5.0
    assert spec.detached


def test_what_was_said_is_in_the_record_and_in_the_order(config: Config) -> None:
    request = Request(
        ("echo", "a | wc"),
        "/y",
        is_shell=True,
        name="n",
        tool="t",
        env={"LATE": "1"},
        params={"lr": 0.1, "api_token": "x"},
        limits=Limits(cpus=2.0, timeout_seconds=9.0),
        grace_seconds=0.0,
        parent_id="6",
    )
    job, spec = prepare(request, ID, "atlas", config)
    assert spec.command == ("/bin/sh", "-c", "echo a | wc")
    assert (job.name, job.tool, job.cwd, job.parent_id, job.limits) == ("n", "t", "/y", "6", request.limits)
    assert job.params == {"lr": 0.1, "api_token": "***"}
    assert (spec.timeout_seconds, spec.grace_seconds) == (9.0, 0.0)
    assert (spec.env["LATE"], spec.env["JOBTOP_JOB_ID"]) == ("1", ID)
    assert spec.env["HOME"] == os.environ["HOME"]


def test_a_given_environment_takes_the_place_of_ours(config: Config) -> None:
    old = {"PATH": "/bin", "JOBTOP_JOB_ID": "old"}
    request = Request(("true",), "/", environment=old, env={"A": "1"}, detached=False)
    _, spec = prepare(request, ID, "atlas", config)
    assert spec.env == {"PATH": "/bin", "A": "1", "JOBTOP_JOB_ID": ID}


@pytest.mark.parametrize(
    ("pty", "given", "expected"), [(False, {}, "1"), (True, {}, None), (False, {"PYTHONUNBUFFERED": ""}, "")]
)
def test_a_detached_python_gets_no_buffer_unless_the_user_decides(
    config: Config, pty: bool, given: dict[str, str], expected: str | None
) -> None:
    _, spec = prepare(Request(("true",), "/", environment=given, pty=pty), ID, "atlas", config)
    assert spec.env.get("PYTHONUNBUFFERED") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        (" \n , ", {}),
        ("A=1", {"A": "1"}),
        ("A=1, B=2,C=3", {"A": "1", "B": "2", "C": "3"}),
        ("A=1\n\nB=two words \nC=", {"A": "1", "B": "two words", "C": ""}),
        ("CUDA_VISIBLE_DEVICES=0,1, B=x=y,z", {"CUDA_VISIBLE_DEVICES": "0,1", "B": "x=y,z"}),
    ],
)
def test_pairs_stand_on_lines_or_between_commas(text: str, expected: dict[str, str]) -> None:
    assert pairs(text) == expected


@pytest.mark.parametrize("text", ["A", "=1", "A=1\nB", "\x1b[31m"])
def test_what_is_no_pair_is_named(text: str) -> None:
    with pytest.raises(BadValue, match=r'^"[^\x1b]+" is not of the form KEY=VALUE$'):
        pairs(text)


@pytest.mark.parametrize("text", ["many", "-1", "nan", "inf", ""])
def test_what_is_no_number_of_cpus_is_refused(text: str) -> None:
    with pytest.raises(BadValue, match="is not a number of CPUs"):
        cpus(text)
    assert cpus("0.5") == 0.5


def test_the_variables_that_the_settings_name_are_recorded_without_secrets(home: Path, tmp_path: Path) -> None:
    config = load(("run.keep_env=SLURM_*,LANG",), os.environ, tmp_path)
    environment = {
        "SLURM_JOB_ID": "17",
        "SLURM_TOKEN": "abc",
        "SLURM_LONG": "x" * 10_000,
        "LANG": "C",
        "LANGUAGE": "de",
        "PATH": "/bin",
    }
    job, spec = prepare(Request(("true",), "/", environment=environment), ID, "atlas", config)
    assert job.environment == {"LANG": "C", "SLURM_JOB_ID": "17", "SLURM_LONG": "x" * 4096, "SLURM_TOKEN": "***"}
    assert spec.env["SLURM_TOKEN"] == "abc", "the job itself gets what it was given"
    assert Job.from_json(job.to_json()).environment == job.environment


def test_a_variable_without_a_value_has_the_one_of_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JT_A", "x=1")
    monkeypatch.delenv("JT_B", raising=False)
    assert (variable("JT_A"), variable("JT_B="), variable("JT_B=2")) == (("JT_A", "x=1"), ("JT_B", ""), ("JT_B", "2"))
    for wrong in ("JT_B", "", "=1"):
        with pytest.raises(BadValue):
            variable(wrong)
