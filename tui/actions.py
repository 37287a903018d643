"""The registry of actions: all that keys can do, one row each. Bindings, footer, palette and help are made from it."""

from __future__ import annotations

from textual.binding import Binding

from jobtop.core.record import record

APP, TABLE, CHART, JOBS, JOB, LOG, HISTORY, COMPARE, ALERTS, FORM = (
    *("app", "table", "chart", "jobs", "job", "log", "history", "compare", "alerts", "form"),
)
TEXT, SETTINGS, HELP, FILTER, SEARCH = "text", "settings", "help", "filter", "search"
CONFIRM, TICK, COMMAND, LEAVING, AGAIN = "confirm", "tick", "command", "leaving", "again"
TYPING, HOST, STRIP, MUTE = "typing", "host", "strip", "mute"
CONTAINERS, CONTAINER, CONTAINER_LIST = "containers", "container", "container_list"
LINE, LINES = "line", "lines"
WORKFLOWS, WORKFLOW, GRAPH, QUEUE = "workflows", "workflow", "graph", "queue"
PROCESSES = "processes"


@record
class Action:
    """One action: `[keys]` remaps it by its id, its keys work in `place`, and `call` is the Textual action it runs."""

    id: str
    keys: str
    title: str
    help: str
    place: str
    call: str
    in_footer: bool = False
    changes_jobs: bool = False


