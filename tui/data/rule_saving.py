"""Saves a changed alert rule to the user's configuration file: the whole file or nothing, with its mode kept."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jobtop.core.alerts.rule_edit import edit_rule
from jobtop.core.errors import ConfigError
from jobtop.core.paths import config_files
from jobtop.core.record import record
from jobtop.core.units import printable

if TYPE_CHECKING:
    from jobtop.core.alerts.model import Rule
    from jobtop.core.alerts.rule_edit import Field
    from jobtop.core.config import Config

BYTE_UNITS = ("TiB", "GiB", "MiB", "KiB")
NEW_MODE = 0o600


@record
class RuleFile:
    """The user's configuration file, and the settings that count now."""

    path: Path
    config: Config

    @property
    def shown(self) -> str:
        """The path, with `~` for the home directory."""
        home = os.path.expanduser("~")
        text = str(self.path)
        return f"~{text[len(home) :]}" if home != "/" and text.startswith(f"{home}/") else text

    def refusal(self, rule: Rule) -> str | None:
        """Why the rule cannot be changed from here; None if it can."""
        if rule.origin in stronger_files(self.config, self.path):
            return f"{rule.origin}: this rule is of the project's file: edit it there, then run jobtop config trust"
        target = Path(os.path.realpath(self.path))
        if target.exists():
            is_writable = os.access(target, os.W_OK) and os.access(target.parent, os.W_OK)
        else:
            is_writable = os.access(next(part for part in target.parents if part.exists()), os.W_OK)
        return None if is_writable else f"{self.path}: you may not write this file"

    def save(self, rule: Rule, changes: Mapping[str, Field]) -> None:
        """Change the rule in the file, if the result is valid; raises ConfigError or OSError."""
        if (why := self.refusal(rule)) is not None:
            raise ConfigError(why)
        target = Path(os.path.realpath(self.path))  # a link stays a link
        before, mode = read_text(target)
        try:
            after = edit_rule(before.decode(), rule.name, changes).encode()
        except (ConfigError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.path}: {error}") from error
        check(self.path, after.decode(), rule, self.config)
        if changes.get("enabled") is True and rule.name in self.config.texts("alerts.off"):
            origin = self.config.origin("alerts.off")
            raise ConfigError(f"{origin}: alerts.off names this rule: remove it there")
        write(target, after, mode, before)


def rule_file(config: Config) -> RuleFile | None:
    """The user's own configuration file, whether or not it exists; None if no home directory is known."""
    own = config_files(os.environ, os.getcwd())[1:-1]
    return RuleFile(Path(own[0]), config) if own else None


def stronger_files(config: Config, path: Path) -> tuple[str, ...]:
    """The files whose rules replace those of the user's file: that of the project."""
    names = config.files
    return names[: names.index(str(path))] if str(path) in names else ()


def check(path: Path, text: str, rule: Rule, config: Config) -> None:
    """Raise ConfigError if the rule would be wrong in the changed file."""
    import tomllib

    from jobtop.core.alerts.rule_set import table_problems
    from jobtop.core.config import Alert

    label = f"{path}: alert.{printable(rule.name)}"
    own = [
        Alert(rule.name, table, str(path), label)
        for table in tomllib.loads(text)["alert"]
        if table.get("name") == rule.name
    ]
    stronger = stronger_files(config, path)
    weaker = [alert for alert in config.alerts if alert.origin != str(path) and alert.origin not in stronger]
    if found := table_problems(own, (), weaker):
        raise ConfigError(found[0])


def read_text(path: Path) -> tuple[bytes, int]:
    """The content of the file and its mode; of a file that does not exist, nothing and the mode of a new one."""
    try:
        with path.open("rb") as file:
            return file.read(), stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except FileNotFoundError:
        return b"", NEW_MODE


def write(path: Path, content: bytes, mode: int, before: bytes) -> None:
    """Replace the file; refuse if it has changed since it was read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    try:
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, NEW_MODE)
        with open(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(fd, mode)
            os.fsync(fd)
        if read_text(path)[0] != before:
            raise ConfigError(f"{path}: another program has changed it; look at it and try again")
        part.replace(path)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def level_input(measure: str, level: float) -> str:
    """A level as a user writes it: `90%`, `4GiB`, `100MiB/s`, `30s`, `80`."""
    if measure == "ratio":
        return f"{100 * level:g}%"
    if measure in ("bytes", "bytes/s"):
        for power, unit in zip((4, 3, 2, 1), BYTE_UNITS, strict=True):
            if level and level % 1024**power == 0:
                return f"{level / 1024**power:g}{unit}{measure.removeprefix('bytes')}"
        return f"{level:g}"
    return f"{level:g}s" if measure == "seconds" else f"{level:g}"


def seconds_input(seconds: float) -> str:
    """A duration as a user writes it: `0`, `30s`, `5m`, `1h`."""
    for size, unit in ((3600, "h"), (60, "m")):
        if seconds and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s" if seconds else "0"
