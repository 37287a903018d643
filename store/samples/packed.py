"""Pack values that have no columns of their own, as compressed JSON."""

from __future__ import annotations

import json
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


MOST_BYTES = 4 * 1024 * 1024


def pack(value: Any) -> bytes:
    """Pack any JSON value; the JSON is ASCII, which also holds bytes of names that are not UTF-8 (PEP 383)."""
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode("ascii"))


def unpack(data: bytes) -> Any:
    """Unpack a value; None if the data is damaged, or larger than any that jobtop packs."""
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(data, MOST_BYTES)
        return json.loads(text) if unpacker.eof else None
    except (zlib.error, ValueError, TypeError, RecursionError):
        return None
