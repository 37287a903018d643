"""The history: one SQLite file per host. All SQL is here; nothing is measured or displayed here."""
