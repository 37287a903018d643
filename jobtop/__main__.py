"""`jobtop` and `python -m jobtop`: what has to happen before a verb is imported, and nothing slow."""

import gc
import os
import sys

from jobtop import __version__

try:
    import _signal  # type: ignore[import-not-found]
except ImportError:  # it is private, and another Python may not have it
    import signal as _signal


def open_standard_descriptors() -> None:
    """Put /dev/null where 0, 1 or 2 is closed: the next file opened, such as the store, would take its place."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is this one, since those below were seen to; jobs have to inherit it.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # Python sets a stream to None if its descriptor was closed at the start.
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


def leave_out_the_jobs_modules() -> None:
    """What PYTHONPATH adds is meant for the job: a json.py of its own must not become ours."""
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    added = {os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path}
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) not in added - {home}]


def print_version() -> int:
    try:
        print(f"jobtop {__version__}", flush=True)
    except OSError as error:
        os.write(2, f"jobtop: cannot write: {error.strerror}\n".encode())
        os._exit(1)
    return 0


def main() -> int:
    """Call `start`; one line for an installation that is not whole."""
    try:
        return start()
    except ModuleNotFoundError as error:
        os.write(2, f"jobtop: {missing_module_text(str(error.name))}\n".encode(errors="replace"))
        return leave(125)


def missing_module_text(name: str) -> str:
    """Return that a module is not beside jobtop, and what helps: PYTHONPATH is used for jobs, not for jobtop."""
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    file, others = name.partition(".")[0], os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = (path for path in others if path and os.path.abspath(path) != home)
    elsewhere = [path for path in paths if any(os.path.exists(f"{path}/{file}{end}") for end in ("", ".py"))]
    there = f" (it is in {elsewhere[0]}, but PYTHONPATH is for jobs only)" if elsewhere else ""
    whole = "install jobtop with all it needs into one environment"
    return (
        f"the module {name} is missing from the installation in {home}{there}; {whole}: python3 -m pip install jobtop"
    )


def start() -> int:
    """Answer `--version` without click, refuse Windows, and hand everything else to the verbs."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # a Ctrl-C while we start ends us without a traceback
    open_standard_descriptors()
    leave_out_the_jobs_modules()
    if sys.argv[1:] == ["--version"]:
        return print_version()
    if sys.platform == "win32":
        print("jobtop: Windows is not supported; jobtop runs on Linux and macOS, and inside WSL", file=sys.stderr)
        return 125
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    supervisor = None
    if sys.argv[1:2] == ["run"]:
        from jobtop.cli.run.fast_start import fast_run

        code, supervisor = fast_run(sys.argv[2:])
        if code is not None:
            return leave(code)
    if sys.argv[1:2] == ["submit"]:
        from jobtop.cli.run.submission import fast_submit

        code = fast_submit(sys.argv[2:])
        if code is not None:
            return leave(code)
    if not sys.argv[1:] or sys.argv[1].startswith("-"):
        # The console makes 150,000 objects until its first picture, and lives on all of them: no need to look through.
        gc.set_threshold(200_000, 50, 1000)
    import signal

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends us as it ends any other program
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = None if sys.argv[1:] else console()
    if code is not None:
        return leave(code)
    from jobtop.cli.main import main as cli_main

    return leave(cli_main(supervisor))


def console() -> int | None:
    """The exit code of the console, opened without click; None where there is no terminal to show it in."""
    from jobtop.cli.verbs.console import can_open_console, open_console

    if not can_open_console():
        return None
    from jobtop.cli.app import App
    from jobtop.cli.failure import run_reporting_errors

    app = App((), False, "auto", os.environ)
    return run_reporting_errors(lambda: open_console(app, refresh=1.0, readonly=False, ascii=False, demo=False))


def leave(code: int) -> int:
    """End at once: taking an interpreter apart costs 15 ms, and everything that matters is on disk by now."""
    try:
        sys.stderr.flush()
    finally:  # an error here only means that the reader has exited
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
