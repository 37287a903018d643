"""The history: one SQLite file per host. All SQL lives here, and nothing is measured or shown."""
