"""What tells runs of one name apart: the parameters that differ or, if none does, the words of the command."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from shlex import join
from typing import Any

from jobtop.core.model import Job

MOST_WORDS = 40  # of a command that are compared


def differences(jobs: Iterable[Job]) -> dict[str, str]:
    """By id, what differs between jobs of the same name; nothing for a job that differs from none."""
    by_name: defaultdict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        by_name[job.name].append(job)
    found: dict[str, str] = {}
    for runs in by_name.values():
        if len(runs) > 1:
            found |= _between(runs)
    return found


def _between(runs: Sequence[Job]) -> dict[str, str]:
    names = differing_params([job.params for job in runs])
    if names:
        return {job.id: " ".join(f"{key}={job.params[key]}" for key in names if key in job.params) for job in runs}
    words = differing_words([job.command[:MOST_WORDS] for job in runs])
    return {job.id: join(own) for job, own in zip(runs, words, strict=True) if own}


def differing_params(sets: Sequence[dict[str, Any]]) -> list[str]:
    """The parameters that do not have the same value in all sets, in the order in which they come first."""
    names = dict.fromkeys(key for values in sets for key in values)
    first = sets[0]
    return [key for key in names if any(key not in each or each[key] != first.get(key) for each in sets)]


def differing_words(commands: Sequence[Sequence[str]]) -> list[list[str]]:
    """The words of each command without those that all begin and end with."""
    if all(command == commands[0] for command in commands):
        return [[] for _ in commands]
    shortest = min(map(len, commands))
    begin = next((at for at in range(shortest) if len({command[at] for command in commands}) > 1), shortest)
    rest = shortest - begin
    end = next((at for at in range(rest) if len({command[-1 - at] for command in commands}) > 1), rest)
    return [list(command[begin : len(command) - end]) for command in commands]
