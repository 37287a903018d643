"""Starting a job under its supervisor, limits, turns in the queue, and what its end means."""
