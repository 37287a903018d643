"""Processes that compute on AMD's GPUs through /dev/kfd (ROCm): the times of engines in fdinfo leave their work out."""

from __future__ import annotations

from jobtop.core.measure.collectors.gpu.sysfs import SysFiles, entries
from jobtop.core.procfs import word_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def compute_processes(sys: str, addresses: Mapping[str, str]) -> dict[str, dict[int, int]]:
    """The memory of each process on each GPU, by address and pid of the machine.

    `addresses`: the GPU of each node in /dev/dri. A process that has no memory on a GPU is not on it: the driver lists
    each process with all GPUs.
    """
    root = f"{sys}/class/kfd/kfd"
    pids = [name for name in entries(f"{root}/proc") if name.isdigit()]
    if not pids:
        return {}
    files = SysFiles()
    gpus = _gpus(files, root, addresses)
    found: dict[str, dict[int, int]] = {}
    for pid in pids:
        for number, address in gpus.items():
            if held := files.whole(f"{root}/proc/{pid}/vram_{number}"):
                found.setdefault(address, {})[int(pid)] = held
    return found


def _gpus(files: SysFiles, root: str, addresses: Mapping[str, str]) -> dict[int, str]:
    """The address of each GPU by the id that the compute driver gives it."""
    nodes = f"{root}/topology/nodes"
    found = {}
    for name in entries(nodes):
        minor = word_in(files.text(f"{nodes}/{name}/properties") or "", "drm_render_minor")
        address = addresses.get(f"renderD{minor}")
        number = files.whole(f"{nodes}/{name}/gpu_id")
        if address is not None and number is not None:
            found[number] = address
    return found
