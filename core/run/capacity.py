"""The CPUs, memory and GPUs that this host has for jobs, and the variables that show a job its GPUs."""

from __future__ import annotations

import os

from jobtop.core.measure.collectors.cgroup import all_hierarchies
from jobtop.core.measure.collectors.gpu.drm_cards import INTEL, VENDORS, find_cards, is_integrated
from jobtop.core.measure.collectors.gpu.nvidia import device_count
from jobtop.core.measure.collectors.proc import cpus_allowed
from jobtop.core.procfs import read_text, value_in
from jobtop.core.run.scheduling import Capacity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

MEMORY_LIMITS = {"v2": "memory.max", "memory": "memory.limit_in_bytes"}
MASKS = {
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
    "amd": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    "intel": ("ZE_AFFINITY_MASK",),
}


def capacity(with_gpus: bool) -> Capacity:
    """What all jobs of this host can use together; GPUs are only counted if a job asks for some."""
    return Capacity(cpus_allowed(), memory_bytes(), gpus(os.environ) if with_gpus else ())


def memory_bytes(proc: str = "/proc") -> int | None:
    """The memory of the machine, or less if a cgroup around us has a limit."""
    limits = []
    if total := value_in(read_text(f"{proc}/meminfo"), "MemTotal:"):
        limits.append(total * 1024)
    for tree in all_hierarchies(f"{proc}/self"):
        here, name = tree.own, MEMORY_LIMITS.get(tree.kind)
        while name is not None:
            text = read_text(f"{tree.mount}{here}/{name}").strip()
            if text.isdigit():
                limits.append(int(text))
            if not here:
                break
            here = here.rpartition("/")[0]
    return min(limits, default=None)


def gpus(
    environ: Mapping[str, str], sys: str = "/sys", count_nvidia: Callable[[], int] = device_count
) -> tuple[str, ...]:
    """The GPUs of this host, of one vendor only: a second vendor's card is usually there for the screen.

    Integrated GPUs do not count: a job that asks for a GPU would be given one that is no faster than the CPU.
    """
    for vendor, found in (
        ("nvidia", lambda: range(count_nvidia())),
        ("amd", lambda: amd_numbers(sys)),
        ("intel", lambda: range(intel_count(sys))),
    ):
        if numbers := list(found()):
            # A mask lists GPUs by these numbers; those of integrated ones are left out of them.
            chosen = visible(environ.get(MASKS[vendor][0]), max(numbers) + 1)
            return tuple(f"{vendor}:{name}" for name in chosen if not name.isdigit() or int(name) in numbers)
    return ()


def amd_numbers(sys: str) -> list[int]:
    """The numbers of cards as ROCm counts: all nodes of the compute driver that have a GPU, integrated ones too."""
    nodes = f"{sys}/class/kfd/kfd/topology/nodes"
    texts = [
        read_text(f"{nodes}/{name}/properties") for name in sorted(_names(nodes), key=lambda name: (len(name), name))
    ]
    of_gpus = [text for text in texts if value_in(text, "simd_count") > 0]
    integrated = {node for card in find_cards(sys) if is_integrated(card) for node in card.nodes}
    return [
        number
        for number, text in enumerate(of_gpus)
        if not value_in(text, "cpu_cores_count") and f"renderD{value_in(text, 'drm_render_minor')}" not in integrated
    ]


def intel_count(sys: str) -> int:
    """Cards; Intel's library numbers integrated GPUs after them."""
    return sum(card.kind == VENDORS[INTEL] and not is_integrated(card) for card in find_cards(sys))


def visible(mask: str | None, count: int) -> list[str]:
    """The devices that a mask like CUDA_VISIBLE_DEVICES lists; as in CUDA, only those before the first invalid one."""
    if mask is None:
        return list(map(str, range(count)))
    names: list[str] = []
    for name in map(str.strip, mask.split(",")):
        if not name or name in names or (name.lstrip("-").isdigit() and not 0 <= int(name) < count):
            break
        names.append(name)
    return names


def gpu_environment(given: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that show a job only these GPUs, which are numbered as in our own `environ`."""
    variables: dict[str, str] = {}
    by_vendor: dict[str, list[str]] = {}
    for gpu in given:
        vendor, _, name = gpu.partition(":")
        by_vendor.setdefault(vendor, []).append(name)
    for vendor, names in by_vendor.items():
        variables |= {mask: ",".join(names) for mask in MASKS.get(vendor, ())}
    if "nvidia" in by_vendor:
        # NVML numbers GPUs by bus, CUDA by speed unless this variable says otherwise.
        order = None if "CUDA_VISIBLE_DEVICES" in environ else "PCI_BUS_ID"
        if (order := environ.get("CUDA_DEVICE_ORDER", order)) is not None:
            variables["CUDA_DEVICE_ORDER"] = order
    if "amd" in by_vendor:
        # ROCR hides the other GPUs first, then HIP numbers the rest from 0.
        variables["HIP_VISIBLE_DEVICES"] = ",".join(map(str, range(len(by_vendor["amd"]))))
    return variables


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
