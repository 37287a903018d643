"""Energy, CO₂ and money of a job: from what it used and the prices of [cost]; each with its method. Pure."""

from __future__ import annotations

from math import ceil

from jobtop.core.record import record
from jobtop.core.text.metric_text import format_amount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from jobtop.core.config import Config
    from jobtop.core.model import Job

JOULES_PER_KWH = 3.6e6
HOUR = 3600.0
ESTIMATE_REMEDY = "set cost.watts_per_core for an estimate"
GIB = 1024**3
# The columns of the table of jobs that a cost is made of, in the order of the fields of `Used`.
COST_COLUMNS = (
    *("duration_seconds", "cpu_total_seconds", "memory_peak_bytes", "energy_cpu_joules", "energy_gpu_joules"),
    *("memory_mean_bytes", "limit_cpus", "limit_memory_bytes", "limit_gpus", "gpu_util_peak"),
)


@record
class Prices:
    """The settings of [cost]; a price that was not set is None."""

    kwh: float | None = None
    co2_g_per_kwh: float = 0.0
    cpu_hour: float | None = None
    gib_hour: float | None = None
    gpu_hour: float | None = None
    watts_per_core: float = 0.0
    currency: str = ""
    instance: str = ""
    instance_hour: float | None = None  # None: the price list does not have the instance

    @property
    def has_price(self) -> bool:
        return bool(self.instance) or any(
            price is not None for price in (self.kwh, self.cpu_hour, self.gib_hour, self.gpu_hour)
        )


@record
class Used:
    """What a cost is made of; None is not known, of limits: not declared."""

    duration_seconds: float | None = None
    cpu_seconds: float | None = None
    memory_peak_bytes: float | None = None
    energy_cpu_joules: float | None = None
    energy_gpu_joules: float | None = None
    memory_mean_bytes: float | None = None
    cpus: float | None = None
    memory_bytes: float | None = None
    gpus: float | None = None
    gpu_util_peak: float | None = None


@record
class Cost:
    """The cost of one job; None is not known, and `problem` says why there is no money.

    `is_estimate`: the energy of the CPU is not measured, but a configured power times CPU time.
    """

    cpu_joules: float | None = None
    cpu_method: str | None = None
    gpu_joules: float | None = None
    gpu_method: str | None = None
    co2_grams: float | None = None
    money: float | None = None
    money_method: str | None = None
    currency: str = ""
    is_estimate: bool = False
    problem: str | None = None

    @property
    def joules(self) -> float | None:
        """The energy of CPU and GPU together, as far as it is known."""
        known = [joules for joules in (self.cpu_joules, self.gpu_joules) if joules is not None]
        return sum(known) if known else None

    @property
    def is_money_estimate(self) -> bool:
        return self.is_estimate and "kWh" in (self.money_method or "")

    def to_json(self) -> dict[str, Any]:
        """The cost as JSON. Keys may be added, but never changed or removed."""
        joules = self.joules
        return {
            "energy_joules": joules,
            "energy_kwh": None if joules is None else joules / JOULES_PER_KWH,
            "energy_cpu_joules": self.cpu_joules,
            "energy_cpu_method": self.cpu_method,
            "energy_gpu_joules": self.gpu_joules,
            "energy_gpu_method": self.gpu_method,
            "energy_is_estimate": self.is_estimate,
            "co2_grams": self.co2_grams,
            "money": self.money,
            "currency": self.currency or None,
            "money_method": self.money_method,
            "problem": self.problem,
        }


NO_COST = Cost()


def prices_of(config: Config) -> Prices:
    """The prices that a user set; the default price of a kilowatt-hour is not used: no user has confirmed it."""

    def price(key: str) -> float | None:
        return config.number(key) if config.is_set(key) and config.number(key) > 0 else None

    listed = dict(entry.rpartition("=")[::2] for entry in config.texts("cost.prices"))
    instance = config.text("cost.instance")
    return Prices(
        kwh=price("cost.kwh"),
        co2_g_per_kwh=config.number("cost.co2_g_per_kwh"),
        cpu_hour=price("cost.cpu_hour"),
        gib_hour=price("cost.gib_hour"),
        gpu_hour=price("cost.gpu_hour"),
        watts_per_core=config.number("cost.watts_per_core"),
        currency=config.text("cost.currency"),
        instance=instance,
        instance_hour=float(listed[instance]) if instance in listed else None,
    )


def used_by(job: Job) -> Used:
    """What a job used and declared."""
    usage, limits = job.usage, job.limits
    return Used(
        job.duration_seconds,
        usage.cpu_total_seconds,
        usage.memory_peak_bytes,
        usage.energy_cpu_joules,
        usage.energy_gpu_joules,
        usage.memory_mean_bytes,
        limits.cpus,
        limits.memory_bytes,
        limits.gpus,
        usage.gpu_util_peak,
    )


def cost_of(job: Job, prices: Prices) -> Cost:
    """The cost of a job, with the methods that its record names."""
    return cost_of_use(used_by(job), prices, job.sources.get("energy_cpu"), job.sources.get("energy_gpu"))


