"""Frozen, slotted value classes like those of `dataclass(frozen=True, slots=True)`, created in a tenth of the time.

`dataclasses` generates and compiles code for each class. For the twenty classes of `jobtop run` that takes 20 ms.
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
    """A default value that is created for each object."""

    __slots__ = ("make",)

    def __init__(self, make: "Callable[[], Any]") -> None:
        self.make = make


def fresh(*, default_factory: "Callable[[], T]") -> "T":
    """The default of a field with a mutable value, such as a dict."""
    return Fresh(default_factory)  # type: ignore[return-value]


def make_record(cls: type) -> type:
    """A copy of a class with slots for its annotated names, a constructor, equality, a hash and a repr."""
    names = tuple(cls.__annotations__)
    defaults = tuple(cls.__dict__.get(name, MISSING) for name in names)
    allowed = frozenset(names)
    setters: list[Callable[[object, object], None]] = []
    slots: list[tuple[str, Callable[[object, object], None], object]] = []  # name, setter, default

    def __init__(self: object, *values: object, **named: object) -> None:  # noqa: N807
        if not named and len(values) == len(setters):  # the fast way, for thousands of samples a second
            for set_value, value in zip(setters, values, strict=True):
                set_value(self, value)
            return
        if len(values) > len(names) or not named.keys() <= allowed:
            raise TypeError(f"{cls.__name__}() takes {', '.join(names)}, not {values} {named}")
        for set_value, value in zip(setters, values, strict=False):
            set_value(self, value)
        for name, set_value, default in slots[len(values) :]:
            value = named.get(name, default)
            if value is MISSING:
                raise TypeError(f"{cls.__name__}() needs {name}")
            set_value(self, value.make() if type(value) is Fresh else value)

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
        "__reduce__": lambda self: (type(self), contents(self)),
        "__repr__": lambda self: f"{cls.__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})",
    }
    others = {
        key: value
        for key, value in cls.__dict__.items()
        if key not in allowed and key not in ("__dict__", "__weakref__")
    }
    created = type(cls)(cls.__name__, cls.__bases__, others | methods)
    setters += [created.__dict__[name].__set__ for name in names]
    slots += zip(names, setters, defaults, strict=True)
    return created


if TYPE_CHECKING:

    @dataclass_transform(frozen_default=True, field_specifiers=(fresh,))
    def record(cls: type[T]) -> type[T]:
        """Make a class a record."""
        return cls
else:
    record = make_record


def fields(kind: type) -> tuple[str, ...]:
    """The names of the fields of a record class, in order."""
    names: tuple[str, ...] = kind.__slots__  # type: ignore[attr-defined]
    return names


def replace(value: "T", /, **changes: "Any") -> "T":
    """A copy with some fields changed."""
    return type(value)(**{name: getattr(value, name) for name in fields(type(value))} | changes)


def as_dict(value: object) -> "dict[str, Any]":
    """The fields of a record by name."""
    return {name: getattr(value, name) for name in fields(type(value))}
