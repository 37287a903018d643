"""What a device reading belongs to: a part of the machine that has numbers of its own."""

from jobtop.core.record import record


@record
class Device:
    """One device of this host: its kind (`gpu`, `disk`, `interface`, `core`) and the name the system gives it."""

    kind: str
    name: str
