"""The cases of benchmarks/memory.py: what each operation is given, what torch calls it, how many bytes must move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from minitile import ops

EPS = 1e-5
MEDIUM = 1 << 26  # elements of a case of some 256 MB in 16 bits
MULTIPLES = (512, 1024, 2048, 4096, 8192, 16384, 32768)
LONG = (65536, 131072, 262144, 524288)
ODD_SHORT, ODD = (1001, 2047), (4001, 8191, 12345, 32769, 50257)

# name, title, bar, goal, contender
ROWS = [
    ("rows", "softmax, RMS norm, layer norm, rotary, residual + norm, N 512 to 32k", 0.95, 0.99, "copy"),
    ("reads", "SwiGLU, cross entropy forward, column sums", 0.99, 1.03, "copy"),
    ("long", "N 64k to 512k", 0.88, 0.95, "copy"),
    ("odd-short", "odd N, 1001 and 2047", 0.80, 0.93, "copy"),
    ("odd", "odd N, 4001 to 50257", 0.88, 0.93, "copy"),
    ("loss", "cross entropy with backward", 0.88, 0.95, "copy"),
    ("norm-backward", "norm backward (dx, dw)", 0.88, 0.95, "copy"),
    ("transpose", "transpose", 0.93, 0.97, "copy"),
    ("cumsum", "cumsum of rows", 0.93, 0.97, "copy"),
    ("scan", "1-D cumsum of 2^28", 0.85, 0.97, "copy"),
    ("others", "each of the others", 0.85, 0.95, "copy"),
    ("compiled", "beside torch.compile", 1.0, 1.1, "torch.compile"),
    ("compiled-small", "beside torch.compile, 16 to 64 MB", 1.0, 1.1, "torch.compile"),
]


@dataclass(frozen=True)
class Case:
    """`inputs(seed)`: fresh tensors; `ours` and `torch` take them and return a result or several; `moved`: the bytes
    that must be read and written; `rows`: of which bars it is a cell; `bound`: the greatest error; in_place: the first
    input is overwritten."""

    rows: tuple[str, ...]
    inputs: Callable[[int], tuple[Any, ...]]
    ours: Callable[..., Any]
    torch: Callable[..., Any]
    moved: int
    bound: float = 1.2e-2
    in_place: bool = False


def normal(*shapes: tuple[int, ...], dtype: str = "bfloat16") -> Callable[[int], tuple[Any, ...]]:
    """Normally distributed tensors of these shapes."""

    def make(seed: int) -> tuple[Any, ...]:
        import torch

        generator = torch.Generator("cuda").manual_seed(seed)
        kind = getattr(torch, dtype)
        return tuple(torch.randn(s, device="cuda", generator=generator, dtype=torch.float32).to(kind) for s in shapes)

    return make


def with_labels(m: int, n: int) -> Callable[[int], tuple[Any, ...]]:
    """Logits and labels."""

    def make(seed: int) -> tuple[Any, ...]:
        import torch

        generator = torch.Generator("cuda").manual_seed(seed)
        return (*normal((m, n))(seed), torch.randint(n, (m,), device="cuda", generator=generator))

    return make


def _softmax(x: Any) -> Any:
    import torch

    return torch.softmax(x, -1)


def _rms_norm(x: Any, w: Any) -> Any:
    from torch.nn import functional as f

    return f.rms_norm(x, (x.shape[-1],), w, EPS)


def _layer_norm(x: Any, w: Any, b: Any) -> Any:
    from torch.nn import functional as f

    return f.layer_norm(x, (x.shape[-1],), w, b, EPS)


def _residual_norm(x: Any, r: Any, w: Any) -> Any:
    z = x + r
    return _rms_norm(z, w), z


def _swiglu(x: Any) -> Any:
    from torch.nn import functional as f

    gate, up = x.chunk(2, -1)
    return f.silu(gate) * up


def _loss(x: Any, label: Any) -> Any:
    import torch
    from torch.nn import functional as f

    return f.cross_entropy(x if x.dtype is torch.float64 else x.float(), label, reduction="none")


def row_cases(n: int, total: int, rows: tuple[str, ...], rotary: bool = True) -> Iterator[tuple[str, Case]]:
    """The operations on rows of n, so many that `total` elements are read."""
    m = max(1, total // n)
    size = 2 * m * n
    yield f"softmax {m}x{n}", Case(rows, normal((m, n)), ops.softmax, _softmax, 2 * size)
    rms = Case(rows, normal((m, n), (n,)), lambda x, w: ops.rms_norm(x, w, eps=EPS), _rms_norm, 2 * size)
    yield f"rms_norm {m}x{n}", rms
    layer = normal((m, n), (n,), (n,))
    yield (
        f"layer_norm {m}x{n}",
        Case(rows, layer, lambda x, w, b: ops.layer_norm(x, w, b, eps=EPS), _layer_norm, 2 * size),
    )
    if rotary:

        def residual(x: Any, r: Any, w: Any) -> Any:
            return ops.rms_norm(x, w, eps=EPS, residual=r)

        yield (
            f"residual_norm {m}x{n}",
            Case(rows, normal((m, n), (m, n), (n,)), residual, _residual_norm, 4 * size),
        )


def cases() -> dict[str, Case]:
    """All, by name, in the order of the rows."""
    found: dict[str, Case] = {}
    for n in MULTIPLES:
        compiled = ("compiled",) if n in (1024, 4096, 16384) else ()
        found.update(row_cases(n, MEDIUM, ("rows", *compiled)))
    for n in (1024, 4096):
        found.update(row_cases(n, MEDIUM >> 3, ("compiled-small",), rotary=False))
    for n in LONG:
        found.update(row_cases(n, MEDIUM, ("long",), rotary=False))
    for row, some in (("odd-short", ODD_SHORT), ("odd", ODD)):
        for n in some:
            found.update(row_cases(n, MEDIUM, (row,), rotary=False))
    found.update(read_cases())
    found.update(backward_cases())
    found.update(other_cases())
    return found


def read_cases() -> Iterator[tuple[str, Case]]:
    """What reads more than it writes."""
    m, n = 8192, 14336
    rows = ("reads", "compiled")
    yield f"swiglu {m}x{n}", Case(rows, normal((m, 2 * n)), ops.swiglu, _swiglu, 6 * m * n, bound=2e-2)
    yield (
        "swiglu 1024x4096",
        Case(("compiled-small",), normal((1024, 8192)), ops.swiglu, _swiglu, 6 * 1024 * 4096, bound=2e-2),
    )
    for m, n in ((4096, 131072), (8192, 32000)):
        yield f"cross_entropy {m}x{n}", Case(rows, with_labels(m, n), ops.cross_entropy, _loss, 2 * m * n)
    for m, n in ((8192, 8192), (16384, 4096)):
        yield f"column_sums {m}x{n}", Case(rows, normal((m, n)), ops.column_sums, _column_sums, 2 * m * n)


def backward_cases() -> Iterator[tuple[str, Case]]:
    """Gradients."""
    for m, n in ((4096, 131072), (8192, 32000)):

        def gradient(x: Any, label: Any, g: Any) -> Any:
            return ops.cross_entropy_gradient(x, label, g), x

        def inputs(seed: int, m: int = m, n: int = n) -> tuple[Any, ...]:
            return *with_labels(m, n)(seed), *normal((m,), dtype="float32")(seed + 99)

        yield (
            f"cross_entropy_gradient {m}x{n}",
            Case(("loss",), inputs, gradient, _loss_and_gradient, 4 * m * n, bound=3e-2, in_place=True),
        )
    for m, n in ((16384, 4096), (8192, 8192)):
        shapes = ((m, n), (m, n), (n,))
        yield (
            f"rms_norm_backward {m}x{n}",
            Case(
                ("norm-backward", "compiled"),
                normal(*shapes),
                lambda g, x, w: ops.rms_norm_backward(g, x, w, eps=EPS)[:2],
                lambda g, x, w: _norm_gradient(_rms_norm, g, x, w),
                6 * m * n,
                bound=3e-2,
            ),
        )
        yield (
            f"layer_norm_backward {m}x{n}",
            Case(
                ("norm-backward",),
                normal(*shapes),
                lambda g, x, w: ops.layer_norm_backward(g, x, w, eps=EPS, bias=False)[:2],
                lambda g, x, w: _norm_gradient(lambda x, w: _layer_norm(x, w, None), g, x, w),
                6 * m * n,
                bound=3e-2,
            ),
        )


def other_cases() -> Iterator[tuple[str, Case]]:
    """Transpose, scans, rotary, and the rest."""
    import math

    for m, n in ((8192, 8192), (4096, 16384)):
        yield (
            f"transpose {m}x{n}",
            Case(("transpose", "compiled"), normal((m, n)), ops.transpose, lambda x: x.t().contiguous(), 4 * m * n),
        )
    for n in (1024, 4096, 16384):
        m = MEDIUM // n
        yield (
            f"cumsum {m}x{n}",
            Case(("cumsum",), normal((m, n)), ops.cumsum, lambda x: x.cumsum(-1), 4 * m * n, bound=3e-2),
        )
    yield "cumsum 2^28", Case(("scan",), normal((1 << 28,)), ops.cumsum, lambda x: x.cumsum(-1), 1 << 30, bound=3e-2)
    for d in (64, 128):
        tokens, heads, groups = 16384, 4096 // d, 1024 // d

        def rotary_inputs(seed: int, d: int = d, tokens: int = tokens, h: int = heads, g: int = groups) -> Any:
            import torch

            angles = torch.arange(tokens, device="cuda")[:, None] * 1e4 ** (-torch.arange(d // 2, device="cuda") / d)
            q, k = normal((tokens, h, d), (tokens, g, d))(seed)
            return q, k, angles.cos().bfloat16(), angles.sin().bfloat16()

        moved = 4 * tokens * (heads + groups) * d
        yield (
            f"rotary {tokens}x{heads}+{groups}x{d}",
            Case(("rows", "compiled"), rotary_inputs, ops.rotary, _rotary, moved),
        )
    m, n = 16384, 4096
    size = 2 * m * n
    others = ("others", "compiled")
    log = lambda x: __import__("torch").log_softmax(x, -1)  # noqa: E731
    yield f"log_softmax {m}x{n}", Case(others, normal((m, n)), ops.log_softmax, log, 2 * size)
    yield f"geglu {m}x{n}", Case(others, normal((m, 2 * n)), ops.geglu, _geglu, 3 * size, bound=2e-2)

    def tokens_of(seed: int, m: int = m, n: int = n) -> Any:
        import torch

        generator = torch.Generator("cuda").manual_seed(seed)
        return *normal((128256, n))(seed), torch.randint(128256, (m,), device="cuda", generator=generator)

    yield f"embedding {m} of 128256x{n}", Case(others, tokens_of, ops.embedding, lambda w, t: w[t], 2 * size)
    yield from gated_backward_cases(m, n, others)
    yield from quantised_cases(m, n, others)
    yield from scattering_cases(others)
    for rows, columns, k in ((16384, 4096, 8), (1024, 65536, 50)):
        first = lambda x, k=k: x.topk(k, -1)[0]  # noqa: E731  # of equal elements torch names any
        ours, given = lambda x, k=k: ops.top_k(x, k)[0], normal((rows, columns))
        yield f"top_k {k} of {rows}x{columns}", Case(others, given, ours, first, 2 * rows * columns)
    assert math.prod((16384, 4096)) == MEDIUM


def gated_backward_cases(m: int, n: int, rows: tuple[str, ...]) -> Iterator[tuple[str, Case]]:
    """Gradients of gate and up from the result's."""
    for name, ours, forward in (
        ("swiglu", ops.swiglu_backward, _swiglu),
        ("geglu", ops.geglu_backward, _geglu),
    ):

        def gradient(g: Any, x: Any, forward: Any = forward) -> Any:
            import torch

            x = x.detach().requires_grad_()
            with torch.enable_grad():
                return torch.autograd.grad(forward(x), x, g)[0]

        yield f"{name}_backward {m}x{n}", Case(rows, normal((m, n), (m, 2 * n)), ours, gradient, 10 * m * n, bound=3e-2)


