"""Decode rows of a store into records, and check every value: RowDamaged for a value that jobtop never writes.

jobtop's own tables are STRICT, but a file from another source, or an edited one, can have any value in any column.
"""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import chain
from operator import itemgetter

from jobtop.core.errors import BadValue, RowDamaged
from jobtop.core.job_id import JobId, is_job_id
from jobtop.core.model import Identity, Job, Kept, Limits, Monitor, Queued, Status, StopRequest, Usage, queued_from
from jobtop.core.record import fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, NoReturn

    Number = float | int
    Signature = tuple[type, ...]  # the types of the values of a row
    Pick = Callable[[Sequence[Any]], tuple[Any, ...]]
    Plan = tuple[Pick, list[tuple[Pick, float, float]]]  # the texts of a row; groups of numbers and their bounds

PLAIN_COLUMNS = (
    "id external_id parent_id name tool script note host user cwd pid status reason exit_code signal error"
    " submitted_at start_time start_boottime end_time duration_seconds grace_seconds kind limited_by"
).split()
JOB_FIELDS, USAGE_FIELDS = fields(Job), fields(Usage)
LIMIT_FIELDS, MONITOR_FIELDS = fields(Limits), fields(Monitor)
LIMIT_COLUMNS = tuple(f"limit_{name}" for name in LIMIT_FIELDS)
OLD_STORE_DEFAULTS = {
    "metrics": "{}",
    "start_boottime": None,
    "queue": None,
    "pinned": 0,
    "kept": "whole",
    "environment": "{}",
    "findings": "{}",
    "limit_pids": None,
    **dict.fromkeys(("limited_by", "energy_cpu_joules", "net_rx_bytes", "net_tx_bytes")),
    **dict.fromkeys(("gpu_util_mean", "gpu_util_peak", "gpu_memory_peak_bytes", "energy_gpu_joules")),
}
LARGEST = 2**63 - 1  # of any number
EARLIEST, LATEST = -6e10, 2.5e11  # seconds since the epoch that a calendar has
LARGEST_PID = 2**31 - 1
# Linux accepts at most 6 MiB of arguments, 2 MiB by default; SQLite returns values of up to 64 MiB.
MOST_CHARACTERS = 16 * 1024 * 1024  # of all texts of a job
MOST_TEXT_CHARACTERS = 1 << 20  # of a text of an alert, of a message or of a mark
BOUNDS: dict[str, tuple[float, float]] = {
    **dict.fromkeys("submitted_at start_time end_time heartbeat stop_at last_heard".split(), (EARLIEST, LATEST)),
    **dict.fromkeys(("shim_pid", "recorder_pid"), (1, LARGEST_PID)),
}
OPTIONAL_TEXTS = frozenset(
    "external_id parent_id tool script note reason error shim_boot recorder_boot stop_by queue limited_by".split()
)
REQUIRED_TEXTS = frozenset(
    "id name host user cwd status command params tags flags sources incomplete metrics monitor kept kind"
    " environment findings".split()
)
OPTIONAL_INTEGERS = frozenset(
    "pid exit_code signal shim_pid shim_start recorder_pid recorder_start limit_gpus limit_pids".split()
)
REQUIRED_INTEGERS = frozenset("seq touched settled pinned limit_enforced".split())
REQUIRED_NUMBERS = frozenset(("grace_seconds",))
NONE = type(None)
NUMERIC = frozenset((int, float, NONE))
MOST_PLANS = 1000
DECODER = json.JSONDecoder()


