"""Command lines as tables show them. Pure."""

LONGEST_COMMAND = 1000


def short_command(words: str) -> str:
    """The command without the directory of the program; `[ksoftirqd/0]` is a name."""
    program, space, rest = words.partition(" ")
    if program.endswith("/") or program.startswith("["):
        return words
    return program.rpartition("/")[2] + space + rest
