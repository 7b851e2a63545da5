"""`@minitile.kernel`: a Python function that compiles itself for what it is called with.

A `Kernel` traces its function once per specialisation. A specialisation is fixed by the compile-time parameters, the
values of captured globals and helpers, the dtypes of tensors annotated without one, the target, which tensors are not
row-major without gaps, and the facts of call_facts.py: what divides dimensions and strides, which strides are 1, which
numbers are so large that indices take 64 bits, and which addresses are not aligned.
Everything else is a run-time value: one compiled kernel serves every size. Where products of dimensions or of scalars
are indices, a launch for which 32 bits do not hold them goes to another compilation (`exact`).

A call goes: captured values unchanged? → bind the arguments → which dimensions are divisible by what → launch.
"""

from __future__ import annotations

import ast
import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import TYPE_CHECKING, Any, overload

from minitile.driver.call_facts import CallFacts, stride_names
from minitile.driver.capture import Captures, captures, changeable, exact, hashable
from minitile.driver.compiled import Case, CompiledKernel, Constants
from minitile.driver.described import described_case
from minitile.driver.dispatch import Dispatcher, Executable, caller_location, for_users, raise_for_caller, shorten
from minitile.driver.pickles import Reduced, reduce_kernel
from minitile.driver.results import CallResults, Made, compile_call, compile_shapes
from minitile.driver.spec import Spec, spec
from minitile.driver.torch_trace import numbered, traced_call
from minitile.hardware import Target
from minitile.ir.core import Kernel as IRKernel
from minitile.ir.diagnostics import LanguageError, LaunchArgumentError, MinitileError, shown
from minitile.ir.types import DType
from minitile.language.math import dtype_of_name
from minitile.language.scalars import is_number, python_number
from minitile.language.tracing.context import active
from minitile.language.tracing.signature import Signature, read_signature
from minitile.language.tracing.source import function_node, kernel_node
from minitile.language.tracing.trace import tensor_shape, tensor_strides
from minitile.runtime.arrays import Place, dtype_name
from minitile.runtime.bind import gapped
from minitile.runtime.errors import LaunchError
from minitile.runtime.launch_info import ScalarArg, TensorArg, dims_of, size_expr
from minitile.target import parse_target, target_at

if TYPE_CHECKING:
    from minitile.runtime.launcher_base import Prepared

__all__ = ["Case", "CompiledKernel", "Kernel", "Spec", "kernel", "spec"]

MOST_CAPTURED = 16  # sets of captured values whose specialisations a kernel keeps
Dtypes = tuple[tuple[str, DType], ...]


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...


@overload
def kernel(
    *,
    target: str | Target = "auto",
    passes: Mapping[str, bool] | None = None,
    warp_specialize: bool | None = None,
    out_idx: int | Sequence[int] | None = None,
) -> Callable[[Callable[..., Any]], Kernel]: ...


