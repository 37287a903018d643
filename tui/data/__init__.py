"""What the console reads: the feed of the stores, and readers that answer in their own threads."""
