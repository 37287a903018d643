"""AMD's GPUs by the files of the amdgpu driver in /sys."""

from __future__ import annotations

import os

from jobtop.core.measure.collectors.gpu.amd_metrics import parse_metrics
from jobtop.core.measure.collectors.gpu.drm_cards import is_integrated
from jobtop.core.measure.collectors.gpu.sysfs import SysFiles, entries, sensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.collectors.gpu.drm_cards import Card
    from jobtop.core.measure.source import Number

SELDOM = 10  # readings between two of what seldom changes
LONGEST_STEP_SECONDS = 15.0  # between two readings of power; what was used in a longer time is not known
MILLI, MICRO = 1e-3, 1e-6
TEMPERATURES = ("edge", "junction")
FAN_FILES = (("pwm1", "pwm1_max"), ("fan1_input", "fan1_max"))


class PowerIntegral:
    """Energy from power: the mean of two readings for the time between them."""

    def __init__(self) -> None:
        self.joules: float | None = None
        self._last: tuple[float, float] | None = None

    def add(self, now: float, watts: float | None) -> float | None:
        """The energy so far; None without a reading of power: the next one makes up for it, if it comes soon."""
        if watts is None:
            return None
        if self._last is not None and now - self._last[0] <= LONGEST_STEP_SECONDS:
            self.joules = (self.joules or 0.0) + (now - self._last[0]) * (watts + self._last[1]) / 2
        elif self.joules is None:
            self.joules = 0.0
        self._last = now, watts
        return self.joules


class AmdReader:
    """Reads one AMD GPU. `pcie_bw` is not read: the driver counts for a second before it answers.

    An APU takes most of its memory from the machine (GTT): that is added to the part that the firmware reserved.
    """

    def __init__(self, card: Card) -> None:
        self.card, self.files = card, SysFiles()
        self._energy = PowerIntegral()
        self._is_integrated = False
        self._readings = 0
        self._has_counter: bool | None = None  # of energy; once decided, it stays: the two do not continue each other
        self._fan_files: tuple[str, str] | None = None  # once decided, it stays: the two do not measure the same
        self.slowdowns: tuple[str, ...] | None = None  # why its clocks are lower
        self._seldom: dict[str, Number | None] = {}

    @property
    def is_integrated(self) -> bool:
        """Whether it is an APU; once known, it stays known, also if its sensors are not there for a while."""
        self._is_integrated = self._is_integrated or is_integrated(self.card)
        return self._is_integrated

    @property
    def energy_method(self) -> str:
        counted = "gpu_metrics energy counter" if self._has_counter else "power integrated"
        return f"{counted}, by share of engine time"

    def read(self, now: float) -> dict[str, Number | None]:
        """All that the driver tells now; the card must be awake."""
        files, device = self.files, self.card.device
        chip = sensors(files, device, "amdgpu") or f"{device}/hwmon/none"
        if self._readings % SELDOM == 0:
            limit = files.scaled(f"{chip}/power1_cap", MICRO)
            self._seldom = {"gpu.ecc_errors": self._uncorrected_errors(), "gpu.power_limit": limit}
        self._readings += 1
        watts = files.first_scaled((f"{chip}/power1_average", f"{chip}/power1_input"), MICRO)
        metrics = parse_metrics(files.data(f"{device}/gpu_metrics") or b"")
        self.slowdowns = metrics.slowdowns
        temperature = files.labelled(chip, "temp", TEMPERATURES)
        engine, memory = files.labelled(chip, "freq", ["sclk"]), files.labelled(chip, "freq", ["mclk"])
        return {
            **self._seldom,
            **self._memory(),
            "gpu.util": files.whole(f"{device}/gpu_busy_percent"),
            "gpu.power": watts,
            "energy.gpu": self._joules(metrics.joules, now, watts),
            "gpu.throttled": None if self.slowdowns is None else int(bool(self.slowdowns)),
            "gpu.temp": files.scaled(f"{chip}/temp1_input" if temperature is None else temperature, MILLI),
            "gpu.clock_sm": files.whole(f"{chip}/freq1_input" if engine is None else engine),
            "gpu.clock_mem": files.whole(f"{chip}/freq2_input" if memory is None else memory),
            "gpu.fan": self._fan_percent(chip),
        }

    def close(self) -> None:
        """Nothing is open."""

    def _joules(self, counted: float | None, now: float, watts: float | None) -> float | None:
        """The counter of the card where it has one, else its power integrated."""
        if self._has_counter is None and (counted is not None or watts is not None):
            self._has_counter = counted is not None
        return counted if self._has_counter else self._energy.add(now, watts)

    def _memory(self) -> dict[str, Number | None]:
        used, total = self._region("vram")
        if not self.is_integrated:
            free = None if used is None or total is None else max(0, total - used)
            return {"gpu.mem_used": used, "gpu.mem_total": total, "gpu.mem_free": free}
        # What the driver would still give to an APU is memory of the machine, and may not be free.
        gtt_used, gtt_total = self._region("gtt")
        return {"gpu.mem_used": _sum(used, gtt_used), "gpu.mem_total": _sum(total, gtt_total), "gpu.mem_free": None}

    def _region(self, name: str) -> tuple[int | None, int | None]:
        start = f"{self.card.device}/mem_info_{name}"
        return self.files.whole(f"{start}_used"), self.files.whole(f"{start}_total")

    def _fan_percent(self, chip: str) -> float | None:
        """The speed that the fan is driven with; of a card that does not tell at first, the measured one."""
        if self._fan_files is None:
            self._fan_files = next((files for files in FAN_FILES if _can_be_read(f"{chip}/{files[0]}")), None)
        if self._fan_files is None:
            return None
        value, top = (self.files.whole(f"{chip}/{name}") for name in self._fan_files)
        return min(100.0, 100 * value / top) if value is not None and top else None

    def _uncorrected_errors(self) -> int | None:
        """Errors of memory since the driver was loaded (`ue: 0`), of cards that have ECC."""
        directory = f"{self.card.device}/ras"
        if "umc_err_count" not in entries(directory, "umc"):
            return None
        lines = (self.files.text(f"{directory}/umc_err_count") or "").splitlines()
        counts = dict(line.partition(":")[::2] for line in lines)
        found = counts.get("ue", "").strip()
        return int(found) if found.isascii() and found.isdigit() else None


def _can_be_read(path: str) -> bool:
    """Whether the driver lets anyone read an attribute; one that can only be set has no such mode."""
    try:
        return bool(os.stat(path).st_mode & 0o444)
    except OSError:
        return False


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
