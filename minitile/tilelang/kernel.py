"""`JITKernel`: what `tilelang.compile` and calls of a factory give: a compiled function of one or several launches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from minitile.driver.compiled import CompiledKernel
from minitile.driver.dispatch import caller_location
from minitile.driver.jit import Kernel
from minitile.ir.diagnostics import MinitileError, ResourceError
from minitile.language.tracing.loops import MOST_STAGES
from minitile.language.tracing.signature import Parameter, Signature
from minitile.target import parse_target
from minitile.tilelang.language.names import STAGES
from minitile.tilelang.mode import MODE
from minitile.tilelang.pass_config import Options
from minitile.tilelang.prim_func import PrimFunc

STAGES_CHOSEN = ("deepen_stages", "choose_stages")  # the passes that choose stages, the more demanding one first


class JITKernel:
    """Callable on the tensors and scalars of the signature, without those of `out_idx`, which it returns, and returns
    what the function returns. A function with several T.Kernel launches them in order; what T.empty and T.alloc_global
    make is made once for the call.

    Attributes: prim_func; out_idx; config, latency, ref_latency: of the autotuner.
    """

    def __init__(
        self,
        function: PrimFunc | tuple[Any, Signature],
        out_idx: int | Sequence[int] | None = None,
        options: Options | None = None,
    ) -> None:
        self.prim_func = function if isinstance(function, PrimFunc) else None
        self.out_idx = out_idx
        self.options = options or Options()
        if isinstance(function, PrimFunc):
            self.function, signature = function.function, function.signature
        else:
            self.function, signature = function
        if out_idx is not None:
            signature = signature.making(out_idx, caller_location())
        self.signature = signature
        self.config: dict[str, Any] | None = None
        self.latency: float | None = None
        self.ref_latency: float | None = None
        self.most_stages = MOST_STAGES
        self.left_out: tuple[str, ...] = ()  # passes that choose stages
        self.__name__ = self.function.__name__
        self._compiled: dict[str, list[CompiledKernel]] = {}
        if MODE.compile_only:
            self._record()

    def __repr__(self) -> str:
        return f"<tilelang kernel {self.__name__}>"

    def _kernel(self, launch: int) -> Kernel:
        most = Parameter(STAGES, "self", None, None, self.most_stages)
        signature = Signature((*self.signature.parameters, most))
        passes = dict(self.options.passes) | dict.fromkeys(self.left_out, False)
        return Kernel(self.function, signature, self.options.target, passes, launch)

    def _fitting(self, run: Callable[[], Any]) -> Any:
        """What `run` gives; where shared memory does not suffice, with the stages that each T.Pipelined says, then with
        fewer: how many versions of a buffer TileLang makes is its own choice, and programs are written to what fits
        there."""
        while True:
            try:
                return run()
            except ResourceError as error:
                if "shared memory" not in error.message or self.most_stages == 1:
                    raise
                if len(self.left_out) < len(STAGES_CHOSEN):
                    self.left_out = STAGES_CHOSEN[: len(self.left_out) + 1]
                else:
                    self.most_stages = 2 if self.most_stages > 2 else 1
                self.__dict__.pop("kernels", None)

    @cached_property
    def kernels(self) -> list[Kernel]:
        """One for each launch."""
        first = self._kernel(0)
        return [first, *(self._kernel(n) for n in range(1, first._described((), {}).launches()))]

    def compiled(self, target: str = "auto") -> list[CompiledKernel]:
        """Every launch, compiled for a target ("auto": that of the kernel, else the device at hand)."""
        own = MODE.target if self.options.target == "auto" else str(self.options.target)
        wanted = own if target == "auto" else target
        if wanted not in self._compiled:
            self._compiled[wanted] = self._fitting(lambda: [k.compile(target=wanted) for k in self.kernels])
        return self._compiled[wanted]

    def __call__(self, *args: Any, **named: Any) -> Any:
        if MODE.compile_only:
            return self._dummies(args, named)
        return self._fitting(lambda: self._run(args, named))

    def _run(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if len(self.kernels) == 1:
            return self.kernels[0](*args, **named)
        first = self.kernels[0]
        calls, runtime, given = first._calls(first._given(args, named))
        every = calls.complete(runtime, given)
        calls.dispatcher().call(*every)
        names = [a.name for a in calls.args]
        for kernel in self.kernels[1:]:
            after, _, _ = kernel._calls(kernel._given(args, named))
            by_name = dict(zip(names, every, strict=True))
            after.dispatcher().call(*(by_name[a.name] for a in after.args))
        by_name = dict(zip(names, every, strict=True))
        back = [by_name[n] for n in calls.results.returned]
        return None if not back else back[0] if calls.results.one else tuple(back)

    # Compile-only mode ---------------------------------------------------------------------------------------------

    def _record(self) -> None:
        began = time.perf_counter()
        error, launches = "", 0
        try:
            parse_target(MODE.target)
            self.compiled(MODE.target)
            launches = len(self.kernels)
        except MinitileError as refused:
            error = f"{type(refused).__name__}: {refused}"
        MODE.note(self.function, error, launches, began)

    def _dummies(self, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Tensors of no content in place of results; None for a kernel that did not compile."""
        from minitile.tilelang.stand_in.tensors import empty_like_results

        return empty_like_results(self, args, named)

    # The host's interface --------------------------------------------------------------------------------------------

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """The assembly of all launches: PTX, or AMD's."""
        return "\n".join(k.text for k in self.compiled())

    def get_host_source(self) -> str:
        """A description of the launches; there is no host code."""
        return "\n".join(str(k.launch_info) for k in self.compiled())

    def show_source(self, which: str = "kernel") -> None:
        """Prints the assembly, or the launches."""
        print(self.get_kernel_source() if which != "host" else self.get_host_source())

    def traced_ir(self) -> str:
        """What the function says, before any pass."""
        return "\n".join(k.asm["traced_ir"] for k in self.compiled())

    def get_profiler(self, tensor_supply_type: Any = None) -> Any:
        """A `Profiler`, which makes inputs and measures."""
        from minitile.tilelang.profiler import Profiler

        return Profiler(self, tensor_supply_type)

    @property
    def params(self) -> list[Any]:
        """The tensors and scalars of the signature."""
        return list(self.signature.runtime)
