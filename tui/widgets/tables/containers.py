"""The columns of containers: what each shows, and which are dropped first if there is little room."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2
from typing import TYPE_CHECKING

from jobtop.core.record import record
from jobtop.tui.data.containers.rows import ShownContainer, io_rate, limit_percent, network_rate
from jobtop.tui.palette import CONTAINER_GLYPHS, FLAG_GLYPHS, STATUS_GLYPHS, Tone, load_tone
from jobtop.tui.widgets.cells import Align, Bar, Cell, Span, Words, fitted, short_bytes, short_duration, short_rate
from jobtop.tui.widgets.columns import Column
from jobtop.tui.widgets.job_columns import ABSENT, NOTHING, SHOWN_PERCENT, MinuteSparkline

if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.model import Container

SHORT_ID = 8


def container_columns(has_engines: bool, has_gpus: bool) -> tuple[Column[ShownContainer], ...]:
    """The columns; dropped in the order image, pids, I/O, restarts, network, GPU, time, job, project, engine, …"""
    engine = Column[ShownContainer]("engine", "ENGINE", engine_name, 6, flex=1, most=16, priority=4)
    gpu = Column[ShownContainer]("gpu", "GPU%", gpu_load, 5, align=Align.RIGHT, priority=8)
    return (
        Column("status", "", glyph, 1, sortable=False),
        Column("project", "PROJECT", project, 10, flex=1, most=18, priority=5),
        Column("name", "NAME", name, 17, flex=3, most=40),
        *((engine,) if has_engines else ()),
        Column("state", "STATE", state, 10, priority=3),
        Column("time", "TIME", up_time, 6, align=Align.RIGHT, priority=7),
        Column("cpu", "CPU%", cpu, 5, align=Align.RIGHT),
        Column("line", "CPU 60s", cpu_line, 10, flex=1, most=20, priority=2, sortable=False),
        Column("mem", "MEM", memory, 5, align=Align.RIGHT),
        Column("limit", "OF LIMIT", of_limit, 13, priority=1),
        Column("net", "NET", network, 7, align=Align.RIGHT, priority=9),
        Column("io", "I/O", storage, 7, align=Align.RIGHT, priority=11),
        *((gpu,) if has_gpus else ()),
        Column("pids", "PIDS", pids, 5, align=Align.RIGHT, priority=12),
        Column("restarts", "RESTARTS", restarts, 8, align=Align.RIGHT, priority=10),
        Column("job", "JOB", job, 8, priority=6),
        Column("image", "IMAGE", image, 12, flex=2, most=40, priority=13),
    )


@record
class ImageName:
    """The name of an image; without its registry if there is little room."""

    name: str

    def spans(self, width: int, align: Align) -> Sequence[Span]:
        shown = self.name if len(self.name) <= width else self.name.rpartition("/")[2]
        return (Span(fitted(shown, width, align), Tone.GREY),)


def glyph_of(container: Container) -> tuple[str, Tone]:
    """The sign of a container: by its health while it runs, by its exit code after that."""
    if container.is_alive:
        is_checked = container.state == "running" and container.health is not None
        return CONTAINER_GLYPHS.get(
            (container.health or "") if is_checked else container.state, CONTAINER_GLYPHS["running"]
        )
    if container.is_oom_killed:
        return FLAG_GLYPHS["oom_killed"]
    if container.exit_code is None:
        return CONTAINER_GLYPHS.get(container.state, STATUS_GLYPHS["unknown"])
    return STATUS_GLYPHS["success" if container.exit_code == 0 else "failed"]


def state_words(container: Container) -> str:
    """`healthy`, `running`, `restarting`, `exited 137`: at most ten cells for the usual ones."""
    if container.state == "running" and container.health is not None:
        return container.health
    is_over = not container.is_alive and container.exit_code is not None
    return f"{container.state} {container.exit_code}" if is_over else container.state


def glyph(shown: ShownContainer) -> Cell:
    return Words(*glyph_of(shown.row.container))


def project(shown: ShownContainer) -> Cell:
    """The compose project: bright in the first row of a group, faint in the others."""
    found = shown.row.container.project
    return Words(found or "–", (Tone.TEXT if found else Tone.GREY) if shown.leads else Tone.FAINT)


def name(shown: ShownContainer) -> Cell:
    return Words(shown.row.container.name, Tone.TEXT if shown.row.container.is_alive else Tone.GREY)


def engine_name(shown: ShownContainer) -> Cell:
    return Words(shown.row.container.engine, Tone.GREY)


def state(shown: ShownContainer) -> Cell:
    return Words(state_words(shown.row.container), glyph_of(shown.row.container)[1])


def up_time(shown: ShownContainer) -> Cell:
    return ABSENT if shown.up_seconds is None else Words(short_duration(shown.up_seconds))


def cpu(shown: ShownContainer) -> Cell:
    percent = shown.row.cpu_percent
    if percent is None:
        return ABSENT
    if percent < SHOWN_PERCENT:
        return NOTHING
    return Words(f"{percent:.0f}", load_tone(percent / (shown.row.container.limits.cpus or 1.0)), True)


def cpu_line(shown: ShownContainer) -> Cell:
    """The sparkline of CPU; its scale ends at the limit, else at the next power of two above the peak."""
    times, values = shown.minute
    if not times or not shown.row.container.is_alive:
        return Words("")
    peak = max((value for value in values if value is not None), default=0.0)
    top = 100 * (shown.row.container.limits.cpus or 2 ** ceil(log2(max(1.0, peak / 100))))
    return MinuteSparkline(times, values, top, Tone.BLUE if peak >= SHOWN_PERCENT else Tone.GREY)


def memory(shown: ShownContainer) -> Cell:
    used = shown.row.memory_bytes
    return ABSENT if used is None else Words(short_bytes(used))


def of_limit(shown: ShownContainer) -> Cell:
    percent = limit_percent(shown.row)
    return ABSENT if percent is None else Bar(percent)


def network(shown: ShownContainer) -> Cell:
    return rate(network_rate(shown.row))


def storage(shown: ShownContainer) -> Cell:
    return rate(io_rate(shown.row))


def rate(value: float | None) -> Cell:
    return ABSENT if value is None else Words(short_rate(value)) if value >= 1 else NOTHING


def gpu_load(shown: ShownContainer) -> Cell:
    percent = shown.row.values.get("gpu.util")
    return ABSENT if percent is None else Words(f"{percent:.0f}")


def pids(shown: ShownContainer) -> Cell:
    """The processes and threads; in the colour of their share of the limit."""
    count, most = shown.row.values.get("proc.threads"), shown.row.container.limits.pids
    if count is None:
        return ABSENT
    share = 100 * count / most if most else 0.0
    tone = load_tone(share)
    return Words(f"{count:.0f}", Tone.TEXT if tone is Tone.BLUE else tone)


def restarts(shown: ShownContainer) -> Cell:
    count = shown.row.container.restarts
    return ABSENT if count is None else Words(str(count), Tone.YELLOW) if count else NOTHING


def job(shown: ShownContainer) -> Cell:
    return Words(shown.job_id[:SHORT_ID], Tone.BLUE) if shown.job_id else ABSENT


def image(shown: ShownContainer) -> Cell:
    return ImageName(shown.row.container.image or shown.row.container.image_id or "–")
