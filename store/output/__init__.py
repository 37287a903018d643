"""What jobs wrote: their logs as one text, read in parts."""
