"""The verbs of `jobtop containers`: one file for each."""
