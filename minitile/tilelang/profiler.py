"""`get_profiler` and `do_bench`: inputs, comparison with a reference, time on the GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from minitile.ir.diagnostics import MinitileError
from minitile.tilelang.inputs import TensorSupplyType, make
from minitile.tilelang.mode import MODE

if TYPE_CHECKING:
    from minitile.tilelang.kernel import JITKernel

L2_BYTES = 256 << 20  # written between launches, so that each finds L2 as empty
Function = Callable[..., Any]


class Mismatch(AssertionError):
    """Results that differ from the reference."""


class Profiler:
    """Makes a kernel's inputs, runs it beside a reference, times it."""

    def __init__(self, kernel: JITKernel, supply: Any = None) -> None:
        self.kernel = kernel
        self.supply = supply or TensorSupplyType.Auto
        self.adapter = self.func = kernel

    def with_default_adapter(self, adapter: Any) -> Profiler:
        """The profiler itself: there is one adapter."""
        return self

    def inputs(self) -> list[Any]:
        """A tensor for each of the signature that calls do not make. Raises LaunchArgumentError for run-time sizes."""
        passed = [p for p in self.kernel.signature.runtime if not p.made]
        return [make(p, {}, self.supply, seed) if p.kind == "tensor" else 1 for seed, p in enumerate(passed)]

    _get_inputs = inputs

    def run_once(self, func: Function | None = None) -> Any:
        """The function, or the kernel, on fresh inputs."""
        return (func or self.kernel)(*self.inputs())

    __call__ = run_once

    def assert_allclose(
        self,
        reference_program: Function,
        input_tensors: Sequence[Any] | None = None,
        atol: float = 1e-2,
        rtol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
        **_: Any,
    ) -> None:
        """Compares the kernel's results (or the last tensors that it writes) with the reference's.

        Raises Mismatch, an AssertionError, where more than that share of the elements is further off than
        atol + rtol · |reference|, and where there are not as many results.
        """
        if MODE.compile_only:
            return
        given = list(input_tensors) if input_tensors is not None else self.inputs()
        ours = self.kernel(*given)
        theirs = reference_program(*given)
        results = list(ours) if isinstance(ours, (tuple, list)) else [ours]
        wanted = list(theirs) if isinstance(theirs, (tuple, list)) else [theirs]
        if ours is None:
            results = given[len(given) - len(wanted) :]
        if len(results) != len(wanted):
            raise Mismatch(f"the kernel has {len(results)} results, and the reference {len(wanted)}")
        for have, want in zip(results, wanted, strict=True):
            if have is not None and want is not None:
                compare(have, want, atol, rtol, max_mismatched_ratio)

    def manual_assert_close(
        self, reference_program: Function, input_tensors: Any = None, manual_check_prog: Any = None
    ) -> None:
        """Results of the kernel and the reference go to `manual_check_prog`."""
        if MODE.compile_only:
            return
        given = list(input_tensors) if input_tensors is not None else self.inputs()
        manual_check_prog(self.kernel(*given), reference_program(*given))

    def assert_consistent(self, repeat: int = 10) -> None:
        """Runs as often on the same inputs, which must give the same."""
        given = self.inputs()
        first = self.kernel(*given)
        for _ in range(repeat):
            compare(self.kernel(*given), first, 0.0, 0.0, 0.0)

    def do_bench(
        self, func: Function | None = None, warmup: int = 25, rep: int = 100, input_tensors: Any = None, **named: Any
    ) -> float:
        """Milliseconds of the function, or of the kernel, on fresh inputs; see the function `do_bench`."""
        if MODE.compile_only or not _gpu():
            return do_bench(lambda: None, warmup, rep)
        given = list(input_tensors) if input_tensors is not None else self.inputs()
        run = func or self.kernel
        return do_bench(lambda: run(*given), warmup, rep, **named)


def compare(have: Any, want: Any, atol: float, rtol: float, most: float) -> None:
    """Raises Mismatch for shapes that differ, and where more elements than the share `most` do."""
    a, b = _as_float64(have), _as_float64(want)
    if a.shape != b.shape:
        raise Mismatch(f"shapes differ: {a.shape} and, of the reference, {b.shape}")
    same_nan = np.isnan(a) & np.isnan(b)
    wrong = ~(same_nan | (a == b) | (np.abs(a - b) <= atol + rtol * np.abs(b)))
    share = float(wrong.mean()) if wrong.size else 0.0
    if share > most:
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise Mismatch(
            f"{int(wrong.sum())} of {wrong.size} elements differ ({share:.2%}); the first at {index}: "
            f"{a[index]}, and {b[index]} in the reference"
        )


def _as_float64(x: Any) -> np.ndarray[Any, Any]:
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = x.to(sys.modules["torch"].float64).numpy()
    return np.asarray(x).astype(np.float64)


def _gpu() -> bool:
    torch = sys.modules.get("torch")
    here = torch is not None and bool(torch.cuda.is_available())
    return here and not MODE.compile_only and not MODE.simulated


_said: list[bool] = []


def do_bench(
    fn: Function, warmup: float = 25, rep: float = 100, _n_warmup: int = 0, _n_repeat: int = 0, **named: Any
) -> float:
    """Milliseconds of one call of `fn` on the GPU, by torch's events: the median of about `rep` milliseconds' worth of
    calls, after `warmup` milliseconds; L2 is overwritten in front of each. Without a GPU there is nothing to measure:
    NaN.

    Args:
        named: `return_mode` "mean", "min", "max" for these; `quantiles` for a list; others are ignored.
    """
    if not _gpu():
        if not _said and not MODE.compile_only:
            print("minitile: no GPU, so do_bench measures nothing", file=sys.stderr)
            _said.append(True)
        return float("nan")
    torch: Any = import_module("torch")

    scratch = torch.empty(L2_BYTES // 4, dtype=torch.int32, device="cuda")

    def times(count: int) -> list[float]:
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
        for first, last in events:
            scratch.zero_()
            first.record()
            fn()
            last.record()
        torch.cuda.synchronize()
        return [float(first.elapsed_time(last)) for first, last in events]

    fn()
    about = max(1e-3, sorted(times(5))[2])
    times(_n_warmup or max(1, min(1000, int(warmup / about))))
    found = np.array(times(_n_repeat or max(5, min(1000, int(rep / about)))))
    if named.get("quantiles"):
        return [float(q) for q in np.quantile(found, named["quantiles"])]  # type: ignore[return-value]
    of = {"mean": found.mean(), "min": found.min(), "max": found.max(), "median": np.median(found)}
    return float(of[named.get("return_mode", "median")])


__all__ = ["MinitileError", "Mismatch", "Profiler", "compare", "do_bench"]
