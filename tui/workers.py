"""Starts the console's background work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from textual.dom import DOMNode
    from textual.worker import Worker

Arguments = TypeVarTuple("Arguments")
Answer = TypeVar("Answer")


def start_work(
    owner: DOMNode,
    work: Callable[[*Arguments], Coroutine[Any, Any, None]],
    *arguments: *Arguments,
    group: str = "default",
    exclusive: bool = False,
) -> None:
    """Call an async function with these arguments, in a worker that ends with its owner.

    The function is called when the worker starts: a coroutine that was made earlier would never be awaited if the
    console closes first.
    """
    call: Callable[[], Coroutine[Any, Any, None]] = partial(work, *arguments)
    _: Worker[None] = owner.run_worker(call, group=group, exclusive=exclusive)


async def in_daemon(call: Callable[[*Arguments], Answer], *arguments: *Arguments) -> Answer:
    """Call a function that may wait for long in a thread that never delays the end of the console.

    Python waits at its end for the threads of `asyncio.to_thread`.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Answer] = loop.create_future()

    def give(result: Answer | None, error: BaseException | None) -> None:
        if answer.done():  # cancelled
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, failure = None, None
        try:
            result = call(*arguments)
        except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
            failure = error
        with suppress(RuntimeError):  # the console has ended
            loop.call_soon_threadsafe(give, result, failure)

    threading.Thread(target=run, name="jobtop-ask", daemon=True).start()
    return await answer


class RepeatedWork:
    """Work that runs in a worker, once at a time; a request that comes while it runs is done after it."""

    def __init__(self, owner: DOMNode, work: Callable[[], Coroutine[Any, Any, None]], group: str) -> None:
        self.is_running = False
        self._owner, self._work, self._group = owner, work, group
        self._is_requested = False

    def request(self) -> None:
        """Run the work, as soon as it does not run."""
        self._is_requested = True
        if not self.is_running:
            self.is_running = True
            start_work(self._owner, self._run, group=self._group)

    async def _run(self) -> None:
        try:
            while self._is_requested:
                self._is_requested = False
                await self._work()
        finally:
            self.is_running = False
