"""What limited a job, in words that verbs and console share. Pure."""

from __future__ import annotations

from itertools import groupby

from jobtop.core.analysis.limiting import HELP, Limit
from jobtop.core.model import Job
from jobtop.core.units import printable

LETTERS = {limit: limit[0].upper() for limit in Limit} | {Limit.NOTHING: "-"}
UNKNOWN_LETTER = "?"


def limit_of(job: Job) -> Limit | None:
    """What limited the job; None if that is not known."""
    return _limit(job.limited_by)


def limit_evidence(job: Job) -> str | None:
    """The evidence for the word, or why there is none; None if nothing was found out about the job."""
    entries = _entries(job, "limited_whole")
    return printable(entries[0][1]) if entries else None


def limit_help(job: Job) -> str | None:
    """What usually helps; None if it is not known what limited the job."""
    limit = limit_of(job)
    return None if limit is None else HELP[limit]


def limit_bar(job: Job) -> str:
    """A letter for each tenth of the run: `CCCSSSSSWW`; empty if the tenths are not known."""
    return "".join(LETTERS[word] if word is not None else UNKNOWN_LETTER for word, _ in _entries(job, "limited"))


def limit_tenths(job: Job) -> str:
    """The tenths in words: `cpu ×3, storage ×7`."""
    runs = [
        (word or "not known", len(list(entries))) for word, entries in groupby(w for w, _ in _entries(job, "limited"))
    ]
    return ", ".join(str(word) if count == 1 else f"{word} ×{count}" for word, count in runs)


def _entries(job: Job, finding: str) -> list[tuple[Limit | None, str]]:
    """The words and the evidence of a finding; damaged entries are not known."""
    entries = job.findings.get(finding)
    if not isinstance(entries, list):
        return []
    shapes = [entry if isinstance(entry, dict) else {} for entry in entries]
    return [(_limit(shape.get("word")), str(shape.get("evidence", ""))) for shape in shapes]


def _limit(word: object) -> Limit | None:
    try:
        return Limit(str(word))
    except ValueError:
        return None
