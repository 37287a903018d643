"""The lines above the panes of a container: its identity, usage and command, each cut to the width by priority."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.reactive import reactive
from textual.strip import Strip

from jobtop.core.record import record
from jobtop.core.redact import redact_command
from jobtop.core.text.container_state import limits_text
from jobtop.core.units import number_of
from jobtop.tui.data.containers.rows import limit_percent
from jobtop.tui.palette import Tone, load_tone
from jobtop.tui.screens.job.header import Piece, counted, fitting, grey, labelled, percent, shortened
from jobtop.tui.widgets.cells import Span, aligned, fitted, short_bytes, short_duration, short_rate
from jobtop.tui.widgets.painting import Inks, Painted
from jobtop.tui.widgets.tables.containers import glyph_of

if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.model import Container
    from jobtop.core.measure.collectors.docker.snapshot import ContainerRow

SHORT_ID, SHORT_JOB = 12, 8


@record
class ContainerHeaderView:
    """What the header shows; `problem` says why nothing new is known."""

    row: ContainerRow | None = None
    job_id: str | None = None
    problem: str | None = None
    secret: tuple[str, ...] = ()


class ContainerHeader(Painted):
    """Up to three lines, as many as fit."""

    DEFAULT_CSS = "ContainerHeader { height: 3; padding: 0 1; background: $background; }"
    view: reactive[ContainerHeaderView] = reactive(ContainerHeaderView, repaint=False, always_update=True)

    def watch_view(self) -> None:
        self.repaint()

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        return [inks.strip(aligned(fitting(line, width), width), width) for line in header_lines(self.view, width)]


def header_lines(view: ContainerHeaderView, width: int) -> list[list[Piece]]:
    """The lines, the most important first; the image stays beside a long command if there is room for both."""
    if view.row is None:
        return [[Piece(0, [Span(view.problem or "reading …", Tone.GREY)])]]
    return [identity(view, view.row.container), usage(view.row), command(view.row.container, view.secret, width // 2)]


def identity(view: ContainerHeaderView, container: Container) -> list[Piece]:
    glyph, tone = glyph_of(container)
    health = f", {container.health}" if container.health and container.is_alive else ""
    service = "/".join(shortened(part) for part in (container.project, container.service) if part)
    restarts = number_of(container.restarts, "restart") if container.restarts else ""
    return [
        Piece(0, [Span(f"{glyph} {shortened(container.state)}{shortened(health)}", tone, True)]),
        Piece(0, [Span(shortened(container.name), Tone.TEXT, True)]),
        Piece(2, [Span(container.id[:SHORT_ID], Tone.GREY)]),
        Piece(1, [Span(view.problem, Tone.YELLOW)] if view.problem else []),
        Piece(3, labelled("job", view.job_id[:SHORT_JOB], Tone.BLUE) if view.job_id else []),
        Piece(4, [Span(restarts, Tone.YELLOW)] if restarts else []),
        Piece(5, labelled("service", service) if service else []),
        Piece(6, grey(container.engine)),
        Piece(7, labelled("pid", str(container.pid)) if container.pid is not None and container.is_alive else []),
    ]


def usage(row: ContainerRow) -> list[Piece]:
    """What it uses now, or how it ended."""
    container = row.container
    if not container.is_alive:
        return [*ended(container), Piece(3, labelled("limits", limits_text(container.limits)))]
    up = time.time() - container.started_at if container.started_at is not None else None
    cpus = container.limits.cpus
    share = row.cpu_percent / (cpus or 1.0) if row.cpu_percent is not None else None
    if row.why_absent is not None:
        return [
            Piece(0, [Span(short_duration(up), bold=True)]),
            Piece(1, grey(row.why_absent)),
            Piece(2, labelled("limits", limits_text(container.limits))),
        ]
    return [
        Piece(0, [Span(short_duration(up), bold=True)]),
        Piece(1, [*labelled("CPU", percent(row.cpu_percent), load_tone(share)), *of(counted(cpus, "CPU"))]),
        Piece(2, memory(row)),
        Piece(3, traffic("network", row, "net.rx_bytes", "net.tx_bytes")),
        Piece(4, traffic("I/O", row, "io.read_bytes", "io.write_bytes")),
        Piece(5, pids(row)),
        Piece(6, gpus(row)),
    ]


def ended(container: Container) -> list[Piece]:
    code = "" if container.exit_code is None else str(container.exit_code)
    tone = glyph_of(container)[1]
    since = container.finished_at
    return [
        Piece(0, labelled("exit", code, tone) if code else []),
        Piece(1, [Span("out of memory", Tone.PURPLE)] if container.is_oom_killed else []),
        Piece(1, [Span(shortened(container.error), Tone.VERMILION)] if container.error else []),
        Piece(2, labelled("ended", f"{short_duration(time.time() - since)} ago") if since is not None else []),
    ]


def memory(row: ContainerRow) -> list[Span]:
    share, limit = limit_percent(row), row.container.limits.memory_bytes
    tone = Tone.TEXT if share is None else load_tone(share)
    used = labelled("memory", short_bytes(row.memory_bytes), tone)
    return [*used, *of(f"{short_bytes(limit)} ({share:.0f} %)" if limit and share is not None else "")]


def of(words: str) -> list[Span]:
    return [Span(f" of {words}", Tone.GREY)] if words else []


def traffic(label: str, row: ContainerRow, down: str, up: str) -> list[Span]:
    received, sent = short_rate(row.rates.get(down)), short_rate(row.rates.get(up))
    return [*labelled(label), Span("↓", Tone.GREY), Span(f"{received} "), Span("↑", Tone.GREY), Span(sent)]


def pids(row: ContainerRow) -> list[Span]:
    count, most = row.values.get("proc.threads"), row.container.limits.pids
    return [] if count is None else [*labelled("pids", f"{count:.0f}"), *of(str(most) if most else "")]


def gpus(row: ContainerRow) -> list[Span]:
    said = [f"{percent(gpu.percent)} {short_bytes(gpu.memory_bytes)}" for gpu in row.gpus]
    return labelled("GPU", ", ".join(said)) if said else []


def command(container: Container, secret: Sequence[str], longest: int) -> list[Piece]:
    """The image and the command, which is cut."""
    words = shlex.join(redact_command(container.command, secret))
    image = container.image or container.image_id or ""
    return [
        Piece(1, labelled("image", shortened(image)) if image else []),
        Piece(
            0,
            [Span("$ ", Tone.GREY), Span(fitted(words, min(len(words), longest)))]
            if words
            else grey("command not known"),
        ),
    ]
