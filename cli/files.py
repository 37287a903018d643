"""Files that a verb writes at the user's request: written completely or not at all, overwritten only with --force."""

import io
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from jobtop.core.errors import BadValue

PACKED = ".gz"


@contextmanager
def new_path(option: str, path: Path, force: bool) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` when the block succeeds, and is deleted when it fails."""
    target = Path(os.path.realpath(path))
    if os.path.lexists(target) and not (force and stat.S_ISREG(target.stat().st_mode)):
        why = "it exists (--force overwrites it)" if target.is_file() else "it is not a file"
        raise BadValue(f"{option}: {path}: {why}")
    part = target.with_name(f".{target.name[:200]}.{os.getpid()}.part")
    try:
        part.touch(exist_ok=False)
    except OSError as error:
        raise BadValue(f"{option}: {path}: {os.strerror(error.errno or 0)}") from error
    try:
        yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def new_file(option: str, path: Path, force: bool) -> Iterator[TextIO]:
    """Like `new_path`, but yield an open text file; `-` is standard output, and a name that ends with .gz is packed."""
    if str(path) == "-":
        yield sys.stdout
        return
    if path.suffix == PACKED:
        with (
            new_path(option, path, force) as part,
            packed(part) as binary,
            io.TextIOWrapper(binary, "utf-8", "backslashreplace", newline="") as text,
        ):
            yield text
        return
    with (
        new_path(option, path, force) as part,
        part.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        yield file


@contextmanager
def packed(path: Path) -> Iterator[BinaryIO]:
    """Yield a binary file whose contents are written to a path by gzip; the same contents give the same bytes."""
    import gzip

    with path.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        yield cast("BinaryIO", file)


def pack(source: Path, target: Path) -> None:
    """Write the contents of a file to another one by gzip."""
    with source.open("rb") as file, packed(target) as binary:
        shutil.copyfileobj(file, binary)
