"""The graph of a workflow as text: in stages, and in the languages of Graphviz and Mermaid. Pure."""

from __future__ import annotations

from jobtop.core.units import number_of, printable
from jobtop.core.workflow.ordering import depths, ordered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobtop.core.workflow.model import Workflow
    from jobtop.core.workflow.plan import PlannedJob

MOST_NAMES = 4  # of what a job depends on
MERMAID = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;"})


def stage_lines(workflow: Workflow) -> list[str]:
    """A heading for each stage, and a line for each job with what it waits for."""
    after = {name: job.after for name, job in workflow.jobs.items()}
    stages: dict[int, list[str]] = {}
    for name, depth in depths(after, list(after)).items():
        stages.setdefault(depth, []).append(name)
    lines = []
    for depth, names in sorted(stages.items()):
        lines.append(f"stage {depth + 1}: {number_of(len(names), 'job')}")
        lines += [f"  {printable(name)}{waiting_words(after[name])}" for name in names]
    return lines


def waiting_words(names: Sequence[str]) -> str:
    if not names:
        return ""
    shown = ", ".join(map(printable, names[:MOST_NAMES]))
    rest = len(names) - MOST_NAMES
    return f"  after {shown}" + (f" and {rest} more" if rest > 0 else "")


def dot_lines(workflow: Workflow) -> list[str]:
    numbers = {name: number for number, name in enumerate(workflow.jobs)}
    nodes = [f"  j{number} [label={quoted(name)}];" for name, number in numbers.items()]
    edges = [f"  j{numbers[other]} -> j{numbers[job.name]};" for job in workflow.jobs.values() for other in job.after]
    return [f"digraph {quoted(workflow.name)} {{", "  rankdir=LR;", "  node [shape=box];", *nodes, *edges, "}"]


def mermaid_lines(workflow: Workflow) -> list[str]:
    numbers = {name: number for number, name in enumerate(workflow.jobs)}
    nodes = [f'  j{number}["{printable(name).translate(MERMAID)}"]' for name, number in numbers.items()]
    edges = [f"  j{numbers[other]} --> j{numbers[job.name]}" for job in workflow.jobs.values() for other in job.after]
    return ["flowchart LR", *nodes, *edges]


def quoted(text: str) -> str:
    """A name in quotes; control characters are shown as escapes, which Graphviz must not obey."""
    return '"' + printable(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def plan_lines(plans: Sequence[PlannedJob]) -> list[str]:
    """The jobs that a run would queue, in stages; actions are in brackets."""
    known = {plan.name: plan for plan in plans}
    after = {name: tuple(n for n in (*plan.after, *plan.after_end) if n in known) for name, plan in known.items()}
    order, _ = ordered(after)
    stages: dict[int, list[str]] = {}
    for name, depth in depths(after, order).items():
        stages.setdefault(depth, []).append(name)
    lines = []
    for depth, names in sorted(stages.items()):
        lines.append(f"stage {depth + 1}: {number_of(len(names), 'job')}")
        for name in names:
            shown = printable(name if known[name].job is not None else f"({name})")
            command = printable(known[name].command.removeprefix("set -e\n").replace("\n", "; "))
            lines.append(f"  {shown}: {command}{waiting_words(after[name])}")
    return lines
