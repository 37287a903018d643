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
