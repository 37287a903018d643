"""How work of the console that takes time is started."""

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

    It is called when its worker starts: a coroutine made before that is never awaited if the console closes first.
    """
    call: Callable[[], Coroutine[Any, Any, None]] = partial(work, *arguments)
    _: Worker[None] = owner.run_worker(call, group=group, exclusive=exclusive)
