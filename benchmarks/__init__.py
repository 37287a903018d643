"""What jobtop itself costs, as ratios measured in one run; `python -m benchmarks`."""
