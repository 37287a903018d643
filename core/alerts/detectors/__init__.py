"""What rules other than levels look for: one question a file, over a bounded number of values. Pure."""
