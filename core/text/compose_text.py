"""Advice for containers as a fragment of a compose file, with the reasons as comments. Pure.

Names of services come from outside: they are quoted so that no YAML reader takes them for anything but a name.
"""

from __future__ import annotations

import re
from itertools import groupby

from jobtop.core.clock import local
from jobtop.core.units import format_duration, number_of, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobtop.core.analysis.container_advice import Amount, ContainerAdvice

MEBIBYTE, GIBIBYTE = 1 << 20, 1 << 30
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)
RESERVED = frozenset("y n yes no on off true false null".split())  # YAML 1.1 reads these words as other values
ESCAPES = {'"': '\\"', "\\": "\\\\"}


def compose_fragment(advice: Sequence[ContainerAdvice]) -> str:
    """One document for each project; services without advice are comments."""
    ordered = sorted(advice, key=lambda one: (one.subject.project or "", one.subject.name))
    documents = [
        "\n".join(_document(project, list(services)))
        for project, services in groupby(ordered, key=lambda one: one.subject.project)
    ]
    return "\n---\n".join(documents)


def _document(project: str | None, services: Sequence[ContainerAdvice]) -> Iterator[str]:
    if project is not None:
        yield f"# project {printable(project)}"
    advised = [one for one in services if not one.is_refused]
    for one in services:
        if one.is_refused:
            yield f"# {printable(one.subject.name)}: no advice: {'; '.join(one.missing)}"
    if advised:
        yield "services:"
    for one in advised:
        yield from _service(one)


def _service(advice: ContainerAdvice) -> Iterator[str]:
    dates = [local(moment)[:10] for moment in (advice.first, advice.last)]
    when = dates[0] if dates[0] == dates[1] else f"{dates[0]} to {dates[1]}"
    counts = (
        f"{number_of(advice.runs, 'run')}, {format_duration(advice.seconds)}, {number_of(advice.samples, 'sample')}"
    )
    yield f"  {yaml_text(advice.subject.name)}:"
    yield f"    # from {counts}, {when}"
    if advice.images:
        yield f"    # image {', '.join(map(printable, advice.images))}"
    if advice.missing:
        yield f"    # nothing else is advised: {'; '.join(advice.missing)}"
    if advice.subject.is_job:
        yield f"    # the same for a job: jobtop run --image … {run_options(advice)}"
    yield "    deploy:"
    yield "      resources:"
    yield from _amounts("limits", advice.memory_limit, advice.cpu_limit)
    yield from _amounts("reservations", advice.memory_reservation, advice.cpu_reservation)


def _amounts(title: str, memory: Amount | None, cpus: Amount | None) -> Iterator[str]:
    if memory is None and cpus is None:
        return
    yield f"        {title}:"
    for key, amount, text in (
        ("memory", memory, "" if memory is None else memory_text(memory.value)),
        ("cpus", cpus, "" if cpus is None else f"{cpus.value:g}"),
    ):
        if amount is not None:
            yield f"          # {amount.reason}"
            yield f'          {key}: "{text}"'


def run_options(advice: ContainerAdvice) -> str:
    """The limits as options of `jobtop run`."""
    memory, cpus = advice.memory_limit, advice.cpu_limit
    parts = [
        "" if memory is None else f"--memory {memory_text(memory.value)}",
        "" if cpus is None else f"--cpus {cpus.value:g}",
    ]
    return " ".join(filter(None, parts))


def memory_text(size: float) -> str:
    """A whole number of MiB or GiB as compose, engines and jobtop take it: `544M`, `2G`; both letters are binary."""
    whole = int(size)
    return f"{whole // GIBIBYTE}G" if whole % GIBIBYTE == 0 else f"{-(-whole // MEBIBYTE)}M"


def yaml_text(text: str) -> str:
    """A text as a scalar of YAML: as it is if that is certain to be a string, else in double quotes."""
    if PLAIN.fullmatch(text) and text.lower() not in RESERVED:
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in ESCAPES:
        return ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
