"""Jobs in from other programs and out to them, one format per file."""
