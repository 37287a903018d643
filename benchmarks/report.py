"""Benchmark results as a table for people and as JSON for scripts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from jobtop.core.units import ABSENT, cell_width, format_bytes, format_duration

HEADINGS = ("what", "ours", "others", "ratio", "bound", "")


class MeasurementError(Exception):
    """A benchmark could not be measured here; the message says why."""


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """Samples of jobtop and of a rival, taken in pairs, and the bound of their ratio or of the value."""

    what: str
    unit: str
    ours: Sequence[float] = ()
    others: Sequence[float] = ()
    rival: str | None = None
    bound: float | None = None
    problem: str | None = None

    @property
    def ratio(self) -> float | None:
        """The median of the pairs' ratios: both samples of a pair were taken under the same load of the machine."""
        pairs = zip(self.ours, self.others, strict=True) if self.others else ()
        return median(ratios) if (ratios := [ours / others for ours, others in pairs]) else None

    @property
    def is_bound_by_ratio(self) -> bool:
        return self.rival is not None

    @property
    def is_bound_kept(self) -> bool | None:
        """Whether the bound is kept; None if there is no bound or no sample."""
        value = self.ratio if self.is_bound_by_ratio else median(self.ours) if self.ours else None
        return value <= self.bound if value is not None and self.bound is not None else None

    def to_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "unit": self.unit,
            "ours": median(self.ours) if self.ours else None,
            "others": median(self.others) if self.others else None,
            "rival": self.rival,
            "ratio": self.ratio,
            "bound": self.bound,
            "bound_kept": self.is_bound_kept,
            "problem": self.problem,
            "samples": {"ours": list(self.ours), "others": list(self.others)},
        }


def results_json(
    results: Iterable[BenchmarkResult], machine: Mapping[str, Any], breakdown: Mapping[str, Any]
) -> dict[str, Any]:
    """Return everything of one benchmark run, for the JSON file."""
    return {
        "schema_version": 1,
        "machine": dict(machine),
        "results": [result.to_json() for result in results],
        "breakdown": dict(breakdown),
    }


def table(results: Iterable[BenchmarkResult]) -> str:
    """Return one line per result; the last column says whether a bound was missed."""
    return aligned([HEADINGS, *(_row(result) for result in results)])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return aligned columns: the first left-aligned, the others right-aligned, the last one unpadded."""
    widths = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def verdict(result: BenchmarkResult) -> str:
    """Return the last column: ok, MISSED, or why there is no number."""
    if result.problem is not None:
        return f"NOT MEASURED: {result.problem}"
    return {True: "ok", False: "MISSED", None: ""}[result.is_bound_kept]


def _row(result: BenchmarkResult) -> tuple[str, ...]:
    others = _value(result.others, result.unit)
    return (
        result.what,
        _value(result.ours, result.unit),
        f"{others} {result.rival}" if result.others else ABSENT,
        f"{result.ratio:.3f}" if result.ratio is not None else ABSENT,
        _bound(result),
        verdict(result),
    )


def _bound(result: BenchmarkResult) -> str:
    if result.bound is None:
        return ABSENT
    return f"≤ {result.bound:.3g}" if result.is_bound_by_ratio else f"≤ {_value([result.bound], result.unit)}"


def _value(samples: Sequence[float], unit: str) -> str:
    value = median(samples) if samples else None
    return format_bytes(value) if unit == "bytes" else format_duration(value)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    pads = [" " * (width - cell_width(cell)) for cell, width in zip(cells, widths, strict=True)]
    middle = [pad + cell for cell, pad in zip(cells[1:-1], pads[1:-1], strict=True)]
    return "  ".join([cells[0] + pads[0], *middle, cells[-1]]).rstrip()
