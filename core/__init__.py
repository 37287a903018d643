"""Measuring, running and judging jobs: no SQL, no widgets, no verbs."""
