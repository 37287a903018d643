"""Notes to which block a new thread belongs: the one of the code that starts it."""

from __future__ import annotations

import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class ThreadBook(Protocol):
        def block_of_thread(self, thread: int) -> str | None: ...
        def thread_began(self, key: str, thread: int) -> None: ...
        def thread_ended(self, key: str, thread: int, seconds: float) -> None: ...


class ThreadHook:
    """While blocks are open, `Thread.start` tells a book which block the new thread belongs to."""

    def __init__(self, book: ThreadBook) -> None:
        self._book = book
        self._original: Callable[[threading.Thread], None] | None = None

    def install(self) -> None:
        """Watch for new threads from now on."""
        if self._original is not None:
            return
        original = self._original = threading.Thread.start
        book = self._book

        def start(thread: threading.Thread) -> None:
            key = book.block_of_thread(threading.get_native_id())
            if key is not None:
                _note_run(thread, key, book)
            original(thread)

        self._ours = start
        threading.Thread.start = start  # type: ignore[method-assign, assignment]

    def remove(self) -> None:
        """Put the original back, unless another program has replaced it meanwhile."""
        if self._original is not None and threading.Thread.start is self._ours:
            threading.Thread.start = self._original  # type: ignore[method-assign, assignment]
            self._original = None


def _note_run(thread: threading.Thread, key: str, book: ThreadBook) -> None:
    """Have a thread say when it begins and ends."""
    run = thread.run

    def noted_run() -> None:
        number = threading.get_native_id()
        book.thread_began(key, number)
        try:
            run()
        finally:
            book.thread_ended(key, number, time.thread_time())
            thread.__dict__.pop("run", None)  # it refers to the thread itself

    thread.run = noted_run  # type: ignore[method-assign]
