"""The command line `jobtop VERB`: imports only the verb that is called, and prints errors as one line."""

import os
import sys
from typing import Any

import click
from click.core import ParameterSource

from jobtop import __version__
from jobtop.cli.app import App
from jobtop.cli.failure import report_failure, run_reporting_errors
from jobtop.cli.values import Duration
from jobtop.core.errors import VERB_LIKENESS, ExitCode, JobtopError, UsageError, did_you_mean, nearest_name
from jobtop.core.run.supervisor import Supervisor

VERBS = {
    "run": ("jobtop.cli.verbs.run:run", "Run a command and record exactly what it used."),
    "rerun": ("jobtop.cli.verbs.rerun:rerun", "Run an earlier job again, as it was or with changes."),
    "submit": ("jobtop.cli.verbs.submit:submit", "Queue a command; it starts when the host has room for it."),
    "attach": ("jobtop.cli.verbs.attach:attach", "Monitor a running process and its descendants as a job."),
    "queue": ("jobtop.cli.verbs.queue:queue", "List queued jobs in start order, with the reason each one waits."),
    "retry": ("jobtop.cli.verbs.queue:retry", "Queue ended jobs again."),
    "group": ("jobtop.cli.verbs.queue:group", "Limit how many jobs of a group run at once."),
    "history": ("jobtop.cli.verbs.history:history", "List past and present jobs, newest first."),
    "show": ("jobtop.cli.verbs.show:show", "Show one job: how it went, why it ended, what it used."),
    "logs": ("jobtop.cli.verbs.logs:logs", "Print the output a job wrote."),
    "top": ("jobtop.cli.verbs.top:top", "Show the processes and threads of a job, live."),
    "files": ("jobtop.cli.verbs.files:files", "Show the files a job has open: position, rate, time left."),
    "connections": (
        "jobtop.cli.verbs.connections:connections",
        "Show the network connections of a job: addresses, state, bytes, rates.",
    ),
    "metrics": ("jobtop.cli.verbs.metrics:metrics", "Print the samples of a job, and new ones while it runs."),
    "plot": ("jobtop.cli.verbs.plot:plot", "Draw charts of what a job used over time."),
    "export": ("jobtop.cli.verbs.export:export", "Write jobs in a format that other programs read."),
    "import": ("jobtop.cli.verbs.imports:import_", "Import jobs that other programs recorded."),
    "stats": ("jobtop.cli.verbs.stats:stats", "Summarise jobs: outcomes and resource use, overall and by group."),
    "check": ("jobtop.cli.verbs.check:check", "Check whether jobs used more than they asked for."),
    "alerts": ("jobtop.cli.verbs.alerts.group:alerts", "List, acknowledge and mute alerts."),
    "containers": (
        "jobtop.cli.verbs.containers.group:containers",
        "Show containers of Docker and Podman: what they use, their output; stop them.",
    ),
    "workflow": (
        "jobtop.cli.verbs.workflow.group:workflow",
        "Run the jobs of workflow files in their order; check the files, look at the runs.",
    ),
    "wait": ("jobtop.cli.verbs.control:wait", "Wait until jobs have ended; exit code 1 if one did not succeed."),
    "stop": ("jobtop.cli.verbs.control:stop", "Stop jobs: SIGTERM, then SIGKILL after the grace period."),
    "kill": ("jobtop.cli.verbs.control:kill", "Kill jobs at once with SIGKILL."),
    "pause": ("jobtop.cli.verbs.control:pause", "Pause jobs."),
    "resume": ("jobtop.cli.verbs.control:resume", "Continue paused jobs."),
    "rm": ("jobtop.cli.verbs.control:rm", "Delete ended or queued jobs: record, samples and output."),
    "pin": ("jobtop.cli.verbs.pin:pin", "Keep all data of jobs, however old they are."),
    "unpin": ("jobtop.cli.verbs.pin:unpin", "Let retention delete data of pinned jobs again."),
    "prune": ("jobtop.cli.verbs.prune:prune", "Delete old samples and shrink the file."),
    "store": ("jobtop.cli.verbs.store:store", "Describe, check, copy and merge history files."),
    "agent": (
        "jobtop.cli.verbs.agent:agent",
        "The background process that runs queued jobs and monitors detached ones.",
    ),
    "selftest": ("jobtop.cli.verbs.selftest:selftest", "Run loads of known cost and compare the measurements."),
    "doctor": ("jobtop.cli.verbs.doctor:doctor", "Report what works on this machine, what does not, and the remedy."),
    "config": ("jobtop.cli.verbs.config:config", "Print every setting and where its value came from."),
    "help": ("jobtop.cli.verbs.help:help_", "Print the help of a verb, or how to name and select jobs."),
    "completion": ("jobtop.cli.completion:completion", "Print the completion script of a shell."),
}
# Both take --store after their name. Verbs that change jobs use it only to tell the user which store a job is in.
READING_VERBS = frozenset(
    "queue history show logs top files connections metrics plot export stats check alerts wait".split()
)
ACTING_VERBS = frozenset("stop kill pause resume rm retry pin unpin".split())
ALIASES = {
    "job-history": "history",
    "job-details": "show",
    "job-stats": "stats",
    "plot-resources": "plot",
    "check-resource-utilization": "check",
}


def collect_store_option(ctx: click.Context, _: click.Parameter, paths: tuple[str, ...]) -> None:
    """Add the --store options that follow the verb to those that precede it."""
    if isinstance(ctx.obj, App):
        ctx.obj.named_stores += paths


STORE_SETTINGS: dict[str, Any] = {
    "multiple": True,
    "metavar": "PATH",
    "help": "Read this store, or all stores of a directory, instead of this host's; may be repeated.",
}
STORE_OPTION = click.Option(["--store", "named"], expose_value=False, callback=collect_store_option, **STORE_SETTINGS)


