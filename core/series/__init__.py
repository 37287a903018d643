"""Samples over time: packed, rolled up, thinned, drawn and written for other programs. Pure."""
