"""How `run` watches its job: nothing while it may be over at once, then an engine of its own."""

from __future__ import annotations

import gc
import sys

from jobtop.core.errors import StartError
from jobtop.core.run import outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.cli.app import App
    from jobtop.core.measure.derive import Frame
    from jobtop.core.measure.engine import Engine
    from jobtop.core.model import Job
    from jobtop.core.run.facts import Started
    from jobtop.lifecycle.recorder import Recorder

FLUSH_SECONDS = 1.0
CLOSE_SECONDS = 5.0


class Monitoring:
    """The samples of one foreground job, from when it has lived for a moment to its end."""

    def __init__(self, app: App, recorder: Recorder, job_id: str, report_seconds: float | None) -> None:
        self.app, self.recorder, self.job_id, self.report_seconds = app, recorder, job_id, report_seconds
        self.enabled = app.config.boolean("monitor.enabled")
        self.interval = app.config.interval("monitor.interval")
        self.begun: Started | None = None
        self.engine: Engine | None = None

    def begin(self) -> None:
        """The job has lived for a moment: it is worth looking at."""
        if self.begun is None or not self.enabled:
            return
        from jobtop.core.measure.collectors.processes import raise_descriptor_limit
        from jobtop.core.measure.engine import Engine, chosen
        from jobtop.core.measure.target import target_of
        from jobtop.store.samples.sink import StoreSink

        raise_descriptor_limit()
        config = self.app.config
        sink = StoreSink(
            self.app.paths, config.switch("store.network"), config=config, known=lambda _: self.recorder.job
        )
        engine = Engine(sink, chosen(config, self.interval))
        report = print_report if self.report_seconds else None
        engine.watch(self.job_id, target_of(self.begun), report, self.report_seconds or 0.0)
        try:
            engine.start()
        except StartError as error:
            self.enabled = False
            self.app.warn(f"the job runs, and is not sampled: {error}")
            return
        self.engine = engine
        gc.freeze()  # what is imported by now stays: not to be gone through in the middle of a tick

    def end(self) -> Callable[[Job], Job] | None:
        """What the record gets from having watched; what was sampled is in the store."""
        if not self.enabled or self.begun is None:
            return None
        if self.engine is None:
            return outcome.over_at_once
        seen = self.engine.conclude(self.job_id, FLUSH_SECONDS)
        return seen.of if seen is not None else None

    def close(self) -> None:
        if self.engine is not None:
            self.engine.finish(self.job_id)
            self.engine.close(CLOSE_SECONDS)


def counted(number: float | None, one: str, many: str) -> str:
    return f"– {many}" if number is None else f"{number:.0f} {one if number == 1 else many}"


def print_report(frame: Frame) -> None:
    """A line for the log of a batch job."""
    from jobtop.core.units import format_bytes, format_duration

    values = frame.values
    cpu, memory = values["cpu.percent"], values["mem.used"]
    parts = [
        f"CPU {'–' if cpu is None else f'{cpu:.1f}%'}",
        f"memory {format_bytes(memory)}",
        f"read {format_bytes(values['io.read_bytes'])}/s, write {format_bytes(values['io.write_bytes'])}/s",
        counted(values["proc.count"], "process", "processes")
        + f", {counted(values['proc.threads'], 'thread', 'threads')}",
    ]
    try:
        print(f"[Resources] {format_duration(frame.elapsed)}: {'; '.join(parts)}", file=sys.stderr, flush=True)
    except OSError:  # standard error is gone: nobody is listening
        return
