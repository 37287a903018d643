"""What a cgroup has read from and written to each device: io.stat of version 2, the blkio files of version 1."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

V2_FILE = "io.stat"
V1_BYTES, V1_OPERATIONS = "blkio.throttle.io_service_bytes", "blkio.throttle.io_serviced"
V1_FILES = (V1_BYTES, V1_OPERATIONS)
FILES = (V2_FILE, *V1_FILES)
V2_NAMES = {"rbytes": "read_bytes", "wbytes": "write_bytes", "rios": "read_ops", "wios": "write_ops"}
MOST_DIGITS = 18  # more does not fit into the store


def storage_files(directories: Iterable[str]) -> dict[str, str]:
    """The files that are there in some cgroups, by name; of several the first."""
    paths = [(name, f"{directory}/{name}") for directory in directories for name in FILES]
    return {name: path for name, path in reversed(paths) if os.path.exists(path)}


def storage_by_device(texts: Mapping[str, str], sys: str = "/sys") -> list[dict[str, object]]:
    """Bytes and operations of each device, the most used first; empty if the cgroup does not tell.

    Version 1 counts nothing before a rule for the device exists: there 0 is unknown, and the device is left out.
    """
    counted = parse_io_stat(texts.get(V2_FILE, ""))
    if not counted:
        counted = parse_blkio(texts.get(V1_BYTES, ""), texts.get(V1_OPERATIONS, ""))
    used = [(number, counts) for number, counts in counted.items() if any(counts.values())]
    used.sort(key=lambda row: -row[1].get("read_bytes", 0) - row[1].get("write_bytes", 0))
    return [
        {"device": device_name(number, sys), **{name: counts.get(name) for name in V2_NAMES.values()}}
        for number, counts in used
    ]


def parse_io_stat(text: str) -> dict[str, dict[str, int]]:
    """The lines `8:0 rbytes=… wbytes=… rios=… wios=…`, by the number of the device."""
    found: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        number, *words = line.split() or [""]
        if not is_device_number(number):
            continue
        pairs = (word.partition("=") for word in words)
        counts = {V2_NAMES[name]: int(value) for name, _, value in pairs if name in V2_NAMES and is_count(value)}
        if counts:
            found[number] = counts
    return found


def parse_blkio(bytes_text: str, operations_text: str) -> dict[str, dict[str, int]]:
    """The lines `8:0 Read 4096` of the two files, by the number of the device."""
    found: dict[str, dict[str, int]] = {}
    for text, unit in ((bytes_text, "bytes"), (operations_text, "ops")):
        for line in text.splitlines():
            words = line.split()
            if len(words) == 3 and is_device_number(words[0]) and words[1] in ("Read", "Write") and is_count(words[2]):
                found.setdefault(words[0], {})[f"{words[1].lower()}_{unit}"] = int(words[2])
    return found


def is_device_number(word: str) -> bool:
    major, _, minor = word.partition(":")
    return major.isdigit() and minor.isdigit()


def is_count(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= MOST_DIGITS


def device_name(number: str, sys: str = "/sys") -> str:
    """The name of a block device, such as sda; its number if the system does not tell."""
    try:
        return os.path.basename(os.readlink(f"{sys}/dev/block/{number}")) or number
    except OSError:
        return number