ACTIONS = (
    Action("go.dashboard", "1", "Dash", "Jobs now, and this machine", APP, "go('dashboard')"),
    Action("go.history", "2", "History", "All recorded jobs, with a filter", APP, "go('history')"),
    Action("go.compare", "3", "Compare", "The marked jobs side by side", APP, "go('compare')"),
    Action("go.containers", "4", "Containers", "Containers on this machine", APP, "go('containers')"),
    Action("go.alerts", "5", "Alerts", "Alerts, failed jobs, and the rules", APP, "go('alerts')"),
    Action("go.settings", "6", "Settings", "Settings, keys, and what works on this machine", APP, "go('settings')"),
    Action("go.queue", "7", "Queue", "Queued jobs in start order, and why they wait", APP, "go('queue')"),
    Action("go.processes", "8", "Procs", "All processes of this machine, and their jobs", APP, "go('processes')"),
    Action("go.workflows", "9", "Workflows", "Workflows, and how far their runs are", APP, "go('workflows')"),
    Action("app.help", "question_mark", "Help", "Show the keys that work here", APP, "help", in_footer=True),
    Action("app.run", "n", "Run", "Run a new job", APP, "run_form", in_footer=True, changes_jobs=True),
    Action("app.host", "h", "Host", "This machine over time: every device", APP, "host"),
    Action("app.freeze", "f", "Freeze", "Pause or resume screen updates", APP, "freeze", in_footer=True),
    Action("app.theme", "t", "Theme", "Next theme: dark, light, the terminal's own colours", APP, "next_theme"),
    Action("app.maximize", "z", "Maximise", "Show only this pane, or all panes again", APP, "maximize_pane"),
    Action("app.next_pane", "tab", "Next pane", "Go to the next pane", APP, "focus_next"),
    Action("app.previous_pane", "shift+tab", "Previous pane", "Go to the previous pane", APP, "focus_previous"),
    Action("app.palette", "ctrl+p", "palette", "Find any action by its name", APP, "palette"),
    Action("app.back", "escape", "Back", "Go back to the previous screen", APP, "back", in_footer=True),
    Action("app.suspend", "ctrl+z", "Suspend", "Suspend the console; fg resumes it", APP, "suspend_process"),
    Action("app.quit", "q,ctrl+c", "Quit", "Leave the console; jobs keep running", APP, "quit", in_footer=True),
    Action("table.up", "up,k", "Up", "One row up", TABLE, "cursor_up"),
    Action("table.down", "down,j", "Down", "One row down", TABLE, "cursor_down"),
    Action("table.page_up", "pageup", "Page up", "A page up", TABLE, "page_up"),
    Action("table.page_down", "pagedown", "Page down", "A page down", TABLE, "page_down"),
    Action("table.first", "g,home", "First", "Go to the first row", TABLE, "first"),
    Action("table.last", "G,end", "Last", "Go to the last row", TABLE, "last"),
    Action("table.activate", "enter", "Open", "Open the selected row", TABLE, "activate", in_footer=True),
    Action("table.mark", "space", "Mark", "Mark the row, to act on several jobs", TABLE, "mark", in_footer=True),
    Action("table.sort", "s", "Sort", "Sort by the next column", TABLE, "sort", in_footer=True),
    Action("table.reverse", "S", "Reverse", "Reverse the order", TABLE, "reverse"),
    Action("chart.shorter", "left_square_bracket", "Shorter", "Show a shorter time: 1m, 5m, 15m, 1h", CHART, "shorter"),
    Action(
        "chart.longer", "right_square_bracket", "Longer", "Show a longer time, up to the whole run", CHART, "longer"
    ),
    Action("chart.zoom_in", "plus,equals_sign", "Zoom in", "Show less time, larger", CHART, "zoom_in"),
    Action("chart.zoom_out", "minus", "Zoom out", "Show more time, smaller", CHART, "zoom_out"),
    Action("chart.left", "left", "Left", "Earlier", CHART, "left"),
    Action("chart.right", "right", "Right", "Later", CHART, "right"),
    Action("chart.cursor", "v", "Values", "Show the values under a cursor", CHART, "toggle_cursor", in_footer=True),
    Action("host.next", "o", "Next host", "Show the next of the opened stores", HOST, "next_host", in_footer=True),
    Action("strip.open", "enter", "Open", "Show every device of this machine over time", STRIP, "open", in_footer=True),
    Action("job.live", "escape", "Live", "Go back to now", JOB, "live", in_footer=True),
    Action(
        "job.type", "i", "Type", "Type into the job's terminal; F12 or Ctrl+] ends it", JOB, "type_into_job", True, True
    ),
    Action(
        "job.files", "F", "Files", "Show the files that the job has open, or has read most", JOB, "open_pane('files')"
    ),
    Action(
        "job.connections",
        "C",
        "Connections",
        "Show the network connections that the job has open",
        JOB,
        "open_pane('connections')",
    ),
    Action(
        "job.alerts",
        "exclamation_mark",
        "Alerts",
        "Show the alerts of the job; Enter goes there",
        JOB,
        "open_pane('alerts')",
    ),
    Action("job.threads", "T", "Threads", "Show the busiest threads of processes, or hide them", JOB, "show_threads"),
    Action(
        "typing.end",
        "f12,ctrl+right_square_bracket",
        "End typing",
        "Stop typing into the job; keys control the console again",
        TYPING,
        "end_typing",
        in_footer=True,
    ),
    Action("log.up", "up,k", "Up", "A line up, and stop following", LOG, "line_up"),
    Action("log.down", "down,j", "Down", "A line down", LOG, "line_down"),
    Action("log.page_up", "pageup", "Page up", "A page up", LOG, "page_up"),
    Action("log.page_down", "pagedown,space", "Page down", "A page down", LOG, "page_down"),
    Action("log.first", "g,home", "First", "Go to the first line", LOG, "first"),
    Action("log.last", "G,end", "Follow", "Go to the end, and follow new output", LOG, "last", in_footer=True),
    Action("log.left", "left", "Left", "Scroll left in long lines", LOG, "left"),
    Action("log.right", "right", "Right", "Scroll right in long lines", LOG, "right"),
    Action("log.search", "slash", "Search", "Search; lower case matches any case", LOG, "search", in_footer=True),
    Action("log.next", "n", "Next", "Go to the next match", LOG, "find(True)"),
    Action("log.previous", "N", "Previous", "Go to the previous match", LOG, "find(False)"),
    Action("log.streams", "o", "Streams", "Show stdout and stderr, or only one", LOG, "streams", in_footer=True),
    Action("search.leave", "escape", "Cancel", "Go back to the output", SEARCH, "leave", in_footer=True),
    Action("jobs.filter", "slash", "Filter", "Show matching jobs: status:failed mem:4G..", JOBS, "filter", True),
    Action("jobs.clear", "escape", "Clear filter", "Show all jobs again", JOBS, "clear_filter", True),
    Action("jobs.columns", "o", "Columns", "Choose the columns", JOBS, "choose_columns"),
    Action("jobs.stop", "x", "Stop", "Stop the job: SIGTERM, later SIGKILL (asks)", JOBS, "stop_jobs", True, True),
    Action("jobs.kill", "X", "Kill", "Kill the job at once (asks)", JOBS, "kill_jobs", changes_jobs=True),
    Action("jobs.pause", "p", "Pause", "Pause or resume the job (asks)", JOBS, "pause_jobs", changes_jobs=True),
    Action("jobs.again", "r", "Again", "Run again with changes (opens a form)", JOBS, "change_job", True, True),
    Action("jobs.retry", "R", "Run as it was", "Run again as it was (asks)", JOBS, "run_again", changes_jobs=True),
    Action(
        "jobs.pin", "P", "Pin", "Keep all data of the job for ever, or stop that", JOBS, "pin_jobs", changes_jobs=True
    ),
    Action(
        "jobs.acknowledge",
        "A",
        "Acknowledge",
        "Acknowledge the alerts and the failure of the job",
        JOBS,
        "acknowledge_jobs",
        changes_jobs=True,
    ),
    Action("jobs.compare", "c", "Compare", "Compare the marked jobs", JOBS, "compare_marked"),
    Action("jobs.export", "e", "Export", "Write the job's samples to a CSV file", JOBS, "export_job"),
    Action("jobs.copy", "y", "Copy id", "Copy the job's id", JOBS, "copy_id"),
    Action(
        "history.group", "b", "By name", "Group jobs by name, or list single jobs", HISTORY, "group", in_footer=True
    ),
    Action(
        "compare.align", "a", "Align", "Align the curves by start, end or wall clock", COMPARE, "align", in_footer=True
    ),
    Action(
        "queue.sooner",
        "plus,equals_sign",
        "Sooner",
        "Raise the priority of the job by one",
        QUEUE,
        "change_priority(1)",
        in_footer=True,
        changes_jobs=True,
    ),
    Action(
        "queue.later",
        "minus",
        "Later",
        "Lower the priority of the job by one",
        QUEUE,
        "change_priority(-1)",
        in_footer=True,
        changes_jobs=True,
    ),
    Action(
        "containers.filter",
        "slash",
        "Filter",
        "Show matching containers: web unhealthy",
        CONTAINER_LIST,
        "filter",
        True,
    ),
    Action(
        "containers.clear", "escape", "Clear filter", "Show all containers again", CONTAINER_LIST, "clear_filter", True
    ),
    Action(
        "containers.all", "a", "All", "List stopped containers too, or only those that run", CONTAINER_LIST, "all", True
    ),
    Action("containers.columns", "o", "Columns", "Choose the columns", CONTAINER_LIST, "choose_columns"),
    Action(
        "containers.stop",
        "x",
        "Stop",
        "Stop the container: SIGTERM, later SIGKILL (asks)",
        CONTAINERS,
        "stop",
        True,
        True,
    ),
    Action("containers.kill", "X", "Kill", "Kill the container at once (asks)", CONTAINERS, "kill", changes_jobs=True),
    Action(
        "containers.pause", "p", "Pause", "Pause or resume the container (asks)", CONTAINERS, "pause", changes_jobs=True
    ),
    Action(
        "containers.restart",
        "R",
        "Restart",
        "Stop the container and start it again (asks)",
        CONTAINERS,
        "restart",
        True,
        True,
    ),
    Action(
        "containers.job",
        "w",
        "Job",
        "Record the container as a job; if it is one, open the job",
        CONTAINERS,
        "watch",
        True,
    ),
    Action("containers.copy", "y", "Copy id", "Copy the id of the container", CONTAINERS, "copy_id"),
    Action(
        "container.inspect", "i", "Inspect", "Show all that the engine says", CONTAINER, "open_pane('inspect')", True
    ),
    Action(
        "lines.filter", "ampersand", "Filter", "Show only lines that match an expression", LINES, "filter_lines", True
    ),
    Action("line.apply", "enter", "Apply", "Back to what matches", LINE, "apply", in_footer=True),
    Action("line.leave", "escape", "Clear", "Clear the text, and show everything again", LINE, "leave", in_footer=True),
    Action(
        "alerts.acknowledge",
        "A",
        "Acknowledge",
        "You know about it: it is no longer counted as new",
        ALERTS,
        "acknowledge",
        in_footer=True,
        changes_jobs=True,
    ),
    Action(
        "alerts.mute",
        "m",
        "Mute",
        "No messages and no actions of a rule, or about a job, for a time",
        ALERTS,
        "mute",
        in_footer=True,
        changes_jobs=True,
    ),
    Action(
        "alerts.unmute",
        "u",
        "Unmute",
        "Messages and actions of the rule, and about the job, again",
        ALERTS,
        "unmute",
        changes_jobs=True,
    ),
    Action(
        "alerts.edit",
        "e",
        "Edit rule",
        "Change the level of the rule, and save it to the configuration file",
        ALERTS,
        "edit",
        in_footer=True,
        changes_jobs=True,
    ),
    Action(
        "alerts.shorter",
        "left_square_bracket",
        "Shorter",
        "History of a shorter time: 1h, 1d, 7d, 30d",
        ALERTS,
        "shorter",
    ),
    Action(
        "alerts.longer", "right_square_bracket", "Longer", "History of a longer time, up to 30 days", ALERTS, "longer"
    ),
    Action("processes.filter", "slash", "Filter", "Show matching processes: python alice", PROCESSES, "filter", True),
    Action("processes.clear", "escape", "Clear filter", "Show all processes again", PROCESSES, "clear_filter", True),
    Action("processes.tree", "T", "Tree", "Show processes below their parents, or as a list", PROCESSES, "tree", True),
    Action(
        "processes.attach",
        "a",
        "Attach",
        "Record the process and those below it as a job",
        PROCESSES,
        "attach",
        True,
        True,
    ),
    Action("processes.stop", "x", "Stop", "Send SIGTERM to the process (asks)", PROCESSES, "stop", True, True),
    Action("processes.kill", "X", "Kill", "Send SIGKILL to the process (asks)", PROCESSES, "kill", changes_jobs=True),
    Action("processes.copy", "y", "Copy pid", "Copy the pid", PROCESSES, "copy_id"),
    Action(
        "workflows.cancel",
        "x",
        "Cancel",
        "Cancel the run: stop its jobs, and start no more (asks)",
        WORKFLOWS,
        "cancel_run",
        True,
        True,
    ),
    Action(
        "workflows.retry",
        "r",
        "Retry",
        "Run again what failed, was cancelled or has changed (asks)",
        WORKFLOWS,
        "retry_run",
        True,
        True,
    ),
    Action(
        "workflow.earlier", "left_square_bracket", "Run before", "Show the run before this one", WORKFLOW, "step(-1)"
    ),
    Action("workflow.later", "right_square_bracket", "Run after", "Show the run after this one", WORKFLOW, "step(1)"),
    Action("graph.left", "left", "Stage before", "Go to the stage before", GRAPH, "left"),
    Action("graph.right", "right", "Next stage", "Go to the next stage", GRAPH, "right"),
    Action("filter.apply", "enter", "Apply", "Back to the jobs that match", FILTER, "submit", in_footer=True),
    Action("filter.take", "tab", "Complete", "Take the first of the words below", FILTER, "take", in_footer=True),
    Action("filter.leave", "escape", "Clear", "Show all jobs again", FILTER, "clear", in_footer=True),
    Action("text.up", "up,k", "Up", "A line up", TEXT, "line_up"),
    Action("text.down", "down,j", "Down", "A line down", TEXT, "line_down"),
    Action("text.page_up", "pageup", "Page up", "A page up", TEXT, "screen_up"),
    Action("text.page_down", "pagedown,space", "Page down", "A page down", TEXT, "screen_down"),
    Action("text.first", "g,home", "First", "Go to the beginning", TEXT, "first"),
    Action("text.last", "G,end", "Last", "Go to the end", TEXT, "last"),
    Action("settings.again", "r", "Check again", "Run the checks again", SETTINGS, "look_again", in_footer=True),
    Action("confirm.yes", "y,enter", "Yes", "Do it", CONFIRM, "answer(True)", in_footer=True),
    Action("confirm.no", "n,escape", "No", "Change nothing", CONFIRM, "answer(False)", in_footer=True),
    Action(
        "leaving.detach",
        "d,enter",
        "Detach",
        "Leave the console; the job keeps running",
        LEAVING,
        "answer('detach')",
        in_footer=True,
    ),
    Action(
        "leaving.stop", "s", "Stop", "Stop the job and leave the console", LEAVING, "answer('stop')", in_footer=True
    ),
    Action("leaving.stay", "escape,n", "Stay", "Stay in the console", LEAVING, "leave", in_footer=True),
    Action("again.now", "y,enter", "Run now", "Start now", AGAIN, "answer('now')", in_footer=True),
    Action("again.queue", "w", "Wait in the queue", "Queue", AGAIN, "answer('queue')", in_footer=True),
    Action("again.cancel", "escape,n", "Cancel", "Run nothing", AGAIN, "leave", in_footer=True),
    Action("mute.hour", "1", "1 hour", "Mute it for an hour", MUTE, "answer('hour')", in_footer=True),
    Action("mute.hours", "4", "4 hours", "Mute it for four hours", MUTE, "answer('hours')", in_footer=True),
    Action("mute.day", "d", "1 day", "Mute it for a day", MUTE, "answer('day')", in_footer=True),
    Action(
        "mute.always", "u", "Until unmuted", "Mute it until you unmute it", MUTE, "answer('always')", in_footer=True
    ),
    Action("mute.switch", "tab,j", "Job or rule", "Mute the job, or the rule", MUTE, "switch", in_footer=True),
    Action("mute.cancel", "escape,n", "Cancel", "Mute nothing", MUTE, "leave", in_footer=True),
    Action("form.submit", "enter,ctrl+s", "Run", "Run the job, or write the file", FORM, "submit", in_footer=True),
    Action("form.leave", "escape", "Cancel", "Close the form and change nothing", FORM, "leave", in_footer=True),
    Action("form.next", "down", "Next", "Go to the next field", FORM, "app.focus_next"),
    Action("form.previous", "up", "Previous", "Go to the previous field", FORM, "app.focus_previous"),
    Action("form.tick", "space", "Switch", "Switch it on or off", TICK, "switch"),
    Action("form.older", "up", "Older", "An earlier command that begins with this text", COMMAND, "older"),
    Action("form.newer", "down", "Newer", "A later command", COMMAND, "newer"),
    Action("help.close", "escape,question_mark,q", "Close", "Close the help", HELP, "app.back", in_footer=True),
)
BY_ID = {action.id: action for action in ACTIONS}


