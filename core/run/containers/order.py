"""What a job asks of a container engine; part of the spec of the job, so that it can be run again."""

from __future__ import annotations

from jobtop.core.record import as_dict, fields, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PULLS = ("missing", "always", "never")


@record
class ContainerOrder:
    """The image and the options of `run --image`; None or empty: as the image or the engine has it.

    Command, environment and limits are those of the job.
    """

    image: str
    volumes: tuple[str, ...] = ()  # SOURCE:TARGET[:ro], as docker run -v
    user: str | None = None
    workdir: str | None = None
    network: str | None = None
    entrypoint: str | None = None
    env: dict[str, str] | None = None  # only what was given by --env: the environment of the caller stays outside
    pull: str = "missing"
    keep: bool = False  # keep the container after its record is complete
    gpus: int | None = None
    engine: str | None = None  # the address; None: the first engine that answers

    def to_json(self) -> dict[str, Any]:
        return as_dict(self) | {"volumes": list(self.volumes)}


def order_from(shape: dict[str, Any]) -> ContainerOrder:
    """The inverse of `to_json`; unknown keys are ignored."""
    names = fields(ContainerOrder)
    values = {key: value for key, value in shape.items() if key in names}
    return ContainerOrder(**values | {"volumes": tuple(values.get("volumes") or ())})
