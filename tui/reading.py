"""Questions to the stores, answered in a thread of their own so that no key waits for a disk."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from jobtop.store.database import Database, open_to_read

Answer = TypeVar("Answer")


class Reader:
    """One thread, one connection for each store; a store that was replaced is opened anew."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="jobtop-reader")
        self._opened: dict[Path, tuple[tuple[int, int], Database]] = {}

    async def read(self, path: Path, question: Callable[[Database], Answer]) -> Answer:
        """What the question makes of the store; raises what it raises (StoreError, …)."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._answer, path, question)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _answer(self, path: Path, question: Callable[[Database], Answer]) -> Answer:
        found = os.stat(path)
        identity = found.st_dev, found.st_ino
        if path not in self._opened or self._opened[path][0] != identity:
            self._opened[path] = identity, open_to_read(path)
        return question(self._opened[path][1])
