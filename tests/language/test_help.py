"""help(): every public name has a text that says what it does, what its arguments are, and what it raises."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from minitile.ir.types import DType

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


def _methods(module: str) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of the classes, those that are minitile's."""
    for kind in {thing for _, thing in _public(module) if inspect.isclass(thing)}:
        ours = [vars(base) for base in kind.__mro__ if base.__module__.startswith("minitile")]
        for name, method in inspect.getmembers(kind, lambda x: inspect.isroutine(x) or isinstance(x, property)):
            if not name.startswith("_") and any(name in each for each in ours):
                yield f"{kind.__name__}.{name}", method


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


@pytest.mark.parametrize("module", OURS + THEIRS)
def test_what_it_does(module):
    """A sentence; and what it raises, where it does."""
    lacking = []
    for name, thing in _public(module):
        text = own_text(thing)
        sentence = re.search(r"[.:;)`|]\Z", text.partition("\n\n")[0])
        said = not raises(thing) or re.search(r"\bRaises?\b|\brefused\b", text, re.IGNORECASE)
        lacking += [] if sentence and said else [name]
    assert not lacking


@pytest.mark.parametrize("module", OURS)
def test_what_its_arguments_are(module):
    """Under `Args:` each one, with something behind its name; of a class they may be attributes, or in the text."""
    lacking = []
    for name, thing in _public(module):
        text = own_text(thing)
        where = text if inspect.isclass(thing) else text.partition("Args:\n")[2].partition("\n\n")[0]
        pattern = r"\b{}\b" if inspect.isclass(thing) else r"^ *{}: \S"
        said = [re.search(pattern.format(p), where, re.MULTILINE) for p in parameters(thing)]
        lacking += [] if all(said) else [name]
    assert not lacking


@pytest.mark.parametrize("module", OURS + THEIRS)
def test_what_methods_do(module):
    lacking = []
    for name, method in _methods(module):
        text = inspect.getdoc(method) or ""
        said = text and (not raises(method) or re.search(r"\bRaises?\b", text))
        if module in OURS and not isinstance(method, property):
            said = said and all(re.search(rf"\b{p}\b", text) for p in parameters(method))
        lacking += [] if said else [name]
    assert not lacking


def test_there_is_much_to_look_at():
    assert sum(1 for module in OURS + THEIRS for _ in _public(module)) > 400
    assert sum(1 for module in OURS + THEIRS for _ in _methods(module)) > 40


def test_a_text_that_lacks_something_is_found():
    def told(x):
        """Adds one."""
        raise ValueError

    assert raises(told)
    assert parameters(told) == ["x"]
    assert own_text(type("Untold", (), {"__module__": "minitile.made"})) == ""
