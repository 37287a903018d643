"""Containers as jobs: the runner that starts one and waits for it; those that jobtop attaches to or follows."""