def quantised_cases(m: int, n: int, rows: tuple[str, ...]) -> Iterator[tuple[str, Case]]:
    """RMS norm with a residual, quantised to fp8; a rounding to fp8 may be the other one of two (1/8 of an element)."""
    for block in (False, True):

        def ours(x: Any, r: Any, w: Any, block: bool = block) -> Any:
            return ops.rms_norm_fp8(x, w, residual=r, eps=EPS, block=block)

        def quantised(x: Any, r: Any, w: Any, block: bool = block) -> Any:
            import torch

            z = x + r
            y = _rms_norm(z, w)
            y = y if y.dtype is torch.float64 else y.float()
            groups = y.unflatten(-1, (-1, 128)) if block else y.unsqueeze(-2)
            scale = groups.abs().amax(-1, keepdim=True) / 448
            q = (groups / scale).to(torch.float8_e4m3fn).view(y.shape)
            return q.double() if x.dtype is torch.float64 else q, scale.view(m, -1) if block else scale.view(m), z

        given = normal((m, n), (m, n), (n,))
        name = f"residual_norm_fp8 {m}x{n} by {'block' if block else 'row'}"
        yield name, Case(rows, given, ours, quantised, 7 * m * n, bound=0.14)


def scattering_cases(rows: tuple[str, ...]) -> Iterator[tuple[str, Case]]:
    """Rows written or added to where indices say."""

    def tokens_and_cache(seed: int) -> Any:
        import torch

        generator = torch.Generator("cuda").manual_seed(seed)
        slots = torch.randperm(4096 * 16, device="cuda", generator=generator)
        keys, values = (torch.zeros(4096, 16, 8, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        return keys, values, *normal((len(slots), 8, 128), (len(slots), 8, 128))(seed), slots

    def append(keys: Any, values: Any, k: Any, v: Any, slots: Any) -> Any:
        ops.kv_cache_append(k, v, keys, values, slots)
        return keys, values

    def put(keys: Any, values: Any, k: Any, v: Any, slots: Any) -> Any:
        keys.view(-1, 8, 128)[slots] = k
        values.view(-1, 8, 128)[slots] = v
        return keys, values

    yield "kv_cache_append 65536x8x128", Case(rows, tokens_and_cache, append, put, 1 << 29, in_place=True)

    def table_and_gradient(seed: int) -> Any:
        import torch

        generator = torch.Generator("cuda").manual_seed(seed)
        table = torch.zeros(32768, 4096, device="cuda")
        return table, *normal((16384, 4096))(seed), torch.randint(32768, (16384,), device="cuda", generator=generator)

    def add(table: Any, dy: Any, tokens: Any) -> Any:
        return ops.embedding_backward(dy, tokens, len(table), out=table)

    def index_add(table: Any, dy: Any, tokens: Any) -> Any:
        return table.index_add_(0, tokens, dy.to(table.dtype))

    moved = 10 * 16384 * 4096  # the gradient is read, rows in f32 are read and written
    yield "embedding_backward 16384 of 32768x4096", Case(rows, table_and_gradient, add, index_add, moved, in_place=True)


def _column_sums(x: Any) -> Any:
    import torch

    return x.sum(0, dtype=torch.float64 if x.dtype is torch.float64 else torch.float32)


def _geglu(x: Any) -> Any:
    from torch.nn import functional as f

    gate, up = x.chunk(2, -1)
    return f.gelu(gate) * up


def _rotary(q: Any, k: Any, cos: Any, sin: Any) -> Any:
    import torch

    def rotated(x: Any) -> Any:
        a, b = x.chunk(2, -1)
        c, s = cos[:, None, :], sin[:, None, :]
        return torch.cat((a * c - b * s, b * c + a * s), -1)

    return rotated(q), rotated(k)


def _loss_and_gradient(x: Any, label: Any, g: Any) -> Any:
    import torch

    loss = _loss(x, label)
    gradient = torch.softmax(x, -1)
    gradient[torch.arange(len(label), device=x.device), label] -= 1
    return loss, gradient * g[:, None]


def _norm_gradient(norm: Any, g: Any, x: Any, w: Any) -> Any:
    import torch

    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    with torch.enable_grad():
        return torch.autograd.grad(norm(x, w), (x, w), g)


def compiled() -> list[tuple[Any, list[Any], dict[str, Any]]]:
    """Two kernels of different files to compile, with their specifications and constants."""
    import minitile as mt
    import minitile.language as T
    from minitile.ops.memory_bound.norms import norm_rows
    from minitile.ops.memory_bound.rows import row_plans
    from minitile.ops.memory_bound.softmax import softmax_rows

    n = 4096
    x, w = mt.spec((MEDIUM // n, n), "bfloat16"), mt.spec((n,), "bfloat16")
    constants = row_plans(n, T.bfloat16)[0].constants(n)
    return [
        (softmax_rows, [x, x], constants),
        (norm_rows(True, True, True, False), [x, x, w, w, x, x], constants),
    ]
