"""The files that processes of a job have open: where they are read, and how far."""
