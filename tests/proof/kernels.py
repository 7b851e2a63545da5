"""Every kernel of examples/ and mt.ops, compiled but not run: what the prover is to prove."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gemm_epilogues
import gemm_grouped
import gemv
import ml_dtypes
import numpy as np
import pytest

import minitile as mt
from minitile.driver import compiled as driver
from minitile.runtime.sim import Report
from tests.examples.gemm_forms import FORMS
from tests.examples.mutation_cases import CASES, MANY, compiled_case

BF16, F16, F32 = ml_dtypes.bfloat16, np.float16, np.float32
HAS_FORMS = {"sm_90a": FORMS, "sm_80": {name: case for name, case in FORMS.items() if "fp8" not in name}}


@contextmanager
def recorded(target: str) -> Iterator[tuple[list[mt.CompiledKernel], dict[int, Sequence[Any]]]]:
    """What is compiled within, for this target, and by `id` of its launch facts the arguments that it is launched with
    first; launches compute nothing."""
    found: list[mt.CompiledKernel] = []
    given: dict[int, Sequence[Any]] = {}
    make = driver.CompiledKernel.__init__

    def noted(self: Any, *args: Any, **named: Any) -> None:
        make(self, *args, **named)
        found.append(self)

    def launched(info: Any, text: str, args: Sequence[Any], *others: Any, **named: Any) -> Report:
        given.setdefault(id(info), args)
        return Report()

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINITILE_TARGET", target)
        patch.setattr(driver.CompiledKernel, "__init__", noted)
        patch.setattr(driver, "simulate", launched)
        yield found, given


def zeros(*shape: int, dtype: Any = BF16) -> Any:
    return np.zeros(shape, dtype)


def whole(*shape: int) -> Any:
    return np.zeros(shape, np.int32)


def _linear_loss(backward: bool) -> None:
    x, weight, labels = zeros(64, 128), zeros(256, 128), whole(64)
    if backward:
        mt.ops.linear_cross_entropy_backward(zeros(64, dtype=F32), x, weight, labels)
    else:
        mt.ops.linear_cross_entropy(x, weight, labels, gradient=True)


def _cache() -> None:
    new, cache = zeros(8, 2, 64), zeros(4, 16, 2, 64)
    mt.ops.kv_cache_append(new, new, cache, cache.copy(), whole(8))


OPS: dict[str, Callable[[], Any]] = {
    **{f"matmul, {m}": lambda m=m: mt.ops.matmul(zeros(m, 256), zeros(256, 512)) for m in (1, 4, 24, 64, 300, 1024)},
    "matmul, transposed": lambda: mt.ops.matmul(zeros(256, 300).T, zeros(512, 256).T),
    "matmul, odd": lambda: mt.ops.matmul(zeros(100, 77), zeros(77, 51)),
    "matmul, f16": lambda: mt.ops.matmul(zeros(256, 256, dtype=F16), zeros(256, 256, dtype=F16)),
    "grouped_matmul": lambda: mt.ops.grouped_matmul(zeros(200, 128), zeros(2, 128, 128), whole(2)),
    "grouped_matmul, masked": lambda: mt.ops.grouped_matmul(zeros(2, 64, 128), zeros(2, 128, 128), counts=whole(2)),
    "grouped_matmul, along K": lambda: mt.ops.grouped_matmul(zeros(128, 200), zeros(200, 128), whole(2)),
    **{
        f"softmax, {n} {np.dtype(kind)}": lambda n=n, kind=kind: mt.ops.softmax(zeros(64, n, dtype=kind))
        for n, kind in ((33, F32), (1024, BF16), (8192, F16), (100_000, BF16))
    },
    "log_softmax": lambda: mt.ops.log_softmax(zeros(64, 1000)),
    "softmax_backward": lambda: mt.ops.softmax_backward(zeros(64, 1000), zeros(64, 1000)),
    "log_softmax_backward": lambda: mt.ops.log_softmax_backward(zeros(64, 1000), zeros(64, 1000)),
    **{f"rms_norm, {n}": lambda n=n: mt.ops.rms_norm(zeros(64, n), zeros(n)) for n in (128, 1000, 4096, 50257)},
    "rms_norm, many rows": lambda: mt.ops.rms_norm(zeros(8192, 1024), zeros(1024), residual=zeros(8192, 1024)),
    "layer_norm": lambda: mt.ops.layer_norm(zeros(64, 1000), zeros(1000), zeros(1000), residual=zeros(64, 1000)),
    "rms_norm_backward": lambda: mt.ops.rms_norm_backward(zeros(64, 1000), zeros(64, 1000), zeros(1000)),
    "layer_norm_backward": lambda: mt.ops.layer_norm_backward(zeros(64, 1024), zeros(64, 1024), zeros(1024)),
    "cross_entropy": lambda: mt.ops.cross_entropy(zeros(64, 1000), whole(64)),
    "cross_entropy, long rows": lambda: mt.ops.cross_entropy(zeros(8, 100_000), whole(8)),
    "cross_entropy_backward": lambda: mt.ops.cross_entropy_backward(
        zeros(64, dtype=F32), zeros(64, 1000), whole(64), zeros(64, dtype=F32)
    ),
    "cross_entropy_gradient": lambda: mt.ops.cross_entropy_gradient(zeros(64, 1000), whole(64), zeros(64, dtype=F32)),
    "linear_cross_entropy": lambda: _linear_loss(False),
    "linear_cross_entropy_backward": lambda: _linear_loss(True),
    "dropout": lambda: mt.ops.dropout(zeros(1000), 0.5, 1),
    "swiglu": lambda: mt.ops.swiglu(zeros(64, 1024)),
    "swiglu_backward": lambda: mt.ops.swiglu_backward(zeros(64, 512), zeros(64, 1024)),
    "geglu": lambda: mt.ops.geglu(zeros(64, 1024)),
    "geglu_backward": lambda: mt.ops.geglu_backward(zeros(64, 512), zeros(64, 1024)),
    "rotary": lambda: mt.ops.rotary(
        zeros(2, 16, 4, 64), zeros(2, 16, 4, 64), zeros(16, 32, dtype=F32), zeros(16, 32, dtype=F32)
    ),
    "kv_cache_append": _cache,
    "embedding": lambda: mt.ops.embedding(zeros(100, 64), whole(32)),
    "embedding_backward": lambda: mt.ops.embedding_backward(zeros(32, 64), whole(32), 100),
    "embedding_backward, deterministic": lambda: mt.ops.embedding_backward(
        zeros(32, 64), whole(32), 100, deterministic=True
    ),
    "cumsum, rows": lambda: mt.ops.cumsum(zeros(64, 1000)),
    "cumsum, a vector": lambda: mt.ops.cumsum(zeros(1 << 20)),
    "column_sums": lambda: mt.ops.column_sums(zeros(1000, 512)),
    **{f"top_k, {k}": lambda k=k: mt.ops.top_k(zeros(64, 1000), k) for k in (1, 8, 64)},
    "transpose": lambda: mt.ops.transpose(zeros(300, 200)),
    "transpose, f32": lambda: mt.ops.transpose(zeros(512, 512, dtype=F32)),
}
OTHERS: dict[str, Callable[[], Any]] = {
    "gemv, by threads": lambda: gemv.run(200, 300),
    "gemv, by tiles": lambda: gemv.run(200, 300, kernel=gemv.by_tiles),
    "gemm_grouped, in a row": lambda: gemm_grouped.run_behind_each_other([40, 0, 100], 72, 264),
    "gemm_epilogues, interleaved": lambda: gemm_epilogues.run_interleaved(136, 72, 104),
}


def kernels(target: str) -> Iterator[tuple[str, mt.CompiledKernel]]:
    """(name, kernel), each once."""
    for name, kernel, _ in launches(target):
        yield name, kernel


def launches(target: str) -> Iterator[tuple[str, mt.CompiledKernel, Sequence[Any]]]:
    """(name, kernel, arguments), each once."""
    with recorded(target) as (found, given):
        for name, case in {**CASES, **MANY, **HAS_FORMS[target]}.items():
            if "clusters" not in name:
                _, values = compiled_case(case, target)
                given.update((id(each.launch_info), values) for each in found)
                yield from _named(f"examples: {name}", found, given)
        for name, run in {**{f"examples: {n}": f for n, f in OTHERS.items()}, **OPS}.items():
            run()
            yield from _named(name, found, given)


def _named(
    name: str, found: list[mt.CompiledKernel], given: dict[int, Sequence[Any]]
) -> Iterator[tuple[str, mt.CompiledKernel, Sequence[Any]]]:
    """What has been compiled since, but for clusters; further kernels of a case have a number."""
    for number, each in enumerate((each for each in found if each.launch_info.cluster == (1, 1, 1)), 1):
        yield (name if number == 1 else f"{name} ({number})"), each, given[id(each.launch_info)]
    found.clear()
    given.clear()
