"""The kinds of jobs: one file each, one name in the list of `registry`."""