def suggestion(word: str) -> str:
    """Return what a user may have meant by a word that is no verb: a verb, a job or a command that exists."""
    import shutil

    hint = did_you_mean(word, (*VERBS, *ALIASES), VERB_LIKENESS)
    if is_job(word):
        return f"{hint}; it is a job: jobtop show {word}"
    if shutil.which(word) is not None or os.path.isfile(word):
        return f"{hint}; it is a command: jobtop run -- {word} …"
    return hint or "; jobtop help lists all"


class SilentApp(App):
    """Opens the stores without warnings."""

    def warn(self, text: str) -> None:
        """Print nothing."""


def is_job(word: str) -> bool:
    """Return whether a word names a job of this host; False if that cannot be found out."""
    app = SilentApp((), False, "never", os.environ)
    try:
        return app.has_store() and bool(app.find(word))
    except JobtopError:
        return False
    finally:
        app.close()


class Verbs(click.Group):
    """A click group that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        target = VERBS.get(ALIASES.get(name, name))
        if target is None:
            return None
        import importlib

        module, _, attribute = target[0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        has_option = any(param.name == STORE_OPTION.name for param in command.params)
        if ALIASES.get(name, name) in READING_VERBS | ACTING_VERBS and not has_option:
            command.params.append(STORE_OPTION)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None:
            ctx.fail(f'there is no verb "{args[0]}"{suggestion(args[0])}')
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, text) for name, (_, text) in VERBS.items()])


@click.group(
    cls=Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set any configuration key for this call.")
@click.option("-v", "--verbose", is_flag=True, help="Print log lines to standard error too.")
@click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Use colours in the output."
)
@click.option("--store", **STORE_SETTINGS)
@click.option("--refresh", type=Duration(), default="1s", help="Console refresh interval (default 1s).")
@click.option("--readonly", is_flag=True, help="Console: do not change any job.")
@click.option("--demo", is_flag=True, help="Show the console with sample data.")
@click.option("--ascii", is_flag=True, help="Console: use only ASCII characters.")
@click.version_option(__version__, message="jobtop %(version)s")
@click.pass_context
def jobtop(
    ctx: click.Context, /, sets: tuple[str, ...], verbose: bool, color: str, store: tuple[str, ...], **console: Any
) -> int:
    """`top` for jobs, with a memory: run jobs, measure exactly what each one uses, and look it up later.

    Without a verb, on a terminal, it opens the console.
    """
    ctx.obj = app = App(sets, verbose, color, os.environ, ctx.obj, store)
    app.checks_rules = ctx.invoked_subcommand not in ("run", "submit")
    ctx.call_on_close(app.close)
    console_flags = [f"--{name}" for name in console if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT]
    if ctx.invoked_subcommand is not None:
        if console_flags:
            raise UsageError(f"{console_flags[0]} only works with the console, which opens without a verb")
        check_stores(app, ALIASES.get(ctx.invoked_subcommand, ctx.invoked_subcommand))
        return ExitCode.OK
    from jobtop.cli.verbs.console import can_open_console, open_console

    if can_open_console():
        return open_console(app, **console)
    if console_flags:
        raise UsageError(f"{console_flags[0]} only works with the console, which needs a terminal as input and output")
    if store:
        raise UsageError(
            "--store without a verb is for the console, which needs a terminal (jobtop --store PATH history)"
        )
    click.echo(ctx.get_help())
    return ExitCode.OK


def check_stores(app: App, verb: str) -> None:
    """Raise UsageError if --store is given to a verb that writes: such a verb uses only this host's own store."""
    if app.named_stores and verb not in READING_VERBS | ACTING_VERBS and app.stores != [app.paths.store]:
        raise UsageError(f"--store is for verbs that read jobs: jobtop {verb} uses this host's own, {app.paths.store}")


def main(supervisor: Supervisor | None = None) -> int:
    """Run the verb in sys.argv and return the exit code; an error becomes one line on standard error."""
    return run_reporting_errors(lambda: _run_verb(supervisor)) or ExitCode.OK


def _run_verb(supervisor: Supervisor | None) -> int:
    try:
        result = jobtop.main(prog_name="jobtop", standalone_mode=False, obj=supervisor)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.UsageError as error:
        given_verb = [word for word in sys.argv[1:] if word in VERBS][:1]
        text = f"{_usage_message(error)} (see {' '.join(['jobtop', *given_verb])} --help)"
        return report_failure(text, ExitCode.USAGE)
    except click.ClickException as error:
        return report_failure(error.format_message(), ExitCode.USAGE)
    return result if isinstance(result, int) else ExitCode.OK


def _usage_message(error: click.UsageError) -> str:
    """Return click's error message, reworded where click's own is unclear."""
    if isinstance(error, click.NoSuchOption):
        # Compared without dashes, which would make all names look similar.
        names = {name.strip("-"): name for name in error.possibilities or ()}
        name = names.get(nearest_name(error.option_name.strip("-"), names, likeness=0.75) or "")
        text = f"no such option '{error.option_name}'" + (f" (did you mean '{name}'?)" if name else "")
        is_rerun = error.ctx is not None and error.ctx.info_name == "rerun"
        return f"{text}; arguments of the command follow --" if is_rerun and not name else text
    if isinstance(error, click.MissingParameter) and error.param is not None and error.param.metavar == "ID":
        from jobtop.store.references import FORMS

        return f"no ID given: give {FORMS}"
    text = error.format_message().replace("\n\t", " ").replace("a valid integer range", "a whole number")
    return text[:1].lower() + text[1:].rstrip(".")
