"""Frozen, slotted value classes, as `dataclass(frozen=True, slots=True)` makes them, in a tenth of the time.

`dataclasses` writes and compiles code for each class: 20 ms of every `jobtop run`, which is made of some twenty.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, dataclass_transform

    T = TypeVar("T")
else:
    dataclass_transform = None

MISSING = object()


class Fresh:
    """A default that is made anew for each object."""

    __slots__ = ("make",)

    def __init__(self, make: "Callable[[], Any]") -> None:
        self.make = make


def fresh(*, default_factory: "Callable[[], T]") -> "T":
    """The default of a field that holds something mutable."""
    return Fresh(default_factory)  # type: ignore[return-value]


def make_record(cls: type) -> type:
    """The class again with slots for its annotated names, and the methods of a value."""
    names = tuple(cls.__annotations__)
    defaults = tuple(cls.__dict__.get(name, MISSING) for name in names)
    known = frozenset(names)
    setters: list[Callable[[object, object], None]] = []
    places: list[tuple[str, Callable[[object, object], None], object]] = []

    def __init__(self: object, *values: object, **named: object) -> None:  # noqa: N807
        if not named and len(values) == len(setters):  # thousands of samples a second are made like this
            for put, value in zip(setters, values, strict=True):
                put(self, value)
            return
        if len(values) > len(names) or not named.keys() <= known:
            raise TypeError(f"{cls.__name__}() takes {', '.join(names)}, not {values} {named}")
        for put, value in zip(setters, values, strict=False):
            put(self, value)
        for name, put, default in places[len(values) :]:
            value = named.get(name, default)
            if value is MISSING:
                raise TypeError(f"{cls.__name__}() needs {name}")
            put(self, value.make() if type(value) is Fresh else value)

    def contents(self: object) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in names)

    def refuse(_self: object, name: str, *_: object) -> None:
        raise AttributeError(f"{cls.__name__}.{name} cannot be changed: replace() makes a changed copy")

    methods = {
        "__slots__": names,
        "__match_args__": names,
        "__init__": __init__,
        "__setattr__": refuse,
        "__delattr__": refuse,
        "__eq__": lambda self, other: type(self) is type(other) and contents(self) == contents(other),
        "__hash__": lambda self: hash(contents(self)),
        "__repr__": lambda self: f"{cls.__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})",
    }
    kept = {
        key: value for key, value in cls.__dict__.items() if key not in known and key not in ("__dict__", "__weakref__")
    }
    made = type(cls)(cls.__name__, cls.__bases__, kept | methods)
    setters += [made.__dict__[name].__set__ for name in names]
    places += zip(names, setters, defaults, strict=True)
    return made


if TYPE_CHECKING:

    @dataclass_transform(frozen_default=True, field_specifiers=(fresh,))
    def record(cls: type[T]) -> type[T]:
        """Make a class a record."""
        return cls
else:
    record = make_record


def fields(kind: type) -> tuple[str, ...]:
    """The names a record has, in order."""
    names: tuple[str, ...] = kind.__slots__  # type: ignore[attr-defined]
    return names


def replace(value: "T", **changes: "Any") -> "T":
    """A copy with some fields changed."""
    return type(value)(**{name: getattr(value, name) for name in fields(type(value))} | changes)


def as_dict(value: object) -> "dict[str, Any]":
    """The fields of a record by name."""
    return {name: getattr(value, name) for name in fields(type(value))}
