"""Reads and changes containers for the console: engines, what the monitor saw, logs, operations."""
