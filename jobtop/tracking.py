"""`track`: a part of a Python program as a job, with what it and the processes it starts use."""

from __future__ import annotations

import functools
import inspect
import logging
import os
from contextlib import ContextDecorator
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from types import TracebackType
    from typing import Any, ParamSpec, TypeVar

    from jobtop.lifecycle.tracking.tracker import BlockResult, Tracked, Tracker

    P = ParamSpec("P")
    T = TypeVar("T")

__all__ = ["Block", "open_block", "track"]

logger = logging.getLogger("jobtop")
LONGEST_ERROR = 2000
_CURRENT: ContextVar[Block | None] = ContextVar("jobtop_block", default=None)


class Block:
    """A part of this process that is measured as a job.

    `id` is its job id; `record` has, after its end, what `jobtop show ID --json` prints; `profile` the summary of the
    machine and the process, if it was asked for.
    """

    def __init__(self, name: str, tracker: Tracker | None, tracked: Tracked | None) -> None:
        self.name = name
        self.record: dict[str, Any] | None = None
        self.profile: dict[str, Any] | None = None
        self._tracker, self._tracked = tracker, tracked
        self._process = os.getpid()
        self._outcome: tuple[str, int | None, str | None] | None = None

    @property
    def id(self) -> str | None:
        """The id of the job; None if it could not be tracked."""
        return None if self._tracked is None else str(self._tracked.job.id)

    def set_status(self, status: str, returncode: int | None = None, error: str | None = None) -> None:
        """Say how the block ends: success, failed, timeout, error or cancelled."""
        from jobtop.core.track.ends import STATUSES

        if status not in STATUSES:
            known = "success, failed, timeout, error or cancelled"
            raise ValueError(f'"{status}" is not the status of an ended job: use {known}')
        self._outcome = status, returncode, error

    def latest(self) -> dict[str, Any] | None:
        """The newest reading of the sampler; None if there is none yet."""
        if self._tracker is None or self._tracked is None or self.record is not None:
            return None
        return guarded(lambda: self._tracker.latest(self._tracked), None)  # type: ignore[union-attr, arg-type]

    def close(
        self, status: str | None = None, returncode: int | None = None, error: str | None = None
    ) -> dict[str, Any]:
        """End the block and return its record; a second call returns the same record."""
        if status is not None:
            self.set_status(status, returncode, error)
        return self._close(None)

    def _close(self, reason: str | None) -> dict[str, Any]:
        if self.record is not None:
            return self.record
        if self._tracker is None or self._tracked is None or self._process != os.getpid():
            return {}  # nothing is tracked, or this is a forked child: the block is its parent's
        result = guarded(functools.partial(self._end, reason), None)
        self.record = {} if result is None else result.job.to_json()
        self.profile = None if result is None else result.profile
        return self.record

    def _end(self, reason: str | None) -> BlockResult:
        from jobtop.core.track.ends import STATUSES

        assert self._tracker is not None
        assert self._tracked is not None
        status, returncode, error = self._outcome or ("success", None, None)
        if status == "success" and returncode is None:
            returncode = 0
        if reason is None and error is not None:
            reason = error.strip().splitlines()[-1][:LONGEST_ERROR] if error.strip() else None
        return self._tracker.close(self._tracked, STATUSES[status], returncode, error, reason)


def open_block(
    name: str,
    *,
    tool: str | None = None,
    script: str | None = None,
    params: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
    note: str | None = None,
    external_id: str | None = None,
    interval: float | str | timedelta | None = None,
    profile: bool = False,
    without: Collection[str] = (),
) -> Block:
    """Begin to measure this process, and the processes that it starts from now on, until `close` is called.

    A problem of jobtop never raises here: it is logged, and the block is then not recorded. `without` leaves sources
    out of the profile: `host`, `gpu`. ValueError for an interval that is none.
    """
    seconds = checked_interval(interval)

    def opened() -> Block:
        from jobtop.lifecycle.tracking.tracker import BlockRequest, tracker

        current = _CURRENT.get()
        request = BlockRequest(
            name=str(name),
            tool=tool,
            script=script,
            params=params,
            tags={str(key): str(value) for key, value in (tags or {}).items()},
            note=note,
            external_id=external_id,
            parent_id=current.id if current is not None and current.record is None else None,
            interval_seconds=seconds,
            with_profile=profile,
            without=tuple(without),
        )
        found = tracker(logger.warning)
        return Block(name, found, found.open(request))

    return guarded(opened, Block(name, None, None))


