"""What files say of NVIDIA's driver and cards, without NVML."""

from __future__ import annotations

import os

from jobtop.core.measure.collectors.attribute import read_attribute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LIBRARY = "libnvidia-ml.so.1"
DEVICES = ("/dev/nvidiactl", "/dev/dxg")  # the second one is that of WSL
VENDOR, DISPLAY_CLASS = "0x10de", "0x03"


def driver_problem(proc: str = "/proc", environ: Mapping[str, str] = os.environ) -> str | None:
    """Why NVML cannot answer, as far as files tell, or None: where there is no driver nothing more is imported."""
    directories = filter(None, environ.get("LD_LIBRARY_PATH", "").split(":"))
    signs = (f"{proc}/driver/nvidia", *DEVICES, *(f"{directory}/{LIBRARY}" for directory in directories))
    return None if any(map(os.path.exists, signs)) else "no NVIDIA driver is loaded"


def cards(sys: str = "/sys") -> dict[str, bool]:
    """NVIDIA's cards by PCI address, with whether each is asleep: a call of NVML would wake it."""
    return {
        name: read_attribute(f"{sys}/bus/pci/devices/{name}/power/runtime_status").text == "suspended"
        for name, vendor in display_cards(sys).items()
        if vendor == VENDOR
    }


def display_cards(sys: str = "/sys") -> dict[str, str]:
    """The vendors of all graphics cards and accelerators with a display class, by PCI address."""
    directory = f"{sys}/bus/pci/devices"
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return {}
    return {
        name: read_attribute(f"{directory}/{name}/vendor").text or ""
        for name in names
        if (read_attribute(f"{directory}/{name}/class").text or "").startswith(DISPLAY_CLASS)
    }
