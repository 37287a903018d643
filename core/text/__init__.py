"""Text about jobs, events and metrics that verbs and the console share. Pure."""
