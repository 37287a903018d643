"""Tracked blocks of a Python program: what is read while one runs, and how it is summed up."""
