"""Makes samples of blocks from those of their process: counters since the block was opened, gauges as they are."""

from __future__ import annotations

from jobtop.core.metrics import BY_KEY, JOB_COLUMNS, Kind
from jobtop.core.model import Sample
from jobtop.core.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobtop.core.measure.sampler import Batch, Happened

    Seconds = tuple[float, float]  # user and system

LEAST_SECONDS = 0.05  # between two samples of a block, and from its start: the rate over less would be noise
USER, SYSTEM = JOB_COLUMNS.index("cpu.user"), JOB_COLUMNS.index("cpu.system")
COUNTER_PLACES = frozenset(place for place, key in enumerate(JOB_COLUMNS) if BY_KEY[key].kind is Kind.COUNTER)


class View:
    """An open block; `origin` has the counters of the process when it was opened, as far as they are known."""

    def __init__(self, key: str, parent: str | None, start_boottime: float, origin: Mapping[str, float]) -> None:
        self.key, self.parent, self.start = key, parent, start_boottime
        self.origin: list[float | None] = [origin.get(name) for name in JOB_COLUMNS]
        self.cpu = (0.0, 0.0)
        self._used: Seconds | None = None  # by threads and children, until the last sample; None: not asked yet
        self.last: Sample | None = None
        self.before: Sample | None = None  # the sample before the last one

    def take(self, sample: Sample) -> None:
        self.before, self.last = self.last, sample

    def add_cpu(self, user: float, system: float) -> None:
        self.cpu = self.cpu[0] + user, self.cpu[1] + system

    def take_used(self, user: float, system: float) -> None:
        """Add what it used since the last call, by counters of its own threads and children."""
        if self._used is not None:
            self.add_cpu(max(0.0, user - self._used[0]), max(0.0, system - self._used[1]))
        self._used = user, system

    def begin_used(self) -> None:
        """Note that its own counters have just begun."""
        self._used = 0.0, 0.0

    def forget_used(self) -> None:
        """Note that it is the only open block: all that the process uses is its own."""
        self._used = None


class Views:
    """The open blocks of one process, which is sampled under the key `process`.

    `used` gives the user and system seconds that the threads and children of each block have used so far; it is asked
    while several blocks are open.
    """

    def __init__(self, process: str, process_start: float, used: Callable[[], Mapping[str, Seconds]]) -> None:
        self.process, self.process_start, self._used = process, process_start, used
        self.open: dict[str, View] = {}
        self._last_row: tuple[float | int | None, ...] | None = None
        self._was_crowded = False  # several blocks were open since the last sample
        self._last_cpu: Seconds | None = None  # of the process, in the last sample or when the first block was opened

    def add(self, view: View) -> None:
        """Make samples of a block from now on."""
        if self._last_row is not None:
            view.origin = [
                known if known is not None else before
                for known, before in zip(view.origin, self._last_row, strict=True)
            ]
        user, system = view.origin[USER], view.origin[SYSTEM]
        if not self.open and user is not None and system is not None:
            self._last_cpu = user, system
        self.open[view.key] = view
        if len(self.open) > 1:
            view.begin_used()
            if not self._was_crowded:
                self._take_known(self._used())
            self._was_crowded = True

    def remove(self, key: str) -> None:
        view = self.open.pop(key, None)
        if view is not None:
            for other in self.open.values():
                if other.parent == key:
                    other.parent = view.parent

    def innermost(self) -> list[str]:
        """The open blocks without an open block inside."""
        around = {view.parent for view in self.open.values()}
        return [key for key in self.open if key not in around]

    def expanded(self, batch: Batch) -> Batch:
        """The batch with the samples, snapshots and events of each block in place of those of the process."""
        views = list(self.open.values())
        samples = [entry for entry in batch.samples if entry[0] != self.process]
        for key, sample in batch.samples:
            if key == self.process:
                samples += self._samples(sample, views)
        snapshots = [
            (view.key, self.process_start + elapsed - view.start, rows)
            for key, elapsed, rows in batch.snapshots
            for view in views
            if key == self.process and self.process_start + elapsed >= view.start
        ]
        events: list[Happened] = [
            (view.key, at, kind, detail)
            for key, at, kind, detail in batch.events
            if key == self.process
            for view in views
        ]
        events += [event for event in batch.events if event[0] != self.process]
        named = [entry for entry in batch.named if entry[0] != self.process]
        return replace(batch, samples=samples, snapshots=snapshots, events=events, named=named)

    def _samples(self, sample: Sample, views: list[View]) -> list[tuple[str, Sample]]:
        row, moment = sample.values, self.process_start + sample.elapsed
        self._divide_cpu(row)
        self._last_row = row
        made = []
        for view in views:
            elapsed = moment - view.start
            since = view.last.elapsed if view.last is not None else 0.0
            if elapsed - since < LEAST_SECONDS:
                continue
            view.origin = [value if origin is None else origin for origin, value in zip(view.origin, row, strict=True)]
            values: list[float | int | None] = [
                value if place not in COUNTER_PLACES or value is None else max(0, value - (origin or 0))
                for place, (value, origin) in enumerate(zip(row, view.origin, strict=True))
            ]
            if values[USER] is not None:
                values[USER], values[SYSTEM] = view.cpu
            view.take(Sample(elapsed, tuple(values)))
            assert view.last is not None
            made.append((view.key, view.last))
        return made

    def _divide_cpu(self, row: tuple[float | int | None, ...]) -> None:
        """Give each block its part of the CPU time since the last sample."""
        user, system = row[USER], row[SYSTEM]
        if user is None or system is None:
            return
        before, self._last_cpu = self._last_cpu or (user, system), (user, system)
        if self.open and self._was_crowded:  # since the last sample: a part of that time may be of a closed block
            self._take_known(self._used())
        elif self.open:
            view = next(iter(self.open.values()))
            view.add_cpu(max(0.0, user - before[0]), max(0.0, system - before[1]))
            view.forget_used()
        self._was_crowded = len(self.open) > 1

    def _take_known(self, used: Mapping[str, Seconds]) -> None:
        for key, (user, system) in used.items():
            if key in self.open:
                self.open[key].take_used(user, system)
