"""Makes the reference of the Python API from the source: signatures, docstrings and the texts below attributes.

The source is read, not imported: some modules need libraries that not every user has.
"""

import ast
import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path

import jobtop

# The order of the page. A public name that is in no group comes at the end.
GROUPS = {
    "Run jobs": ("run", "submit", "DetachedJob", "JobOptions"),
    "Track a part of a program": ("track", "Block"),
    "Read the history": ("open_store", "Store", "JobRecord", "JobList", "Series", "Usage", "Limits"),
    "Monitor tasks": ("JobMonitor", "get_monitor", "ResourceProfiler", "get_profiler", "ContainerResourceMonitor"),
    "Train models": ("ResourceMonitorCallback",),
    "Run tools and benchmarks": ("TaskPipeline", "BenchmarkRunner"),
    "Errors": (
        *("JobtopError", "UsageError", "BadValue", "ConfigError", "UnknownJob", "AmbiguousJob"),
        *("StoreError", "EngineError", "StartError", "JobFailed", "JobTimeout"),
    ),
}
MADE_BY_JOBTOP = ("Block", "DetachedJob", "JobFailed", "Store")  # no user calls their constructors
Function = ast.FunctionDef | ast.AsyncFunctionDef


def api() -> Iterator[str]:
    """Yield a section for each public name whose module exists."""
    names = [name for name, module in jobtop._MODULES.items() if importlib.util.find_spec(module) is not None]
    grouped = {name for group in GROUPS.values() for name in group}
    groups = {**GROUPS, "More": tuple(name for name in names if name not in grouped)}
    for title, group in groups.items():
        found = [name for name in group if name in names]
        if not found:
            continue
        yield f"## {title}"
        yield ""
        for name in found:
            yield from lines_of(name)


def lines_of(name: str) -> Iterator[str]:
    """Yield the section of one name."""
    nodes = definitions(name, source_of(jobtop._MODULES[name]))
    yield f"### {name}"
    yield ""
    for node in nodes[:-1] or nodes:  # an overloaded function has a definition after its overloads
        if isinstance(node, ast.ClassDef):
            yield from class_lines(node)
        else:
            yield from signature_lines(f"jobtop.{name}", node)
    if not isinstance(nodes[-1], ast.ClassDef):
        yield from documentation(nodes[-1])


def source_of(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)


def definitions(name: str, path: Path) -> list[ast.ClassDef | Function]:
    """Return the definitions of a name in a file: several of an overloaded function."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in body if isinstance(node, kinds) and node.name == name]
    if not found:
        raise SystemExit(f"{path} does not define {name}: name the module that does in jobtop/__init__.py")
    return found


def class_lines(node: ast.ClassDef) -> Iterator[str]:
    methods = [one for one in node.body if isinstance(one, Function) and not one.name.startswith("_")]
    properties = [one for one in methods if decorators(one) & {"property", "cached_property"}]
    made = next((one for one in node.body if isinstance(one, Function) and one.name == "__init__"), None)
    if made is not None and node.name not in MADE_BY_JOBTOP:
        yield from signature_lines(f"jobtop.{node.name}", made)
    bases = [base for base in map(ast.unparse, node.bases) if base not in ("TypedDict", "Protocol")]
    yield from documentation(node)
    if bases:
        yield f"A subclass of {' and '.join(f'`{base}`' for base in bases)}."
        yield ""
    rows = [*attributes(node), *((one.name, one.returns, text_of(one)) for one in properties)]
    if rows:
        yield "| attribute | type | |"
        yield "|---|---|---|"
        yield from (f"| `{name}` | `{cell(shown(kind))}` | {cell(text)} |" for name, kind, text in rows)
        yield ""
    for one in methods:
        if one not in properties:
            yield from signature_lines(one.name, one)
            yield from documentation(one)


def attributes(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None, str]]:
    """Yield the annotated public names of a class, with the texts below them or the comments behind them."""
    made = next((one for one in node.body if isinstance(one, Function) and one.name == "__init__"), None)
    for body in (node.body, made.body if made is not None else []):
        for one, following in zip(body, [*body[1:], None], strict=False):
            if not isinstance(one, ast.AnnAssign):
                continue
            name = one.target.attr if isinstance(one.target, ast.Attribute) else ast.unparse(one.target)
            if not name.startswith("_"):
                yield name, one.annotation, literal_text(following)


def literal_text(node: ast.stmt | None) -> str:
    """Return the text of a statement that is only a text."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return inspect.cleandoc(node.value.value)
    return ""


def signature_lines(name: str, node: Function) -> Iterator[str]:
    """Yield the signature as Python, a parameter a line if it is long."""
    arguments = ast.parse(ast.unparse(node)).body[0]
    assert isinstance(arguments, Function)
    for group in (arguments.args.posonlyargs, arguments.args.args):
        group[:] = [one for one in group if one.arg not in ("self", "cls")]
    parts = parameters(arguments.args)
    is_constructor = node.name == "__init__"
    returns = "" if node.returns is None or is_constructor else f" -> {ast.unparse(node.returns)}"
    line = f"{name}({', '.join(parts)}){returns}"
    yield "```python"
    if len(line) <= 100:
        yield line
    else:
        yield f"{name}("
        yield from (f"    {part}," for part in parts)
        yield f"){returns}"
    yield "```"
    yield ""


def parameters(arguments: ast.arguments) -> list[str]:
    """Return the parameters of a function, each as Python writes it."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [*[None] * (len(plain) - len(arguments.defaults)), *arguments.defaults]
    parts = [parameter(one, default) for one, default in zip(plain, defaults, strict=False)]
    if arguments.posonlyargs:
        parts.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg is not None:
        parts.append(f"*{parameter(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        parts.append("*")
    parts += [parameter(one, default) for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    if arguments.kwarg is not None:
        parts.append(f"**{parameter(arguments.kwarg, None)}")
    return parts


def parameter(argument: ast.arg, default: ast.expr | None) -> str:
    kind = "" if argument.annotation is None else f": {ast.unparse(argument.annotation)}"
    equals = " = " if kind else "="
    return f"{argument.arg}{kind}" + ("" if default is None else f"{equals}{ast.unparse(default)}")


def decorators(node: Function) -> set[str]:
    return {ast.unparse(one) for one in node.decorator_list}


def documentation(node: ast.ClassDef | Function) -> Iterator[str]:
    """Yield the paragraphs of a docstring, a line each."""
    for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
        if paragraph:
            yield paragraph if paragraph.startswith((" ", "|", "-")) else " ".join(paragraph.split("\n"))
            yield ""


def text_of(node: Function) -> str:
    return " ".join((ast.get_docstring(node) or "").split())


def shown(annotation: ast.expr | None) -> str:
    return "" if annotation is None else ast.unparse(annotation)


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
