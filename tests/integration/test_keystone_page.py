"""The examples in docs/keystone.md run as they are."""

from __future__ import annotations

import math

from examples import fenced, run_examples

from support import ROOT, Jobtop


def test_the_examples_of_the_page_run_and_yield_what_the_page_says(jobtop: Jobtop) -> None:
    made, printed = run_examples(jobtop, fenced(ROOT / "docs/keystone.md", "python"))
    first, second, third, fourth = made
    assert first["job_stats"]["has_result"] is True
    assert [job["task_id"] for job in second["recent"]] == ["task-456", "my-task-123"]
    assert [job["error"] for job in second["failed"]] == ["no such file"]
    assert second["job"] == second["failed"][0]
    assert second["stats"]["success_rate"] == 50.0
    assert third["profile"]["samples_collected"] >= 2
    assert not math.isnan(third["profile"]["memory"]["max_used_mb"])
    assert list(third["parts"])[3:] == ["process_cpu", "process_memory", "io_stats"]
    assert (fourth["info"], fourth["profile"]["container_stats"]) == ({}, {})
    assert "it did not run" in printed
