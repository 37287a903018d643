"""What a container costs beside its job: in `show`, and beside the same command without one."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobtop.core.analysis.comparison import ChangeVerdict, Total, differences, totals
from jobtop.core.analysis.container_overhead import overhead, start_seconds
from jobtop.core.model import Job, Queued, Usage
from jobtop.core.record import replace
from jobtop.core.text.container_text import container_line, overhead_line, overhead_sentences
from records import HOSTILE_TEXTS, call, holds_controls, kept_jobs, made_job

MEBIBYTE = 1 << 20
RUNTIME = {"cpu_seconds": 0.05, "memory_bytes": 12 * MEBIBYTE, "what": "containerd-shim and runner"}
CONTAINER = {"engine": "docker", "id": "3f2a99c0ffee1234", "name": "solve-1", "image": "box:1"}


def container(**values: Any) -> Job:
    facts = CONTAINER | {"start_seconds": 0.5, "started_at": 1_700_000_000.75, "runtime": RUNTIME} | values
    usage = Usage(cpu_total_seconds=2.5, memory_peak_bytes=153 * MEBIBYTE)
    return made_job(kind="container", duration_seconds=2.6, usage=usage, findings={"container": facts})


def native() -> Job:
    usage = Usage(cpu_total_seconds=2.0, memory_peak_bytes=150 * MEBIBYTE)
    return made_job(submitted_at=1_700_000_000.4, start_time=1_700_000_000.5, duration_seconds=2.0, usage=usage)


def test_the_line_names_container_image_and_engine() -> None:
    line = container_line(container(digest="sha256:ab", project="shop", service="web", restarts=2, kept=True))
    assert line == "solve-1 (3f2a99c0ffee), image box:1, sha256:ab, service shop/web, docker, 2 restarts, kept"
    assert container_line(made_job()) is None


def test_the_overhead_is_start_runtime_cpu_and_memory() -> None:
    line = overhead_line(container())
    assert line is not None
    for word in ("500ms", "50ms of CPU", "2.0 %", "12.0 MiB", "containerd-shim"):
        assert word in line
    assert overhead_line(container(start_seconds=None, runtime={})) is None
    assert overhead_line(container(runtime={"memory_bytes": 5 * MEBIBYTE})) == "started in 500ms; runtime used 5.0 MiB"
    assert overhead_line(made_job()) is None


def test_show_prints_the_container_and_its_overhead(home: Path) -> None:
    (job,) = kept_jobs(home, container())
    lines = call("show", job.id).stdout.splitlines()
    assert any(line.split()[:2] == ["container", "solve-1"] for line in lines)
    assert any(line.split()[0] == "runtime" and "12.0 MiB" in line for line in lines)
    found = json.loads(call("show", job.id, "--json").stdout)["findings"]["container"]
    assert (found["start_seconds"], found["runtime"]["memory_bytes"]) == (0.5, 12 * MEBIBYTE)


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_hostile_names_are_one_harmless_line(text: str) -> None:
    job = container(name=text, image=text, project=text, service=text, runtime=RUNTIME | {"what": text})
    for line in (container_line(job), overhead_line(job)):
        assert line is not None
        assert not holds_controls(line)
        assert len(line.splitlines()) == 1


def test_a_difference_of_less_than_a_percent_is_not_mentioned() -> None:
    same = replace(container(), usage=native().usage)
    assert "used" not in overhead_sentences([native(), same])[0].partition("its runtime")[0]


def test_the_time_to_start_counts_from_the_submission() -> None:
    assert start_seconds(native()) == pytest.approx(0.1)
    assert start_seconds(container()) == pytest.approx(0.5)
    assert start_seconds(replace(container(), flags=("attached",))) is None
    assert start_seconds(made_job(queue=Queued())) is None
    assert start_seconds(made_job(start_time=None)) is None


def test_a_command_and_its_container_are_compared_in_words() -> None:
    for jobs in ((native(), container()), (container(), native())):
        (sentence,) = overhead_sentences(jobs)
        for words in (
            "took 0.4 s longer to start and 0.6 s longer in all (30.0 %)",
            "used 0.5 s more CPU time and 3.0 MiB more memory at its peak",
            "its runtime used 0.05 s of CPU and 12.0 MiB",
        ):
            assert words in sentence, sentence


def test_two_containers_or_two_commands_have_no_overhead() -> None:
    assert overhead_sentences([container(), container()]) == []
    assert overhead_sentences([native(), native()]) == []
    assert overhead(native(), native()) is None


def test_without_any_number_nothing_is_said() -> None:
    bare = made_job(kind="container", duration_seconds=None, findings={"container": {}})
    assert overhead_sentences([made_job(duration_seconds=None), bare]) == []


def row(label: str, *jobs: Job) -> Total:
    return next(row for row in totals(jobs) if row.measure.label == label)


def test_rows_of_containers_are_compared_only_if_there_is_one() -> None:
    labels = {row.measure.label for row in totals([native(), native()])}
    assert "time to start" not in labels
    assert row("time to start", native(), container()).change(1).verdict is ChangeVerdict.WORSE
    assert row("runtime CPU", native(), container()).values == (None, 0.05)
    assert row("runtime memory", native(), container()).values == (None, 12 * MEBIBYTE)


def test_kind_image_and_engine_are_among_the_differences() -> None:
    found = {one.label: one.values for one in differences([native(), container()])}
    assert found["kind"] == ("process", "container")
    assert found["container image"] == (None, "box:1")
    other = {one.label: one.values for one in differences([container(), container(image="box:2")])}
    assert other == {"container image": ("box:1", "box:2")}
