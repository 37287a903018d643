"""Workflow files: reading, checking and expanding them. Pure but for reading the file itself."""
