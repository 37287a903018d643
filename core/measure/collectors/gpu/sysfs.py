"""Numbers in files of /sys: each is a value, or None with the reason kept."""

from __future__ import annotations

import os

from jobtop.core.measure.collectors.attribute import read_attribute, read_name
from jobtop.core.measure.collectors.process_fields import is_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST = 4096  # bytes of an attribute of sysfs


class SysFiles:
    """Reads the files of one card. `reasons`: by path, why the last reading of a file had no value."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def data(self, path: str) -> bytes | None:
        """The content of a table that is no text; None if it cannot be read or is empty."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                content = os.read(fd, LONGEST)
            finally:
                os.close(fd)
        except OSError as error:  # EBUSY, EPERM: the firmware does not answer now, or not us
            self.reasons[path] = os.strerror(error.errno or 0)
            return None
        if not content.strip():
            self.reasons[path] = "empty"
            return None
        self.reasons.pop(path, None)
        return content

    def text(self, path: str) -> str | None:
        """The content without spaces around it; None if it cannot be read, is empty or torn."""
        attribute = read_attribute(path)
        if attribute.problem is None:
            self.reasons.pop(path, None)
        else:
            self.reasons[path] = attribute.problem.removeprefix(f"{path}: ")
        return attribute.text

    def whole(self, path: str) -> int | None:
        """A whole number that is not negative; of no path, None."""
        text = self.text(path) if path else None
        if text is None:
            return None
        if not is_count(text):
            self.reasons[path] = "not a number"
            return None
        return int(text)

    def scaled(self, path: str, factor: float) -> float | None:
        value = self.whole(path)
        return None if value is None else value * factor

    def first_scaled(self, paths: Iterable[str], factor: float) -> float | None:
        """The value of the first file that exists: another one measures something else, and does not stand for it."""
        existing = next(filter(os.path.exists, paths), None)
        return None if existing is None else self.scaled(existing, factor)

    def labelled(self, directory: str, kind: str, labels: Iterable[str]) -> str | None:
        """The file `kindN_input` with the first of these labels that exists, such as temp2_input of `junction`.

        None if none has one of these labels; empty if one may have, since its own label cannot be read.
        """
        names = entries(directory, kind)
        starts = {name.rpartition("_")[0] for name in names if name.endswith(("_input", "_label"))}
        if not any(name.endswith("_label") for name in names):
            return None
        found = {read_name(f"{directory}/{start}_label"): f"{directory}/{start}_input" for start in starts}
        for label in labels:
            if label in found:
                return found[label]
            if None in found:
                return ""
        return None


def entries(directory: str, prefix: str = "") -> list[str]:
    """The names in a directory that begin like this, in order; none where there is no such directory."""
    try:
        return sorted(name for name in os.listdir(directory) if name.startswith(prefix))
    except OSError:
        return []


def sensors(files: SysFiles, device: str, chip: str) -> str | None:
    """The directory of the sensor chip of a card; a driver that is loaded again gives it another number."""
    root = f"{device}/hwmon"
    found = [f"{root}/{name}" for name in entries(root, "hwmon")]
    return next((directory for directory in found if files.text(f"{directory}/name") == chip), None)
