"""Answers questions about jobs from their records: pure functions, one file per question."""
