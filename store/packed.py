"""What has no columns of its own: values as compressed JSON."""

from __future__ import annotations

import json
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def pack(value: Any) -> bytes:
    """Any JSON value; in ASCII, so that bytes of the outside world that are no UTF-8 (PEP 383) survive."""
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode("ascii"))


def unpack(data: bytes) -> Any:
    """The value again; None if a bit of it has changed."""
    try:
        return json.loads(zlib.decompress(data))
    except (zlib.error, ValueError):
        return None
