"""The driver of the console: knows whether the terminal has taken all that was written to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from textual.drivers.linux_driver import LinuxDriver

if TYPE_CHECKING:
    from textual.app import App


class CountingFile:
    """The file of the terminal; `flushed` counts the characters that the terminal has taken."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._written = self.flushed = 0

    def write(self, text: str) -> int:
        self._file.write(text)
        self._written += len(text)
        return len(text)

    def flush(self) -> None:
        self._file.flush()
        self.flushed = self._written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class TerminalDriver(LinuxDriver):
    """Textual's driver, which also counts what is on its way to the terminal."""

    def __init__(self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None):
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        assert self._file is not None
        self._counting = CountingFile(self._file)
        self._file = self._counting  # type: ignore[assignment]
        self._queued = 0
        self.starts = 0  # how often it has taken over the terminal, of which it then does not know what it shows

    def write(self, data: str) -> None:
        self._queued += len(data)
        super().write(data)

    def start_application_mode(self) -> None:
        self.starts += 1
        super().start_application_mode()  # type: ignore[no-untyped-call]

    @property
    def is_idle(self) -> bool:
        """Whether the terminal has taken everything."""
        return self._counting.flushed >= self._queued
