"""The machine in a few lines: cores, memory, disks, network, pressure and GPUs, for any width from 60 cells."""

from collections.abc import Sequence
from math import ceil
from typing import ClassVar

from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from jobtop.core.record import record
from jobtop.core.units import ABSENT
from jobtop.store.samples.live import KEPT_SAMPLES
from jobtop.tui.actions import STRIP, bindings
from jobtop.tui.palette import Tone, load_tone
from jobtop.tui.widgets.cells import (
    PERCENT_WIDTH,
    Align,
    Span,
    aligned,
    area,
    bar,
    fitted,
    percent_words,
    short_bytes,
    width_of,
)
from jobtop.tui.widgets.painting import Inks, Painted

WIDE = 110  # cells from which single cores are shown
NARROWEST = 16  # cells below which nothing is shown
MOST_BARS = 32
MOST_LINES, WITHOUT_GPUS = 6, 5  # of the strip; and the number of meters without GPUs
LEAST_CORE, MOST_CORE = 13, 100
LEAST_BAR, MOST_FLOW_BAR = 4, 16
TEXT_CELLS = 17  # cells for text beside the bar of a meter
HEAT = "▁▂▃▅▇"
GROUP = 8
SLOWED = Span(" ≈", Tone.YELLOW, True)
WARNING_PRESSURE, CRITICAL_PRESSURE = 10.0, 40.0


@record
class GpuView:
    """One GPU, by the number that its vendor's tools show; None is unknown."""

    percent: float | None = None
    memory_used: float | None = None
    memory_total: float | None = None
    temperature: float | None = None
    number: str | None = None
    is_slowed: bool = False


@record
class HostView:
    """A machine at a moment: percentages, bytes, bytes a second; None is unknown."""

    name: str = ""
    cores: Sequence[float | None] = ()
    load: tuple[float, float, float] | None = None
    uptime_seconds: float | None = None
    memory_used: float | None = None
    memory_total: float | None = None
    swap_used: float | None = None
    swap_total: float | None = None
    disk_read: float | None = None
    disk_write: float | None = None
    disk_busy: float | None = None
    net_rx: float | None = None
    net_tx: float | None = None
    cpu_pressure: float | None = None
    memory_pressure: float | None = None
    io_pressure: float | None = None
    gpus: Sequence[GpuView] = ()
    temperature: float | None = None
    history: Sequence[float | None] = ()  # of `cpu`, oldest first

    @property
    def cpu(self) -> float | None:
        """The mean of the known cores."""
        return mean(self.cores)

    @property
    def pressures(self) -> tuple[tuple[str, float | None], ...]:
        """The resources that processes wait for, with the percentage of time."""
        return ("cpu", self.cpu_pressure), ("mem", self.memory_pressure), ("io", self.io_pressure)


@record
class Meter:
    """One row: a bar with its percentage and text, or text alone."""

    label: str
    words: Sequence[Span]
    percent: float | None = None
    has_bar: bool = True
    brief: Sequence[Span] | None = None  # shorter text, if there is little room


def host_title(view: HostView, width: int | None = None) -> list[Span]:
    """`host atlas · 16 cores · load 9.31 8.02 6.77 · up 12d`; facts at the end are dropped if there is no room."""
    facts = [f"{len(view.cores)} cores" if len(view.cores) != 1 else "1 core"] if view.cores else []
    if view.load is not None:
        facts.append("load " + " ".join(f"{load:.2f}" for load in view.load))
    if view.uptime_seconds is not None:
        facts.append(f"up {uptime_words(view.uptime_seconds)}")
    if view.temperature is not None:
        facts.append(f"{view.temperature:.0f} °C")
    while True:
        rest = Span("".join(f" · {fact}" for fact in facts), Tone.GREY)
        title = [Span("host ", Tone.GREY), Span(view.name, Tone.TEXT, True), rest]
        if not facts or width is None or width_of(title) <= width:
            return title
        facts.pop()