class RowChecker:
    """Checks rows with the given columns of `jobs`; rows with values of the same types share a plan."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._plans: dict[Signature, Plan] = {}

    def check(self, row: Sequence[Any]) -> None:
        """Raise RowDamaged unless every value has the type of its column and is within its bounds."""
        signature = tuple(map(type, row))
        plan = self._plans.get(signature)
        if plan is None:
            plan = self._plan(signature, row)
            if len(self._plans) < MOST_PLANS:
                self._plans[signature] = plan
        pick_texts, bounded = plan
        if sum(map(len, pick_texts(row))) > MOST_CHARACTERS:
            self._refuse_texts(row)
        for pick, least, most in bounded:
            values = pick(row)
            if min(values) < least or max(values) > most:
                self._refuse_number(row, least, most, values)

    def _plan(self, signature: Signature, row: Sequence[Any]) -> Plan:
        """What to check in rows with values of these types; RowDamaged if a column has a value of another type."""
        for name, kind, value in zip(self.names, signature, row, strict=True):
            if kind not in _allowed_types(name):
                raise RowDamaged(f"{name} is {quote_value(value)}")
        numeric = [index for index, kind in enumerate(signature) if kind in (int, float)]
        bounded = [(index, BOUNDS.get(self.names[index], (-LARGEST, LARGEST))) for index in numeric]
        texts = [index for index, kind in enumerate(signature) if kind is str]
        return _picker(texts), [
            (_picker(indexes), *bounds)
            for bounds in dict.fromkeys(bounds for _, bounds in bounded)
            if (indexes := [index for index, others in bounded if others == bounds])
        ]

    def _refuse_texts(self, row: Sequence[Any]) -> NoReturn:
        texts = {name: value for name, value in zip(self.names, row, strict=True) if type(value) is str}
        longest = max(texts, key=lambda name: len(texts[name]))
        raise RowDamaged(f"{longest} has {len(texts[longest])} characters: all texts may have {MOST_CHARACTERS}")

    def _refuse_number(self, row: Sequence[Any], least: float, most: float, values: Sequence[Any]) -> NoReturn:
        wrong = next(value for value in values if not least <= value <= most)
        name = self.names[next(index for index, value in enumerate(row) if value is wrong)]
        raise RowDamaged(f"{name} is {quote_value(wrong)}, not from {least:.12g} to {most:.12g}")


def _picker(indexes: Sequence[int]) -> Pick:
    """A function that returns the values at some indexes as a tuple; itemgetter of a single index returns no tuple."""
    if len(indexes) > 1:
        return itemgetter(*indexes)
    return lambda row: tuple(row[index] for index in indexes)


@lru_cache(100)
def row_checker(names: tuple[str, ...]) -> RowChecker:
    return RowChecker(names)


def job_from_row(stored: sqlite3.Row) -> Job:
    """Decode a row of `jobs`."""
    names = tuple(stored.keys())
    row: dict[str, Any] = dict(zip(names, stored, strict=True))
    try:
        row_checker(names).check(tuple(stored))
        return _job(row)
    except RowDamaged as error:
        raise RowDamaged(f"job {row.get('seq')}: {error}") from None
    except KeyError as error:
        raise RowDamaged(f"jobs have no column {error}") from None


def _job(row: dict[str, Any]) -> Job:
    """Decode a row after its types and bounds were checked; changes the row."""
    # An older store that is only read is not migrated; a record in unrecorded/ has no columns of the store alone.
    if "kind" not in row:
        row["kind"] = "attached" if '"attached"' in row["flags"] else "process"
    if "limit_pids" not in row:
        row = OLD_STORE_DEFAULTS | row
    try:
        row["id"] = JobId(row["id"])
    except BadValue:
        raise RowDamaged(f"id is {quote_value(row['id'])}") from None
    for name in ("command", "flags", "incomplete"):
        row[name] = parse_texts(row[name], name)
    for name in ("tags", "sources", "environment"):
        row[name] = parse_text_mapping(row[name], name)
    row["limit_enforced"] = bool(row["limit_enforced"])
    row |= {
        "status": parse_status(row["status"]),
        "params": parse_mapping(row["params"], "params"),
        "metrics": _metrics(row["metrics"]),
        "findings": parse_mapping(row["findings"], "findings"),
        "limits": Limits(*map(row.__getitem__, LIMIT_COLUMNS)),
        "usage": Usage(*map(row.__getitem__, USAGE_FIELDS)),
        "monitor": _monitor(row["monitor"]),
        "shim": _identity(row, "shim"),
        "recorder": _identity(row, "recorder"),
        "stop_request": _stop_request(row),
        "settled": bool(row["settled"]),
        "queue": parse_queue(row["queue"]),
        "pinned": bool(row["pinned"]),
        "kept": parse_kept(row["kept"]),
        "last_heard": row["heartbeat"],
    }
    return Job(*map(row.__getitem__, JOB_FIELDS))


def check_job_columns(row: Mapping[str, Any]) -> None:
    """Raise RowDamaged unless the columns of a job, as they are to be written, could be read again."""
    job: dict[str, Any] = {**OLD_STORE_DEFAULTS, "seq": 0, "heartbeat": None, **row}
    job |= {"id": str(row["id"]), "status": str(row["status"]), "limit_enforced": int(row["limit_enforced"])}
    # Text that is not UTF-8 is written as bytes.
    job |= {name: value.decode("utf-8", "replace") for name, value in row.items() if isinstance(value, bytes)}
    RowChecker(tuple(job)).check(tuple(job.values()))
    _job(job)


def check_partial_row(checker: RowChecker, row: Sequence[Any]) -> None:
    """Raise RowDamaged unless some columns of a job are valid; the first two are its number and its id."""
    try:
        checker.check(row)
        if not is_job_id(row[1]):
            raise RowDamaged(f"id is {quote_value(row[1])}")
    except RowDamaged as error:
        raise RowDamaged(f"job {row[0]}: {error}") from None


def _allowed_types(name: str) -> tuple[type, ...]:
    """The types that values of a column may have."""
    if name in REQUIRED_TEXTS:
        return (str,)
    if name in OPTIONAL_TEXTS:
        return (str, NONE)
    if name in REQUIRED_INTEGERS:
        return (int,)
    if name in REQUIRED_NUMBERS:
        return (float, int)
    return (int, NONE) if name in OPTIONAL_INTEGERS else (float, int, NONE)


def is_number(value: object) -> bool:
    """Whether a value is a number that the store can hold."""
    return type(value) in (int, float) and -LARGEST <= value <= LARGEST  # type: ignore[operator]


def integers(values: Iterable[object]) -> list[int]:
    """The values that are integers."""
    return [value for value in values if type(value) is int]


def is_sample(row: Sequence[Any]) -> bool:
    """Whether a row of samples has a time, and only numbers or absent values."""
    return row[1] is not None and are_numbers(row)


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether every value is a number that the store can hold, or absent."""
    present = [value for value in values if value is not None]
    return NUMERIC.issuperset(map(type, present)) and (
        not present or (min(present) >= -LARGEST and max(present) <= LARGEST)
    )


