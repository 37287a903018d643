"""What the console reads: the feed, which follows the stores, and readers that run in their own threads."""
