"""The newest readings of each GPU: a slow source reads them at other moments than the host is read."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from jobtop.core.measure.device import Device

    Number = int | float
    Values = Mapping[str, Number | None]

KIND, GAUGES = "gpu", "gpu."
FRESH_SECONDS = 5.0  # older readings are of a GPU that does not answer


class NewestGpus:
    """Remembers the gauges of each GPU by its name, in the order in which they were first read."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[float, dict[str, Number | None]]] = {}
        self._products: dict[str, str] = {}

    def see(
        self, devices: Iterable[tuple[Device, float, Values]], products: Mapping[Device, str] | None = None
    ) -> None:
        """Take readings, each with its moment since boot, and what makers call their devices."""
        self._products.update((device.name, text) for device, text in (products or {}).items() if device.kind == KIND)
        for device, at, values in devices:
            if device.kind == KIND:
                gauges = {key: value for key, value in values.items() if key.startswith(GAUGES)}
                self._read[device.name] = at, gauges

    def at(self, moment: float) -> dict[str, dict[str, Number | None]]:
        """The gauges of each GPU that was read shortly before."""
        return {name: values for name, (at, values) in self._read.items() if moment - at <= FRESH_SECONDS}

    def detail(self, moment: float) -> dict[str, dict[str, Any]]:
        """The part of the detail of a host that is about its GPUs: their gauges and what they are called, by name."""
        gauges = self.at(moment)
        products = {name: self._products[name] for name in gauges if name in self._products}
        return {"gpus": gauges, "gpu_products": products} if gauges else {}


def gpu_number(name: str) -> str:
    """The number in the name of a GPU: `0` of `0-8f6c77aa`, `1.3` of an instance of GPU 1."""
    return name.partition("-")[0]
