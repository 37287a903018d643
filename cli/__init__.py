"""The verbs: each a module, imported when called. stdout is data, stderr is words."""