def bindings(*places: str) -> list[Binding]:
    """The bindings of some places, as Textual takes them; actions of the whole console are run by the app."""
    return [
        Binding(
            action.keys,
            f"app.{action.call}" if action.place == APP else action.call,
            action.title,
            show=action.in_footer,
            id=action.id,
            tooltip=action.help,
        )
        for action in ACTIONS
        if action.place in places
    ]


KEY_NAMES = {
    " ": "space",
    "question_mark": "?",
    "slash": "/",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "plus": "+",
    "minus": "-",
    "escape": "esc",
    "pageup": "PgUp",
    "pagedown": "PgDn",
}
KEY_SIGNS = {"enter": "⏎", "up": "↑", "down": "↓", "left": "←", "right": "→"}


def key_words(keys: str, in_words: bool = False) -> str:
    """The first key of an action as it is shown: `⏎` (or in words `Enter`), `space`, `^p`, `?`."""
    first = keys.split(",", maxsplit=1)[0]
    if first in KEY_SIGNS:
        return first.capitalize() if in_words else KEY_SIGNS[first]
    base = first.removeprefix("ctrl+")
    is_function_key = base[0] == "f" and base[1:].isdigit()
    name = base.upper() if is_function_key else KEY_NAMES.get(base, base)
    return name if base == first else f"^{name}"
