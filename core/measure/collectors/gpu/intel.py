"""Intel's GPUs by the files of the i915 and xe drivers in /sys, and by intel_gpu_top where that is allowed."""

from __future__ import annotations

import os

from jobtop.core.measure.collectors.gpu.drm_cards import is_integrated
from jobtop.core.measure.collectors.gpu.sysfs import SysFiles, entries, sensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobtop.core.measure.collectors.gpu.drm_cards import Card
    from jobtop.core.measure.collectors.gpu.intel_gpu_top import IntelGpuTop
    from jobtop.core.measure.source import Number

MEGA, MILLI, MICRO = 1_000_000, 1e-3, 1e-6
HEAT = ("therm", "prochot", "ratl")  # in the names of reasons
SHORTEST_SECONDS = 0.1  # between two readings of a counter of milliseconds, for a percentage of it


class IntelReader:
    """Reads one Intel GPU.

    Utilisation is that of the busiest engine by intel_gpu_top. Where that does not run it is the time in which the GPU
    was not idle (RC6): the GPU stays awake for a moment after each piece of work, so this is more, never less.
    """

    energy_method = "hwmon energy counter, by share of engine time"

    def __init__(self, card: Card, gpu_top: IntelGpuTop | None = None) -> None:
        self.card, self.files, self.gpu_top = card, SysFiles(), gpu_top
        self.is_integrated = is_integrated(card)
        self.slowdowns: tuple[str, ...] | None = None  # why its clocks are lower
        self._idle: dict[str, tuple[float, int]] = {}  # by file: moment, milliseconds
        self._energy_file: str | None = None  # the one that was there first: two counters do not continue each other
        self._joules: tuple[float, float] | None = None  # moment, counter

    def read(self, now: float) -> dict[str, Number | None]:
        """All that the driver tells now; the card must be awake."""
        chip = sensors(self.files, self.card.device, self.card.driver)
        joules = None if chip is None else self._energy(chip)
        awake, counted = self._awake_percent(now), self._power(joules, now)
        sample = None if self.gpu_top is None else self.gpu_top.newest(now)
        if sample is not None:
            awake = sample.percent if sample.percent is not None else awake
            counted = sample.watts if counted is None else counted
        self.slowdowns = self._slowdowns()
        return {
            "gpu.util": awake,
            "gpu.throttled": None if self.slowdowns is None else int(bool(self.slowdowns)),
            "gpu.power": counted,
            "energy.gpu": joules,
            "gpu.clock_sm": self._clock_hertz(),
            "gpu.temp": None if chip is None else self._temperature(chip),
            "gpu.power_limit": None if chip is None else self._power_limit(chip),
        }

    def close(self) -> None:
        if self.gpu_top is not None:
            self.gpu_top.close()

    def _awake_percent(self, now: float) -> float | None:
        """The part of the time in which it was not idle: of its parts (tiles, media) the busiest."""
        before, self._idle = self._idle, {}
        return _highest([self._share_awake(path, before.get(path or ""), now) for path in self._idle_files()])

    def _share_awake(self, path: str | None, before: tuple[float, int] | None, now: float) -> float | None:
        milliseconds = None if path is None else self.files.whole(path)
        if path is None or milliseconds is None:
            return None
        self._idle[path] = now, milliseconds
        if before is None or now - before[0] < SHORTEST_SECONDS or milliseconds < before[1]:
            return None
        idle = (milliseconds - before[1]) * MILLI / (now - before[0])
        return 100.0 * min(1.0, max(0.0, 1.0 - idle))

    def _idle_files(self) -> list[str | None]:
        """The counters of idle time; None of a part that may not become idle, which would read as busy."""
        if self.card.driver == "xe":
            return [f"{gt}/gtidle/idle_residency_ms" for gt in self._xe_parts()]
        parts = self._i915_parts() or [f"{self.card.directory}/power"]
        can_idle = {part: self.files.text(f"{part}/rc6_enable") != "0" for part in parts}
        return [f"{part}/rc6_residency_ms" if can_idle[part] else None for part in parts]

    def _i915_parts(self) -> list[str]:
        root = f"{self.card.directory}/gt"
        return [f"{root}/{name}" for name in entries(root, "gt")]

    def _xe_parts(self) -> list[str]:
        device = self.card.device
        tiles = [f"{device}/{name}" for name in entries(device, "tile")]
        return [f"{tile}/{name}" for tile in tiles for name in entries(tile, "gt")]

    def _clock_hertz(self) -> int | None:
        """The highest clock now of its parts; one that is idle has 0."""
        if self.card.driver == "xe":
            paths = [f"{gt}/freq0/act_freq" for gt in self._xe_parts()]
        else:
            paths = [f"{gt}/rps_act_freq_mhz" for gt in self._i915_parts()]
            paths = paths or [f"{self.card.directory}/gt_act_freq_mhz"]
        highest = _highest([self.files.whole(path) for path in paths])
        return None if highest is None else round(highest * MEGA)

    def _slowdowns(self) -> tuple[str, ...] | None:
        """Why the firmware lowers clocks, of all parts; None where the kernel does not tell (before 6.0)."""
        if self.card.driver == "xe":
            starts = [(f"{gt}/freq0/throttle", "reason_") for gt in self._xe_parts()]
            states = [self.files.whole(f"{directory}/status") for directory, _ in starts]
        else:
            starts = [(gt, "throttle_reason_") for gt in self._i915_parts()]
            states = [self.files.whole(f"{directory}/throttle_reason_status") for directory, _ in starts]
        if not states or None in states:
            return None
        found = set()
        for (directory, start), state in zip(starts, states, strict=True):
            names = entries(directory, start) if state else []
            reasons = [name.removeprefix(start) for name in names if self.files.whole(f"{directory}/{name}")]
            found |= {_slowdown(reason) for reason in reasons if reason != "status"} or (
                {"power cap"} if state else set()
            )
        return tuple(sorted(found))

    def _energy(self, chip: str) -> float | None:
        """Joules of the card since the driver was loaded; of xe, where the card has no counter, of its package."""
        if self._energy_file is None:
            names = ("energy1_input", "energy2_input") if self.card.driver == "xe" else ("energy1_input",)
            self._energy_file = next((name for name in names if os.path.exists(f"{chip}/{name}")), None)
        return None if self._energy_file is None else self.files.scaled(f"{chip}/{self._energy_file}", MICRO)

    def _power(self, joules: float | None, now: float) -> float | None:
        before, self._joules = self._joules, None if joules is None else (now, joules)
        if before is None or joules is None or joules < before[1] or now - before[0] < SHORTEST_SECONDS:
            return None
        return (joules - before[1]) / (now - before[0])

    def _temperature(self, chip: str) -> float | None:
        package = self.files.labelled(chip, "temp", ["pkg"])
        if package is not None:
            return self.files.scaled(package, MILLI)
        return self.files.first_scaled((f"{chip}/{name}_input" for name in ("temp2", "temp1")), MILLI)

    def _power_limit(self, chip: str) -> float | None:
        """The limit of sustained power; 0 is none."""
        names = ("power1_max", "power2_max", "power1_cap")
        return self.files.first_scaled((f"{chip}/{name}" for name in names), MICRO) or None


def _slowdown(reason: str) -> str:
    """The word for a reason of the driver: pl1 to pl4 and the limits of current are limits of power."""
    if reason == "pwrbrk":
        return "power brake"
    return "thermal" if any(part in reason for part in HEAT) else "power cap"


def _highest(values: Sequence[Number | None]) -> Number | None:
    """The highest value; None if one is not known, since it may be the highest."""
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None
