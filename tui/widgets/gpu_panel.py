"""GPUs in a few lines each: load, memory, temperature, power, whether it is slowed down, and the jobs on it."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Size
from textual.reactive import reactive
from textual.strip import Strip

from jobtop.core.measure.live.newest_gpus import gpu_number
from jobtop.core.record import record
from jobtop.core.units import ABSENT
from jobtop.tui.data.job_gpus import JobGpu
from jobtop.tui.data.view import JobRow, MachineView, Number
from jobtop.tui.palette import Tone, load_tone
from jobtop.tui.widgets.cells import PERCENT_WIDTH, Span, aligned, bar, fitted, percent_words, short_bytes, width_of
from jobtop.tui.widgets.painting import FRAME, Inks, Painted

SLOWED = "≈"
WHOLE_LINES = 3  # of one GPU
LABEL, LEAST_BAR, ROOMY = 5, 4, 36
MAKERS = ("NVIDIA ", "GeForce ", "AMD ", "Intel ")  # words that a narrow panel leaves out
EMPTY = "No GPU answers."


@record
class GpuCard:
    """One GPU as a panel shows it; `uses` are the names of jobs with the percentage and the bytes each uses.

    With `own`, the bars show what one job uses of the device, and behind it what others use.
    """

    number: str
    percent: Number | None = None
    memory_used: Number | None = None
    memory_total: Number | None = None
    temperature: Number | None = None
    power: Number | None = None
    power_limit: Number | None = None
    is_slowed: bool = False
    product: str | None = None
    uses: tuple[tuple[str, Number | None, Number | None], ...] = ()
    own: tuple[Number | None, Number | None] | None = None


def machine_cards(machine: MachineView, rows: Sequence[JobRow]) -> tuple[GpuCard, ...]:
    """The GPUs of a machine, each with the jobs of that machine on it, the busiest first."""
    products = machine.detail.get("gpu_products", {})
    here = [row for row in rows if row.gpus and row.job.host.split(".")[0] == machine.name and not row.is_stale]
    cards = []
    for name, values in machine.detail.get("gpus", {}).items():
        uses = [(row.job.name, *row.gpus[name]) for row in here if name in row.gpus and any(row.gpus[name])]
        uses.sort(key=lambda use: (-(use[1] or 0), -(use[2] or 0), use[0]))
        cards.append(_card(name, values, products.get(name), uses=tuple(uses)))
    return tuple(cards)


def job_card(gpu: JobGpu) -> GpuCard:
    """One GPU of a job."""
    return _card(gpu.name, gpu.device, gpu.product, own=(gpu.percent, gpu.memory_bytes))


def _card(name: str, values: object, product: str | None, **more: object) -> GpuCard:
    get = values.get  # type: ignore[attr-defined]
    return GpuCard(
        gpu_number(name),
        get("gpu.util"),
        get("gpu.mem_used"),
        get("gpu.mem_total"),
        get("gpu.temp"),
        get("gpu.power"),
        get("gpu.power_limit"),
        bool(get("gpu.throttled")),
        product,
        **more,  # type: ignore[arg-type]
    )


def panel_lines(cards: Sequence[GpuCard], width: int, height: int) -> list[list[Span]]:
    """The GPUs in this size: three lines each, or two without the jobs, or one; the last line counts the others."""
    if not cards or height < 1:
        return []
    each = max(1, min(WHOLE_LINES, height // len(cards)))
    shown = list(cards) if len(cards) * each <= height else list(cards[: height - 1])
    has_gaps = each == WHOLE_LINES and len(cards) * (each + 1) - 1 <= height
    lines: list[list[Span]] = []
    for card in shown:
        if lines and has_gaps:
            lines.append([Span(" " * width)])
        edge = int(width >= ROOMY)
        lines += [[*line, Span(" " * edge)] for line in card_lines(card, width - edge, each)]
    if len(shown) < len(cards):
        lines.append(aligned([Span(f" … {len(cards) - len(shown)} more", Tone.GREY)], width))
    return lines


def card_lines(card: GpuCard, width: int, count: int = WHOLE_LINES) -> list[list[Span]]:
    """One GPU in one, two or three lines."""
    if count == 1:
        return [one_line(card, width)]
    if card.own is not None:
        return [title_line(card, width), *own_lines(card, card.own, width)][:count]
    lines = [title_line(card, width), bars_line(card, width)]
    return [*lines, uses_line(card, width)][:count]


def own_lines(card: GpuCard, own: tuple[Number | None, Number | None], width: int) -> list[list[Span]]:
    """What a job uses of a GPU, and what all use: its load and its memory."""
    percent, memory = own
    busy = f"{percent_words(percent):>5}{_of_all(percent_words(card.percent))}"
    total = f"/{short_bytes(card.memory_total)}" if card.memory_total and width >= ROOMY else ""
    held = f"{short_bytes(memory):>5}{_of_all(short_bytes(card.memory_used) + total)}"
    longest = max(len(busy), len(held))
    return [
        share_line("busy", percent, card.percent, 100.0, busy.ljust(longest), width),
        share_line("mem", memory, card.memory_used, card.memory_total, held.ljust(longest), width),
    ]


def title_line(card: GpuCard, width: int) -> list[Span]:
    """`GPU0 A100-SXM4-80GB      71° 250/400W ≈`."""
    facts = fact_spans(card)
    room = width - width_of(facts) - 1
    product = card.product or ""
    while width_of([Span(product)]) + len(label_of(card)) + 2 > room and product.startswith(MAKERS):
        product = product.partition(" ")[2]
    left = [Span(f" {label_of(card)} ", bold=True), Span(product, Tone.GREY)]
    return [*aligned(left, max(0, room)), Span(" "), *aligned(facts, min(width - 1, width_of(facts)))]


def fact_spans(card: GpuCard) -> list[Span]:
    """Temperature, power and the mark of a GPU that is slowed down; what is not known is left out."""
    spans = []
    if card.temperature is not None:
        spans.append(Span(f"{card.temperature:.0f}°", Tone.TEXT))
    if card.power is not None:
        limit = f"/{card.power_limit:.0f}" if card.power_limit else ""
        spans.append(Span(f" {card.power:.0f}{limit}W", Tone.GREY))
    spans.append(Span(f" {SLOWED}" if card.is_slowed else "  ", Tone.YELLOW, True))
    return spans


def bars_line(card: GpuCard, width: int) -> list[Span]:
    """`busy ━━━━━━━━╸─ 88%  mem ━━━━━╸── 19.2G/24.0G`; with little room, the memory has no bar."""
    text = f"{short_bytes(card.memory_used)}/{short_bytes(card.memory_total)}"
    busy, number = Span(" busy ", Tone.GREY), Span(percent_words(card.percent).rjust(PERCENT_WIDTH))
    room = width - LABEL - PERCENT_WIDTH - LABEL - len(text) - 2
    if room < 3 * LEAST_BAR:
        left = max(0, width - LABEL - PERCENT_WIDTH - len(text) - 4)
        return aligned([busy, *bar(card.percent, left), number, Span("  "), Span(text, Tone.GREY)], width)
    memory = bar(percent_of(card.memory_used, card.memory_total), room - room // 2)
    pieces = [busy, *bar(card.percent, room // 2 - 1), number, Span("  mem ", Tone.GREY), *memory]
    return aligned([*pieces, Span(f" {text}", Tone.GREY)], width)


def uses_line(card: GpuCard, width: int) -> list[Span]:
    """The jobs on the GPU with what each uses of it."""
    if not card.uses:
        return aligned([Span(" no job", Tone.FAINT)], width)
    pieces: list[Span] = []
    for name, percent, memory in card.uses:
        numbers = " ".join(filter(None, (_known(percent_words(percent)), _known(short_bytes(memory)))))
        pieces += [
            Span("  " if pieces else " "),
            Span(name, Tone.BLUE),
            Span(f" {numbers}" if numbers else "", Tone.GREY),
        ]
    return aligned(pieces, width)


def one_line(card: GpuCard, width: int) -> list[Span]:
    """One GPU in one line: `GPU0 ━━━━━━╸── 88% 19.2G 71° ≈`."""
    percent, memory = (card.percent, card.memory_used) if card.own is None else card.own
    right = [Span(percent_words(percent).rjust(5)), Span(short_bytes(memory).rjust(6), Tone.GREY)]
    right += [Span(" "), *fact_spans(card)] if width >= ROOMY else fact_spans(card)[-1:]
    label = Span(fitted(f" {label_of(card)}", 7), Tone.GREY)
    return aligned([label, *bar(percent, max(LEAST_BAR, width - 7 - width_of(right) - 1)), Span(" "), *right], width)


def share_line(
    label: str, own: Number | None, everyone: Number | None, total: Number | None, text: str, width: int
) -> list[Span]:
    """`busy ━━━━━━┄┄┄┄────  60% of 90%`: what the job uses, what others use, and what is free."""
    inner = max(0, width - LABEL - len(text) - 2)
    bars = shares(own, everyone, total, inner)
    return aligned([Span(fitted(f" {label}", LABEL + 1), Tone.GREY), *bars, Span(f" {text}")], width)


def shares(own: Number | None, everyone: Number | None, total: Number | None, width: int) -> list[Span]:
    """A bar of two parts: the job's, and that of others behind it."""
    if width <= 0 or not total or own is None:
        return [Span("─" * max(0, width), Tone.FAINT)]
    mine = min(width, max(1 if own > 0 else 0, round(own * width / total)))
    others = min(width - mine, round(max(0, (everyone or 0) - own) * width / total))
    rest = width - mine - others
    return [
        Span("━" * mine, load_tone(100 * own / total)),
        Span("┄" * others, Tone.GREY),
        Span("─" * rest, Tone.FAINT),
    ]


