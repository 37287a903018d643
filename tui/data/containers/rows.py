"""The rows of the Containers page: which containers match, their order, and why there are none. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from jobtop.core.measure.collectors.docker.remedies import NOTHING_FOUND
from jobtop.core.record import record, replace
from jobtop.core.run.containers.facts import container_facts
from jobtop.core.text.container_state import state_text
from jobtop.core.units import number_of
from jobtop.tui.data.containers.feed import Key, answering, is_answered

if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.snapshot import ContainerRow, Containers
    from jobtop.tui.data.containers.feed import ContainerFeed
    from jobtop.tui.data.view import JobRow
    from jobtop.tui.widgets.columns import Sort

ENDED_SECONDS = 60.0  # an ended container is listed among those that run for this long
BY_PROJECT = "project"
Minute = tuple[tuple[float, ...], tuple[float | None, ...]]


@record
class ShownContainer:
    """A container as the page shows it; `leads` if it is the first row of its compose project."""

    row: ContainerRow
    job_id: str | None = None
    minute: Minute = ((), ())  # of its CPU
    up_seconds: float | None = None
    leads: bool = True

    @property
    def key(self) -> Key:
        return self.row.key


def shown_containers(
    feed: ContainerFeed, jobs: Mapping[str, str], words: Sequence[str], sort: Sort
) -> list[ShownContainer]:
    """The containers that are listed and match all words, in their order."""
    now = time.time()
    listed = [
        row for row in feed.now.rows if (feed.every or is_listed(row, now)) and matches(row, words, job_of(row, jobs))
    ]
    found = [
        ShownContainer(row, job_of(row, jobs), feed.track(row.key).last_minute("cpu.percent"), up_seconds(row, now))
        for row in listed
    ]
    return grouped(found, sort)


def grouped(found: Sequence[ShownContainer], sort: Sort) -> list[ShownContainer]:
    """The rows in their order; sorted by project, only the first row of each project leads."""
    from jobtop.tui.widgets.columns import sorted_by

    by_name = sorted(found, key=lambda shown: (shown.row.container.name.casefold(), shown.key))
    value = SORTS.get(sort.key, project_order)
    if sort.key != BY_PROJECT:
        alive = [shown for shown in by_name if shown.row.container.is_alive]
        ended = [shown for shown in by_name if not shown.row.container.is_alive]
        return [*sorted_by(alive, value, sort.descending), *sorted_by(ended, value, sort.descending)]
    rows = sorted_by(by_name, value, sort.descending)
    rows.sort(key=lambda shown: shown.row.container.project is None)
    projects = [shown.row.container.project for shown in rows]
    leads = [True, *(before != after for before, after in pairwise(projects))]
    return [replace(shown, leads=is_first) for shown, is_first in zip(rows, leads, strict=False)]


def is_listed(row: ContainerRow, now: float) -> bool:
    """Whether a container runs, or has ended just now."""
    ended = row.container.finished_at
    return row.container.is_alive or (ended is not None and now - ended < ENDED_SECONDS)


def up_seconds(row: ContainerRow, now: float) -> float | None:
    """How long it has run; None for one that does not run."""
    since = row.container.started_at if row.container.is_alive else None
    return None if since is None else max(0.0, now - since)


def matches(row: ContainerRow, words: Iterable[str], job_id: str | None) -> bool:
    """Whether each word is a part of its name, image, project, service, engine, state, id or job."""
    container = row.container
    texts = (
        *(container.name, container.image, container.project, container.service, container.engine),
        *(state_text(container), container.id, job_id),
    )
    known = " ".join(text for text in texts if text).casefold()
    return all(word.casefold() in known for word in words)


def jobs_by_container(rows: Iterable[JobRow]) -> dict[str, str]:
    """The jobs that run in containers or are attached to them, by the ids of the containers."""
    found: dict[str, str] = {}
    for row in rows:
        if row.job.kind == "container" and not row.job.status.ended:
            facts = container_facts(row.job)
            if facts is not None and facts.id is not None:
                found[facts.id] = row.job.id
    return found


def job_of(row: ContainerRow, jobs: Mapping[str, str]) -> str | None:
    """The job that started a container, or that is attached to it."""
    return jobs.get(row.container.id) or row.job_id


def project_order(shown: ShownContainer) -> str:
    return (shown.row.container.project or "").casefold()


def limit_percent(row: ContainerRow) -> float | None:
    """The used memory in percent of the limit."""
    used, limit = row.memory_bytes, row.container.limits.memory_bytes
    return 100 * used / limit if used is not None and limit else None


def rate_sum(row: ContainerRow, *keys: str) -> float | None:
    """The sum of rates; None if one of them is not known."""
    found = [row.rates.get(key) for key in keys]
    return None if None in found else sum(rate or 0.0 for rate in found)


def network_rate(row: ContainerRow) -> float | None:
    return rate_sum(row, "net.rx_bytes", "net.tx_bytes")


def io_rate(row: ContainerRow) -> float | None:
    return rate_sum(row, "io.read_bytes", "io.write_bytes")


# The values that columns are sorted by; None is sorted last.
SORTS: dict[str, Callable[[ShownContainer], Any]] = {
    BY_PROJECT: project_order,
    "name": lambda shown: shown.row.container.name.casefold(),
    "state": lambda shown: shown.row.container.health or shown.row.container.state,
    "time": lambda shown: shown.up_seconds,
    "cpu": lambda shown: shown.row.cpu_percent,
    "mem": lambda shown: shown.row.memory_bytes,
    "limit": lambda shown: limit_percent(shown.row),
    "net": lambda shown: network_rate(shown.row),
    "io": lambda shown: io_rate(shown.row),
    "pids": lambda shown: shown.row.values.get("proc.threads"),
    "restarts": lambda shown: shown.row.container.restarts,
    "gpu": lambda shown: shown.row.values.get("gpu.util"),
    "engine": lambda shown: shown.row.container.engine,
    "job": lambda shown: shown.job_id,
    "image": lambda shown: shown.row.container.image,
}


def count_words(found: Containers, shown: int, every: bool, is_filtered: bool) -> str:
    """`12 containers · 9 run`, `3 of 12 containers`."""
    total = len(found.rows)
    run = sum(row.container.is_alive for row in found.rows)
    count = f"{shown} of {number_of(total, 'container')}" if is_filtered else number_of(shown, "container")
    return f"{count} · {run} run" if every and not is_filtered else count


def empty_words(found: Containers, tried: Sequence[str], every: bool, is_filtered: bool, all_key: str) -> str:
    """Why no container is listed, and what to do about it."""
    if not found.engines:
        if not found.at:
            return "looking for container engines …"
        return f"No container engine found.\nTried: {', '.join(tried)}.\n\n{capitalized(NOTHING_FOUND)}"
    if not is_answered(found) and not found.rows:
        waiting = ", ".join(engine.name for engine in found.engines if not engine.is_asked)
        return f"waiting for {waiting} …"
    names = [engine.name for engine in answering(found)]
    if not names:
        return "\n".join(["No container engine answers.", "", *(engine.problem or "" for engine in found.engines)])
    if is_filtered:
        return "No matching containers.\nPress Esc to clear the filter."
    said = f"{', '.join(names)} {'answers' if len(names) == 1 else 'answer'}"
    if every:
        return f"There are no containers ({said}).\nTo run one: jobtop run --image IMAGE -- COMMAND"
    more = f"Press {all_key} to list stopped ones too, or run one: jobtop run --image IMAGE -- COMMAND"
    return f"No containers run ({said}).\n{more}"


def capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]
