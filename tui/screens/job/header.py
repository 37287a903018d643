"""The lines above the panes of a job: its identity, usage and command, each cut to the width by priority."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from textual.reactive import reactive
from textual.strip import Strip

from jobtop.core.analysis.cost import Prices, cost_of_use, used_by
from jobtop.core.model import Job
from jobtop.core.record import record, replace
from jobtop.core.run.containers.facts import container_facts
from jobtop.core.run.outcome import signal_name
from jobtop.core.text.container_text import overhead_line
from jobtop.core.text.cost_text import cost_parts
from jobtop.core.text.job_text import samples_kept_text
from jobtop.core.text.limit_text import limit_bar, limit_evidence, limit_help, limit_of
from jobtop.core.text.limits_used import LimitFacts, open_files_text
from jobtop.core.text.memory_text import is_peak_upper_bound
from jobtop.core.units import ABSENT, format_duration, format_percent
from jobtop.tui.data.job_reading import JobNumbers, JobView
from jobtop.tui.palette import FLAG_GLYPHS, STATUS_GLYPHS, Tone, load_tone
from jobtop.tui.screens.job.charts import allowed_cores
from jobtop.tui.widgets.cells import (
    Span,
    aligned,
    bounded,
    safe_text,
    short_bytes,
    short_duration,
    short_rate,
    width_of,
)
from jobtop.tui.widgets.painting import Inks, Painted

GAP = Span("   ")
LONGEST = 500  # characters of any recorded text; no line has room for more
FLAG_WORDS = {
    "oom_killed": "killed for memory",
    "over_limit": "over its memory limit",
    "throttled": "throttled",
    "left_running": "left descendants running",
    "impossible_cpu": "CPU total uncertain",
}


@record
class HeaderView:
    """What the header shows; `problem` says why nothing new is read, `moment` is the selected moment of the past."""

    job_view: JobView | None = None
    elapsed: float | None = None
    moment: float | None = None
    problem: str | None = None
    is_stale: bool = False
    prices: Prices = Prices()


class Piece(NamedTuple):
    """A part of a line; the part with the highest number is dropped first, one with 0 never."""

    rank: int
    spans: Sequence[Span]


class JobHeader(Painted):
    """Up to three lines, as many as fit."""

    DEFAULT_CSS = "JobHeader { height: 3; padding: 0 1; background: $background; }"
    view: reactive[HeaderView] = reactive(HeaderView, repaint=False, always_update=True)

    def watch_view(self) -> None:
        self.repaint()

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        return [inks.strip(aligned(fitting(line, width), width), width) for line in header_lines(self.view)]


def header_lines(view: HeaderView) -> list[list[Piece]]:
    """The lines, the most important first."""
    if view.job_view is None:
        return [[Piece(0, [Span(view.problem or "reading …", Tone.GREY)])]]
    job = view.job_view.job
    return [identity(view, job), usage(view, view.job_view), command(job)]


def fitting(line: Sequence[Piece], width: int) -> list[Span]:
    """The pieces that fit into the width, in their order."""
    kept = [piece for piece in line if piece.spans]
    while len(kept) > 1 and _width(kept) > width and any(piece.rank for piece in kept):
        kept.remove(max(kept, key=lambda piece: piece.rank))
    joined: list[Span] = []
    for piece in kept:
        joined += [GAP, *piece.spans] if joined else piece.spans
    return joined


def identity(view: HeaderView, job: Job) -> list[Piece]:
    glyph, tone = STATUS_GLYPHS[str(job.status)]
    is_stale = view.is_stale and not job.status.ended
    glyph, state = ("?", f"{job.status}, no recent samples") if is_stale else (glyph, str(job.status))
    flags = "  ".join(
        f"{FLAG_GLYPHS.get(flag, ('!', Tone.YELLOW))[0]} {FLAG_WORDS[flag]}" for flag in job.flags if flag in FLAG_WORDS
    )
    return [
        Piece(0, [Span(f"{glyph} {state}", tone, True)]),
        Piece(0, [Span(shortened(job.name), Tone.TEXT, True)]),
        Piece(1, [Span(job.id[:8], Tone.GREY)]),
        Piece(2, [Span(view.problem, Tone.YELLOW)] if view.problem else []),
        Piece(3, [Span(flags, Tone.YELLOW)] if flags else []),
        Piece(4, [Span("pinned", Tone.BLUE)] if job.pinned else []),
        Piece(6, labelled("pid", str(job.pid)) if job.pid is not None else []),
        Piece(5, grey("@".join(filter(None, (job.user, job.host))))),
        Piece(7, grey(job.cwd)),
    ]


def usage(view: HeaderView, job_view: JobView) -> list[Piece]:
    """What the job uses now, or used in total, or at the selected moment."""
    job, numbers = job_view.job, job_view.numbers
    if job.start_time is None and not job.status.ended:
        return [Piece(0, labelled("queued for", short_duration(view.elapsed))), Piece(1, limits(job, True))]
    is_over = job.status.ended and view.moment is None
    time = Span(format_duration(view.elapsed) if is_over else short_duration(view.elapsed), bold=True)
    if view.moment is not None:
        time = Span(f"◂ {format_duration(view.moment)} ▸", Tone.ORANGE, True)
    cores = allowed_cores(job)
    share = numbers.cpu_percent / cores if numbers.cpu_percent is not None and cores else None
    cpu = labelled("CPU", percent(numbers.cpu_percent), Tone.TEXT if is_over else load_tone(share))
    cpu += [Span(" mean" if is_over else "", Tone.GREY)]
    return [
        Piece(0, [time]),
        Piece(1, exit_spans(job) if is_over else cpu),
        Piece(4 if is_over else 3, cpu if is_over else []),
        Piece(3, labelled("CPU time", format_duration(numbers.cpu_seconds))),
        Piece(2, memory(job_view, is_over)),
        Piece(3, limited(job) if is_over else []),
        Piece(5, traffic(job_view, is_over)),
        Piece(6, limits(job)),
        Piece(7, processes(numbers)),
        Piece(9, open_files(numbers.limits)),
        Piece(8, cost(view, job_view)),
        Piece(4, labelled("samples", kept.partition(",")[0]) if (kept := samples_kept_text(job)) is not None else []),
    ]


def memory(job_view: JobView, is_over: bool) -> list[Span]:
    numbers, declared = job_view.numbers, job_view.job.limits.memory_bytes
    limit = numbers.limits.memory_bytes or declared
    peak = numbers.memory_peak
    share = 100 * peak / limit if peak is not None and limit else None
    of_limit = [Span(f" of {short_bytes(limit)}", Tone.GREY)] if limit else []
    words = bounded(short_bytes(peak), peak is not None and is_peak_upper_bound(job_view.job))
    peaked = [Span(words, Tone.TEXT if share is None else load_tone(share)), Span(" peak", Tone.GREY)]
    if is_over:
        return [*labelled("memory"), *peaked, *of_limit]
    now = labelled("memory", short_bytes(numbers.memory_bytes))
    return [*now, Span(" · ", Tone.GREY), *peaked, *of_limit]


def processes(numbers: JobNumbers) -> list[Span]:
    """The processes, and the threads of the limit of both, if there is one."""
    if numbers.processes is None:
        return []
    limit = numbers.limits.pids
    of_limit = f" · {number(numbers.threads)} threads of {number(limit)}" if limit and numbers.threads else ""
    return labelled("processes", f"{number(numbers.processes)}{of_limit}")


def open_files(facts: LimitFacts) -> list[Span]:
    if facts.files_open is None or facts.files is None:
        return []
    return labelled("files", open_files_text(facts.files_open, facts.files, facts.processes))


def traffic(job_view: JobView, is_over: bool) -> list[Span]:
    numbers = job_view.numbers
    if is_over:
        read, written = short_bytes(numbers.read_bytes), short_bytes(numbers.write_bytes)
    else:
        read, written = short_rate(numbers.read_rate), short_rate(numbers.write_rate)
    return [*labelled("I/O"), Span("↓", Tone.GREY), Span(f"{read} "), Span("↑", Tone.GREY), Span(written)]


def cost(view: HeaderView, job_view: JobView) -> list[Span]:
    """What is known of the money, the energy and the CO₂ of the job, so far or in total."""
    job, numbers = job_view.job, job_view.numbers
    used = replace(
        used_by(job),
        duration_seconds=view.elapsed if view.moment is None else view.moment,
        cpu_seconds=numbers.cpu_seconds,
        energy_cpu_joules=numbers.cpu_joules,
        energy_gpu_joules=numbers.gpu_joules,
    )
    found = cost_of_use(used, view.prices)
    words = " · ".join(part.partition(" (")[0] for part in cost_parts(found))
    return labelled("cost" if found.money is not None else "energy", words) if words else []


def limits(job: Job, with_memory: bool = False) -> list[Span]:
    """The declared limits; the memory limit is left out if it stands beside the used memory."""
    declared = job.limits
    facts = [
        counted(declared.cpus, "CPU"),
        f"{short_bytes(declared.memory_bytes)} memory" if with_memory and declared.memory_bytes is not None else "",
        counted(declared.gpus, "GPU"),
        f"runtime {format_duration(declared.runtime_seconds)}" if declared.runtime_seconds is not None else "",
        f"timeout {format_duration(declared.timeout_seconds)}" if declared.timeout_seconds is not None else "",
        "enforced" if declared.enforced else "",
    ]
    text = " · ".join(filter(None, facts))
    return labelled("asked", text) if text else []


def limited(job: Job) -> list[Span]:
    """What limited the job, and a letter for each tenth of its run."""
    limit = limit_of(job)
    if limit is None:
        return []
    return [*labelled("limited by", str(limit)), Span(f" {limit_bar(job)}", Tone.GREY)]


def exit_spans(job: Job) -> list[Span]:
    tone = STATUS_GLYPHS[str(job.status)][1]
    if job.signal is not None:
        return labelled("killed by", signal_name(job.signal), tone)
    return (
        labelled("exit", str(job.exit_code), tone if job.exit_code else Tone.TEXT) if job.exit_code is not None else []
    )


def command(job: Job) -> list[Piece]:
    """The command, the container that it ran in, and what limited it."""
    words = [Span("$ ", Tone.GREY), Span(shortened(shlex.join(job.command)))]
    evidence = limit_evidence(job) if limit_of(job) is not None else None
    facts, cost = container_facts(job), overhead_line(job)
    return [
        Piece(0, words if job.command else grey("command not known")),
        Piece(3, labelled("image", shortened(facts.image)) if facts is not None and facts.image else []),
        Piece(5, grey(cost) if cost else []),
        Piece(1, grey(f"{limit_of(job)}: {evidence}") if evidence else []),
        Piece(2, grey(f"usually helps: {limit_help(job)}") if evidence else []),
    ]


def shortened(text: str) -> str:
    """Recorded text, with control characters escaped, and shortened."""
    return safe_text(text[:LONGEST])


def grey(text: str) -> list[Span]:
    return [Span(shortened(text), Tone.GREY)] if text else []


def labelled(label: str, value: str = "", tone: Tone = Tone.TEXT) -> list[Span]:
    """A grey label and its value."""
    return [Span(f"{label} ", Tone.GREY), Span(value, tone)] if value else [Span(f"{label} ", Tone.GREY)]


def counted(number: float | None, noun: str) -> str:
    return "" if number is None else f"{number:g} {noun}{'' if number == 1 else 's'}"


def percent(value: float | None) -> str:
    return format_percent(None if value is None else value / 100)


def number(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.0f}"


def _width(pieces: Sequence[Piece]) -> int:
    return sum(width_of(piece.spans) for piece in pieces) + len(GAP.text) * (len(pieces) - 1)
