"""The interface of sources of numbers: what a source is, and what one call of it returns.

A new source is a file in collectors/, a line in sources.py and rows in the catalogue.
"""

from __future__ import annotations

from jobtop.core.record import fresh, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    from jobtop.core.measure.collectors.host.reading import HostSample
    from jobtop.core.measure.collectors.process_fields import JobRow
    from jobtop.core.measure.device import Device
    from jobtop.core.measure.target import Target

    Number = int | float
    Jobs = Mapping[str, Target]  # by the keys of the jobs
    DeviceReading = tuple[Device, Mapping[str, Number | None]]
    Event = tuple[str | Device | None, str, dict[str, object]]  # a job key, a device or None (the host); kind; detail

    class Source(Protocol):
        """Reads numbers of jobs, of the host or of devices.

        `interval_seconds` is None for a fast source, which a tick calls. A slow source has its own thread, which calls
        it so often. A source may raise or hang: that costs its own numbers and nothing else.
        """

        @property
        def name(self) -> str: ...
        @property
        def interval_seconds(self) -> float | None: ...

        def available(self) -> str | None:
            """Why it cannot be used here, or None."""

        def collect(self, jobs: Jobs) -> Readings:
            """Read these jobs; a fast source is given those that are due, a slow one all."""

        def forget(self, key: str) -> None:
            """Free what is kept for a job, which is not sampled any more."""

        def close(self) -> None:
            """Free everything."""

    class Concluding(Source, Protocol):
        """A slow source that reads a job once more when it has ended; another thread than its own calls `conclude`."""

        def conclude(self, key: str, jobs: Jobs) -> Readings | None:
            """What is new of a job that has ended, as soon as possible; None if nothing is."""


@record
class Remarks:
    """What a source adds to the record of a job beside numbers, as far as it is known now.

    `sources`: where a total comes from. `incomplete`: which totals are not complete, and why. `findings`: lists that
    are no series, by key of `Job.findings`.
    """

    sources: dict[str, str] = fresh(default_factory=dict)
    incomplete: tuple[str, ...] = ()
    findings: dict[str, Any] = fresh(default_factory=dict)


@record
class Readings:
    """What one call of a source returned: counters as they stand and gauges, by catalogue key.

    `jobs`: a job that is not listed has not changed; one that has lost its values is listed without any.
    `rows`: the same as rows, from the source of processes: of 500 jobs that is faster. Other sources override these.
    `moments`: when a job was read, in seconds since boot, where the source knows better than the caller; `moment` is
    that of all other jobs.
    `named`: values that a job gave names to, by job and name.
    `remarks`: by job; they replace the earlier ones of this source.
    `events`: what has just happened to a job, a device or the host.
    `products`: what the makers of devices call them.
    """

    jobs: dict[str, dict[str, Number]] = fresh(default_factory=dict)
    moments: dict[str, float] = fresh(default_factory=dict)
    moment: float | None = None
    host: dict[str, Number | None] = fresh(default_factory=dict)
    devices: list[DeviceReading] = fresh(default_factory=list)
    named: dict[tuple[str, str], float] = fresh(default_factory=dict)
    remarks: dict[str, Remarks] = fresh(default_factory=dict)
    events: list[Event] = fresh(default_factory=list)
    products: dict[Device, str] = fresh(default_factory=dict)
    rows: dict[str, JobRow] = fresh(default_factory=dict)
    host_sample: HostSample | None = None  # of the host source: what `host` has, and every core, disk and interface
