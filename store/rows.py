"""Rows of a store as what they stand for, every value checked: RowDamaged if jobtop never writes such a thing.

jobtop's own tables are STRICT, but a file from elsewhere, or one that was edited, can hold anything anywhere.
"""

from __future__ import annotations

import json

from jobtop.core.errors import RowDamaged
from jobtop.core.job_id import JobId, is_job_id
from jobtop.core.model import Identity, Job, Kept, Limits, Monitor, Queued, Status, StopRequest, Usage, queued_from
from jobtop.core.record import fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    Number = float | int
    Signature = tuple[type, ...]

PLAIN = (
    "id external_id parent_id name tool script note host user cwd pid status reason exit_code signal error"
    " submitted_at start_time start_boottime end_time duration_seconds grace_seconds"
).split()
USAGE, LIMITS, MONITOR = fields(Usage), fields(Limits), fields(Monitor)
LARGEST = 2.0**63  # of any number
EARLIEST, LATEST = -6e10, 2.5e11  # seconds since the epoch that a calendar has
LARGEST_PID = 2**31 - 1
MOMENTS = ("submitted_at", "start_time", "end_time", "heartbeat", "stop_at")
PIDS = ("shim_pid", "recorder_pid")
TEXTS = frozenset("external_id parent_id tool script note reason error shim_boot recorder_boot stop_by queue".split())
NEEDED_TEXTS = frozenset(
    "id name host user cwd status command params tags flags sources incomplete metrics monitor kept".split()
)
WHOLE = frozenset("pid exit_code signal shim_pid shim_start recorder_pid recorder_start limit_gpus".split())
NEEDED_WHOLE = frozenset("seq touched settled pinned limit_enforced".split())
NEEDED = frozenset(("grace_seconds",))
NONE = type(None)
NUMERIC = frozenset((int, float, NONE))
KNOWN_SIGNATURES = 1000
_signatures: dict[tuple[str, ...], set[Signature]] = {}


def job_of(kept: sqlite3.Row) -> Job:
    """The job of a row."""
    names = tuple(kept.keys())
    row: dict[str, Any] = dict(zip(names, kept, strict=True))
    try:
        _check_types(names, tuple(map(type, kept)), row)
        _check_ranges(row)
        return _job(row)
    except RowDamaged as error:
        raise RowDamaged(f"job {row.get('seq')}: {error}") from None


def _job(row: dict[str, Any]) -> Job:
    there = row.keys()  # a store that can only be read may be older
    values: dict[str, Any] = {name: row[name] for name in PLAIN if name in there}
    values |= {name: texts_in(row[name], name) for name in ("command", "flags", "incomplete")}
    values |= {name: words_in(row[name], name) for name in ("tags", "sources")}
    values["id"] = JobId(row["id"])
    limits = {name: row[f"limit_{name}"] for name in LIMITS}
    return Job(
        **values
        | {
            "seq": row["seq"],
            "status": status_in(row["status"]),
            "params": mapping_in(row["params"], "params"),
            "metrics": _metrics(row["metrics"]) if "metrics" in there else {},
            "limits": Limits(**limits | {"enforced": bool(limits["enforced"])}),
            "usage": Usage(**{name: row[name] for name in USAGE}),
            "monitor": _monitor(row["monitor"]),
            "shim": _identity(row, "shim"),
            "recorder": _identity(row, "recorder"),
            "stop_request": _stop_request(row),
            "settled": bool(row["settled"]),
            "queue": queue_in(row["queue"]) if "queue" in there else None,
            "pinned": bool(row["pinned"]) if "pinned" in there else False,
            "kept": kept_in(row["kept"]) if "kept" in there else Kept.WHOLE,
            "last_heard": row["heartbeat"],
        }
    )


def check_columns(row: Mapping[str, Any]) -> None:
    """That a job as columns can be kept, and read again."""
    job: dict[str, Any] = {"seq": 0, "heartbeat": None, **row}
    job |= {"id": str(row["id"]), "status": str(row["status"]), "limit_enforced": int(row["limit_enforced"])}
    # Text that is no UTF-8 goes into the store as bytes.
    job |= {name: value.decode("utf-8", "replace") for name, value in row.items() if isinstance(value, bytes)}
    _check_types(tuple(job), tuple(map(type, job.values())), job)
    _check_ranges(job)
    _job(job)


