"""What a shim left of a job, read: its facts, and how the job began."""

from collections.abc import Iterator, Mapping

from jobtop.core.model import Identity
from jobtop.core.record import record


@record
class Started:
    """That and as what a job began to run."""

    shim: Identity
    main: Identity
    start_time: float
    start_boottime: float
    cgroups: tuple[str, ...]
    memory_limit: int | None = None  # for whoever samples it to hold

    @property
    def is_attached(self) -> bool:
        """Whether it ran already when jobtop met it: it is above itself, for lack of a shim."""
        return self.shim == self.main


class Facts(Mapping[str, str]):
    """The `key value` lines of a shim's file; a key may be repeated."""

    def __init__(self, text: str) -> None:
        self._rows: dict[str, list[str]] = {}
        for line in text.split("\n"):
            key, _, value = line.partition(" ")
            if not key:
                continue
            self._rows.setdefault(key, []).append(_unescaped(value))

    def __getitem__(self, key: str) -> str:
        return self._rows[key][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def note(self, key: str, value: object) -> None:
        """Add what somebody else knows."""
        self._rows[key] = [str(value)]

    def every(self, key: str) -> list[str]:
        return self._rows.get(key, [])

    def integer(self, key: str) -> int:
        return int(self[key])

    def number(self, key: str) -> float:
        return float(self[key])

    def moment(self, key: str) -> tuple[float, float]:
        wall, boot = self[key].split()
        return float(wall), float(boot)

    def started(self) -> Started:
        """How the job began."""
        shim_pid, shim_start = self["shim"].split()
        main_pid, main_start = self["main"].split()
        return Started(
            Identity(self["boot"], int(shim_pid), _ticks(shim_start)),
            Identity(self["boot"], int(main_pid), _ticks(main_start)),
            *self.moment("start"),
            tuple(self.every("cgroup")),
            self.integer("memory_limit") if "memory_limit" in self else None,
        )


def _ticks(text: str) -> int | None:
    return None if text == "None" else int(text)


def _unescaped(value: str) -> str:
    if "\\" not in value:
        return value
    return value.replace("\\\\", "\0").replace("\\n", "\n").replace("\0", "\\")
