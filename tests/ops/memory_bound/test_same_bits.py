"""A thousand launches of each ready kernel give the same bits, on the GPU: with MINITILE_GPU=1 and torch."""

from __future__ import annotations

from typing import Any

import pytest

from minitile import ops
from tests.ops.memory_bound.frames import ON_GPU

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not ON_GPU, reason="repeats launches on a GPU")

LAUNCHES = 1000
ROWS, COLUMNS, LONG = 257, 4104, 150_000


def matrix(seed: int, *shape: int) -> Any:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(*(shape or (ROWS, COLUMNS)), device="cuda", generator=generator).bfloat16()


def labels() -> Any:
    return torch.randint(COLUMNS, (ROWS,), device="cuda", generator=torch.Generator("cuda").manual_seed(3))


CASES = {
    "softmax": lambda x, y, w: ops.softmax(x),
    "softmax, long rows": lambda x, y, w: ops.softmax(matrix(5, 9, LONG)),
    "softmax, odd rows": lambda x, y, w: ops.softmax(x[:, :1001].contiguous()),
    "log_softmax": lambda x, y, w: ops.log_softmax(x),
    "softmax_backward": lambda x, y, w: ops.softmax_backward(x, y),
    "rms_norm": lambda x, y, w: ops.rms_norm(x, w, residual=y),
    "layer_norm": lambda x, y, w: ops.layer_norm(x, w, w),
    "layer_norm, long rows": lambda x, y, w: ops.layer_norm(matrix(6, 9, LONG)),
    "rms_norm_backward": lambda x, y, w: ops.rms_norm_backward(x, y, w),
    "layer_norm_backward": lambda x, y, w: ops.layer_norm_backward(x, y, w),
    "cross_entropy": lambda x, y, w: ops.cross_entropy(x, labels(), return_lse=True),
    "cross_entropy_gradient": lambda x, y, w: (
        ops.cross_entropy_gradient(z := x.clone(), labels(), w[:ROWS].float()),
        z,
    ),
    "column_sums": lambda x, y, w: ops.column_sums(x),
    "cumsum": lambda x, y, w: ops.cumsum(x),
    "cumsum of a vector": lambda x, y, w: ops.cumsum(x.reshape(-1)),
    "transpose": lambda x, y, w: ops.transpose(x),
    "swiglu": lambda x, y, w: ops.swiglu(x),
    "top_k": lambda x, y, w: ops.top_k(x, 9),
    "dropout": lambda x, y, w: ops.dropout(x, 0.3, seed=7),
}


@pytest.mark.parametrize("name", CASES)
def test_same_bits(name: str) -> None:
    x, y, w = matrix(1), matrix(2), matrix(4, COLUMNS)

    def results() -> list[Any]:
        found = CASES[name](x, y, w)
        return [one for one in (found if isinstance(found, tuple) else (found,)) if one is not None]

    first = results()
    differ = torch.zeros((), dtype=torch.int64, device="cuda")
    for _ in range(LAUNCHES):
        for found, known in zip(results(), first, strict=True):
            same = found.view(torch.uint8) if found.is_floating_point() else found
            differ += (same != (known.view(torch.uint8) if found.is_floating_point() else known)).any()
    assert differ.item() == 0
