"""Which GPUs the kernel's DRM has beside NVIDIA's, by /sys/class/drm: their names, and whether they sleep."""

from __future__ import annotations

import os
import re

from jobtop.core.measure.collectors.attribute import read_attribute
from jobtop.core.measure.collectors.gpu.sysfs import entries
from jobtop.core.record import record

NVIDIA, AMD, INTEL = "0x10de", "0x1002", "0x8086"
VENDORS = {AMD: "amd", INTEL: "intel"}
# A driver tells the vendor too, also where the file of the vendor cannot be read.
DRIVERS = {"amdgpu": "amd", "radeon": "amd", "i915": "intel", "xe": "intel"}
NVIDIA_DRIVERS = frozenset({"nvidia", "nouveau"})
# Displays of virtual machines: they have a render node, and nothing to read.
VIRTUAL = frozenset(
    {"virtio_gpu", "virtio-pci", "qxl", "vmwgfx", "vboxvideo", "bochs-drm", "hyperv_drm", "vgem", "vkms"}
)
CARD = re.compile(r"card\d+")
INTEGRATED_INTEL = "0000:00:02.0"  # the PCI address of every integrated GPU of Intel
FIRST_DOMAIN = "0000:"


@record
class Card:
    """One GPU. `kind`: its vendor, or its driver where the vendor is not a PCI one that is known.

    `directory` is that of the card, `device` that of the hardware; `nodes` are its files in /dev/dri.
    """

    address: str
    kind: str
    driver: str
    directory: str
    device: str
    nodes: tuple[str, ...]

    @property
    def is_asleep(self) -> bool:
        """Whether the kernel has suspended it; the next read of most of its files would wake it."""
        return read_attribute(f"{self.device}/power/runtime_status").text == "suspended"

    @property
    def short_address(self) -> str:
        return self.address.removeprefix(FIRST_DOMAIN)


def find_cards(sys: str = "/sys", without: frozenset[str] = frozenset()) -> list[Card]:
    """All GPUs in the order of their addresses, without NVIDIA's and without display controllers that only draw.

    The latter (the BMC of a server, a frame buffer of the firmware) have no render node; those of virtual machines have
    one, and nothing to read.
    """
    root = f"{sys}/class/drm"
    try:
        names = os.listdir(root)
    except OSError:
        return []
    cards = [card for name in names if CARD.fullmatch(name) and (card := _card(f"{root}/{name}", name)) is not None]
    left_out = {VENDORS[AMD]: "amd" in without, VENDORS[INTEL]: "intel" in without}
    return sorted((card for card in cards if not left_out.get(card.kind)), key=lambda card: card.address)


def is_integrated(card: Card) -> bool:
    """Whether a GPU of AMD or Intel is part of a CPU; no file is read for it, so that a card that sleeps goes on to."""
    if card.kind == VENDORS[INTEL]:
        return card.address == INTEGRATED_INTEL
    # Only AMD's APUs have a sensor of the northbridge's voltage.
    chips = f"{card.device}/hwmon"
    return card.kind == VENDORS[AMD] and any(os.path.exists(f"{chips}/{name}/in1_input") for name in entries(chips))


def _card(directory: str, name: str) -> Card | None:
    device = f"{directory}/device"
    vendor = read_attribute(f"{device}/vendor").text or ""
    try:
        render = [entry for entry in os.listdir(f"{device}/drm") if entry.startswith("renderD")]
        driver = os.path.basename(os.readlink(f"{device}/driver"))
    except OSError:
        return None
    if vendor == NVIDIA or driver in NVIDIA_DRIVERS | VIRTUAL or not render:
        return None
    address = os.path.basename(os.path.realpath(device))
    return Card(
        address, VENDORS.get(vendor) or DRIVERS.get(driver, driver), driver, directory, device, (name, *sorted(render))
    )


class CardNames:
    """Names of cards that stay: the kind, a number by address, and the address, as in `amd0-03:00.0`."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # by address

    def items(self) -> list[tuple[str, str]]:
        """All addresses with their names."""
        return list(self._names.items())

    def name(self, card: Card) -> str:
        """The same name for the same slot; the number is the next free one of its kind."""
        if card.address not in self._names:
            number = sum(re.match(rf"{re.escape(card.kind)}\d+-", name) is not None for name in self._names.values())
            self._names[card.address] = f"{card.kind}{number}-{card.short_address}"
        return self._names[card.address]
