"""What `run` prints about its job while the job runs: alerts, and the lines of --report."""

from jobtop.cli.failure import print_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.derive import Frame


def print_alert(severity: str, rule: str, text: str) -> None:
    """Print a line about an alert that has fired to standard error."""
    from jobtop.core.units import printable

    print_error(f"jobtop: {severity} alert {printable(rule)}: {printable(text)}")


def print_report(frame: "Frame") -> None:
    """Print a line of current values to standard error, for the log of a batch job."""
    from jobtop.core.units import format_bytes, format_duration, number_of

    values = frame.values
    cpu, memory = values["cpu.percent"], values["mem.used"]
    parts = [
        f"CPU {'–' if cpu is None else f'{cpu:.1f}%'}",
        f"memory {format_bytes(memory)}",
        f"read {format_bytes(values['io.read_bytes'])}/s, write {format_bytes(values['io.write_bytes'])}/s",
        f"{number_of(values['proc.count'], 'process', 'processes')}, {number_of(values['proc.threads'], 'thread')}",
    ]
    print_error(f"[Resources] {format_duration(frame.elapsed)}: {'; '.join(parts)}")