def label_of(card: GpuCard) -> str:
    """`GPU0`, or `AMD0` of a GPU that is numbered by its vendor."""
    return f"GPU{card.number}" if card.number[:1].isdigit() else card.number.upper()


def percent_of(used: Number | None, total: Number | None) -> float | None:
    return None if used is None or not total else 100 * used / total


def _of_all(text: str) -> str:
    return "" if text.startswith(ABSENT) else f" of {text}"


def _known(text: str) -> str:
    return "" if text == ABSENT else text


def subtitle(cards: Sequence[GpuCard]) -> list[Span]:
    """What the parts of the bars mean where another process uses a GPU of the job too, and how many are slowed down."""
    slowed = sum(card.is_slowed for card in cards)
    spans = []
    if any(card.own is not None and (card.percent or 0) > (card.own[0] or 0) for card in cards):
        spans = [Span("━", Tone.BLUE), Span(" job  ", Tone.GREY), Span("┄", Tone.GREY), Span(" others", Tone.GREY)]
    if slowed:
        spans += [Span("  " if spans else ""), Span(f"{SLOWED} {slowed} slowed down", Tone.YELLOW)]
    return spans


class GpuPanel(Painted, can_focus=True):
    """A list of GPUs; its border counts them."""

    DEFAULT_CSS = f"GpuPanel {{ {FRAME} }}"
    cards: reactive[tuple[GpuCard, ...]] = reactive((), repaint=False)
    title: reactive[str] = reactive("GPUs", repaint=False)

    def watch_cards(self, before: tuple[GpuCard, ...], cards: tuple[GpuCard, ...]) -> None:
        if len(before) != len(cards):
            self.refresh(layout=True)
        self.repaint()

    def watch_title(self) -> None:
        self.repaint()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The lines that all GPUs take."""
        return max(1, WHOLE_LINES * len(self.cards))

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        self.set_title([Span(self.title)])
        self.set_subtitle(subtitle(self.cards))
        lines = panel_lines(self.cards, width, height) or [aligned([Span(f" {EMPTY}", Tone.GREY)], width)]
        return [inks.strip(line, width) for line in lines]
