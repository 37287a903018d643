"""A file of the kernel that is read every tick: opened once, read from its beginning each time."""

import os

CHUNK = 65536


class KeptFile:
    """One such file; `problem` says why the last reading gave nothing.

    `is_one_record`: the kernel writes it in one piece, as all files of a cgroup, so that one read gets all of it.
    """

    __slots__ = ("_fd", "is_one_record", "path", "problem")

    def __init__(self, path: str, is_one_record: bool = False) -> None:
        self.path, self.is_one_record = path, is_one_record
        self.problem: str | None = None
        self._fd = -1

    def read(self) -> str:
        """All of it as it is now, or nothing; after a failure the next call opens it again."""
        return self.read_bytes().decode("utf-8", "surrogateescape")

    def read_bytes(self) -> bytes:
        """The same as bytes, to compare them with those before."""
        try:
            if self._fd < 0:
                self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            content = os.pread(self._fd, CHUNK, 0)
            # A seq_file gives about a page at a time, however much is asked for: only nothing is the end.
            while content and not self.is_one_record and (part := os.pread(self._fd, CHUNK, len(content))):
                content += part
        except OSError as error:
            self.close()
            self.problem = f"{self.path}: {os.strerror(error.errno or 0)}"
            return b""
        if not content.endswith(b"\n"):  # the kernel ends each of these files with a new line
            self.problem = f"{self.path}: {'torn' if content else 'empty'}"
            return b""
        self.problem = None
        return content

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
