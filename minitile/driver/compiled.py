"""One specialisation of a kernel, compiled for one target."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from minitile.backends.registry import backend_of
from minitile.driver.describe_launch import launch_info
from minitile.driver.dispatch import Executable, caller_location, for_users, raise_for_caller, shorten
from minitile.driver.masked import copied, masked_accesses
from minitile.driver.pickles import Reduced, reduce_compiled
from minitile.driver.results import Made, compile_call
from minitile.driver.simulate import on_host, simulate
from minitile.hardware import Target
from minitile.ir.core import Kernel as IRKernel
from minitile.ir.diagnostics import InternalError, LaunchArgumentError, Location, MinitileError
from minitile.ir.types import Dim, DType, TensorType
from minitile.language.results import Results
from minitile.language.scalars import python_number
from minitile.language.tracing.trace import TraceInput, trace_kernel
from minitile.runtime.errors import LaunchError
from minitile.runtime.launch_info import ScalarArg, TensorArg

if TYPE_CHECKING:
    from minitile.driver.jit import Kernel
    from minitile.driver.pipeline import Result
    from minitile.proof import Answer
    from minitile.runtime.launcher_base import Prepared
    from minitile.runtime.saved import Saved
    from minitile.runtime.sim import Report

_LOG = logging.getLogger("minitile.compile")
Constants = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Case:
    """One specialisation of a kernel: everything that the compiler knows. large: the dimensions that may be 2^30 and
    more; exact: the launch checks nothing but dimensions for indices to be right; same: (first, other) tensors of the
    signature that are one array, of which some are written; strides: of the tensors that are not row-major without
    gaps; unaligned: those whose address need be no multiple of 16 bytes; made: the tensors that calls make."""

    kernel: Kernel
    constants: Constants
    dtypes: Mapping[str, DType]
    divisors: Mapping[str, int]
    large: tuple[str, ...] = ()
    exact: bool = False
    same: tuple[tuple[str, str], ...] = ()
    strides: Mapping[str, tuple[Dim, ...]] = field(default_factory=dict)
    unaligned: tuple[str, ...] = ()
    made: tuple[Made, ...] = ()

    def trace(self) -> IRKernel:
        return self._trace()[0]

    def _trace(self) -> tuple[IRKernel, Results]:
        k = self.kernel
        numbers = self.divisors, self.large, self.exact, self.same, self.strides, self.unaligned
        given = TraceInput(dict(self.constants), self.dtypes, *numbers, launch=k.launch)
        return trace_kernel(k.function, k.signature, given)

    def launches(self) -> int:
        """How many T.Kernel the function has; 0 or 1 where the kernel is not told which one it is."""
        return self._trace()[1].launches

    def results(self) -> tuple[tuple[Made, ...], tuple[str, ...], bool]:
        """The tensors of T.empty, and the names of the tensors that the function returns; whether that is a single one.
        Raises LanguageError."""
        from minitile.ir.host_expression import host_expression

        traced, results = self._trace()
        known = {value: ("dim", name) for name, value in traced.dims.items() if name not in results.sizes}
        known |= {v: ("scalar", v.name) for v in traced.params if not isinstance(v.type, TensorType)}
        rule = "a size of T.empty is computed by the host: + - * // % min max of dimensions and integer scalars"
        loc = Location.of_line(self.kernel.function.__code__.co_filename, self.kernel.function.__code__.co_firstlineno)
        sizes = {n: host_expression(value, known, rule, loc) for n, value in results.sizes.items()}
        made = []
        for value in results.made:
            shape = value.shape
            exprs = tuple(d if isinstance(d, int) else sizes.get(d, ("dim", d)) for d in shape)
            of = results.views.get(value.name, "")
            made.append(Made(TensorArg(value.name, value.dtype.name, shape), exprs, of=of))
        return tuple(made), results.returned, results.one

    def args(self) -> list[TensorArg | ScalarArg]:
        args = self.kernel._signature_args(self.constants, self.dtypes, made=self.made)
        lying = self.strides
        return [replace(a, strides=lying[a.name]) if isinstance(a, TensorArg) and a.name in lying else a for a in args]


class CompiledKernel:
    """One specialisation, compiled for one target, as `kernel.compile(…)` gives it. Callable on arrays that it was
    compiled for, which are checked.

    Attributes:
        case: what it was compiled for: the kernel, compile-time parameters, dtypes, divisors of sizes
        result: assembly and launch, as the passes left them
        target: the Target
        asm: texts by stage: "traced_ir", "tile_ir", "thread_ir", then "ptx", or "llvm" and "gcn"
        launch_info: grid, block, shared bytes, argument layout: plain data
        timings: milliseconds: "trace", "passes", "ptx" (or "llvm" and "gcn"), and "assemble" once that has happened

    Raises:
        LaunchArgumentError: arguments of a call that do not fit the signature, or what it was compiled for.
    """

    def __init__(self, case: Case, target: Target, passes: Mapping[str, bool], result: Result | None = None) -> None:
        """result: of a compilation that is over."""
        self.case = case
        self.target = target
        self.backend = backend_of(target)
        self.passes = dict(passes)
        self.timings: dict[str, float] = {}
        if result is None:
            result = self._compile()
        self.result = result
        self._notes = result.notes
        self.pass_timings = {n: spent for n, spent in result.timings.items() if not n.startswith("write_")}
        self.timings |= {  # without the import of the backend, which compile_ir begins with
            "passes": sum(self.pass_timings.values()),
            **{name: result.timings[f"write_{name}"] for name in result.assembly},
        }
        self.launch_info = launch_info(result, case)
        self.asm: Mapping[str, str] = _Texts(self, result.assembly)
        self.text = list(result.assembly.values())[-1]
        program = self.backend.program(result.assembly, self.launch_info.entry, target)
        program.timings = self.timings
        if _LOG.isEnabledFor(logging.INFO):
            spent = ", ".join(f"{name} {ms:.1f} ms" for name, ms in self.timings.items())
            _LOG.info("%s for %s: %s", self.launch_info.entry, target, spent)
        self.executable = Executable(self.launch_info, program, self._run_in_simulator, result.fits)
        self._results = case.kernel._results(case.constants, case.dtypes)
        self._absent = {p.name for p in case.kernel.signature.constants if p.default is None}
        scalars = (p for p in case.kernel.signature.runtime if p.kind == "scalar" and not p.required)
        self._defaults = {p.name: p.default for p in scalars}
        self._call: Callable[..., Any] | None = None

    def _compile(self) -> Result:
        from minitile.driver.pipeline import compile_ir

        start = time.perf_counter()
        traced = self.case.trace()
        self.timings["trace"] = (time.perf_counter() - start) * 1e3
        with _bugs_said(self.case.kernel):
            return compile_ir(traced, self.target, self.passes)

    def __reduce__(self) -> Reduced:
        return reduce_compiled(self)

    def __copy__(self) -> CompiledKernel:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledKernel:
        return self

    @property
    def notes(self) -> tuple[str, ...]:
        """What the compiler could not do for this kernel, and why; once assembled, what the assembler says of it."""
        return (*self._notes, *self.executable.remarks)

    def __repr__(self) -> str:
        return f"<minitile.CompiledKernel {self.case.kernel.__name__} for {self.target}>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Runs on the run-time arguments of the signature, by position or name, and returns what the kernel returns."""
        try:
            if self._absent or self._defaults:
                args, named = self._present(args, named)
            every = self._every(args, named)
            if every is not None:
                self.executable(*every)
                return self._returned(every)
            if self._call is None:
                self._call = compile_call(self.launch_info.args, self._results, self.executable)
            return self._call(*self._ordered(args, named))
        except MinitileError as error:
            shorten(error)
            raise

    @for_users
    def prepare(self, *args: Any, **named: Any) -> Prepared:
        """A launch on these very GPU arrays, ready to be repeated by calling it.

        Args:
            args: as of a call, results included.
            named: likewise by name.
        """
        args, named = self._present(args, named)
        return self.executable.prepare(*(self._every(args, named) or args))

    def _present(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What is passed, but for the None of tensors that the kernel was compiled without; with the defaults of
        scalars that are not passed."""
        absent = self._absent
        places = [
            p for p in self.case.kernel.signature.parameters if p.kind in ("tensor", "scalar") or p.name in absent
        ]
        names = [p.name for p in places if not p.made]
        if len(args) > len(names):
            names = [p.name for p in places]
        kept = [x for n, x in zip_longest(names[: len(args)], args) if x is not None or n not in absent]
        named = {n: x for n, x in named.items() if x is not None or n not in absent}
        if self._defaults and len(kept) != len(self.launch_info.args):
            rest = [n for n in self._passed(named)[len(kept) :] if n not in named]
            if all(n in self._defaults for n in rest):  # else an error says what is given
                named |= {n: self._defaults[n] for n in rest}
        return tuple(kept), named

    def _passed(self, named: Mapping[str, Any]) -> list[str]:
        """The names of the arguments that a call passes, in order: results are among them where it names them."""
        return [a.name for a in self.launch_info.args if a.name not in self._results.names or a.name in named]

    def _ordered(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arguments that are passed, in order."""
        passed = self._passed(named)
        given = dict(zip(passed, args, strict=False))
        for name, value in named.items():
            if name not in passed or name in given:
                what = "twice" if name in given else f"which is none of {', '.join(passed)}"
                raise LaunchArgumentError(f"{self.launch_info.entry} is given '{name}' {what}", caller_location())
            given[name] = value
        if len(given) != len(passed) or len(args) > len(passed):
            count = f"{len(passed)} arguments ({', '.join(passed)}), and {len(args) + len(named)} are given"
            raise LaunchArgumentError(f"the kernel takes {count}", caller_location())
        return tuple(given[n] for n in passed)

    def _every(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """All arguments of the launch, if that is what is passed; None where results are to be made."""
        names = [a.name for a in self.launch_info.args]
        if named and {*names[: len(args)]}.isdisjoint(named) and {*names[len(args) :]} == {*named}:
            return (*args, *(named[n] for n in names[len(args) :]))
        made = len(self._results.names)
        return None if named or (made and len(args) != len(names)) else args

    def complete(self, *args: Any) -> list[Any]:
        """All arguments of the launch, in its order: with defaults, and with results made anew.

        Args:
            args: as of a call.
        """
        given, named = self._present(args, {})
        every = self._every(given, named)
        if every is not None:
            return list(every)
        found: list[Any] = []
        compile_call(self.launch_info.args, self._results, lambda *every: found.extend(every))(
            *self._ordered(given, named)
        )
        return found

    def _returned(self, every: Sequence[Any]) -> Any:
        by_name = {a.name: x for a, x in zip(self.launch_info.args, every, strict=True)}
        back = [by_name[n] for n in self._results.returned]
        return None if not back else back[0] if self._results.one else tuple(back)

    @for_users
    def simulate(
        self,
        *args: Any,
        schedule: str = "lazy",
        seed: int = 0,
        check: bool = True,
        report_masked: bool = False,
        **named: Any,
    ) -> Report:
        """Executes the assembly on arrays of the CPU: NumPy's, torch's, JAX's, and what speaks DLPack; what it writes
        is written into them. The report's `results` are what the kernel returns. Raises RaceError, SimulationError,
        LaunchArgumentError.

        Args:
            args: the run-time arguments of the signature, in order; results may be left out, and so may None for
                tensors that the kernel was compiled without.
            schedule: when asynchronous copies land: "eager", "lazy" or "random" (by `seed`).
            seed: see there.
            check: whether to look for races.
            report_masked: the report's `masked` lists the accesses that bounds cut off, by source line; runs twice.
            named: run-time arguments by name.
        """
        reports: list[Report] = []

        def run(*every: Any) -> None:
            self._bind_on_cpu(every)
            with _bugs_said(self.case.kernel):
                before = copied(on_host(self.launch_info, every)) if report_masked else []
                report = simulate(self.launch_info, self.text, every, schedule, seed, check, backend=self.backend)
                if report_masked:
                    report.masked = masked_accesses(self, before)
                reports.append(report)

        args, named = self._present(args, named)
        every = self._every(args, named)
        if every is None:
            every = self._ordered(args, named)
            results = compile_call(self.launch_info.args, self._results, run)(*every)
        else:
            run(*every)
            results = self._returned(every)
        (report,) = reports
        report.results = () if results is None else (results,) if self._results.one else results
        return report

    @for_users
    def certificate(self, *, seconds: float = 60.0, examples: float = 20.0) -> Answer:
        """Proves of the PTX that no schedule and no trip count of its loops has a race in shared memory, a missing wait
        or proxy fence, or a deadlock; what is assumed is in docs/proof.md. The answer's `verdict` is "proved" (it is
        true then, and `certificate` is data for JSON), "fault" (a rule is broken on the run `steps`; `sizes` are some
        on which the simulator shows it, if such were found), or "refused" (not known; `line`, `reason`).

        Args:
            seconds: of the proof, at most.
            examples: seconds to look for sizes that show a fault; 0: none are looked for.

        Raises:
            MinitileError: code for AMD.
        """
        from minitile.tools.proving import certificate

        return certificate(self, seconds=seconds, examples=examples)

    @property
    @for_users
    def assembled(self) -> Any:
        """The cubin for the target with what the assembler says of it (`Assembled`); for NVIDIA targets."""
        return self.executable.program.assembled

    @property
    @for_users
    def binary(self) -> bytes:
        """The cubin, or AMD's code object (hsaco). Raises AssemblerMissing where no assembler, TargetError where no
        linker is installed. A kernel with wgmma wants a
        `ptxas`: where there is none, the cubin may be slower than what a launch runs, with an AssemblerWarning."""
        return self.executable.program.binary

    @property
    @for_users
    def saved(self) -> Saved:
        """All that a launch needs, without the compiler: plain data and the code. Raises as `binary` does; for NVIDIA
        the text goes along, and the driver compiles it where no assembler is installed here."""
        info = self.launch_info
        sizes = [
            ("same", ("dim", n), size)
            for m in self._results.made
            for n, size in zip(m.arg.shape, m.shape, strict=True)
            if isinstance(n, str) and size != ("dim", n)
        ]
        info = replace(info, facts=(*info.facts, *sizes))  # which a call of this kernel computes, and others pass
        saved = self.executable.program.saved(self.case.kernel.__name__, info)
        return replace(saved, defaults={n: python_number(x) for n, x in self._defaults.items()})

    @for_users
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the kernel to a file for `minitile.load`, which needs no compiler.

        Args:
            path: of the file, which is overwritten.

        Raises:
            OSError: the file cannot be written; and what `binary` raises.
        """
        self.saved.write(path)

    @property
    @for_users
    def registers(self) -> int:
        """Registers per thread: of what was launched, else of the cubin."""
        return self.executable.program.costs().registers

    @property
    @for_users
    def spills(self) -> int:
        """Bytes per thread that are spilled (stores plus loads; AMD: bytes of scratch), likewise."""
        return self.executable.program.costs().spills

    def _run_in_simulator(self, args: tuple[Any, ...]) -> None:
        with _bugs_said(self.case.kernel):
            simulate(self.launch_info, self.text, args, backend=self.backend)

    def _bind_on_cpu(self, args: tuple[Any, ...]) -> None:
        try:
            _, place = self.executable._bind(*args)
        except LaunchError as error:
            raise_for_caller(error)
        if place.kind != "cpu":
            raise LaunchArgumentError(
                f"simulate works on arrays of the CPU, not on tensors on {place}",
                caller_location(),
                "copy them to the host",
            )


@contextmanager
def _bugs_said(kernel: Kernel) -> Iterator[None]:
    """An unforeseen exception becomes an InternalError that names the kernel."""
    try:
        yield
    except (MinitileError, LaunchError, MemoryError):
        raise
    except Exception as error:
        code = kernel.function.__code__
        place = Location.of_line(code.co_filename, code.co_firstlineno, code.co_name)
        raise InternalError(f"{type(error).__name__}: {error}", place) from error


class _Texts(Mapping[str, str]):
    """The texts of a compiled kernel. Those of the IR are made when they are asked for, by compiling again."""

    _STAGES = ("traced_ir", "tile_ir", "thread_ir")

    def __init__(self, owner: CompiledKernel, assembly: Mapping[str, str]) -> None:
        self._owner = owner
        self._texts = dict(assembly)
        self._names = (*self._STAGES, *assembly)

    def __getitem__(self, name: str) -> str:
        if name not in self._texts:
            if name not in self._names:
                raise KeyError(f"{name!r}; there are {', '.join(self._names)}")
            from minitile.driver.pipeline import compile_ir

            owner = self._owner
            result = compile_ir(owner.case.trace(), owner.target, owner.passes, texts=True)
            self._texts = {**result.texts, **self._texts}
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
