"""The cases of benchmarks/memory.py: what each operation is given, what torch calls it, how many bytes must move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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
    input is overwritten; peers: other contenders, each a function that returns what takes the inputs."""

    rows: tuple[str, ...]
    inputs: Callable[[int], tuple[Any, ...]]
    ours: Callable[..., Any]
    torch: Callable[..., Any]
    moved: int
    bound: float = 1.2e-2
    in_place: bool = False
    peers: dict[str, Callable[[], Callable[..., Any]]] = field(default_factory=dict)


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
    m, n = 8192, 14336
    found[f"swiglu {m}x{n}"] = Case(
        ("reads", "compiled"), normal((m, 2 * n)), ops.swiglu, _swiglu, 6 * m * n, bound=2e-2
    )
    for m, n in ((4096, 131072), (8192, 32000)):
        found[f"cross_entropy {m}x{n}"] = Case(
            ("reads", "compiled"), with_labels(m, n), lambda x, label: ops.cross_entropy(x, label), _loss, 2 * m * n
        )
    return found


def compiled() -> list[tuple[Any, list[Any], dict[str, Any]]]:
    """Two kernels of different files to compile, with their specifications and constants."""
    raise SystemExit("to be filled")
