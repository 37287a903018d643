"""Runs of workflows: their jobs are queued, and the agent runs them."""
