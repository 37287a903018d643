"""Measuring parts of a Python process: what each tracked block used, in the process itself and in its sampler."""
