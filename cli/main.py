"""Finds the verb that was asked for, imports only that one, and turns errors into one line."""

import os
import sys
from typing import Any

import click
from click.core import ParameterSource

from jobtop import __version__
from jobtop.cli.app import App
from jobtop.cli.failure import complain, guarded
from jobtop.cli.values import Duration
from jobtop.core.errors import ExitCode, UsageError, did_you_mean, nearest_name
from jobtop.core.run.supervisor import Supervisor

VERBS = {
    "run": ("jobtop.cli.verbs.run:run", "Run a command and record exactly what it cost."),
    "submit": ("jobtop.cli.verbs.submit:submit", "Queue a command; it starts when its turn has come."),
    "attach": ("jobtop.cli.verbs.attach:attach", "Watch processes that run already, as a job."),
    "queue": ("jobtop.cli.verbs.queue:queue", "List the jobs that wait, in order, and why."),
    "retry": ("jobtop.cli.verbs.queue:retry", "Queue ended jobs once more."),
    "group": ("jobtop.cli.verbs.queue:group", "Say how many jobs of a group run at once."),
    "history": ("jobtop.cli.verbs.history:history", "List past and present jobs, the newest first."),
    "show": ("jobtop.cli.verbs.show:show", "Show one job: how it went, why it ended, what it used."),
    "logs": ("jobtop.cli.verbs.logs:logs", "Print the output a job wrote."),
    "top": ("jobtop.cli.verbs.top:top", "Show the processes and threads of a job, live."),
    "metrics": ("jobtop.cli.verbs.metrics:metrics", "Print what a job used, sample by sample, as it comes."),
    "plot": ("jobtop.cli.verbs.plot:plot", "Draw what a job used over time."),
    "export": ("jobtop.cli.verbs.export:export", "Write jobs in a format that other programs read."),
    "import": ("jobtop.cli.verbs.imports:import_", "Take over the jobs that other programs kept."),
    "stats": ("jobtop.cli.verbs.stats:stats", "Add jobs up: how they ended, what they used, by group."),
    "wait": ("jobtop.cli.verbs.control:wait", "Wait until jobs have ended; 1 if one did not succeed."),
    "stop": ("jobtop.cli.verbs.control:stop", "Stop jobs: TERM, their grace, then KILL."),
    "kill": ("jobtop.cli.verbs.control:kill", "Kill jobs at once."),
    "pause": ("jobtop.cli.verbs.control:pause", "Make jobs stand still."),
    "resume": ("jobtop.cli.verbs.control:resume", "Let paused jobs go on."),
    "rm": ("jobtop.cli.verbs.control:rm", "Forget ended jobs: record, output and all."),
    "pin": ("jobtop.cli.verbs.pin:pin", "Keep jobs whole, however old they are."),
    "unpin": ("jobtop.cli.verbs.pin:unpin", "Let pinned jobs grow old like all others."),
    "prune": ("jobtop.cli.verbs.prune:prune", "Let go of what is old, and give the space back."),
    "store": ("jobtop.cli.verbs.store:store", "Look after the file that the history is in: check, copy, merge."),
    "agent": ("jobtop.cli.verbs.agent:agent", "The process that watches jobs nobody stays with."),
    "selftest": ("jobtop.cli.verbs.selftest:selftest", "Measure loads of known cost and compare."),
    "doctor": ("jobtop.cli.verbs.doctor:doctor", "Say what works here, what does not, and the remedy."),
    "config": ("jobtop.cli.verbs.config:config", "Print every setting and where its value came from."),
    "completion": ("jobtop.cli.completion:completion", "Print the completion script of a shell."),
}
# Verbs that read jobs take --store themselves; those that act on jobs look there for where one is.
READING = frozenset("queue history show logs top metrics plot export stats wait".split())
ACTING = frozenset("stop kill pause resume rm retry pin unpin".split())
ALIASES = {"job-history": "history", "job-details": "show", "job-stats": "stats", "plot-resources": "plot"}


def name_stores(ctx: click.Context, _: click.Parameter, paths: tuple[str, ...]) -> None:
    """Take in what a verb was told behind its name."""
    if isinstance(ctx.obj, App):
        ctx.obj.named_stores += paths


