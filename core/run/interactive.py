"""Programs that take over the terminal: they are useless in a pane of the console, and need all keys."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# Programs that always do: editors, pagers, monitors, terminals in a terminal, logins.
ALWAYS = frozenset(
    """
    vi vim vimdiff view nvim nano pico micro emacs hx helix kak joe jed ne mcedit ed
    less more most man info lynx w3m
    top htop btop atop iotop iftop nmon glances nvtop nvitop bpytop gtop s-tui watch
    mc ranger nnn lf tig lazygit lazydocker k9s ncdu fzf dialog whiptail
    tmux screen zellij byobu dtach abduco
    ssh mosh telnet ftp sftp su login passwd visudo
    ipython bpython ptpython ghci irb
    """.split()
)
# Programs that do without a script; an option that is given with a command makes them run it and end.
WITHOUT_SCRIPT = {
    **dict.fromkeys(("sh", "bash", "zsh", "fish", "dash", "ksh", "tcsh", "csh"), ("-c", "--version", "--help")),
    **dict.fromkeys(("python", "pypy"), ("-c", "-m", "-V", "--version", "-h", "--help")),
    "node": ("-e", "--eval", "-p", "--print", "-v", "--version", "-h", "--help"),
    "julia": ("-e", "-E", "--eval", "--print", "-v", "--version", "-h", "--help"),
    "lua": ("-e", "-v"),
}
# The same for programs with operands that are no scripts, such as the name of a database.
WITHOUT_OPTION = {
    "psql": ("-c", "-f", "-l", "--command", "--file", "--list", "--version", "--help"),
    **dict.fromkeys(("mysql", "mariadb"), ("-e", "--execute", "--version", "--help")),
    "mongosh": ("--eval", "--file", "-f", "--version", "--help"),
    "cqlsh": ("-e", "-f", "--execute", "--file", "--version"),
    "R": ("-e", "-f", "--file", "CMD", "--version", "--help"),
    **dict.fromkeys(("gdb", "lldb"), ("-batch", "--batch", "--version", "--help")),
    "bc": ("--version",),
}
# Programs that do with at most this many operands: a further one is what they have to do.
WITH_OPERANDS = {"sqlite3": 1, "duckdb": 1, "redis-cli": 0}
STAY_OPTIONS = ("-i", "-it", "-ti")  # of interpreters, and of `docker run`, `docker exec`, `kubectl exec`
CONTAINER_PROGRAMS = ("docker", "podman", "kubectl", "nerdctl")
LAUNCHERS = ("env", "nice", "nohup", "time", "command", "exec")  # programs that start another one
PASSWORD_PROGRAMS = ("sudo", "doas")  # they ask for it on /dev/tty, which only a controlling terminal is


def takes_over_terminal(command: Sequence[str]) -> bool:
    """Whether a command is known to paint the whole screen, to prompt for commands, or to ask for a password."""
    words = without_launchers(command)
    if not words:
        return False
    name, arguments = os.path.basename(words[0]), words[1:]
    name = name.rstrip("0123456789.") if name != "sqlite3" else name
    if name in ALWAYS:
        return not any(word in ("--version", "--help", "--batch", "-es") for word in arguments)
    if name in PASSWORD_PROGRAMS:
        return not any(word in ("-n", "--non-interactive", "-S") for word in arguments)
    if name in CONTAINER_PROGRAMS:
        return any(word in STAY_OPTIONS for word in arguments)
    if name in WITHOUT_SCRIPT:
        return prompts(arguments, WITHOUT_SCRIPT[name])
    if name in WITHOUT_OPTION:
        return not any(word.split("=")[0] in WITHOUT_OPTION[name] for word in arguments)
    operands = [word for word in arguments if not word.startswith("-")]
    return name in WITH_OPERANDS and len(operands) <= WITH_OPERANDS[name]


def prompts(arguments: Sequence[str], ending_options: Sequence[str]) -> bool:
    """Whether an interpreter with these arguments prompts for commands: it has no script, or stays after it."""
    for word in arguments:
        if word in STAY_OPTIONS:
            return True
        if not word.startswith("-"):
            return False
        short = word[1:] if not word.startswith("--") else ""
        if word.split("=")[0] in ending_options or ("-c" in ending_options and short.endswith("c")):
            return False
    return True


def without_launchers(command: Sequence[str]) -> Sequence[str]:
    """The command without programs before it that only start it, such as `env A=1` or `nice`."""
    words = list(command)
    while words and os.path.basename(words[0]) in LAUNCHERS:
        words.pop(0)
        while words and (words[0].startswith("-") or "=" in words[0]):
            words.pop(0)
    return words
