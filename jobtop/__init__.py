"""jobtop shows jobs and remembers them: the public face of the package, which the rooms stand behind."""

__version__ = "0.1.0"
