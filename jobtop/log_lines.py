"""Warnings and alerts for the program that imports jobtop: through `logging`, by the logger `jobtop`."""

from __future__ import annotations

import logging

from jobtop.core.units import printable

logger = logging.getLogger("jobtop")


def warn(text: str) -> None:
    """Log a warning about jobtop itself."""
    logger.warning("%s", printable(text))


def log_alert(severity: str, rule: str, text: str) -> None:
    """Log an alert about a job."""
    level = logging.INFO if severity == "info" else logging.WARNING
    logger.log(level, "%s alert %s: %s", severity, printable(rule), printable(text))