def kernel(
    function: Callable[..., Any] | None = None,
    /,
    *,
    target: str | Target = "auto",
    passes: Mapping[str, bool] | None = None,
    warp_specialize: bool | None = None,
    out_idx: int | Sequence[int] | None = None,
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Marks a function as a kernel: `@kernel` or `@kernel(target="sm_80")`. Gives a `Kernel`.

    Args:
        function: the function; its parameters are T.Tensor, a dtype (a run-time scalar), or compile-time.
        target: for calls; "auto" is MINITILE_TARGET, else the device that the arrays are on, or sm_80 in the simulator.
        passes: leaves out passes by name, {"licm": False}.
        warp_specialize: False leaves out `warp_specialize`, which makes roles of warps on sm_90a: then the warps that
            compute issue TMA's copies themselves (`tma_multistage`); with passes={"tma_multistage": False} besides the
            code is that of sm_80.
        out_idx: which of the tensors are results: calls leave them out, and return them (a tuple of several). Numbers
            count the tensors and scalars of the signature; -1 is the last one. Their dimensions are ints and names that
            other tensors have.

    Raises:
        LanguageError: what is no function; a signature that breaks the language's rules.
        TargetError: a target that there is not.
    """
    around = dict(sys._getframe(1).f_locals)

    @for_users
    def decorate(f: Callable[..., Any]) -> Kernel:
        if not isinstance(f, FunctionType):
            raise LanguageError(f"@kernel is for functions, not {f!r}", caller_location())
        signature = read_signature(f, around)
        if out_idx is not None:
            signature = signature.making(out_idx, caller_location())
        if os.environ.get("MINITILE_NVTX") == "1":
            from minitile.tools.ranges import always

            always()
        return Kernel(f, signature, target, _switches(passes, warp_specialize))

    return decorate if function is None else decorate(function)


def _switches(passes: Mapping[str, bool] | None, warp_specialize: bool | None) -> dict[str, bool]:
    roles = {} if warp_specialize is None else {"warp_specialize": bool(warp_specialize)}
    return {**(passes or {}), **roles}


_METHODS = 256  # objects whose kernels one method keeps


class Kernel:
    """A kernel function, as `@minitile.kernel` makes it. Call it on arrays, or `compile` it without any.

    A call takes arrays for the tensors, numbers for run-time scalars, and compile-time parameters by name. It runs on
    the device that the arrays are on: a GPU, or for arrays of the host the simulator. It returns what the function
    returns, and what `out_idx` names.

    Attributes:
        function: the Python function.
        signature: its parameters: tensors, scalars, compile-time ones.
        target: the Target, or "auto": that of the arrays.
        passes: those that are left out, {"licm": False}.
        launch: of a function with several T.Kernel the number of the one that this is; else None.

    Raises:
        LaunchArgumentError: a call whose arguments do not fit the signature.
        MinitileError: what is wrong with the kernel, at its first call for arguments of a kind.
    """

    def __init__(
        self,
        function: FunctionType,
        signature: Signature,
        target: str | Target = "auto",
        passes: Mapping[str, bool] | None = None,
        launch: int | None = None,
    ) -> None:
        """launch: of a function with several T.Kernel, the number of the one that this is."""
        self.function = function
        self.launch = launch
        self.signature = signature
        self.target = target if target == "auto" else parse_target(target)
        self.passes = dict(passes or {})
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__wrapped__ = function
        self._parameters = {p.name: p for p in signature.parameters}
        self._names = [p.name for p in signature.parameters if p.kind != "self" and not p.made]
        held = {p.name: p.default for p in signature.parameters if p.kind in ("self", "constant") and not p.required}
        self._owners = {name: value for name, value in held.items() if changeable(value)}
        self._held: dict[Any, _Held] = {}  # by compile-time parameters that are passed, and can change in place
        self.method_of: tuple[Kernel, Any] | None = None  # the class's kernel, and the object
        self._methods: dict[int, Kernel] = {}  # of objects, by their id: each keeps its own
        self._variants: dict[tuple[str, ...], Kernel] = {}  # by the optional tensors that are None
        self._optional = [p.name for p in signature.parameters if p.optional]
        self._captures = captures(function, self._owners)
        self._tables: OrderedDict[Any, dict[Any, _Calls]] = OrderedDict()  # the captured values used last come last
        self._table = self._table_of(self._captures)
        self._makes: bool | None = None
        # By their number, calls with run-time arguments alone, where nothing more is needed to know what they go to.
        self._plain: dict[int, Callable[..., Any]] = {}
        self._count = -1
        self._latest: Callable[..., Any] = _plain  # the one of `_count`, which was found last
        self._number = numbered(self)
        self._operator: Any = None  # of torch, and the names of its arguments, once that has been asked for
        self._operator_names: tuple[str, ...] = ()
        self._operator_asked = False

    def __repr__(self) -> str:
        return f"<minitile.Kernel {self.__name__}({', '.join(self._names)})>"

    def __get__(self, owner: Any, kind: type | None = None) -> Kernel:
        """A kernel in a class is a method: of an object it is the kernel whose first parameter that is, at compile
        time. What the object holds is a part of what is compiled, as with captured variables."""
        parameters = self.signature.parameters
        if owner is None or not parameters or parameters[0].kind != "constant" or not parameters[0].required:
            return self
        known = self._methods.get(id(owner))
        if known is None:
            if len(self._methods) >= _METHODS:
                self._methods.pop(next(iter(self._methods)))
            known = Kernel(self.function, self.signature.bound_to(owner), self.target, self.passes, self.launch)
            known.method_of = self, owner
            self._methods[id(owner)] = known
        return known

    def __reduce__(self) -> Reduced:
        return reduce_kernel(self)

    def __copy__(self) -> Kernel:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        """Itself, as with functions; of a method, that of the object's copy."""
        if self.method_of is None:
            return self
        kernel, owner = self.method_of
        return kernel.__get__(deepcopy(owner, memo))

    def captured_functions(self) -> list[FunctionType]:
        """The function, and the helpers that it names."""
        return self._captures.functions

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the kernel on the arrays' device and current stream; on arrays of the CPU, in the simulator.

        Arguments are the signature's parameters, by position or name. Returns what the kernel returns, and the tensors
        of `out_idx`; these may be passed by name, as those of T.empty. Raises LaunchArgumentError for what does not
        fit.
        """
        try:
            if len(args) == self._count and not kwargs and self._captures.current():
                return self._latest(*args)
            plain = None if kwargs else self._plain.get(len(args))
            if plain is not None and self._captures.current():
                return plain(*args)
        except MinitileError as error:
            if "jax" not in sys.modules or not _by_jax(args):
                shorten(error)
                raise
        try:
            return self._first_call(args, kwargs)
        except MinitileError as error:
            shorten(error)
            raise

    def _first_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of which nothing is known yet, or not enough."""
        given = self._given(args, kwargs)
        if "jax" in sys.modules and _by_jax(given.values()):
            from minitile.driver.jax_op import call_by_jax

            return call_by_jax(self, given)
        calls, runtime, results = self._calls(given)
        if results:
            return calls.into(runtime, results)
        if not kwargs:
            self._remember(args)
        return calls.call(*runtime)

    @for_users
    def prepare(self, *args: Any, **kwargs: Any) -> Prepared:
        """A launch on these very GPU arrays, ready to be repeated by calling it.

        Args:
            args: as of a call, results included.
            kwargs: likewise by name, and compile-time parameters.
        """
        dispatcher, runtime = self._dispatcher(args, kwargs)
        return dispatcher.executable(*runtime).prepare(*runtime)

    @for_users
    def configured(self, **constants: Any) -> Kernel:
        """The same kernel with other defaults of compile-time parameters: `matmul.configured(block_M=64)`.

        Args:
            constants: the defaults by name.

        Raises:
            LaunchArgumentError: what is no compile-time parameter.
        """
        for name in constants:
            if name not in self._parameters or self._parameters[name].kind != "constant":
                raise self._refused(f"has no compile-time parameter '{name}'")
        parameters = [replace(p, default=constants.get(p.name, p.default)) for p in self.signature.parameters]
        return Kernel(self.function, Signature(tuple(parameters)), self.target, self.passes, self.launch)

    @for_users
    def executable(self, *args: Any, **kwargs: Any) -> Executable:
        """The specialisation that a call with these arguments would run; compiled now if need be.

        Args:
            args: as of a call.
            kwargs: likewise by name, and compile-time parameters.
        """
        dispatcher, runtime = self._dispatcher(args, kwargs)
        return dispatcher.executable(*runtime)

    @for_users
    def trace(self, *specs: Any, **named: Any) -> IRKernel:
        """The traced IR, before any pass.

        Args:
            specs: as of `compile`.
            named: likewise by name, and compile-time parameters.
        """
        return self._described(specs, named).trace()

    @for_users
    def compile(
        self,
        *specs: Any,
        target: str | Target = "auto",
        passes: Mapping[str, bool] | None = None,
        warp_specialize: bool | None = None,
        **named: Any,
    ) -> CompiledKernel:
        """Compiles without running; no GPU is needed.

        Args:
            specs: a `spec` (or an array) for each tensor, in order; None for one that is left out; none at all means
                that nothing is known of any size. Those of results need not be given.
            target: "sm_80", …, or "auto" for the device that is there.
            passes: passes to leave out, {"licm": False}.
            warp_specialize: False, on sm_90a: no roles of warps, as for `kernel`.
            named: compile-time parameters, and specs of tensors, by name.
        """
        case = self._described(specs, named)
        return CompiledKernel(case, parse_target(target), {**self.passes, **_switches(passes, warp_specialize)})

    # Specialisation ------------------------------------------------------------------------------------------------

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """A call's arguments by parameter."""
        trace = active()
        if trace is not None:
            raise trace.error(f"the kernel {self.__name__} is called in a kernel", "call a plain function instead")
        self._refresh()
        return self._bound(args, kwargs)

    def _calls(self, given: Mapping[str, Any]) -> tuple[_Calls, list[Any], dict[str, Any]]:
        """What calls with these compile-time parameters go to, the run-time arguments in order, and the results that
        are passed."""
        absent = tuple(n for n in self._optional if given[n] is None)
        if absent:
            return self._without(absent)._calls(given)
        self._refresh()
        constants = self._constants(given)
        dtypes = tuple(
            (p.name, _array_dtype(given[p.name], p.name))
            for p in self.signature.runtime
            if p.kind == "tensor" and not p.dtype and not p.made
        )
        calls = self._calls_of(constants, dtypes)
        results = {n: given[n] for n in calls.results.names if n in given}
        unknown = [n for n in given if n not in self._parameters and n not in results]
        if unknown:
            known = ", ".join((*self._names, *sorted(calls.results.names)))
            raise self._refused(f"has no parameter '{unknown[0]}'", f"its parameters are {known}")
        runtime = [given[a.name] for a in calls.args if a.name not in calls.results.names]
        return calls, runtime, results

    def _calls_of(self, constants: Constants, dtypes: Dtypes) -> _Calls:
        key = _key(constants), dtypes
        held = self._held_in(constants)
        table = self._table if held is None else held.table
        calls = table.get(key)
        if calls is None:
            calls = table[key] = _Calls(self, constants, dtypes)
        return calls

    def _held_in(self, constants: Constants) -> _Held | None:
        """What there is of compile-time parameters that can change in place, as they are now; None where none can."""
        changing = {n: value for n, value in constants if changeable(value) and self._owners.get(n) is not value}
        if not changing:
            return None
        key = _key(tuple(changing.items()))
        found = self._held.get(key)
        if found is None:
            if len(self._held) >= _METHODS:
                self._held.pop(next(iter(self._held)))
            found = self._held[key] = _Held()
        if found.captured is None or not found.captured.current():
            found.turn_to(captures(self.function, {**self._owners, **changing}))
        return found

    def _captured_with(self, constants: Constants) -> Captures:
        """What the kernel captures, with what is in such compile-time parameters."""
        held = self._held_in(constants)
        return self._captures if held is None or held.captured is None else held.captured

    def _dispatcher(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Dispatcher, list[Any]]:
        """The dispatcher of a call, and all of its run-time arguments in order; results not passed are made."""
        calls, runtime, results = self._calls(self._given(args, kwargs))
        return calls.dispatcher(), calls.complete(runtime, results)

    def _without(self, absent: tuple[str, ...]) -> Kernel:
        """The kernel of calls that leave out these tensors."""
        found = self._variants.get(absent)
        if found is None:
            found = Kernel(self.function, self.signature.without(absent), self.target, self.passes, self.launch)
            self._variants[absent] = found
        return found

    def _remember(self, args: tuple[Any, ...]) -> None:
        """Calls with as many arguments go where this one went, if these are run-time arguments alone: by which of the
        optional tensors among them are None."""
        parameters = [self._parameters[n] for n in self._names]
        passed, rest = parameters[: len(args)], parameters[len(args) :]
        if any(p.kind == "constant" or not p.dtype for p in passed):
            return
        if any(p.required or p.kind == "scalar" for p in rest):  # a scalar's default is an argument, too
            return
        places = [i for i, p in enumerate(passed) if p.optional]
        if not places:
            self._count = -1  # while the two are changed
            self._latest = self._plain[len(args)] = self._straight(args)
            self._count = len(args)
            return
        known: dict[tuple[bool, ...], Callable[..., Any]] = {}

        def call(*args: Any) -> Any:
            pattern = tuple([args[i] is None for i in places])
            found = known.get(pattern)
            if found is None:
                found = known[pattern] = self._straight(args)
            return found(*args)

        self._plain[len(args)] = call

    def _straight(self, args: tuple[Any, ...]) -> Callable[..., Any]:
        """What a call with as many arguments, with None at the same places, comes to."""
        calls, _, _ = self._calls(self._given(args, {}))
        kept = [i for i, value in enumerate(args) if value is not None or not self._parameters[self._names[i]].optional]
        if len(kept) == len(args):
            return calls.call
        go = calls.call
        return lambda *args: go(*[args[i] for i in kept])

    def _refresh(self) -> None:
        """Captured values may have changed since the last compilation, and attributes of modules and classes come to
        be between the kernel's definition and its first call."""
        if not self._table or not self._captures.current():
            self._captures = captures(self.function, self._owners)
            self._plain, self._count = {}, -1
            self._makes = None
            self._table = self._table_of(self._captures)

    def _table_of(self, captured: Captures) -> dict[Any, _Calls]:
        """What calls go to with captured values; for those that a kernel had long ago there is nothing any more."""
        return _latest(self._tables, captured.key())

    def _results(self, constants: Constants, dtypes: Mapping[str, DType]) -> CallResults:
        """What calls make and return: the tensors of `out_idx`, and what a trace of the function finds."""
        args = self._signature_args(constants, dtypes)
        by_name = {a.name: a for a in args if isinstance(a, TensorArg)}
        made = tuple(
            Made(by_name[p.name], tuple(map(size_expr, by_name[p.name].shape)), own=False)
            for p in self.signature.runtime
            if p.made
        )
        known = {*dims_of([a for a in args if a.name not in {m.name for m in made}])}
        for m in made:
            for size in m.shape:
                if isinstance(size, tuple) and size[1] not in known:
                    raise self._refused(
                        f"makes {m.name}, of which no tensor that is passed has the dimension {size[1]}",
                        "T.empty takes sizes that are computed",
                    )
        if not self._may_make():
            return CallResults(made, tuple(m.name for m in made), len(made) == 1)
        own, returned, one = Case(self, constants, dtypes, {}).results()
        names = (*returned, *(m.name for m in made if m.name not in returned))
        return CallResults((*made, *own), names, len(names) == 1 and (one or not returned))

    def _untyped(self, name: str) -> DType:
        raise self._refused(f"makes {name}, whose dtype is not known", "give its annotation a dtype")

    @for_users
    def result_shapes(self, *args: Any, **kwargs: Any) -> list[tuple[tuple[int, ...], DType]]:
        """The shapes and dtypes of what a call with these arguments returns; only shapes and dtypes of tensors are
        looked at. A tensor that is passed and returned has its own.

        Args:
            args: as of a call.
            kwargs: likewise by name, and compile-time parameters.
        """
        calls, runtime, _ = self._calls(self._given(args, kwargs))
        shapes = dict(zip([m.name for m in calls.results.made], calls.shapes(*runtime), strict=True))
        dtypes = {m.name: m.dtype for m in calls.results.made}
        passed = {a.name: x for a, x in zip(calls.passed, runtime, strict=True)}
        return [
            (shapes[n], dtypes[n]) if n in shapes else (tuple(passed[n].shape), _array_dtype(passed[n], n))
            for n in calls.results.returned
        ]

    def _same(self, case: Case, twins: Sequence[tuple[str, str]], equal: Sequence[int]) -> tuple[tuple[str, str], ...]:
        """Of the pairs whose addresses are equal those that matter: one array under two names, and it is written."""
        if not any(equal):
            return ()
        from minitile.driver.pipeline import written_tensors

        written = {*written_tensors(case.trace())}
        first: dict[str, str] = {}
        for (a, b), alike in zip(twins, equal, strict=True):
            if alike:
                first.setdefault(b, first.get(a, a))
        used = {one for one in first.values() if written & {one, *(b for b, a in first.items() if a == one)}}
        return tuple((a, b) for b, a in first.items() if a in used)

    def target_for(self, place: Place) -> Target:
        """What is compiled for arrays there.

        Args:
            place: a device, as `runtime.arrays` describes arrays.
        """
        return self.target if isinstance(self.target, Target) else target_at(place.kind, place.index)

    def _signature_args(
        self,
        constants: Constants,
        dtypes: Mapping[str, DType],
        strided: Sequence[str] = (),
        made: Iterable[Made] = (),
    ) -> list[TensorArg | ScalarArg]:
        """strided: the tensors that have strides although their annotation says none; made: what calls make, of which
        T.empty's tensors stand behind the others."""
        values = dict(constants)
        args: list[TensorArg | ScalarArg] = []
        for p in self.signature.runtime:
            if p.kind == "tensor":
                dtype = p.dtype or dtypes.get(p.name) or self._untyped(p.name)
                args.append(TensorArg(p.name, dtype.name, tensor_shape(p, values), tensor_strides(p, values)))
            else:
                assert p.dtype is not None
                args.append(ScalarArg(p.name, p.dtype.name))
        args += [m.arg for m in made if m.own]
        return stride_names(args, strided)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments by parameter, defaults filled in."""
        if len(args) > len(self._names):
            raise self._refused(f"takes {len(self._names)} arguments, not {len(args)}")
        given = dict(zip(self._names, args, strict=False))
        for name, value in kwargs.items():
            if name not in self._parameters and not self._may_make():
                raise self._refused(f"has no parameter '{name}'", f"its parameters are {', '.join(self._names)}")
            if name in given:
                raise self._refused(f"got '{name}' twice")
            given[name] = value
        for p in self.signature.parameters:
            if p.name not in given and not p.made:
                if p.optional:
                    given[p.name] = None
                elif p.required:
                    raise self._refused(f"lacks the argument '{p.name}'")
                else:
                    given[p.name] = p.default
        return given

    def _may_make(self) -> bool:
        """Whether the function may return tensors, or have some of T.empty."""
        if self._makes is None:
            own, *helpers = self.captured_functions()
            bodies = [node for f in helpers if (node := function_node(f)) is not None]
            self._makes = _may_make(kernel_node(own), True) or any(_may_make(node, False) for node in bodies)
        return self._makes

    def _constants(self, given: Mapping[str, Any]) -> Constants:
        constants = tuple((p.name, _plain(given[p.name])) for p in self.signature.constants)
        for name, value in constants:
            if hasattr(value, "shape") and hasattr(value, "dtype"):
                raise self._refused(
                    f"is given an array for '{name}' (shape {tuple(value.shape)}, {value.dtype}), which is a "
                    "compile-time parameter, having no annotation",
                    f'annotate it: {name}: T.Tensor(("M", "N"), T.float32)',
                )
            if not hashable(value):
                hint = f"'{name}' has no T.Tensor or dtype annotation, so it is compile-time: pass something hashable"
                raise self._refused(f"cannot tell specialisations apart by {name}={shown(value)}", hint)
        return constants

    def _refused(self, what: str, hint: str = "") -> LaunchArgumentError:
        return LaunchArgumentError(f"the kernel {self.__name__} {what}", caller_location(), hint)

    def _described(self, specs: tuple[Any, ...], named: dict[str, Any]) -> Case:
        """The case that specs and constants describe."""
        self._refresh()
        return described_case(self, specs, named)


Kernel.__call__._torchdynamo_inline = traced_call  # type: ignore[attr-defined]


@dataclass
class _Held:
    """Compile-time parameters that can change in place. `captured`: what is read through them, and by the kernel.
    `table`: what calls go to as they are; `tables`: the same by what they were, the last ones."""

    captured: Captures | None = None
    table: dict[Any, _Calls] = field(default_factory=dict)
    tables: OrderedDict[Any, dict[Any, _Calls]] = field(default_factory=OrderedDict)

    def turn_to(self, captured: Captures) -> None:
        self.captured, self.table = captured, _latest(self.tables, captured.key())


def _latest(tables: OrderedDict[Any, dict[Any, _Calls]], key: Any) -> dict[Any, _Calls]:
    """The table of a key, new if need be, which comes last; the first of too many goes."""
    found = tables.setdefault(key, {})
    tables.move_to_end(key)
    if len(tables) > MOST_CAPTURED:
        tables.popitem(last=False)
    return found


class _Calls:
    """What a kernel's calls with the same compile-time parameters and dtypes go to. args: their run-time arguments,
    with those that the call makes; `passed` without these. call: the function of those that are passed."""

    def __init__(self, kernel: Kernel, constants: Constants, dtypes: Dtypes) -> None:
        self.kernel, self.constants, self.dtypes = kernel, constants, dict(dtypes)
        captured = kernel._captured_with(constants)
        self.captured = captured, captured.key()
        self.results = kernel._results(constants, self.dtypes)
        self.args = kernel._signature_args(constants, self.dtypes, made=self.results.made)
        self.passed = [a for a in self.args if a.name not in self.results.names]
        self._dispatchers: dict[tuple[str, ...], Dispatcher] = {}
        self.call = compile_call(self.args, self.results, self.dispatcher().call)
        self.shapes = compile_shapes(self.args, self.results)

    def _as_captured(self) -> bool:
        """Whether what the kernel captures is as it was when these calls were first made."""
        then, key = self.captured
        now = self.kernel._captured_with(self.constants)
        return then.current() or (now.current() and now.key() == key)

    def complete(self, runtime: Sequence[Any], results: Mapping[str, Any]) -> list[Any]:
        """All run-time arguments: those that are passed, results that are passed, and others made anew."""
        found: list[list[Any]] = []
        compile_call(self.args, self.results, lambda *args: found.append(list(args)))(*runtime)
        shapes = dict(zip([m.name for m in self.results.made], self.shapes(*runtime), strict=True))
        for name, array in results.items():
            have = tuple(getattr(array, "shape", ()))
            if have != shapes[name]:
                raise self.kernel._refused(f"makes {name} with the shape {shapes[name]}, and {have} is passed")
        return [results.get(a.name, array) for a, array in zip(self.args, found[0], strict=True)]

    def into(self, runtime: Sequence[Any], results: Mapping[str, Any]) -> Any:
        """A call to which results are passed."""
        every = self.complete(runtime, results)
        self.dispatcher().call(*every)
        by_name = {a.name: array for a, array in zip(self.args, every, strict=True)}
        back = [by_name[n] for n in self.results.returned]
        return None if not back else back[0] if self.results.one else tuple(back)

    def dispatcher(self, strided: tuple[str, ...] = ()) -> Dispatcher:
        """For calls in which, of the tensors annotated without strides, `strided` are not row-major without gaps. Other
        calls go to a dispatcher of their own."""
        if strided not in self._dispatchers:
            self._dispatchers[strided] = self._new_dispatcher(strided)
        return self._dispatchers[strided]

    def _new_dispatcher(self, strided: tuple[str, ...]) -> Dispatcher:
        kernel, constants, dtypes, made = self.kernel, self.constants, self.dtypes, self.results.made
        signature = kernel._signature_args(constants, dtypes, strided, made)
        facts = CallFacts(signature, {m.name for m in made if m.own and not m.of})
        compiled: dict[Any, Executable] = {}

        def compile(place: Place, found: tuple[int, ...], exact: bool) -> Executable:
            known = facts.read(found)
            numbers = known.divisors, known.large, exact, (), known.strides, known.unaligned
            case = Case(kernel, constants, dtypes, *numbers, made)
            case = replace(case, same=kernel._same(case, facts.twins, known.equal))
            target = kernel.target_for(place)
            lying = tuple(case.divisors.items()), tuple(case.strides.items())
            key = target, *lying, case.large, exact, case.same, case.unaligned
            if key not in compiled:
                if not self._as_captured():  # a program of JAX's calls later
                    raise kernel._refused("reads variables that have changed since its call", "trace the program again")
                compiled[key] = CompiledKernel(case, target, kernel.passes).executable
            return compiled[key]

        def elsewhere(args: tuple[Any, ...]) -> Dispatcher | None:
            more = gapped(signature, args)
            names = tuple(a.name for a in signature if a.name in {*strided, *more})
            return self.dispatcher(names) if more else None

        return Dispatcher(signature, facts.exprs, compile, elsewhere)


def _by_jax(values: Iterable[Any]) -> bool:
    from minitile.driver.jax_op import by_jax

    return by_jax(values)


def _may_make(function: ast.AST, kernel: bool) -> bool:
    """Whether a function names something that makes tensors, or a kernel returns a value: then a trace tells."""
    left: list[ast.AST] = list(ast.iter_child_nodes(function))
    while left:
        each = left.pop()
        if kernel and isinstance(each, ast.Return) and each.value is not None:
            return True
        if {"empty", "alloc_global", "reshape", "view", "data"} & {getattr(each, "attr", ""), getattr(each, "id", "")}:
            return True
        if not isinstance(each, ast.FunctionDef | ast.Lambda):
            left += ast.iter_child_nodes(each)
    return False


def _plain(x: Any) -> Any:
    """A NumPy scalar as a Python number."""
    return python_number(x) if is_number(x) else x


def _key(constants: Constants) -> tuple[Any, ...]:
    return tuple((name, exact(value)) for name, value in constants)


def _array_dtype(x: Any, what: str) -> DType:
    try:
        name = dtype_name(x)
    except LaunchError as error:
        raise_for_caller(error, what)
    try:
        return dtype_of_name(name)
    except MinitileError as error:
        raise LaunchArgumentError(error.message, caller_location(), error.hint) from None
