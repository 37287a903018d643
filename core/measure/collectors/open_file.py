"""A file of the kernel's that is read every tick: opened once, read anew from its beginning each time."""

import os

CHUNK = 65536


class KeptFile:
    """One such file; `problem` says why the last reading gave nothing."""

    __slots__ = ("_fd", "path", "problem")

    def __init__(self, path: str) -> None:
        self.path = path
        self.problem: str | None = None
        self._fd = -1

    def read(self) -> str:
        """All of it as it is now, or nothing; after a failure the next call opens it again."""
        try:
            if self._fd < 0:
                self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            text = b""
            # A seq_file gives about a page at a time, however much is asked for: only nothing is the end.
            while part := os.pread(self._fd, CHUNK, len(text)):
                text += part
        except OSError as error:
            self.close()
            self.problem = f"{self.path}: {os.strerror(error.errno or 0)}"
            return ""
        self.problem = None if text else f"{self.path}: empty"
        return text.decode("utf-8", "surrogateescape")

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
