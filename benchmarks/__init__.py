"""Measures what jobtop itself costs, as ratios to other programs in the same run: `python -m benchmarks`."""
