"""Rows of a store as what they stand for, every value checked: RowDamaged if jobtop never writes such a thing.

jobtop's own tables are STRICT, but a file from elsewhere, or one that was edited, can hold anything anywhere.
"""

from __future__ import annotations

import json
from functools import lru_cache
from operator import itemgetter

from jobtop.core.errors import BadValue, RowDamaged
from jobtop.core.job_id import JobId, are_job_ids, is_job_id
from jobtop.core.model import Identity, Job, Kept, Limits, Monitor, Queued, Status, StopRequest, Usage, queued_from
from jobtop.core.record import fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, NoReturn

    Number = float | int
    Signature = tuple[type, ...]
    Pick = Callable[[Sequence[Any]], tuple[Any, ...]]
    Plan = tuple[Pick, list[tuple[Pick, float, float]]]

PLAIN = (
    "id external_id parent_id name tool script note host user cwd pid status reason exit_code signal error"
    " submitted_at start_time start_boottime end_time duration_seconds grace_seconds kind"
).split()
JOB, USAGE, LIMITS, MONITOR = fields(Job), fields(Usage), fields(Limits), fields(Monitor)
LIMIT_COLUMNS = tuple(f"limit_{name}" for name in LIMITS)
OLDER = {
    "metrics": "{}",
    "start_boottime": None,
    "queue": None,
    "pinned": 0,
    "kept": "whole",
    "environment": "{}",
}
LARGEST = 2**63 - 1  # of any number
EARLIEST, LATEST = -6e10, 2.5e11  # seconds since the epoch that a calendar has
LARGEST_PID = 2**31 - 1
# Linux takes at most 6 MiB of arguments, 2 MiB by default; SQLite gives values of a file from elsewhere up to 64 MiB.
MOST_CHARACTERS = 16 * 1024 * 1024  # of all texts of a job
BOUNDS: dict[str, tuple[float, float]] = {
    **dict.fromkeys("submitted_at start_time end_time heartbeat stop_at last_heard".split(), (EARLIEST, LATEST)),
    **dict.fromkeys(("shim_pid", "recorder_pid"), (1, LARGEST_PID)),
}
TEXTS = frozenset("external_id parent_id tool script note reason error shim_boot recorder_boot stop_by queue".split())
NEEDED_TEXTS = frozenset(
    "id name host user cwd status command params tags flags sources incomplete metrics monitor kept kind"
    " environment".split()
)
WHOLE = frozenset("pid exit_code signal shim_pid shim_start recorder_pid recorder_start limit_gpus".split())
NEEDED_WHOLE = frozenset("seq touched settled pinned limit_enforced".split())
NEEDED = frozenset(("grace_seconds",))
NONE = type(None)
NUMERIC = frozenset((int, float, NONE))
MOST_KNOWN = 1000


class Layout:
    """Some columns of jobs, in order: what is looked for in a row is worked out once for all rows of the same types."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._plans: dict[Signature, Plan] = {}

    def check(self, row: Sequence[Any]) -> None:
        """That every column has a value of its type, and within what can be shown, signalled and counted."""
        signature = tuple(map(type, row))
        plan = self._plans.get(signature)
        if plan is None:
            plan = self._plan(signature, row)
            if len(self._plans) < MOST_KNOWN:
                self._plans[signature] = plan
        pick_texts, bounded = plan
        if sum(map(len, pick_texts(row))) > MOST_CHARACTERS:
            self._refuse_texts(row)
        for pick, least, most in bounded:
            values = pick(row)
            if min(values) < least or max(values) > most:
                self._refuse(row, least, most, values)

    def _plan(self, signature: Signature, row: Sequence[Any]) -> Plan:
        for name, kind, value in zip(self.names, signature, row, strict=True):
            if kind not in _kinds(name):
                raise RowDamaged(f"{name} is {shown(value)}")
        numeric = [place for place, kind in enumerate(signature) if kind in (int, float)]
        bounded = [(place, BOUNDS.get(self.names[place], (-LARGEST, LARGEST))) for place in numeric]
        texts = [place for place, kind in enumerate(signature) if kind is str]
        return _picker(texts), [
            (_picker(places), *bounds)
            for bounds in dict.fromkeys(bounds for _, bounds in bounded)
            if (places := [place for place, others in bounded if others == bounds])
        ]

    def _refuse_texts(self, row: Sequence[Any]) -> NoReturn:
        texts = {name: value for name, value in zip(self.names, row, strict=True) if type(value) is str}
        longest = max(texts, key=lambda name: len(texts[name]))
        raise RowDamaged(f"{longest} has {len(texts[longest])} characters: all texts may have {MOST_CHARACTERS}")

    def _refuse(self, row: Sequence[Any], least: float, most: float, values: Sequence[Any]) -> NoReturn:
        wrong = next(value for value in values if not least <= value <= most)
        name = self.names[next(place for place, value in enumerate(row) if value is wrong)]
        raise RowDamaged(f"{name} is {shown(wrong)}, not from {least:.12g} to {most:.12g}")


def _picker(places: Sequence[int]) -> Pick:
    """The values at some places, as a tuple: itemgetter gives none of a single place."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda row: tuple(row[place] for place in places)


