"""GPUs of other vendors: what any driver may tell by the kernel's sensors. Jobs on them are read as on all others."""

from __future__ import annotations

from jobtop.core.measure.collectors.gpu.sysfs import SysFiles, sensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.collectors.gpu.drm_cards import Card
    from jobtop.core.measure.source import Number


class OtherReader:
    """Reads one GPU by its sensors; the kernel has no common interface for the rest."""

    energy_method = ""
    slowdowns = None
    is_integrated = True  # in all known cases its memory is that of the machine

    def __init__(self, card: Card) -> None:
        self.card, self.files = card, SysFiles()

    def read(self, now: float) -> dict[str, Number | None]:
        chip = sensors(self.files, self.card.device, self.card.driver)
        if chip is None:
            return {}
        watts = self.files.first_scaled((f"{chip}/power1_average", f"{chip}/power1_input"), 1e-6)
        return {"gpu.temp": self.files.scaled(f"{chip}/temp1_input", 1e-3), "gpu.power": watts}

    def close(self) -> None:
        """Nothing is open."""
