"""The verbs of `jobtop alerts`: one file for each."""