def quote_value(value: object) -> str:
    """A wrong value as a message shows it: quoted, and shortened."""
    text = repr(value[:60] if isinstance(value, (str, bytes)) else value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def parse_json(text: object, name: str) -> Any:
    """The value of a JSON text."""
    try:
        if type(text) is str and not text[:1].isspace():
            value, end = DECODER.raw_decode(text)
            if end == len(text):  # without the search for white space around it, which jobtop never writes
                return value
        return json.loads(text)  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError):
        raise RowDamaged(f"{name} is {quote_value(text)}, not JSON") from None


def parse_texts(text: object, name: str) -> tuple[str, ...]:
    """The texts of a JSON list."""
    if text == "[]":
        return ()
    value = parse_json(text, name)
    if type(value) is not list or not {str}.issuperset(map(type, value)):
        raise RowDamaged(f"{name} is {quote_value(text)}, not a list of texts")
    return tuple(value)


def parse_mapping(text: object, name: str) -> dict[str, Any]:
    """The values of a JSON object by key."""
    value = {} if text == "{}" else parse_json(text, name)
    if type(value) is not dict:
        raise RowDamaged(f"{name} is {quote_value(text)}, not an object")
    return value


def parse_text_mapping(text: object, name: str) -> dict[str, str]:
    """The texts of a JSON object by key."""
    value = parse_mapping(text, name)
    if not {str}.issuperset(map(type, value.values())):
        raise RowDamaged(f"{name} is {quote_value(text)}, not texts by name")
    return value


def parse_queue(text: object) -> Queued | None:
    """The queue entry of a job; None for a job that was never queued."""
    if text is None:
        return None
    shape = parse_mapping(text, "queue")
    try:
        if all(check(shape[name]) for name, check in QUEUE_CHECKS.items() if name in shape):
            return queued_from(shape)
    except (ValueError, OverflowError):  # `not_before` is not a time
        pass
    raise RowDamaged(f"queue is {quote_value(text)}")


def parse_status_and_queue(status: object, queue: object) -> tuple[Status | None, Queued | None]:
    """The status and the queue entry of a job; (None, None), as for a deleted job, if they cannot be read."""
    try:
        return parse_status(status), parse_queue(queue)
    except RowDamaged:
        return None, None


def _is_integer(value: object) -> bool:
    return type(value) is int and is_number(value)


def _is_text_or_absent(value: object) -> bool:
    return type(value) in (str, NONE)


