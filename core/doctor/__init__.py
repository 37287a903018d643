"""Checks what works on this machine and what does not: one finding per check."""