def checked_interval(value: float | str | timedelta | None) -> float | None:
    """The seconds between samples; None if that is left to jobtop."""
    from jobtop.core.config import interval as parse_interval
    from jobtop.core.errors import BadValue

    if value is None or isinstance(value, timedelta):
        value = None if value is None else value.total_seconds()
    try:
        return None if value is None else parse_interval(value)
    except BadValue as error:
        raise ValueError(f"interval: {error}") from None


def current_block() -> Block | None:
    """The innermost block of this thread or task that was opened by `track`."""
    return _CURRENT.get()


def guarded(call: Callable[[], T], otherwise: T) -> T:
    """The result of a call; a mistake in jobtop is logged and never reaches the program that is tracked."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - the border to the user's program
        logger.warning("jobtop: this block is not tracked: %s: %s", type(error).__name__, error)
        return otherwise


class Tracking(ContextDecorator):
    """`with track("name") as block:` and `@track("name")`."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self._name, self._options = name, options
        self._entered: list[tuple[Block, Block | None]] = []  # each open block, and the one around it

    def _recreate_cm(self) -> Tracking:
        """A new block for each call of a decorated function."""
        return Tracking(self._name, self._options)

    def __enter__(self) -> Block:
        block = open_block(self._name, **self._options)
        self._entered.append((block, _CURRENT.get()))
        _CURRENT.set(block)
        return block

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._entered:
            return
        # One object may be entered by several threads or tasks at once: the current block is the one to leave.
        current = _CURRENT.get()
        entry = next((entry for entry in self._entered if entry[0] is current), self._entered[-1])
        self._entered.remove(entry)
        block, around = entry
        _CURRENT.set(around)
        reason = None
        if error is not None and not isinstance(error, GeneratorExit):
            block._outcome, reason = outcome_of(error)
        block._close(reason)


def outcome_of(error: BaseException) -> tuple[tuple[str, int | None, str | None], str | None]:
    """The status, exit code and error text of a block that an exception left, and the reason in words."""
    if isinstance(error, SystemExit):
        code = error.code
        number = code if isinstance(code, int) else 0 if code is None else 1
        text = code if isinstance(code, str) else None
        status = "success" if number == 0 else "failed"
        return (status, number, text), None if number == 0 else f"sys.exit({number})"
    if isinstance(error, KeyboardInterrupt):
        return ("cancelled", None, None), "interrupted by Ctrl-C"
    text = f"{type(error).__name__}: {error}"[:LONGEST_ERROR]
    return ("error", None, text), f"raised {text.strip().splitlines()[0]}"


@overload
def track(name: Callable[P, T], /) -> Callable[P, T]: ...
@overload
def track(
    name: str | None = None,
    *,
    tool: str | None = None,
    script: str | None = None,
    params: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
    note: str | None = None,
    external_id: str | None = None,
    interval: float | str | timedelta | None = None,
    profile: bool = False,
) -> Tracking: ...
def track(name: str | Callable[..., Any] | None = None, **options: Any) -> Any:
    """Measure a part of a program as a job: `with track("etl") as block:`, `@track` or `@track("etl")`.

    It counts this process and the processes that it starts meanwhile. Memory is that of the whole process. Blocks may
    be inside of each other, and open at the same time in several threads: no CPU time counts twice.
    """
    if callable(name):
        return _decorated(name, _name_of(name), options)
    if name is None:
        return lambda function: _decorated(function, _name_of(function), options)
    return Tracking(name, options)


def _decorated(function: Callable[..., Any], name: str, options: dict[str, Any]) -> Callable[..., Any]:
    """The function, of which each call, or each run of a coroutine or generator, is a block."""
    if inspect.isclass(function):
        raise TypeError("jobtop.track decorates functions: use it for the methods of a class")
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def tracked_coroutine(*values: Any, **named: Any) -> Any:
            with Tracking(name, options):
                return await function(*values, **named)

        return tracked_coroutine
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def tracked_async_generator(*values: Any, **named: Any) -> Any:
            with Tracking(name, options):
                async for item in function(*values, **named):
                    yield item

        return tracked_async_generator
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def tracked_generator(*values: Any, **named: Any) -> Any:
            with Tracking(name, options):
                return (yield from function(*values, **named))

        return tracked_generator

    @functools.wraps(function)
    def tracked(*values: Any, **named: Any) -> Any:
        with Tracking(name, options):
            return function(*values, **named)

    return tracked


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)
