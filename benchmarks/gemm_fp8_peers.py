"""The contenders of gemm_fp8.py: minitile's examples and cuBLAS, by torch, for each form of a problem.

- minitile: examples/gemm_fp8.py, for the form `gelu` examples/gemm_epilogues.py; persistent, one block for each
  multiprocessor.
- cublas: what torch calls for the form: torch._scaled_mm, torch._addmm_activation. Which library that is, is torch's
  choice; rows with scales of their own may be CUTLASS's.
- two_kernels: torch.addmm, then gelu in place: what an epilogue saves. Only for `gelu`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from compilers import Ours, compile_ours, example
from contest import Entry, Missing, Verify, checker, each
from gemm_peers import DEVICE, SAMPLE, Tiles

FORMS = ("fast", "exact", "rows", "blocks", "gelu")
SCALED = 128  # elements along K, and rows of B, that share a scale
# Of bf16 results; the tensor cores' own sums of fp8 products have about 14 bits, which are cut off at each addition.
BOUNDS = {"fast": 4e-2, "exact": 5e-3, "rows": 4e-2, "blocks": 5e-3, "gelu": 5e-3}
FAST = (
    Tiles(128, 192, 128, 4, 256, 8, 2),
    Tiles(128, 128, 128, 6, 256, 8, 2),
    Tiles(128, 128, 128, 6, 256, 8),
    Tiles(128, 256, 128, 4, 256, 16),
    Tiles(256, 128, 128, 4, 256, 8),
)


@dataclass(frozen=True)
class Overlap(Tiles):
    """Tiles of a kernel that adds a partial sum while the next one is made, in the same warpgroup."""

    def __str__(self) -> str:
        return f"{super().__str__()}, overlapped"


EXACT = (
    Tiles(128, 128, 128, 6, 256, 8),
    Overlap(128, 128, 128, 6, 256, 8),
    Tiles(128, 192, 128, 4, 256, 8),
    Tiles(192, 128, 128, 4, 384, 8),
)
OURS = {
    "fast": FAST,
    "rows": FAST,
    "exact": EXACT,
    "blocks": (
        Tiles(128, 128, 128, 6, 256, 8),
        Overlap(128, 128, 128, 6, 256, 8),
        Tiles(192, 128, 128, 4, 384, 8),
        Tiles(128, 128, 128, 4, 256, 16),
        Tiles(128, 160, 128, 5, 256, 8),
        Tiles(128, 192, 128, 4, 256, 8),
    ),
    "gelu": (
        Tiles(128, 192, 64, 4, 256, 8, 2),
        Tiles(128, 128, 64, 5, 256, 8, 2),
        Tiles(128, 128, 64, 5, 256, 12, 2),
        Tiles(128, 128, 64, 6, 256, 8),
        Tiles(128, 192, 64, 4, 256, 8),
        Tiles(128, 256, 64, 3, 256, 16),
    ),
}


@dataclass(frozen=True)
class Problem:
    """C, m × n, of A, m × k, and B, n × k."""

    form: str
    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.form} {self.m}x{self.n}x{self.k}"

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k


@dataclass(frozen=True)
class Operands:
    """A and B; what belongs to them: scales of A and B, or a bias; C, into which ours writes. `also` is what else torch
    wants: the same scales laid out as its functions take them."""

    a: Any
    b: Any
    beside: tuple[Any, ...]
    c: Any
    also: dict[str, Any] = field(default_factory=dict)


def random_operands(problem: Problem) -> Operands:
    """Standard normal matrices, the same ones each time; scales between 1/2 and 2."""
    import torch

    torch.manual_seed(0)
    m, n, k = problem.m, problem.n, problem.k
    dtype = torch.bfloat16 if problem.form == "gelu" else torch.float8_e4m3fn
    a, b = (torch.randn(*shape, device=DEVICE).to(dtype) for shape in ((m, k), (n, k)))
    c = torch.empty(m, n, device=DEVICE, dtype=torch.bfloat16)
    if problem.form == "gelu":
        a, b = (x * k**-0.25 for x in (a, b))
        bias = torch.randn(n, device=DEVICE).to(torch.bfloat16)
        return Operands(a, b, (bias.float(),), c, {"bias": bias})
    steps = -(-k // SCALED)
    shapes = {"rows": ((m,), (n,)), "blocks": ((steps, m), (-(-n // SCALED), steps))}.get(problem.form, ((1,), (1,)))
    scales = tuple(2.0 ** (2 * torch.rand(*shape, device=DEVICE) - 1) for shape in shapes)
    return Operands(a, b, scales, c)


def widened(problem: Problem, operands: Operands, dtype: Any, rows: Any = slice(None)) -> tuple[Any, Any]:
    """A (some rows of it) and B with their scales in them."""
    a, b = operands.a[rows].float().to(dtype), operands.b.float().to(dtype)
    if problem.form == "gelu":
        return a, b
    scale_a, scale_b = (scale.to(dtype) for scale in operands.beside)
    if problem.form == "rows":
        return a * scale_a[rows, None], b * scale_b[:, None]
    if problem.form == "blocks":
        along = slice(None), slice(problem.k)
        wide_a = scale_a.t()[rows].repeat_interleave(SCALED, 1)[along]
        wide_b = scale_b.repeat_interleave(SCALED, 0)[: problem.n].repeat_interleave(SCALED, 1)[along]
        return a * wide_a, b * wide_b
    return a * scale_a, b * scale_b


def verifier(problem: Problem, operands: Operands) -> Verify:
    """Against float64 on rows spread over C, the first and the last among them, and against torch's product of the same
    numbers in float32."""
    import torch

    rows = torch.linspace(0, problem.m - 1, min(SAMPLE, problem.m), device=DEVICE, dtype=torch.float64).round().long()

    def finished(products: Any) -> Any:
        if problem.form != "gelu":
            return products
        return torch.nn.functional.gelu(products + operands.beside[0].to(products.dtype), approximate="tanh")

    left, right = widened(problem, operands, torch.float64, rows)
    expected = finished(left @ right.t())
    left, right = widened(problem, operands, torch.float32)
    whole = finished(left @ right.t())
    return checker(expected, lambda c: c[rows], whole, BOUNDS[problem.form])


_compiled: dict[Any, Ours] = {}


def minitile(problem: Problem, operands: Operands) -> Iterator[Entry]:
    """One compiled kernel serves all sizes; it is specialised on what divides them."""
    import torch

    blocks = torch.cuda.get_device_properties(DEVICE).multi_processor_count
    arrays = (operands.a, operands.b, *operands.beside, operands.c)
    divisors = tuple(math.gcd(size, SCALED) for array in arrays for size in array.shape)  # the scales' sizes, too

    def build(tiles: Tiles) -> Entry:
        key = problem.form, divisors, tiles
        if key not in _compiled:
            kernel, constants = kernel_of(problem.form, tiles, blocks)
            _compiled[key] = compile_ours(kernel, arrays, **constants)
        done = _compiled[key]
        run = done.compiled.prepare(*arrays)

        def launch() -> Any:
            run()
            return operands.c

        return Entry("minitile", str(tiles), launch, done.facts, "", done.seconds, done.stages)

    return each("minitile", OURS[problem.form], build)


def kernel_of(form: str, tiles: Tiles, blocks: int) -> tuple[Any, dict[str, Any]]:
    """The example's kernel, and its compile-time parameters."""
    if form == "gelu":
        epilogues = example("gemm_epilogues")
        shape = epilogues.Tiles(
            tiles.m, tiles.n, tiles.k, tiles.stages, tiles.threads, blocks, tiles.panel, tiles.teams
        )
        return epilogues.linear, {"activation": epilogues.gelu_tanh, "tiles": shape}
    fp8 = example("gemm_fp8")
    constants: dict[str, Any] = {
        "block_M": tiles.m,
        "block_N": tiles.n,
        "num_stages": tiles.stages,
        "threads": tiles.threads,
        "panel": tiles.panel,
        "teams": tiles.teams,
        "blocks": blocks,
        "overlap": isinstance(tiles, Overlap),
    }
    if form == "blocks":
        return fp8.gemm_fp8_blocks, constants
    return fp8.gemm_fp8, {**constants, "block_K": tiles.k, "per_row": form == "rows", "promote": form == "exact"}


