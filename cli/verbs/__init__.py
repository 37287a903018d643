"""The verbs: one file each, imported when called."""
