"""Labels of containers to follow: which engines they are followed on, and how a follow begins and ends."""

from __future__ import annotations

import time

from jobtop.core.errors import BadValue, EngineError, UsageError
from jobtop.core.model import AT_WORK
from jobtop.core.record import replace
from jobtop.core.run.containers.facts import FINDING
from jobtop.core.run.request import user_name
from jobtop.core.units import printable
from jobtop.store.follows import Follow, Follows
from jobtop.store.jobs import Query

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from jobtop.core.paths import StatePaths
    from jobtop.store.jobs import Jobs

LONGEST_LABEL = 1000


def checked_label(text: str) -> str:
    """A label as engines match it, KEY or KEY=VALUE; BadValue if it has no key."""
    key = text.partition("=")[0]
    if not key.strip() or any(ord(character) < 32 for character in text) or len(text) > LONGEST_LABEL:
        raise BadValue(f'"{printable(text[:40])}" is not a label: KEY or KEY=VALUE, such as team=web')
    return text


def begin_follows(
    jobs: Jobs,
    paths: StatePaths,
    environ: Mapping[str, str],
    label: str,
    engine: str | None,
    options: Mapping[str, Any],
    warn: Callable[[str], None],
) -> list[Follow]:
    """Follow a label on one engine, or on all that answer now; a follow that exists gets the new options."""
    from jobtop.core.measure.collectors.docker.finding import (
        ask_engines,
        close_engines,
        open_engines,
        raise_if_silent,
    )

    engines = open_engines(environ, engine)
    try:
        answers = ask_engines(engines)
        raise_if_silent(answers)
        for answer in answers:
            if answer.containers is None:
                warn(f"not followed: {answer.problem}")
        endpoints = [answer.engine.endpoint for answer in answers if answer.containers is not None]
    finally:
        close_engines(engines)
    endpoints = [endpoint for endpoint in endpoints if is_here(endpoint.url)]
    if not endpoints:
        raise EngineError("its processes are on another machine: run jobtop where the engine runs")
    follows = Follows(jobs.database, paths.host)
    known = {(follow.url, follow.label): follow for follow in follows.all()}
    begun = []
    for endpoint in endpoints:
        before = known.get((endpoint.url, label))
        at = time.time() if before is None else before.at
        begun.append(replace(Follow(endpoint.url, label, endpoint.name, at, user_name()), **options))
        follows.set(begun[-1])
    return begun


def is_here(url: str) -> bool:
    """Whether an engine may have its processes on this machine; of one behind TCP only its containers tell."""
    return not url.startswith("ssh://")


def end_follows(jobs: Jobs, paths: StatePaths, label: str, engine: str | None) -> list[Follow]:
    """Follow a label no longer, on one engine or on all; jobs that were made from containers go on."""
    follows = Follows(jobs.database, paths.host)
    ended = [
        follow for follow in follows.all() if follow.label == label and engine in (None, follow.engine, follow.url)
    ]
    if not ended:
        where = "" if engine is None else f" on {printable(engine)}"
        raise UsageError(f'no label "{printable(label)}" is followed{where} (jobtop attach --follows lists them)')
    for follow in ended:
        follows.remove(follow)
    return ended


def running_jobs(jobs: Jobs, follows: list[Follow]) -> dict[tuple[str, str], int]:
    """How many jobs of each follow run, by address and label."""
    counts = {(follow.url, follow.label): 0 for follow in follows}
    for job in jobs.select(Query(statuses=tuple(map(str, AT_WORK)), limit=None)) if follows else ():
        facts = job.findings.get(FINDING)
        key = (facts.get("engine"), facts.get("follow")) if isinstance(facts, dict) else None
        if key in counts:
            counts[key] += 1
    return counts