@lru_cache(100)
def layout_of(names: tuple[str, ...]) -> Layout:
    return Layout(names)


def job_of(kept: sqlite3.Row) -> Job:
    """The job of a row."""
    names = tuple(kept.keys())
    row: dict[str, Any] = dict(zip(names, kept, strict=True))
    try:
        layout_of(names).check(tuple(kept))
        return _job(row)
    except RowDamaged as error:
        raise RowDamaged(f"job {row.get('seq')}: {error}") from None
    except KeyError as error:
        raise RowDamaged(f"jobs have no column {error}") from None


def _job(row: dict[str, Any]) -> Job:
    """The job of a row of which types and ranges are checked; the row is used up."""
    if "kind" not in row:  # a store that can only be read may be older
        row["kind"] = "attached" if '"attached"' in row["flags"] else "process"
    if "kept" not in row or "environment" not in row:
        row = OLDER | row
    try:
        row["id"] = JobId(row["id"])
    except BadValue:
        raise RowDamaged(f"id is {shown(row['id'])}") from None
    for name in ("command", "flags", "incomplete"):
        row[name] = texts_in(row[name], name)
    for name in ("tags", "sources", "environment"):
        row[name] = words_in(row[name], name)
    *limits, enforced = map(row.__getitem__, LIMIT_COLUMNS)
    row |= {
        "status": status_in(row["status"]),
        "params": mapping_in(row["params"], "params"),
        "metrics": _metrics(row["metrics"]),
        "limits": Limits(*(*limits, bool(enforced))),
        "usage": Usage(*map(row.__getitem__, USAGE)),
        "monitor": _monitor(row["monitor"]),
        "shim": _identity(row, "shim"),
        "recorder": _identity(row, "recorder"),
        "stop_request": _stop_request(row),
        "settled": bool(row["settled"]),
        "queue": queue_in(row["queue"]),
        "pinned": bool(row["pinned"]),
        "kept": kept_in(row["kept"]),
        "last_heard": row["heartbeat"],
    }
    return Job(*map(row.__getitem__, JOB))


def check_columns(row: Mapping[str, Any]) -> None:
    """That a job as columns can be kept, and read again."""
    job: dict[str, Any] = {"seq": 0, "heartbeat": None, **row}
    job |= {"id": str(row["id"]), "status": str(row["status"]), "limit_enforced": int(row["limit_enforced"])}
    # Text that is no UTF-8 goes into the store as bytes.
    job |= {name: value.decode("utf-8", "replace") for name, value in row.items() if isinstance(value, bytes)}
    Layout(tuple(job)).check(tuple(job.values()))
    _job(job)


def check_line(layout: Layout, row: Sequence[Any]) -> None:
    """That some of the columns of a job are sound, the first of which are its number and its id."""
    try:
        layout.check(row)
        if not is_job_id(row[1]):
            raise RowDamaged(f"id is {shown(row[1])}")
    except RowDamaged as error:
        raise RowDamaged(f"job {row[0]}: {error}") from None


def _kinds(name: str) -> tuple[type, ...]:
    """The types that a column may have."""
    if name in NEEDED_TEXTS:
        return (str,)
    if name in TEXTS:
        return (str, NONE)
    if name in NEEDED_WHOLE:
        return (int,)
    if name in NEEDED:
        return (float, int)
    return (int, NONE) if name in WHOLE else (float, int, NONE)


def is_number(value: object) -> bool:
    return type(value) in (int, float) and -LARGEST <= value <= LARGEST  # type: ignore[operator]


def whole(values: Iterable[object]) -> list[int]:
    """Those that are whole numbers."""
    return [value for value in values if type(value) is int]


