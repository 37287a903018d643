"""What can be said about jobs from their records: pure functions, one file per question."""
