"""help(): every public name has a text that says what it does, what its arguments are, and what it raises."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from minitile.ir.types import DType

pytestmark = pytest.mark.every_case  # each is another text
OURS = ("minitile", "minitile.language", "minitile.ops")  # all arguments
THEIRS = ("minitile.tilelang", "minitile.tilelang.language")  # TileLang's names: a line may do


def _public(module: str) -> Iterator[tuple[str, Any]]:
    """What has a help of its own: functions and classes; of dtypes their class."""
    package = importlib.import_module(module)
    names = getattr(package, "__all__", None) or [n for n in vars(package) if not n.startswith("_")]
    for name in sorted(names):
        thing = getattr(package, name)
        if callable(thing) and not isinstance(thing, (DType, str)):
            yield name, thing


EVERY = [pytest.param(thing, id=f"{m}.{name}") for m in (*OURS, *THEIRS) for name, thing in _public(m)]
ARGUMENTS = [pytest.param(thing, id=f"{m}.{name}") for m in OURS for name, thing in _public(m)]
_CLASSES = {thing: f"{m}.{name}" for m in (*OURS, *THEIRS) for name, thing in _public(m) if inspect.isclass(thing)}
METHODS = [
    pytest.param((where, method), id=f"{where}.{name}")
    for kind, where in _CLASSES.items()
    for name, method in inspect.getmembers(kind, lambda x: inspect.isroutine(x) or isinstance(x, property))
    if not name.startswith("_")
    and any(name in vars(base) for base in kind.__mro__ if base.__module__.startswith("minitile"))
]


def own_text(thing: Any) -> str:
    """Of a class its own text, not what it inherits from Python's; dataclasses without one get their signature."""
    if not inspect.isclass(thing):
        return inspect.getdoc(thing) or ""
    texts = (vars(base).get("__doc__") for base in thing.__mro__ if base.__module__.startswith("minitile"))
    text = next((inspect.cleandoc(t) for t in texts if t), "")
    return "" if text.startswith(f"{thing.__name__}(") else text


def parameters(thing: Any) -> list[str]:
    """Those that a user may give; of an exception or an Enum none."""
    if inspect.isclass(thing) and (issubclass(thing, Exception) or hasattr(thing, "__members__")):
        return []
    try:
        found = inspect.signature(thing).parameters
    except (TypeError, ValueError):
        return []
    return [p for p in found if not p.startswith("_") and p not in ("self", "cls")]


def raises(thing: Any) -> bool:
    """Whether the function itself has a `raise` that is no bare one."""
    thing = inspect.unwrap(thing.fget if isinstance(thing, property) else thing)
    try:
        source = inspect.getsource(thing)
    except (OSError, TypeError):
        return False
    return inspect.isroutine(thing) and re.search(r"^ +raise \S", source, re.MULTILINE) is not None


@pytest.mark.parametrize("thing", EVERY)
def test_what_it_does(thing):
    """A sentence; and what it raises, where it does."""
    text = own_text(thing)
    first = text.partition("\n\n")[0]
    assert first
    assert re.search(r"[.:;)`|]\Z", first), first
    assert not raises(thing) or re.search(r"\bRaises?\b|\brefused\b", text, re.IGNORECASE)


@pytest.mark.parametrize("thing", ARGUMENTS)
def test_what_its_arguments_are(thing):
    """Under `Args:` each one, with something behind its name; of a class they may be attributes, or in the text."""
    text = own_text(thing)
    where = text if inspect.isclass(thing) else text.partition("Args:\n")[2].partition("\n\n")[0]
    for name in parameters(thing):
        pattern = rf"\b{name}\b" if inspect.isclass(thing) else rf"^ *{name}: \S"
        assert re.search(pattern, where, re.MULTILINE), name


@pytest.mark.parametrize("found", METHODS)
def test_what_methods_do(found):
    where, method = found
    text = inspect.getdoc(method) or ""
    assert len(text.split()) >= 2
    assert not raises(method) or re.search(r"\bRaises?\b", text)
    if where.startswith(OURS) and not where.startswith(THEIRS) and not isinstance(method, property):
        for name in parameters(method):
            assert re.search(rf"\b{name}\b", text), name


def test_there_is_much_to_look_at():
    assert len(EVERY) > 400
    assert len(METHODS) > 40
