"""The page of workflows, and the screen of one run."""
