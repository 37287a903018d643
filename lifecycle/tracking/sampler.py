"""The sampler of a tracked process: a process of its own, which exits with the tracked one.

`python -m jobtop.lifecycle.tracking.sampler ROOT PID`, with a socket as standard input. It is no child of the tracked
process for long: a child would be counted for its blocks.
"""

import os
import sys


def main(arguments: list[str]) -> None:
    """Leave the process that started this one, then serve until it exits."""
    if os.fork():
        os._exit(0)
    import signal

    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    from jobtop.lifecycle.tracking.serving import serve

    serve(arguments[0], int(arguments[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
