"""The JSON that a web address gets: the message itself, a template with its values, or what Slack or ntfy expect. Pure.

A template is parsed before values are put in, so that no value can change its structure.
"""

from __future__ import annotations

import json
import re
from urllib.parse import unquote, urlsplit, urlunsplit

from jobtop.core.alerts.actions.delivery import DeliveryFailed
from jobtop.core.alerts.message_text import advice_text, body_text, table_text, to_json
from jobtop.core.alerts.model import Severity, State
from jobtop.core.errors import did_you_mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.alerts.model import Action, Message

    Json = object

PLACEHOLDER = r"\{([A-Za-z_]+)\}"
SLACK_HEADER, SLACK_TEXT = 150, 3000  # the most characters that Slack accepts
NTFY_TEXT = 3500  # bytes; ntfy turns longer ones into attachments above 4,096
PRIORITIES = {Severity.INFO: 2, Severity.WARNING: 4, Severity.CRITICAL: 5}
TAGS = {Severity.INFO: "information_source", Severity.WARNING: "warning", Severity.CRITICAL: "rotating_light"}
RESOLVED_TAG, RESOLVED_PRIORITY = "white_check_mark", 2


def payload(url: str, message: Message, action: Action) -> tuple[str, Json]:
    """The address and the JSON to send to it."""
    if action.type == "slack":
        return url, slack(message)
    if action.type == "ntfy":
        return ntfy(url, message)
    template = action.fields.get("template")
    return url, to_json(message) if template is None else filled(template, message)


def filled(template: object, message: Message) -> Json:
    """A template, a JSON text or a table, with its placeholders replaced.

    A text that is only `{value}` or `{job_ids}` becomes that value itself, a number or a list; inside of a longer text
    values become text.
    """
    if isinstance(template, str):
        try:
            template = json.loads(template)
        except (ValueError, RecursionError):
            raise DeliveryFailed("template is not valid JSON") from None
    return _filled(template, to_json(message) | {"body": body_text(message)})


def check_template(template: object) -> str | None:
    """What is wrong with a template; None if nothing is."""
    from jobtop.core.alerts.actions.trial import trial_message

    try:
        filled(template, trial_message("", "", 0.0))
    except DeliveryFailed as error:
        return error.reason
    return None


def _filled(part: object, values: dict[str, object]) -> Json:
    if isinstance(part, dict):
        return {str(key): _filled(value, values) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_filled(value, values) for value in part]
    if not isinstance(part, str):
        return part
    if (only := re.fullmatch(PLACEHOLDER, part)) is not None:
        return _value(only[1], values)
    return re.sub(PLACEHOLDER, lambda found: _as_text(_value(found[1], values)), part)


def _value(name: str, values: dict[str, object]) -> object:
    if name not in values:
        raise DeliveryFailed(f'template: there is no value "{name}"{did_you_mean(name, values)}')
    return values[name]


def _as_text(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def slack(message: Message) -> dict[str, Json]:
    """For an incoming webhook of Slack. Plain text blocks have no markup; `text`, which notifications show, is escaped.

    Mattermost and others that know only `text` show that.
    """
    blocks: list[Json] = [
        {"type": "header", "text": _plain_text(message.title, SLACK_HEADER)},
        {"type": "section", "text": _plain_text(message.text, SLACK_TEXT)},
    ]
    if message.table:
        table = {"type": "text", "text": table_text(message)[:SLACK_TEXT]}
        blocks.append({"type": "rich_text", "elements": [{"type": "rich_text_preformatted", "elements": [table]}]})
    if rest := "\n".join(filter(None, [message.consequence, advice_text(message)])):
        blocks.append({"type": "section", "text": _plain_text(rest, SLACK_TEXT)})
    return {"text": _slack_escaped(f"{message.title}\n{message.text}"), "blocks": blocks}


def _plain_text(text: str, most: int) -> dict[str, Json]:
    shown = text if len(text) <= most else f"{text[: most - 1]}…"
    return {"type": "plain_text", "emoji": False, "text": shown or "–"}


def _slack_escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def ntfy(url: str, message: Message) -> tuple[str, dict[str, Json]]:
    """For ntfy: JSON goes to the root of the server and names the topic, the last part of the address."""
    parts = urlsplit(url)
    above, _, topic = parts.path.rstrip("/").rpartition("/")
    if not topic:
        raise DeliveryFailed("url has no topic (use https://ntfy.sh/TOPIC)")
    is_resolved = message.state is State.RESOLVED
    body = body_text(message).encode()[:NTFY_TEXT].decode("utf-8", "ignore")
    return urlunsplit((parts.scheme, parts.netloc, f"{above}/", parts.query, "")), {
        "topic": unquote(topic),
        "title": message.title,
        "message": body,
        "priority": RESOLVED_PRIORITY if is_resolved else PRIORITIES[message.severity],
        "tags": [RESOLVED_TAG if is_resolved else TAGS[message.severity]],
    }
