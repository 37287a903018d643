"""Suggestions name only verbs, commands and jobs that exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobtop.cli.main import ALIASES, VERBS
from jobtop.core.model import Queued, Status
from jobtop.store.jobs import Jobs
from records import call, made_job
from support import ROOT

ROOMS = ("cli", "core", "lifecycle", "store", "tui")
# What a user is told to type: followed by an option, a placeholder, or nothing, and not by the rest of a sentence.
SUGGESTED = re.compile(r"(?:: |\(|`| or |; )jobtop ([a-z][a-z-]*)(?=[`),;]|\s*$| -| [A-Z])")


def suggested_verbs() -> Iterator[tuple[str, str]]:
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from ((f"{path}:{node.lineno}", found) for found in SUGGESTED.findall(node.value))


def test_messages_suggest_only_verbs_that_exist() -> None:
    found = list(suggested_verbs())
    assert len(found) > 40
    assert [item for item in found if item[1] not in {*VERBS, *ALIASES}] == []


@pytest.mark.parametrize(
    ("word", "named", "not_named"),
    [
        ("histroy", "history", "jobtop run"),
        ("no-such-thing-at-all", "jobtop help", "jobtop run"),
        ("true", "jobtop run -- true", "jobtop show"),
    ],
)
def test_a_word_that_is_no_verb_is_a_verb_a_command_or_nothing(
    home: Path, word: str, named: str, not_named: str
) -> None:
    answer = call(word)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert named in answer.stderr
    assert not_named not in answer.stderr
    assert not home.exists()


def test_a_script_is_a_command_too(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    assert "jobtop run -- train.py" in call("train.py").stderr


def test_a_word_that_is_a_job_is_shown_how_to_show_it(jobs: Jobs) -> None:
    job = jobs.insert(made_job(name="train-me"))
    assert f"jobtop show {job.id[:8]}" in call(job.id[:8]).stderr
    assert "jobtop show train-me" in call("train-me").stderr


def test_a_retry_that_was_deleted_is_not_suggested(jobs: Jobs) -> None:
    gone = made_job()
    job = jobs.insert(made_job(status=Status.FAILED, settled=True, queue=Queued(retried_by=gone.id)))
    assert f"jobtop rerun {job.id[:8]}" in call("retry", job.id).stderr
    jobs.insert(gone)
    assert f"jobtop retry {gone.id[:8]}" in call("retry", job.id).stderr