NAMED: dict[str, Any] = {
    "multiple": True,
    "metavar": "PATH",
    "help": "Read this store, or all of a directory, instead of this host's; may be repeated.",
}
STORE = click.Option(["--store", "named"], expose_value=False, callback=name_stores, **NAMED)


class Verbs(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        target = VERBS.get(ALIASES.get(name, name))
        if target is None:
            return None
        import importlib

        module, _, attribute = target[0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        if ALIASES.get(name, name) in READING | ACTING and all(param.name != STORE.name for param in command.params):
            command.params.append(STORE)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None:
            hint = did_you_mean(args[0], (*VERBS, *ALIASES))
            ctx.fail(f'there is no verb "{args[0]}"{hint}; to run a command: jobtop run -- {args[0]} …')
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
@click.option("-v", "--verbose", is_flag=True, help="Say on standard error what is also written to the log.")
@click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colours in what is printed."
)
@click.option("--store", **NAMED)
@click.option("--refresh", type=Duration(), default="1s", help="Console: between two pictures; 1s by default.")
@click.option("--readonly", is_flag=True, help="Console: look at jobs, and do nothing to them.")
@click.option("--demo", is_flag=True, help="Console: a lively machine that never was, to look around.")
@click.option("--ascii", is_flag=True, help="Console: no characters but ASCII, for serial lines.")
@click.version_option(__version__, message="jobtop %(version)s")
@click.pass_context
def jobtop(
    ctx: click.Context, /, sets: tuple[str, ...], verbose: bool, color: str, store: tuple[str, ...], **console: Any
) -> int:
    """`top` for jobs, with a memory: run them, measure exactly what each used, keep it, look it up.

    Without a verb, on a terminal, it opens the console.
    """
    ctx.obj = app = App(sets, verbose, color, os.environ, ctx.obj, store)
    ctx.call_on_close(app.close)
    asked = [f"--{name}" for name in console if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT]
    if ctx.invoked_subcommand is not None:
        if asked:
            raise UsageError(f"{asked[0]} is of the console, which opens without a verb")
        check_stores(app, ALIASES.get(ctx.invoked_subcommand, ctx.invoked_subcommand))
        return ExitCode.OK
    from jobtop.cli.verbs.console import can_be_opened, open_console

    if can_be_opened():
        return open_console(app, **console)
    if asked:
        raise UsageError(f"{asked[0]} is of the console, which needs a terminal for its input and output")
    if store:
        raise UsageError(
            "--store without a verb is for the console, which needs a terminal (jobtop --store PATH history)"
        )
    click.echo(ctx.get_help())
    return ExitCode.OK


def check_stores(app: App, verb: str) -> None:
    """Refuse stores to a verb that writes: it does so in this host's own."""
    if app.named_stores and verb not in READING | ACTING and app.stores != [app.paths.store]:
        raise UsageError(f"--store is for verbs that read jobs: jobtop {verb} uses this host's own, {app.paths.store}")


def main(supervisor: Supervisor | None = None) -> int:
    """Run the verb in sys.argv; the exit code. Whatever goes wrong is one line on standard error."""
    return guarded(lambda: _answer(supervisor)) or ExitCode.OK


def _answer(supervisor: Supervisor | None) -> int:
    try:
        result = jobtop.main(prog_name="jobtop", standalone_mode=False, obj=supervisor)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.UsageError as error:
        named = [word for word in sys.argv[1:] if word in VERBS][:1]
        return complain(f"{_message(error)} (see {' '.join(['jobtop', *named])} --help)", ExitCode.USAGE)
    except click.ClickException as error:
        return complain(error.format_message(), ExitCode.USAGE)
    return result if isinstance(result, int) else ExitCode.OK


def _message(error: click.UsageError) -> str:
    """What click says, in our words where those are clearer."""
    if isinstance(error, click.NoSuchOption):
        names = {name.strip("-"): name for name in error.possibilities or ()}  # dashes make all of them alike
        name = names.get(nearest_name(error.option_name.strip("-"), names, likeness=0.75) or "")
        return f"no such option '{error.option_name}'" + (f" (did you mean '{name}'?)" if name else "")
    text = error.format_message().replace("\n\t", " ").replace("a valid integer range", "a whole number")
    return text[:1].lower() + text[1:].rstrip(".")
