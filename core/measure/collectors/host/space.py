"""The space of the local file systems, by the disk that they are on. Network mounts are never asked: they can hang.

A file system counts once for each disk that it lies on as a whole: its own device, and what is below that (LVM,
encryption). One that spans several disks counts for the stacked device alone: which part is on which disk is not known.
If it cannot be read what is below a device, that could be any disk: then only that device has a space.
"""

from __future__ import annotations

import os
import re

from jobtop.core.measure.collectors.attribute import read_attribute
from jobtop.core.measure.collectors.host.reading import read_space
from jobtop.core.procfs import read_text
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Space = tuple[int | None, int | None, str | None]

MOST_TRIES = 3  # mount points of one file system, if the first ones may not be entered
STACKED = ("dm", "md")  # a directory that only devices above others have
DEEPEST_STACK = 8  # of devices above each other


@record
class Mount:
    """A line of /proc/self/mountinfo."""

    number: int
    parent: int
    device: str
    root: str
    place: str
    source: str


class DiskSpace:
    """Reads the used and the whole space of each disk; which file system is where is looked up when mounts change."""

    def __init__(self, proc: str = "/proc", sys: str = "/sys", read: Callable[[str], Space] = read_space) -> None:
        self._proc, self._sys, self._read = proc, sys, read
        self._text: str | None = None
        self._places: dict[str, list[str]] = {}
        self._disks: dict[str, list[str]] = {}
        self._unread_stacks: set[str] = set()  # devices of which it is not known what is below them

    def collect(self) -> dict[str, tuple[int, int]]:
        """Bytes used and in all by disk; a disk of which a file system cannot be asked is absent."""
        text = read_text(f"{self._proc}/self/mountinfo")
        if text != self._text:
            self._text = text
            self._look_up(parse_mounts(text))
        spaces = {device: self._space(places) for device, places in self._places.items()}
        found = {}
        for disk, devices in self._disks.items():
            known = [space for device in devices if (space := spaces[device]) is not None]
            if known and len(known) == len(devices) and self._unread_stacks <= {disk}:
                found[disk] = (sum(used for used, _ in known), sum(total for _, total in known))
        return found

    def _look_up(self, mounts: list[Mount]) -> None:
        self._places, self._disks, self._unread_stacks = {}, {}, set()
        tree = Tree(mounts)
        for mount in sorted(mounts, key=lambda mount: mount.root != "/"):  # whole file systems before parts of them
            device = self._device(mount)
            if device is not None and len(self._places.get(device, ())) < MOST_TRIES and tree.is_reachable(mount):
                self._places.setdefault(device, []).append(mount.place)
        for device in self._places:
            for disk in self._disks_below(device):
                self._disks.setdefault(disk, []).append(device)

    def _space(self, places: list[str]) -> tuple[int, int] | None:
        for place in places:
            used, total, _ = self._read(place)
            if used is not None and total:
                return used, total
        return None

    def _device(self, mount: Mount) -> str | None:
        """The block device of a mount, as /sys names it; btrfs gives its mounts a number that no device has."""
        entry = f"{self._sys}/dev/block/{mount.device}"
        if os.path.exists(entry):
            return os.path.basename(os.path.realpath(entry)).replace("!", "/")
        if not mount.source.startswith("/dev/"):
            return None
        name = mount.source.removeprefix("/dev/")
        if name.startswith("mapper/"):
            return self._mapper_device(name.removeprefix("mapper/"))
        return name if os.path.exists(f"{self._sys}/class/block/{name.replace('/', '!')}") else None

    def _mapper_device(self, name: str) -> str | None:
        devices = [entry for entry in _listed(f"{self._sys}/block") if entry.startswith("dm-")]
        return next(
            (entry for entry in devices if read_attribute(f"{self._sys}/block/{entry}/dm/name").text == name), None
        )

    def _disks_below(self, device: str) -> Iterator[str]:
        """The disks that a device lies on as a whole, from the top to the bottom."""
        for _ in range(DEEPEST_STACK):
            entry = os.path.realpath(f"{self._sys}/class/block/{device.replace('/', '!')}")
            if os.path.exists(f"{entry}/partition"):
                entry = os.path.dirname(entry)
                device = os.path.basename(entry).replace("!", "/")
            yield device
            try:
                below = os.listdir(f"{entry}/slaves")
            except OSError as error:
                is_missing = isinstance(error, FileNotFoundError)
                if not is_missing or any(os.path.isdir(f"{entry}/{kind}") for kind in STACKED):
                    self._unread_stacks.add(device)
                return
            if len(below) != 1:
                return
            device = below[0].replace("!", "/")


def parse_mounts(text: str) -> list[Mount]:
    """The mounts of this process; odd lines are passed over."""
    mounts = []
    for line in text.splitlines():
        before, dash, after = line.partition(" - ")
        words, rest = before.split(), after.split()
        if dash and len(words) > 4 and len(rest) > 1 and words[0].isdecimal() and words[1].isdecimal():
            root, place, source = map(_unescaped, (words[3], words[4], rest[1]))
            mounts.append(Mount(int(words[0]), int(words[1]), words[2], root, place, source))
    return mounts


class Tree:
    """Which mounts lie over others: a path to a covered one leads elsewhere, and could hang in a network mount."""

    def __init__(self, mounts: list[Mount]) -> None:
        self._by_number = {mount.number: mount for mount in mounts}
        self._places_in: dict[int, set[str]] = {}
        for mount in mounts:
            if mount.number != mount.parent:
                self._places_in.setdefault(mount.parent, set()).add(mount.place)

    def is_reachable(self, mount: Mount) -> bool:
        """Whether the path of a mount leads to it."""
        if mount.place in self._places_in.get(mount.number, ()):
            return False
        seen: set[int] = set()
        passed: Mount | None = mount
        while passed is not None and passed.number not in seen:
            seen.add(passed.number)
            if not self._places_in.get(passed.parent, set()).isdisjoint(_directories_above(passed.place)):
                return False
            passed = self._by_number.get(passed.parent)
        return True


def _directories_above(place: str) -> list[str]:
    parts = place.strip("/").split("/")
    return ["/".join(["", *parts[:depth]]) or "/" for depth in range(len(parts))] if place != "/" else []


def _unescaped(word: str) -> str:
    """A word of mountinfo, in which blanks are written as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)


def _listed(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
