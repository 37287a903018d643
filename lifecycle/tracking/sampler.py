"""The sampler of a tracked process: a process of its own, which exits with the tracked one.

`python -m jobtop.lifecycle.tracking.sampler ROOT PID`, with a socket as standard input. It is no child of the
tracked process: that would count it for its blocks.
"""

import sys


def main(arguments: list[str]) -> None:
    """Serve the process on standard input until it exits."""
    import signal

    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # the shell that starts this process lets it ignore that
    from jobtop.lifecycle.tracking.serving import serve

    serve(arguments[0], int(arguments[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