def uptime_words(seconds: float) -> str:
    """The uptime in its largest unit: `12d`, `3h`, `25m`."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f}{unit}"
    return f"{seconds:.0f}s"


def meters(view: HostView) -> list[Meter]:
    """Everything but the cores, the most important first."""
    shown = [
        Meter("MEM", [used_of(view.memory_used, view.memory_total)], percent_of(view.memory_used, view.memory_total)),
        Meter("SWP", [used_of(view.swap_used, view.swap_total)], percent_of(view.swap_used, view.swap_total), brief=()),
        Meter("DSK", rates("r ", view.disk_read, " w ", view.disk_write), view.disk_busy),
        Meter("NET", rates("↓", view.net_rx, "  ↑", view.net_tx, "/s"), has_bar=False),
        Meter("PSI", pressures(view), has_bar=False, brief=worst_pressure(view)),
    ]
    for number, gpu in enumerate(view.gpus):
        words = [used_of(gpu.memory_used, gpu.memory_total)]
        if gpu.temperature is not None:
            words.append(Span(f" {gpu.temperature:.0f}°", Tone.GREY))
        if gpu.is_slowed:
            words.append(SLOWED)
        shown.append(Meter(gpu_label(gpu.number or str(number)) if len(view.gpus) > 1 else "GPU", words, gpu.percent))
    return shown


def gpu_label(number: str) -> str:
    """`GPU0` of a GPU, `G0.3` of a part of one, `AMD0` or `INT1` of one that is numbered by its vendor."""
    if vendor := number.rstrip("0123456789.").upper():
        return vendor[:3] + number[len(vendor) :]
    return f"G{number}" if "." in number else f"GPU{number}"


def reduced(shown: Sequence[Meter], view: HostView, count: int) -> list[Meter]:
    """At most `count` meters: first all GPUs are combined into one, then swap, pressure and others are dropped."""
    kept = list(shown)
    if len(kept) > count and len(view.gpus) > 1:
        each = [Span(" ".join(percent_words(gpu.percent) for gpu in view.gpus), Tone.GREY)]
        each += [SLOWED] if any(gpu.is_slowed for gpu in view.gpus) else []
        kept = [*kept[: -len(view.gpus)], Meter("GPU", each, mean([gpu.percent for gpu in view.gpus]))]
    for label in ("SWP", "PSI", "GPU", "NET", "DSK"):
        if len(kept) > count:
            kept = [meter for meter in kept if meter.label != label]
    return kept[:count]


def host_lines(view: HostView, width: int, height: int) -> list[list[Span]]:
    """The machine in this size: cores and meters, meters alone, or averages in two lines."""
    cpu = Meter("CPU", [Span(f"{len(view.cores)} cores" if view.cores else "", Tone.GREY)], view.cpu, brief=())
    if width >= WIDE and height > 2:
        right = max(44, min(84, width * 2 // 5))
        cores = core_lines(view, width - right - 3, height)
        rows = [meter_line(meter, right) for meter in reduced(meters(view), view, height)]
        blank = [Span(" " * right)]
        return [[*line, Span("   "), *row] for line, row in zip(cores, [*rows, *[blank] * height], strict=False)]
    if height > 2:
        return [meter_line(meter, width) for meter in [cpu, *reduced(meters(view), view, height - 1)]]
    first, second = split(reduced(meters(view), view, 6), height)
    return [flow([cpu, *first], width), *([flow(second, width)] if height > 1 else [])]


def split(shown: Sequence[Meter], height: int) -> tuple[list[Meter], list[Meter]]:
    """The meters beside the CPU, and those below it."""
    above = ("MEM", "DSK") if height == 1 else ("MEM", "SWP", "GPU")
    first = sorted((m for m in shown if m.label in above), key=lambda m: m.label == "SWP")  # the last one is dropped
    return first, [m for m in shown if m.label not in above]


def meter_line(meter: Meter, width: int) -> list[Span]:
    """Label, bar, percentage and text, each in its own column."""
    label = Span(fitted(meter.label, 5), Tone.GREY)
    if not meter.has_bar:
        return [label, *aligned(meter.words, width - 5)]
    inner = max(LEAST_BAR, width - 5 - PERCENT_WIDTH - 1 - TEXT_CELLS)
    number = Span(percent_words(meter.percent).rjust(PERCENT_WIDTH) + " ")
    return aligned([label, *bar(meter.percent, inner), number, *aligned(meter.words, TEXT_CELLS)], width)


def flow(shown: Sequence[Meter], width: int) -> list[Span]:
    """Meters side by side; bars share the room that is left, and the last meters are dropped if there is too little."""
    kept = list(shown)
    while True:
        texts = [_flow_words(meter) for meter in kept]
        bars = sum(meter.has_bar for meter in kept)
        left = width - sum(map(width_of, texts)) - 3 * (len(kept) - 1)
        room = min(MOST_FLOW_BAR, left // bars) if bars else 0
        if room >= LEAST_BAR or (not bars and left >= 0) or len(kept) == 1:
            break
        kept.pop()
    line: list[Span] = []
    for meter, words in zip(kept, texts, strict=True):
        drawn = bar(meter.percent, room) if meter.has_bar else ()
        line += [*([Span("   ")] if line else []), words[0], *drawn, *words[1:]]
    return aligned(line, width)


def _flow_words(meter: Meter) -> list[Span]:
    words = meter.words if meter.brief is None else meter.brief
    number = [Span(percent_words(meter.percent).rjust(PERCENT_WIDTH) + " " * bool(words))] if meter.has_bar else []
    return [Span(f"{meter.label} ", Tone.GREY), *number, *words]


def core_lines(view: HostView, width: int, height: int) -> list[list[Span]]:
    """A bar for each core, or one cell for each if there are many; and below, their mean over time."""
    rows = height - 1 if height > 3 else height
    count = len(view.cores)
    if not count:
        lines = [[Span(fitted("no CPU data", width), Tone.GREY)]]
    elif count <= MOST_BARS and width // ceil(count / rows) >= LEAST_CORE:
        lines = bar_lines(view.cores, width, rows)
    else:
        lines = heat_lines(view.cores, width, rows)
    return [*lines, *average_lines(view, width, height - len(lines))]


def bar_lines(cores: Sequence[float | None], width: int, rows: int) -> list[list[Span]]:
    """Cores with bars, from top to bottom, then from left to right."""
    across = ceil(len(cores) / rows)
    used = min(rows, ceil(len(cores) / across))
    cell = min(MOST_CORE, width // across)
    digits = len(str(len(cores) - 1))
    lines = []
    for row in range(used):
        line: list[Span] = []
        for core in range(row, len(cores), used):
            number = percent_words(cores[core]).rjust(PERCENT_WIDTH)
            inner = cell - digits - 1 - PERCENT_WIDTH - 2
            line += [Span(f"{core:>{digits}} ", Tone.GREY), *bar(cores[core], inner), Span(number + "  ")]
        lines.append(aligned(line, width))
    return lines


def heat_lines(cores: Sequence[float | None], width: int, rows: int) -> list[list[Span]]:
    """One cell for each core, in groups of eight; if there are too many, a cell shows the busiest of several cores."""
    digits = len(str(len(cores) - 1))
    groups = max(1, (width - digits - 1 + 1) // (GROUP + 1))
    each = ceil(len(cores) / (groups * GROUP * rows))
    cells = [busiest(cores[start : start + each]) for start in range(0, len(cores), each)]
    wide = GROUP * groups
    lines = []
    for start in range(0, len(cells), wide):
        line = [Span(f"{start * each:>{digits}} ", Tone.GREY)]
        for position, percent in enumerate(cells[start : start + wide]):
            gap = " " if position and position % GROUP == 0 else ""
            line.append(Span(gap + heat(percent), load_tone(percent)))
        lines.append(aligned(line, width))
    return lines


def average_lines(view: HostView, width: int, rows: int) -> list[list[Span]]:
    """The mean of all cores now, and over the last minute in the remaining rows."""
    label = [Span("all ", Tone.GREY), Span(f"{percent_words(view.cpu):>4} ")]
    room = width - width_of(label)
    history = area(stretched(view.history, room), 100.0, room, rows)
    labels = [[Span(" " * (width - room))]] * (rows - 1) + [label]
    return [[*words, Span(blocks, Tone.FAINT)] for words, blocks in zip(labels, history, strict=True)] if rows else []


def stretched(history: Sequence[float | None], width: int) -> Sequence[float | None]:
    """The last minute over the whole width, whether all of it is known or not."""
    if not history or width <= KEPT_SAMPLES:
        return history
    count = len(history) * width // KEPT_SAMPLES
    return [history[len(history) * place // count] for place in range(count)]


def heat(percent: float | None) -> str:
    """The load of a core as one character."""
    return " " if percent is None else HEAT[min(4, max(0, int(percent / 20)))]


def busiest(cores: Sequence[float | None]) -> float | None:
    return max((core for core in cores if core is not None), default=None)


def mean(values: Sequence[float | None]) -> float | None:
    """The mean of the known values."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def percent_of(used: float | None, total: float | None) -> float | None:
    """The percentage; None if it is unknown or the total is 0."""
    return None if used is None or not total else 100 * used / total


