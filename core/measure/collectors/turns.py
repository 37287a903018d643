"""In which of the next calls of a source a job has its turn: jobs that wait cost nothing until then."""

from __future__ import annotations


class Turns:
    """The next turn of each key, by the number of calls from now; a later turn replaces an earlier one."""

    def __init__(self) -> None:
        self.calls = 0
        self._turn_of: dict[str, int] = {}
        self._keys: dict[int, list[str]] = {}  # by call; some may have another turn since

    def set(self, key: str, after_calls: int) -> None:
        """Give a key its turn in the call after so many, at least in the next one."""
        turn = self._turn_of[key] = self.calls + max(1, after_calls)
        self._keys.setdefault(turn, []).append(key)

    def next_call(self) -> list[str]:
        """Begin the next call; return the keys that have their turn in it."""
        self.calls += 1
        in_turn = [key for key in self._keys.pop(self.calls, ()) if self._turn_of.get(key) == self.calls]
        for key in in_turn:
            del self._turn_of[key]
        return in_turn

    def forget(self, key: str) -> None:
        """Let a key have no turn."""
        self._turn_of.pop(key, None)