def cublas(problem: Problem, operands: Operands) -> Iterator[Entry]:
    """torch's call for the form."""
    import torch

    a, b, c = operands.a, operands.b.t(), operands.c
    if problem.form == "gelu":
        bias = operands.also["bias"]

        def launch() -> Any:
            return torch._addmm_activation(bias, a, b, use_gelu=True, out=c)

        yield Entry("cublas", "addmm with gelu", launch)
        return
    scale_a, scale_b = operands.beside
    if problem.form == "rows":
        scale_a, scale_b = scale_a[:, None], scale_b[None, :]
    elif problem.form == "blocks":  # as torch takes them: 1 × 128 of A with rows contiguous, 128 × 128 of Bᵀ
        scale_a, scale_b = scale_a.t(), scale_b.t()
    fast = problem.form in ("fast", "rows")

    def scaled() -> Any:
        return torch._scaled_mm(
            a, b, scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16, use_fast_accum=fast, out=c
        )

    yield Entry("cublas", "its own choice", scaled)


def two_kernels(problem: Problem, operands: Operands) -> Iterator[Entry]:
    """The product with its bias, then gelu."""
    import torch

    if problem.form != "gelu":
        raise Missing("for gelu only")
    a, b, c, bias = operands.a, operands.b.t(), operands.c, operands.also["bias"]

    def launch() -> Any:
        torch.addmm(bias, a, b, out=c)
        return torch.ops.aten.gelu.out(c, approximate="tanh", out=c)

    yield Entry("two_kernels", "addmm, gelu", launch)


CONTENDERS: dict[str, Callable[[Problem, Operands], Iterator[Entry]]] = {
    "minitile": minitile,
    "cublas": cublas,
    "two_kernels": two_kernels,
}