def is_sample(row: Sequence[Any]) -> bool:
    """Whether a row of samples has nothing but numbers, and a moment."""
    return row[1] is not None and are_numbers(row)


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether each of these is a number, or absent."""
    present = [value for value in values if value is not None]
    return NUMERIC.issuperset(map(type, present)) and (
        not present or (min(present) >= -LARGEST and max(present) <= LARGEST)
    )


def shown(value: object) -> str:
    """A wrong value, in a message."""
    text = repr(value[:60] if isinstance(value, (str, bytes)) else value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def json_in(text: object, name: str) -> Any:
    """What JSON says."""
    try:
        return json.loads(text)  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError):
        raise RowDamaged(f"{name} is {shown(text)}, no JSON") from None


def texts_in(text: object, name: str) -> tuple[str, ...]:
    """A list of texts."""
    if text == "[]":
        return ()
    value = json_in(text, name)
    if type(value) is not list or not {str}.issuperset(map(type, value)):
        raise RowDamaged(f"{name} is {shown(text)}, no list of texts")
    return tuple(value)


def mapping_in(text: object, name: str) -> dict[str, Any]:
    """Anything by its name."""
    value = {} if text == "{}" else json_in(text, name)
    if type(value) is not dict:
        raise RowDamaged(f"{name} is {shown(text)}, no object")
    return value


def words_in(text: object, name: str) -> dict[str, str]:
    """Texts by their names."""
    value = mapping_in(text, name)
    if not {str}.issuperset(map(type, value.values())):
        raise RowDamaged(f"{name} is {shown(text)}, no texts by name")
    return value


def queue_in(text: object) -> Queued | None:
    """How a job waits; None if it never did."""
    if text is None:
        return None
    shape = mapping_in(text, "queue")
    try:
        if all(check(shape[name]) for name, check in QUEUED.items() if name in shape):
            return queued_from(shape)
    except (ValueError, OverflowError):  # no moment
        pass
    raise RowDamaged(f"queue is {shown(text)}")


def standing_in(status: object, queue: object) -> tuple[Status | None, Queued | None]:
    """How a job stands, and how it waits; neither if that cannot be read, as of a job that is gone."""
    try:
        return status_in(status), queue_in(queue)
    except RowDamaged:
        return None, None


def _is_whole(value: object) -> bool:
    return type(value) is int and is_number(value)


def _is_text_or_absent(value: object) -> bool:
    return type(value) in (str, NONE)


def _are_texts(value: Any) -> bool:
    return type(value) is list and {str}.issuperset(map(type, value))


QUEUED: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("priority", "retries", "attempt"), _is_whole),
    **dict.fromkeys(("group", "retry_of", "retried_by", "not_before"), _is_text_or_absent),
    **dict.fromkeys(("after", "gpus"), _are_texts),
    "is_forced": lambda value: type(value) is bool,
}


def event_of(row: sqlite3.Row) -> tuple[float, str, dict[str, Any]]:
    """When, what, and more about it."""
    at, kind = row["at"], row["kind"]
    if not is_number(at) or not EARLIEST <= at <= LATEST or type(kind) is not str:
        raise RowDamaged(f"an event is {shown(kind)} at {shown(at)}")
    return at, kind, mapping_in(row["detail"], "the detail of an event")


def mark_of(row: Sequence[Any]) -> tuple[float, int, int | None]:
    """A mark of the logs."""
    elapsed, out, err = row
    if not is_number(elapsed) or type(out) is not int or type(err) not in (int, NONE):
        raise RowDamaged(f"a log mark is {shown(tuple(row))}")
    return elapsed, out, err


def tags_in(text: object) -> dict[str, str]:
    """The tags of a job; none if they cannot be read."""
    try:
        return words_in(text, "tags")
    except RowDamaged:
        return {}


def are_figures(rows: list[tuple[Any, ...]]) -> bool:
    """Whether all rows have a number, the id of a job, a label, a status and numbers: fast for many."""
    if not rows:
        return True
    _, ids, *others = zip(*rows, strict=True)
    return are_job_ids(ids) and _are_figures(others)


def check_figures(layout: Layout, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same of one row: RowDamaged says what is wrong with it."""
    check_line(layout, row)
    try:
        status_in(row[3])
    except RowDamaged as error:
        raise RowDamaged(f"job {row[0]}: {error}") from None
    return row


def _are_figures(columns: Sequence[Sequence[Any]]) -> bool:
    labels, statuses, *numbers = columns
    known = {NONE, str}.issuperset(map(type, labels)) and set(Status).issuperset(statuses)
    return known and all(map(are_numbers, numbers))


def sound_figures(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows of a label, a status and numbers, without those that are something else; fast where all are sound."""
    if not rows or _are_figures(list(zip(*rows, strict=True))):
        return rows
    return [row for row in rows if type(row[0]) in (str, NONE) and row[1] in set(Status) and are_numbers(row[2:])]


def _metrics(text: object) -> dict[str, dict[str, Number | None]]:
    value = mapping_in(text, "metrics")
    for spread in value.values():
        if type(spread) is not dict or not are_numbers(spread.values()):
            raise RowDamaged(f"metrics is {shown(text)}")
    return value


def _monitor(text: object) -> Monitor:
    value = mapping_in(text, "monitor")
    *numbers, thinned = map(value.get, MONITOR)
    if not are_numbers(numbers) or type(thinned) not in (bool, NONE):
        raise RowDamaged(f"monitor is {shown(text)}")
    return Monitor(*(*numbers, thinned))


def kept_in(word: object) -> Kept:
    kept: Kept = _choice(Kept, word, "kept")
    return kept


def status_in(word: object) -> Status:
    status: Status = _choice(Status, word, "status")
    return status


def _choice(kind: type[Any], value: object, name: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise RowDamaged(f"{name} is {shown(value)}") from None


def _identity(row: Mapping[str, Any], prefix: str) -> Identity | None:
    pid, boot = row[f"{prefix}_pid"], row[f"{prefix}_boot"]
    return None if pid is None or boot is None else Identity(boot, pid, row[f"{prefix}_start"])


def _stop_request(row: Mapping[str, Any]) -> StopRequest | None:
    by, at = row["stop_by"], row["stop_at"]
    return StopRequest(by, at) if by and at is not None else None
