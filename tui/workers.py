"""Starts the console's background work."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVarTuple

if TYPE_CHECKING:
    from textual.dom import DOMNode
    from textual.worker import Worker

Arguments = TypeVarTuple("Arguments")


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