def cost_of_use(used: Used, prices: Prices, cpu_method: str | None = None, gpu_method: str | None = None) -> Cost:
    """The cost of what was used."""
    cpu_joules, is_estimate = used.energy_cpu_joules, False
    if cpu_joules is None and prices.watts_per_core > 0 and used.cpu_seconds is not None:
        cpu_joules, is_estimate = used.cpu_seconds * prices.watts_per_core, True
        cpu_method = f"estimate: CPU time × {prices.watts_per_core:g} W"
    gpu_joules = used.energy_gpu_joules
    known = [joules for joules in (cpu_joules, gpu_joules) if joules is not None]
    joules = sum(known) if known else None
    if joules is None and not prices.has_price:
        return NO_COST
    unit = "kWh" if cpu_joules is not None else "kWh (GPU only)"
    money, method, problem = _money(used, joules, prices, unit)
    return Cost(
        cpu_joules,
        None if cpu_joules is None else cpu_method,
        gpu_joules,
        None if gpu_joules is None else gpu_method,
        None if joules is None else joules / JOULES_PER_KWH * prices.co2_g_per_kwh,
        money,
        method,
        prices.currency,
        is_estimate,
        problem,
    )


def _money(
    used: Used, joules: float | None, prices: Prices, energy_unit: str
) -> tuple[float | None, str | None, str | None]:
    """The money, the rule it follows, and why there is none; a sum with an unknown part is not known."""
    if not prices.has_price:
        return None, None, None
    hours = None if used.duration_seconds is None else used.duration_seconds / HOUR
    if prices.instance:
        return _rent(hours, prices)
    parts = []
    if prices.kwh is not None:
        parts.append(("energy", None if joules is None else joules / JOULES_PER_KWH, prices.kwh, energy_unit))
    if prices.cpu_hour is not None:
        parts.append(("CPU time", _core_hours(used, hours), prices.cpu_hour, "core-hour"))
    if prices.gib_hour is not None:
        parts.append(("memory", _gib_hours(used, hours), prices.gib_hour, "GiB-hour"))
    if prices.gpu_hour is not None:
        parts.append(("duration", _gpu_hours(used, hours), prices.gpu_hour, "GPU-hour"))
    unknown = [what for what, amount, _, _ in parts if amount is None]
    if unknown:
        remedy = f" ({ESTIMATE_REMEDY})" if "energy" in unknown and used.cpu_seconds is not None else ""
        return None, None, f"its {' and '.join(dict.fromkeys(unknown))} is not known{remedy}"
    method = " + ".join(f"{format_amount(amount)} {unit} × {price:g}" for _, amount, price, unit in parts if amount)
    return sum((amount or 0.0) * price for _, amount, price, _ in parts), method or None, None


def _rent(hours: float | None, prices: Prices) -> tuple[float | None, str | None, str | None]:
    """What the whole machine costs for as long as the job ran; its electricity is included."""
    if prices.instance_hour is None:
        return None, None, f"[cost.prices] has no price of {prices.instance}"
    if hours is None:
        return None, None, "its duration is not known"
    method = f"the whole machine: {prices.instance}, {format_amount(hours)} hours × {prices.instance_hour:g}"
    return hours * prices.instance_hour, method, None


def _core_hours(used: Used, hours: float | None) -> float | None:
    """Declared CPUs are paid for from start to end; without them, the CPU time that was used."""
    if used.cpus is not None:
        return None if hours is None else used.cpus * hours
    return None if used.cpu_seconds is None else used.cpu_seconds / HOUR


def _gib_hours(used: Used, hours: float | None) -> float | None:
    """Declared memory, else the mean that was used, else the peak, from start to end."""
    held = next((size for size in (used.memory_bytes, used.memory_mean_bytes, used.memory_peak_bytes) if size), None)
    return None if hours is None or held is None else held / GIB * hours


def _gpu_hours(used: Used, hours: float | None) -> float | None:
    """Declared GPUs, else as many as were seen busy at once, from start to end."""
    gpus = used.gpus if used.gpus is not None else ceil((used.gpu_util_peak or 0.0) / 100)
    return 0.0 if not gpus else None if hours is None else gpus * hours


class CostTotals:
    """The sums of the costs of many jobs, and of how many each is known."""

    __slots__ = (
        *("co2_grams", "currency", "estimated", "estimated_money", "joules", "money", "with_energy", "with_money"),
    )

    def __init__(self) -> None:
        self.joules = self.co2_grams = self.money = 0.0
        self.with_energy = self.with_money = self.estimated = self.estimated_money = 0
        self.currency = ""

    def add(self, cost: Cost) -> None:
        if (joules := cost.joules) is not None:
            self.with_energy += 1
            self.joules += joules
            self.co2_grams += cost.co2_grams or 0.0
            self.estimated += cost.is_estimate
        if cost.money is not None:
            self.with_money += 1
            self.money += cost.money
            self.estimated_money += cost.is_money_estimate
            self.currency = cost.currency

    def include(self, other: CostTotals) -> None:
        """Add the totals of other jobs."""
        self.currency = self.currency or other.currency
        for name in self.__slots__:
            if name != "currency":
                setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_json(self) -> dict[str, Any]:
        has_energy = self.with_energy > 0
        return {
            "total_energy_joules": self.joules if has_energy else None,
            "total_energy_kwh": self.joules / JOULES_PER_KWH if has_energy else None,
            "total_co2_grams": self.co2_grams if has_energy else None,
            "total_cost": self.money if self.with_money else None,
            "currency": self.currency or None,
            "jobs_with_energy": self.with_energy,
            "jobs_with_estimated_energy": self.estimated,
            "jobs_with_cost": self.with_money,
        }
