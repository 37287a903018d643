"""The engines of this machine, asked all at once, and a container by name, id or ENGINE/NAME."""

from __future__ import annotations

import threading
import time

from jobtop.core.errors import AmbiguousContainer, EngineError, UnknownContainer, did_you_mean
from jobtop.core.measure.collectors.docker.client import Engine
from jobtop.core.measure.collectors.docker.endpoints import endpoints, tried_places
from jobtop.core.measure.collectors.docker.remedies import NOTHING_FOUND, RESTART
from jobtop.core.record import record
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jobtop.core.measure.collectors.docker.model import Container

ASK_SECONDS = 2.0  # for an engine; verbs answer within 3 s
SHORT_ID = 12
SHORTEST_JOB_ID = 4  # characters, as verbs for jobs take them
MOST_NAMED = 4


@record
class EngineAnswer:
    """The containers of one engine; None, with the problem, if it did not answer."""

    engine: Engine
    containers: tuple[Container, ...] | None
    problem: str | None = None


def open_engines(environ: Mapping[str, str], only: str | None = None, root: str = "/") -> list[Engine]:
    """The engines that may be here, not connected yet, or the one of this name; EngineError if there is none."""
    found = endpoints(environ, root)
    if not found:
        raise EngineError(
            f"no container engine found: tried {', '.join(tried_places(environ, root))} ({NOTHING_FOUND})"
        )
    chosen = [endpoint for endpoint in found if only in (None, endpoint.name)]
    if not chosen:
        names = [endpoint.name for endpoint in found]
        hint = did_you_mean(only or "", names) or f"; there are {', '.join(map(printable, names))}"
        raise UnknownContainer(f'no container engine "{printable(only or "")}"{hint}')
    return [Engine(endpoint, ASK_SECONDS) for endpoint in chosen]


def close_engines(engines: Iterable[Engine]) -> None:
    for engine in engines:
        engine.close()


def ask_engines(
    engines: Sequence[Engine], every: bool = False, seconds: float = ASK_SECONDS + 0.3
) -> list[EngineAnswer]:
    """The containers of each engine, in the same order. All are asked at once; one that hangs costs `seconds`."""
    answers: dict[int, EngineAnswer] = {}

    def ask(position: int, engine: Engine) -> None:
        try:
            answers[position] = EngineAnswer(engine, tuple(engine.containers(every)))
        except EngineError as error:
            answers[position] = EngineAnswer(engine, None, str(error))

    threads = [threading.Thread(target=ask, args=each, name="jobtop-ask", daemon=True) for each in enumerate(engines)]
    due = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, due - time.monotonic()))
    return [answers.get(position) or _hanging(engine, seconds) for position, engine in enumerate(engines)]


def _hanging(engine: Engine, seconds: float) -> EngineAnswer:
    name, url = engine.endpoint.name, engine.endpoint.url
    return EngineAnswer(engine, None, f"{name} ({url}) does not answer within {seconds:.0f} s ({RESTART})")


def raise_if_silent(answers: Sequence[EngineAnswer]) -> None:
    """EngineError with the problem of each engine, if none has answered."""
    if all(answer.containers is None for answer in answers):
        problems = "; ".join(answer.problem or "" for answer in answers)
        raise EngineError(problems if len(answers) == 1 else f"no container engine answers: {problems}")


def find_container(engines: Sequence[Engine], reference: str) -> tuple[Engine, Container]:
    """The container that a user means by its name, the beginning of its id or of its job's, or one after ENGINE/.

    UnknownContainer names the nearest name, AmbiguousContainer those that are meant; EngineError if none answers.
    """
    return find_containers(engines, [reference])[0]


def find_containers(engines: Sequence[Engine], references: Iterable[str]) -> list[tuple[Engine, Container]]:
    """The same for several, each once; the engines are asked once."""
    answers = ask_engines(engines, every=True)
    raise_if_silent(answers)
    found = [choose_container(answers, reference) for reference in references]
    return list({(engine.endpoint.url, container.id): (engine, container) for engine, container in found}.values())


def choose_container(answers: Sequence[EngineAnswer], reference: str) -> tuple[Engine, Container]:
    """Choose the container among those of engines that have answered."""
    engine_name, slash, name = reference.partition("/")
    is_engine = bool(slash) and any(answer.engine.endpoint.name == engine_name for answer in answers)
    wanted = name if is_engine else reference.removeprefix("/")
    asked = [answer for answer in answers if not is_engine or answer.engine.endpoint.name == engine_name]
    raise_if_silent(asked)
    every = [(answer.engine, container) for answer in asked for container in answer.containers or ()]
    named = [pair for pair in every if pair[1].name == wanted]
    found = named or [pair for pair in every if wanted and pair[1].id.startswith(wanted.lower())]
    if not found and len(wanted) >= SHORTEST_JOB_ID:
        found = [pair for pair in every if (pair[1].job_id or "").startswith(wanted.lower())]
    if len(found) == 1:
        return found[0]
    if found:
        engines = {engine.endpoint.name for engine, _ in found}
        shown = [full_name(engine, container) for engine, container in found[:MOST_NAMED]]
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        how = "name one of them so" if len(engines) > 1 else "give more of the id, or the name"
        raise AmbiguousContainer(f'"{printable(reference)}" means {", ".join(shown)}{more}: {how}')
    raise UnknownContainer(_unknown_text(answers, reference, wanted, [pair[1].name for pair in every]))


def _unknown_text(answers: Sequence[EngineAnswer], reference: str, wanted: str, names: Sequence[str]) -> str:
    hint = printable(did_you_mean(wanted, names))
    if not hint:
        hint = " (jobtop containers --all lists them)" if names else "; there are no containers"
    silent = [answer.problem for answer in answers if answer.containers is None and answer.problem]
    shown = printable(reference if len(reference) <= 60 else f"{reference[:60]}…")
    return "; ".join([f'no container "{shown}"{hint}', *silent])


def full_name(engine: Engine, container: Container) -> str:
    """Such as `docker/web (3f8a21b2c4d5)`."""
    return f"{engine.endpoint.name}/{printable(container.name)} ({printable(container.id[:SHORT_ID])})"