def check_line(row: Mapping[str, Any]) -> None:
    """That some of the columns of a job are sound."""
    try:
        _check_types(tuple(row), tuple(map(type, row.values())), row)
        _check_ranges(row)
        status_in(row["status"])
    except RowDamaged as error:
        raise RowDamaged(f"job {row.get('seq')}: {error}") from None


def _check_types(names: tuple[str, ...], signature: Signature, row: Mapping[str, Any]) -> None:
    """That every column has a value of its type; most rows have the types of one that was looked at before."""
    known = _signatures.setdefault(names, set())
    if signature in known:
        return
    for name, kind in zip(names, signature, strict=True):
        if kind not in _kinds(name):
            raise RowDamaged(f"{name} is {shown(row[name])}")
    if len(known) < KNOWN_SIGNATURES and len(_signatures) < KNOWN_SIGNATURES:
        known.add(signature)


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


def _check_ranges(row: Mapping[str, Any]) -> None:
    """That moments can be shown, processes can exist, and nothing is infinite."""
    for name in MOMENTS:
        moment = row.get(name)
        if moment is not None and not EARLIEST <= moment <= LATEST:
            raise RowDamaged(f"{name} is {shown(moment)}, no moment")
    for name in PIDS:
        pid = row.get(name)
        if pid is not None and not 0 < pid <= LARGEST_PID:
            raise RowDamaged(f"{name} is {shown(pid)}, no process")
    numbers = [value for value in row.values() if type(value) in (float, int)]
    if numbers and (max(numbers) >= LARGEST or min(numbers) < -LARGEST):
        name = next(name for name, value in row.items() if type(value) in (float, int) and abs(value) >= LARGEST)
        raise RowDamaged(f"{name} is {shown(row[name])}")
    if not is_job_id(row["id"]):
        raise RowDamaged(f"id is {shown(row['id'])}")


def is_number(value: object) -> bool:
    return type(value) in (int, float) and -LARGEST <= value <= LARGEST  # type: ignore[operator]


def whole(values: Iterable[object]) -> list[int]:
    """Those that are whole numbers."""
    return [value for value in values if type(value) is int]


def is_sample(row: Sequence[Any]) -> bool:
    """Whether a row of samples has nothing but numbers."""
    if not NUMERIC.issuperset(map(type, row)):
        return False
    present = [value for value in row if value is not None]
    return max(present) <= LARGEST and min(present) >= -LARGEST and row[1] is not None


def are_numbers(values: Iterable[object]) -> bool:
    """Whether each of these is a number, or absent."""
    return all(value is None or is_number(value) for value in values)


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


def sound_figures(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows of a label, a status and numbers, without those that are something else; fast where all are sound."""
    labels, statuses, *columns = zip(*rows, strict=True) if rows else ((), ())
    known = {NONE, str}.issuperset(map(type, labels)) and set(Status).issuperset(statuses)
    if known and all(map(_are_within, columns)):
        return rows
    return [row for row in rows if type(row[0]) in (str, NONE) and row[1] in set(Status) and are_numbers(row[2:])]


def _are_within(column: Iterable[Any]) -> bool:
    present = [value for value in column if value is not None]
    return {int, float}.issuperset(map(type, present)) and (
        not present or (min(present) >= -LARGEST and max(present) <= LARGEST)
    )


def _metrics(text: object) -> dict[str, dict[str, Number | None]]:
    value = mapping_in(text, "metrics")
    for spread in value.values():
        if type(spread) is not dict or not are_numbers(spread.values()):
            raise RowDamaged(f"metrics is {shown(text)}")
    return value


def _monitor(text: object) -> Monitor:
    value = mapping_in(text, "monitor")
    values = {name: value[name] for name in MONITOR if name in value}
    thinned = values.pop("thinned", None)
    if not are_numbers(values.values()) or type(thinned) not in (bool, NONE):
        raise RowDamaged(f"monitor is {shown(text)}")
    return Monitor(**values, thinned=thinned)


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
