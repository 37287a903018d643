"""The store of version 1 that the first release wrote: every verb that reads takes it, brought up to date or not."""

import os
from pathlib import Path

import pytest

from jobtop.core.job_id import JobId
from jobtop.core.paths import StatePaths
from records import HERE, call

KEPT_STORE = Path(__file__).parents[1] / "data" / "store-v1.db"
SWEEP = "567d1108-9ba9-4c42-9962-2af0038e6aa4"
# What is asked, and something of the answer.
READING = {
    ("history", "--all"): "sweep",
    ("history", "naïve", "--json"): '"name": "sweep"',
    ("history", "name:s*", "mem>=0", "--sort", "memory", "--format", "csv"): ",sweep,",
    ("show", SWEEP): "a naïve note",
    ("show", SWEEP, "--json"): '"external_id": "task-1"',
    ("logs", SWEEP): "done",
    ("metrics", SWEEP): "61.9 %",
    ("plot", SWEEP): "peak 61.8 %",
    ("stats",): "1 successful, 3 failed",
    ("stats", "--by", "tool", "--json"): '"total_jobs": 4',
    ("stats", "--by", "limited", "!limited:cpu", "!pinned:yes"): "LIMITED",
    ("export", SWEEP): "timestamp,elapsed,cpu.percent",
    ("export", "--format", "nextflow"): "sweep",
    ("queue",): "No queued jobs",
    ("wait", SWEEP): "",
    ("store", "info"): "4 (",
    ("store", "check"): "is not damaged",
}


@pytest.fixture(params=["brought up to date", "only to be read"])
def store(home: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kept store as that of this host."""
    paths = StatePaths(home, HERE)
    paths.job(JobId(SWEEP)).mkdir(parents=True)
    (paths.job(JobId(SWEEP)) / "stdout.log").write_text("done\n")
    paths.store.write_bytes(KEPT_STORE.read_bytes())
    if request.param == "only to be read":
        may = os.access
        monkeypatch.setattr(os, "access", lambda at, mode, **more: mode != os.W_OK and may(at, mode, **more))
    return paths.store


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_every_verb_that_reads_takes_the_store_of_the_first_release(store: Path, words: tuple[str, ...]) -> None:
    answer = call(*words)
    assert answer.returncode == 0, answer.stderr
    assert READING[words] in answer.stdout
    remarks = ("is read as it was last closed", "was never sampled")
    assert [line for line in answer.stderr.splitlines() if not any(remark in line for remark in remarks)] == []
