"""The last minute of the machine: its network and GPUs, whether an engine or the console reads them."""

from __future__ import annotations

from collections import deque
from types import MappingProxyType

from jobtop.core.record import replace
from jobtop.store.samples.live import KEPT_SECONDS
from jobtop.tui.data.view import MachineMoment, MachineView


class MachinePast:
    """Remembers the machine's last minute, and adds it to each view of the machine."""

    def __init__(self) -> None:
        self._moments: deque[MachineMoment] = deque()

    def with_past(self, machine: MachineView) -> MachineView:
        """The machine with its last minute, which ends now; it starts again if the clock was set back."""
        moments = self._moments
        while moments and not moments[0].at <= machine.at <= moments[0].at + KEPT_SECONDS:
            moments.popleft()
        moments.append(moment_of(machine))
        return replace(machine, past=tuple(moments))


def moment_of(machine: MachineView) -> MachineMoment:
    values = machine.values
    gpus = {
        name: (gpu.get("gpu.util"), gpu.get("gpu.mem_used"), gpu.get("gpu.mem_total"))
        for name, gpu in machine.detail.get("gpus", {}).items()
    }
    return MachineMoment(machine.at, values.get("net.rx_bytes"), values.get("net.tx_bytes"), MappingProxyType(gpus))
