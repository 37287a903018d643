"""Energy, CO₂ and money as text; an estimate is marked `~`."""

from jobtop.core.analysis.cost import JOULES_PER_KWH, Cost
from jobtop.core.text.metric_text import format_amount, format_si
from jobtop.core.units import ABSENT, printable

LEAST_JOULES = 1.0  # that one decimal is enough for
LEAST_KWH = 0.001  # below that joules say more
GRAMS = {"kg": 1000.0, "g": 1.0, "mg": 0.001}


def energy_text(joules: float | None, is_estimate: bool = False) -> str:
    """Format energy as `45.2 J`, `12.0 kJ (0.0033 kWh)` or `~12.0 kJ`."""
    if joules is None:
        return ABSENT
    if joules < LEAST_JOULES:
        return f"{mark(is_estimate)}{format_amount(joules)} J"
    kwh = joules / JOULES_PER_KWH
    return mark(is_estimate) + format_si(joules, "J") + (f" ({format_amount(kwh)} kWh)" if kwh >= LEAST_KWH else "")


def co2_text(grams: float | None, is_estimate: bool = False) -> str:
    """Format a mass of CO₂ as `420 mg CO₂` or `1.2 kg CO₂`."""
    if grams is None:
        return ABSENT
    unit = next((unit for unit, size in GRAMS.items() if grams >= 0.9995 * size), "mg" if grams else "g")
    return f"{mark(is_estimate)}{format_amount(grams / GRAMS[unit])} {unit} CO₂"


def money_text(amount: float | None, currency: str, is_estimate: bool = False) -> str:
    """Format money as `1.23 EUR`; below one with two digits that are not 0."""
    if amount is None:
        return ABSENT
    text = f"{amount:.2f}" if amount >= 1 or amount == 0 else format_amount(amount)
    return f"{mark(is_estimate)}{text} {printable(currency)}".rstrip()


def mark(is_estimate: bool) -> str:
    return "~" if is_estimate else ""


def energy_line(cost: Cost) -> str | None:
    """The energy with CO₂, and how each part of it was found; None if it is not known."""
    if cost.joules is None:
        return None
    parts = [
        (name, energy_text(joules, is_estimate).partition(" (")[0], method or "its source is not recorded")
        for name, joules, method, is_estimate in (
            ("CPU", cost.cpu_joules, cost.cpu_method, cost.is_estimate),
            ("GPU", cost.gpu_joules, cost.gpu_method, False),
        )
        if joules is not None
    ]
    methods = [f"{name} {amount if len(parts) > 1 else ''}".rstrip() + f": {method}" for name, amount, method in parts]
    whole = energy_text(cost.joules, cost.is_estimate)
    return f"{whole}, {co2_text(cost.co2_grams, cost.is_estimate)}; {'; '.join(methods)}"


def cost_line(cost: Cost) -> str | None:
    """The money with its rule, or why there is none; None without prices."""
    if cost.money is None:
        return None if cost.problem is None else f"not known: {printable(cost.problem)}"
    rule = f" ({printable(cost.money_method)})" if cost.money_method else ""
    return money_text(cost.money, cost.currency, cost.is_money_estimate) + rule


def cost_parts(cost: Cost) -> list[str]:
    """What is known of money, energy and CO₂, each as a short text."""
    parts = [
        money_text(cost.money, cost.currency, cost.is_money_estimate),
        energy_text(cost.joules, cost.is_estimate),
        co2_text(cost.co2_grams, cost.is_estimate),
    ]
    return [part for part in parts if part != ABSENT]
