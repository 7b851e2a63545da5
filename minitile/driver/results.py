"""The arrays that a call makes: results that are returned, and workspaces.

They are tensors of the launch like all others, behind those of the signature (T.empty) or at their places in it
(`out_idx`). `compile_call` writes the function that stands before a launch: it computes their sizes from the arguments,
makes them by the framework of the first tensor, and returns what the kernel returns. For `(A: (M, K) bf16, n: i32)` and
one result of M // 2 elements it reads

    def call(a0, a1):
        try:
            empty, finish = makers.get(type(a0)) or learn(a0)
            d0_0, d0_1, = a0.shape
            r0 = empty(((d0_0 // 2),), f32, a0)
        except Exception as error:
            explain(error, a0, a1)
        launch(a0, a1, r0)
        return r0 if finish is None else finish(r0)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minitile.driver.call_facts import stride_names
from minitile.driver.dispatch import caller_location, raise_for_caller
from minitile.ir.diagnostics import LaunchArgumentError
from minitile.ir.types import DTYPES, DType
from minitile.ops.array_adapters import frame_of, reshaped
from minitile.runtime.bind import compile_binder, gapped
from minitile.runtime.errors import LaunchError
from minitile.runtime.launch_info import FUNCTIONS, Expr, ScalarArg, Slot, TensorArg, expr_source

Args = Sequence[TensorArg | ScalarArg]


@dataclass(frozen=True)
class Made:
    """An array that the call makes, and that is `arg` to the launch: `shape` has expressions of runtime.launch_info
    over dimensions and scalars of what is passed. own: T.empty's, which stands behind the signature's tensors; else it
    is one of these. of: the tensor that it is a view of, "" where it is an array of its own."""

    arg: TensorArg
    shape: tuple[Expr, ...]
    own: bool = True
    of: str = ""

    @property
    def name(self) -> str:
        return self.arg.name

    @property
    def dtype(self) -> DType:
        return DTYPES[self.arg.dtype]


@dataclass(frozen=True)
class CallResults:
    """All that a kernel's calls make, and the names of the tensors that they return; one: a single one, no tuple."""

    made: tuple[Made, ...] = ()
    returned: tuple[str, ...] = ()
    one: bool = False

    @property
    def names(self) -> frozenset[str]:
        return frozenset(m.name for m in self.made)


def compile_call(args: Args, results: CallResults, launch: Callable[..., Any]) -> Callable[..., Any]:
    """A function of those of `args` that the call does not make: it makes the others, calls `launch` with all, and
    returns what is to be returned. `launch` itself where nothing is made or returned."""
    if not results.made and not results.returned:
        return launch
    text, making = _Text(args, results), list[str]()
    if results.made:
        making = [
            "try:",
            f"    empty, finish = makers.get(type({text.like})) or learn({text.like})",
            *text.sizes(),
            *(f"    {text.of[m.name]} = {text.making(m)}" for m in results.made),
            "except Exception as error:",
            f"    explain(error, {text.given})",
        ]
    body = [*making, f"launch({''.join(f'{text.of[a.name]}, ' for a in args)})"]
    back = [
        f"({text.of[n]} if finish is None else finish({text.of[n]}))" if n in results.names else text.of[n]
        for n in results.returned
    ]
    if back:
        body.append(f"return {back[0] if results.one else ''.join(f'{each}, ' for each in back)}")
    return text.compile("call", body, {"launch": launch})  # type: ignore[no-any-return]


def compile_shapes(args: Args, results: CallResults) -> Callable[..., tuple[tuple[int, ...], ...]]:
    """A function of the same arguments that gives the shapes of what the call makes."""
    text = _Text(args, results)
    shapes = "".join(f"{text.shape(m)}, " for m in results.made)
    failing = ["except Exception as error:", f"    explain(error, {text.given})"]
    return text.compile("shapes", ["try:", *text.sizes(), "    pass", *failing, f"return ({shapes})"], {})  # type: ignore[no-any-return]


