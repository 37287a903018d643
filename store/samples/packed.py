"""What has no columns of its own: values as compressed JSON."""

from __future__ import annotations

import json
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


MOST_BYTES = 4 * 1024 * 1024


def pack(value: Any) -> bytes:
    """Any JSON value; in ASCII, so that bytes of the outside world that are no UTF-8 (PEP 383) survive."""
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode("ascii"))


def unpack(data: bytes) -> Any:
    """The value again; None if a bit of it has changed, or if it is larger than any that is packed."""
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(data, MOST_BYTES)
        return json.loads(text) if unpacker.eof else None
    except (zlib.error, ValueError, TypeError, RecursionError):
        return None
