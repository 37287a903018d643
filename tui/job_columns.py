"""The columns of jobs, live and past: what each shows, and which goes first where there is little room."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log2
from typing import Any

from jobtop.core.units import printable
from jobtop.tui.cells import (
    Align,
    Bar,
    Cell,
    Sparkline,
    Words,
    short_bytes,
    short_duration,
    short_rate,
)
from jobtop.tui.columns import Column
from jobtop.tui.palette import FLAG_GLYPHS, STATUS_GLYPHS, Tone, load_tone
from jobtop.tui.view import JobRow

ABSENT = Words("–", Tone.GREY)
SHOWN_PERCENT = 0.5


def live_columns() -> tuple[Column[JobRow], ...]:
    """Of the dashboard: dropped in the order GPU, I/O, OF LIMIT, the STATE word, the sparkline."""
    return (
        Column("status", "", glyph, 1, sortable=False),
        Column("id", "ID", lambda row: Words(row.job.id[:8], Tone.GREY), 8),
        Column("name", "NAME", name, 14, flex=1, most=40),
        Column("state", "STATE", state, 9, priority=2),
        Column("time", "TIME", elapsed, 8, align=Align.RIGHT),
        Column("cpu", "CPU%", cpu, 5, align=Align.RIGHT),
        Column("line", "CPU 60s", cpu_line, 14, priority=1, sortable=False),
        Column("mem", "MEM", memory, 6, align=Align.RIGHT),
        Column("limit", "OF LIMIT", of_limit, 13, priority=3),
        Column("io", "I/O", traffic, 8, align=Align.RIGHT, priority=4),
        Column("gpu", "GPU%", gpu, 5, align=Align.RIGHT, priority=5),
        Column("alerts", "!", alerts, 2, sortable=False),
    )


def glyph(row: JobRow) -> Cell:
    for flag, (sign, tone) in FLAG_GLYPHS.items():
        if flag in row.job.flags:
            return Words(sign, tone)
    sign, tone = STATUS_GLYPHS[str(row.job.status)]
    return Words("?" if row.is_stale and not row.job.status.ended else sign, tone)


def name(row: JobRow) -> Cell:
    return Words(printable(row.job.name), Tone.GREY if row.job.status.ended else Tone.TEXT)


def state(row: JobRow) -> Cell:
    _, tone = STATUS_GLYPHS[str(row.job.status)]
    return Words("stale" if row.is_stale and not row.job.status.ended else str(row.job.status), tone)


def elapsed(row: JobRow) -> Cell:
    return ABSENT if row.elapsed is None else Words(short_duration(row.elapsed))


def cpu(row: JobRow) -> Cell:
    if row.now is None or row.now.cpu_percent is None or row.job.status.ended:
        return ABSENT
    if row.now.cpu_percent < SHOWN_PERCENT:
        return Words("0", Tone.GREY)
    allowed = row.job.limits.cpus or row.job.usage.cpus_allowed or 1.0
    return Words(f"{row.now.cpu_percent:.0f}", load_tone(row.now.cpu_percent / allowed), True)


def cpu_line(row: JobRow) -> Cell:
    """Up to the CPUs it declared, else to the next power of two above what it used."""
    line = row.cpu_line[-60:]
    if not line:
        return Words("")
    peak = max((value for value in line if value is not None), default=0.0)
    top = 100 * (row.job.limits.cpus or 2 ** ceil(log2(max(1.0, peak / 100))))
    return Sparkline(line, top, Tone.GREY if row.job.status.ended or peak < SHOWN_PERCENT else Tone.BLUE)


def memory_bytes(row: JobRow) -> float | None:
    if row.now is not None and row.now.memory_bytes is not None and not row.job.status.ended:
        return row.now.memory_bytes
    return row.job.usage.memory_peak_bytes


def memory(row: JobRow) -> Cell:
    held = memory_bytes(row)
    return ABSENT if held is None else Words(short_bytes(held), Tone.GREY if row.job.status.ended else Tone.TEXT)


def limit_percent(row: JobRow) -> float | None:
    limit, held = row.job.limits.memory_bytes, memory_bytes(row)
    return 100 * held / limit if limit and held is not None else None


def of_limit(row: JobRow) -> Cell:
    if not row.job.limits.memory_bytes:
        return Words("no limit", Tone.GREY)
    percent = limit_percent(row)
    return ABSENT if percent is None else Bar(percent)


def io_rate(row: JobRow) -> float | None:
    if row.now is None or row.now.read_rate is None or row.now.write_rate is None or row.job.status.ended:
        return None
    return row.now.read_rate + row.now.write_rate


def traffic(row: JobRow) -> Cell:
    rate = io_rate(row)
    return ABSENT if rate is None else Words(short_rate(rate), Tone.TEXT if rate else Tone.GREY)


def gpu(row: JobRow) -> Cell:
    percent = row.now.gpu_percent if row.now is not None else None
    return ABSENT if percent is None else Words(f"{percent:.0f}")


def alerts(_row: JobRow) -> Cell:
    """How many alerts a job has; nothing raises any yet."""
    return Words("")


# What a column is sorted by; None goes last.
SORTS: dict[str, Callable[[JobRow], Any]] = {
    "id": lambda row: row.job.id,
    "name": lambda row: row.job.name.casefold(),
    "state": lambda row: row.job.status,
    "time": lambda row: row.elapsed,
    "cpu": lambda row: row.now.cpu_percent if row.now is not None and not row.job.status.ended else None,
    "mem": memory_bytes,
    "limit": limit_percent,
    "io": io_rate,
    "gpu": lambda row: row.now.gpu_percent if row.now is not None else None,
}
