"""An SVG as PNG, by the package resvg-py or the program rsvg-convert; no other module imports the package."""

from __future__ import annotations

import shutil
import subprocess

from jobtop.core.errors import UsageError

PROGRAM = "rsvg-convert"
REMEDY = f"a PNG needs resvg-py (pip install 'jobtop[png]') or the program {PROGRAM} (Debian: librsvg2-bin)"
ZOOM = 2
LONGEST_SECONDS = 60


def png(svg: str) -> bytes:
    """The picture with two pixels per unit; UsageError with the remedy if nothing is installed that can draw it."""
    try:
        import resvg_py
    except ImportError:
        return _by_program(svg)
    return resvg_py.svg_to_bytes(svg_string=svg, zoom=ZOOM, font_family="DejaVu Sans", sans_serif_family="DejaVu Sans")


def _by_program(svg: str) -> bytes:
    program = shutil.which(PROGRAM)
    if program is None:
        raise UsageError(REMEDY)
    words = [program, "--format=png", f"--zoom={ZOOM}"]
    try:
        done = subprocess.run(words, input=svg.encode(), capture_output=True, timeout=LONGEST_SECONDS, check=True)
    except subprocess.SubprocessError as error:
        raise UsageError(f"{PROGRAM} could not draw the picture: {error}") from error
    return done.stdout
