"""What is remembered of the machine for a minute: its network and its GPUs, whoever looks at it meanwhile or not."""

from __future__ import annotations

from collections import deque
from types import MappingProxyType

from jobtop.core.record import replace
from jobtop.store.samples.live import KEPT_SECONDS
from jobtop.tui.data.view import MachineMoment, MachineView


class MachinePast:
    """The moments of the last minute, handed on with every picture of the machine."""

    def __init__(self) -> None:
        self._moments: deque[MachineMoment] = deque()

    def with_past(self, machine: MachineView) -> MachineView:
        """The machine with its last minute, this moment the newest; where the clock was set back it begins anew."""
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