def used_of(used: float | None, total: float | None) -> Span:
    """`38.9G/64.0G`: used and total."""
    if used is None or total is None:
        return Span(ABSENT, Tone.GREY)
    if not total:
        return Span("none", Tone.GREY)
    return Span(f"{short_bytes(used)}/{short_bytes(total)}", Tone.GREY)


def rates(before: str, first: float | None, between: str, second: float | None, unit: str = "") -> list[Span]:
    """`↓8.1M/s  ↑1.2M/s`: two rates in bytes a second, of fixed width."""
    return [
        Span(before, Tone.GREY),
        Span(fitted(short_bytes(first), 5, Align.RIGHT)),
        Span(unit + between, Tone.GREY),
        Span(fitted(short_bytes(second), 5, Align.RIGHT)),
        Span(unit, Tone.GREY),
    ]


def pressures(view: HostView) -> list[Span]:
    """The percentage of time in which processes waited for CPU, memory and disk."""
    line: list[Span] = []
    for label, percent in view.pressures:
        line += [
            Span(f"{label} ", Tone.GREY),
            Span(percent_words(percent).rjust(3), pressure_tone(percent)),
            Span("  "),
        ]
    return line[:-1]


def worst_pressure(view: HostView) -> list[Span]:
    """The resource that was waited for most."""
    label, percent = max(view.pressures, key=lambda pressure: -1.0 if pressure[1] is None else pressure[1])
    return [Span(f"{label:>3} ", Tone.GREY), Span(percent_words(percent).rjust(4), pressure_tone(percent))]


