"""Samples over time: packing, rolling up, thinning, drawing, and formats of other programs. Pure."""
