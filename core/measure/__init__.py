"""Sampling: one engine for any number of jobs, and what its samples add to their records."""