class _Text:
    """The parts of both functions."""

    def __init__(self, args: Args, results: CallResults) -> None:
        self.results = results
        self.passed = [a for a in args if a.name not in results.names]
        self.of = {a.name: f"a{i}" for i, a in enumerate(self.passed)}
        self.of |= {m.name: f"r{i}" for i, m in enumerate(results.made)}
        self.given = "".join(f"{self.of[a.name]}, " for a in self.passed)
        self.like = next((self.of[a.name] for a in self.passed if isinstance(a, TensorArg)), "None")
        self.slots: dict[Slot, str] = {}
        for i, a in enumerate(self.passed):
            if isinstance(a, ScalarArg):
                self.slots["scalar", a.name] = f"a{i}"
                continue
            for axis, extent in enumerate(a.shape):
                if isinstance(extent, str):
                    self.slots.setdefault(("dim", extent), f"d{i}_{axis}")

    def sizes(self) -> list[str]:
        """Reads the shapes of the tensors that have a dimension of a result."""
        texts = " ".join(self.shape(m) for m in self.results.made)
        lines = []
        for i, a in enumerate(self.passed):
            if isinstance(a, TensorArg) and f"d{i}_" in texts:
                lines.append(f"    {''.join(f'd{i}_{axis}, ' for axis in range(len(a.shape)))} = a{i}.shape")
        return lines

    def making(self, made: Made) -> str:
        if made.of:
            return f"reshaped({self.of[made.of]}, {self.shape(made)})"
        return f"empty({self.shape(made)}, dtypes[{made.dtype.name!r}], {self.like})"

    def shape(self, made: Made) -> str:
        return f"({''.join(f'{expr_source(e, self.slots)}, ' for e in made.shape)})"

    def compile(self, name: str, body: Sequence[str], more: Mapping[str, Any]) -> Any:
        scope: dict[str, Any] = {
            **FUNCTIONS,
            "dtypes": DTYPES,
            "makers": _MAKERS,
            "learn": _learn,
            "reshaped": reshaped,
            "explain": self._explain,
            **more,
        }
        exec("\n    ".join([f"def {name}({self.given}):", *body]), scope)
        return scope[name]

    def _explain(self, error: Exception, *given: Any) -> None:
        """Says what is wrong with the arguments, if that is what it was."""
        try:
            compile_binder(stride_names(self.passed, gapped(self.passed, given)))(*given)
        except LaunchError as reason:
            raise_for_caller(reason)
        self._explain_sizes(given)
        raise error

    def _explain_sizes(self, given: Sequence[Any]) -> None:
        shapes = "".join(f"{self.shape(m)}, " for m in self.results.made)
        try:
            found = self.compile("shapes", ["if True:", *self.sizes(), "    pass", f"return ({shapes})"], {})(*given)
        except ArithmeticError as error:
            raise LaunchArgumentError(f"the sizes of what the call makes: {error}", caller_location()) from None
        except (AttributeError, TypeError, ValueError):  # an array that does not say its shape
            return
        for made, shape in zip(self.results.made, found, strict=True):
            if any(size < 0 for size in shape):
                what = f"the call makes {made.name} with the shape {shape}"
                raise LaunchArgumentError(what, caller_location(), "sizes are 0 or more")


_MAKERS: dict[type, tuple[Any, Any]] = {}  # by the type of a call's first tensor


def _learn(like: Any) -> tuple[Any, Any]:
    frame = frame_of(like)
    if frame is None:
        what = "no tensor" if like is None else type(like).__qualname__
        raise LaunchArgumentError(
            f"the call makes its results beside its first tensor, and minitile makes no arrays beside {what}",
            caller_location(),
            "pass arrays of torch, CuPy, JAX (on the CPU) or NumPy, or pass the result as a tensor of the signature",
        )
    found = _MAKERS[type(like)] = frame.empty, frame.finish
    return found
