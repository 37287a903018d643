"""Numbers in files of /sys: each is a value, or None with the reason kept."""

from __future__ import annotations

import os

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
        """The content; None if it cannot be read or is empty."""
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
        """The content without spaces around it."""
        content = self.data(path)
        return None if content is None else content.decode("utf-8", "replace").strip()

    def whole(self, path: str) -> int | None:
        """A whole number that is not negative."""
        text = self.text(path)
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
        """The value of the first file that has one."""
        return next((value for path in paths if (value := self.scaled(path, factor)) is not None), None)

    def labelled(self, directory: str, kind: str, labels: Iterable[str]) -> str | None:
        """The file `kindN_input` with the first of these labels that exists, such as temp2_input of `junction`."""
        found = {
            text: name.removesuffix("_label") + "_input"
            for name in entries(directory, kind)
            if name.endswith("_label") and (text := self.text(f"{directory}/{name}")) is not None
        }
        return next((f"{directory}/{found[label]}" for label in labels if label in found), None)


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