def pressure_tone(percent: float | None) -> Tone:
    """The colour of a pressure: even low values slow processes down, so the thresholds are low."""
    if percent is None:
        return Tone.GREY
    if percent < WARNING_PRESSURE:
        return Tone.TEXT
    return Tone.YELLOW if percent < CRITICAL_PRESSURE else Tone.VERMILION


class HostStrip(Painted, can_focus=True):
    """The strip at the top of the dashboard; its border has the machine's name. Enter or a click shows more."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(STRIP)]

    DEFAULT_CSS = """
    HostStrip {
        height: auto;
        border: round $border-blurred;
        background: $background;
        padding: 0 1;
        &:focus { border: round $border; }
        &.-ascii { border: ascii $border-blurred; }
        &.-ascii:focus { border: ascii $border; }
    }
    """

    class Opened(Message):
        """The user wants to see every device of the machine."""

    view: reactive[HostView] = reactive(HostView, repaint=False)

    def watch_view(self, before: HostView, view: HostView) -> None:
        if lines_wanted(before, WIDE) != lines_wanted(view, WIDE):
            self.refresh(layout=True)
        self.repaint()

    def action_open(self) -> None:
        self.post_message(self.Opened())

    def on_click(self) -> None:
        self.action_open()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The number of lines to show; two on a narrow screen."""
        return lines_wanted(self.view, width)

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        """Draw the lines that fit."""
        self.set_title(host_title(self.view, width - 2))
        lines = host_lines(self.view, width, height) if width >= NARROWEST else []
        return [inks.strip(line, width) for line in lines]


def lines_wanted(view: HostView, width: int) -> int:
    """Two lines if cores do not fit; else enough lines for the meters and the cores."""
    return 2 if width < WIDE else max(5, min(MOST_LINES, WITHOUT_GPUS + len(view.gpus)))
