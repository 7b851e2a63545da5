"""A module of a package that is not installed: its functions give back what they are given, tensors of no content."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from minitile.tilelang.stand_in.tensors import StandIn


class Anything:
    """A name of such a package: callable, a context manager, a decorator."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **named: Any) -> Any:
        if self._name.endswith(".jit"):  # triton's: kernels are called as kernel[grid](…)
            return Anything(self._name)
        if len(args) == 1 and callable(args[0]) and not named and not isinstance(args[0], StandIn):
            return args[0]  # a decorator
        for each in (*args, *named.values()):
            if isinstance(each, StandIn):
                return each
        return Anything(self._name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(f"{self._name}.{name}")

    def __enter__(self) -> Anything:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __iter__(self) -> Any:
        return iter(())

    def __index__(self) -> int:
        return 1

    def __bool__(self) -> bool:
        return False

    def __getitem__(self, _: Any) -> Anything:
        return self

    def __mro_entries__(self, _: Any) -> tuple[type, ...]:
        return (object,)

    def _itself(self, *_: Any) -> Anything:
        return self

    def _no(self, _: Any) -> bool:
        return False

    __or__ = __ror__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _itself
    __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __neg__ = __pow__ = _itself
    __lt__ = __le__ = __gt__ = __ge__ = _no

    def __float__(self) -> float:
        return 1.0

    def __len__(self) -> int:
        return 0

    def __format__(self, _: str) -> str:
        return self._name


class AnyModule(ModuleType):
    """Every name of it is an `Anything`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__version__, self.__file__ = "99.0", ""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "tqdm":
            return lambda items, *_, **__: items
        return Anything(f"{self.__name__}.{name}")
