"""What a device reading belongs to: a part of the machine that has numbers of its own."""

from jobtop.core.record import record


@record
class Device:
    """One device of this host: its kind (a device scope such as `gpu`) and the name the system gives it."""

    kind: str
    name: str