def _is_text_list(value: Any) -> bool:
    return type(value) is list and {str}.issuperset(map(type, value))


QUEUE_CHECKS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("priority", "retries", "attempt"), _is_integer),
    **dict.fromkeys(("group", "retry_of", "retried_by", "not_before"), _is_text_or_absent),
    **dict.fromkeys(("after", "after_end", "gpus"), _is_text_list),
    "slots": lambda value: value is None or _is_integer(value),
    "is_forced": lambda value: type(value) is bool,
}


def event_from_row(row: sqlite3.Row) -> tuple[float, str, dict[str, Any]]:
    """The time, the kind and the detail of an event."""
    at, kind = row["at"], row["kind"]
    if not is_number(at) or not EARLIEST <= at <= LATEST or type(kind) is not str:
        raise RowDamaged(f"an event is {quote_value(kind)} at {quote_value(at)}")
    return at, kind, parse_mapping(row["detail"], "the detail of an event")


def check_moments(row: sqlite3.Row, names: Iterable[str], required: Iterable[str] = ()) -> None:
    """Raise RowDamaged unless columns of a row are moments that a calendar has, or absent where they may be."""
    for name in names:
        value = row[name]
        if value is None and name not in required:
            continue
        if not is_number(value) or not EARLIEST <= value <= LATEST:
            raise RowDamaged(f"{name} is {quote_value(value)}, not a time")


def check_texts(row: sqlite3.Row, required: Iterable[str], optional: Iterable[str] = ()) -> None:
    """Raise RowDamaged unless columns of a row are texts that are not too long; `optional` ones may be absent."""
    for names, may_be_absent in ((required, False), (optional, True)):
        for name in names:
            value = row[name]
            if value is None and may_be_absent:
                continue
            if type(value) is not str or len(value) > MOST_TEXT_CHARACTERS:
                raise RowDamaged(f"{name} is {quote_value(value)}")


def mark_from_row(row: Sequence[Any]) -> tuple[float, int, int | None]:
    """A log mark: seconds since the start, and the bytes of stdout and stderr written by then."""
    elapsed, out, err = row
    if not is_number(elapsed) or type(out) is not int or type(err) not in (int, NONE):
        raise RowDamaged(f"a log mark is {quote_value(tuple(row))}")
    return elapsed, out, err


def tags_or_empty(text: object) -> dict[str, str]:
    """The tags of a job; empty if they cannot be read."""
    try:
        return parse_text_mapping(text, "tags")
    except RowDamaged:
        return {}


def _metrics(text: object) -> dict[str, dict[str, Number | None]]:
    value = parse_mapping(text, "metrics")
    summaries = value.values()
    if {dict}.issuperset(map(type, summaries)) and are_numbers(chain.from_iterable(map(dict.values, summaries))):
        return value
    raise RowDamaged(f"metrics is {quote_value(text)}")


def _monitor(text: object) -> Monitor:
    value = parse_mapping(text, "monitor")
    *numbers, thinned = map(value.get, MONITOR_FIELDS)
    if not are_numbers(numbers) or type(thinned) not in (bool, NONE):
        raise RowDamaged(f"monitor is {quote_value(text)}")
    return Monitor(*(*numbers, thinned))


def parse_kept(word: object) -> Kept:
    """The member of Kept with this value."""
    kept: Kept = parse_member(Kept, word, "kept")
    return kept


def parse_status(word: object) -> Status:
    """The member of Status with this value."""
    status: Status = parse_member(Status, word, "status")
    return status


def parse_member(kind: type[Any], value: object, name: str) -> Any:
    """The member of an enum with this value."""
    try:
        return kind(value)
    except ValueError:
        raise RowDamaged(f"{name} is {quote_value(value)}") from None


def _identity(row: Mapping[str, Any], prefix: str) -> Identity | None:
    pid, boot = row[f"{prefix}_pid"], row[f"{prefix}_boot"]
    if pid is None or boot is None:
        return None
    if not boot.isascii():  # text that is no UTF-8 cannot be looked up
        raise RowDamaged(f"{prefix}_boot is {quote_value(boot)}, not a boot id")
    return Identity(boot, pid, row[f"{prefix}_start"])


def _stop_request(row: Mapping[str, Any]) -> StopRequest | None:
    by, at = row["stop_by"], row["stop_at"]
    return StopRequest(by, at) if by and at is not None else None
