"""The products that serving.py measures, by kind of weights: how they are made, launched, compiled ahead, and checked.

`bf16` is `mt.ops.matmul`; `w4a16` is `mt.ops.matmul_quantised` of int4 in groups of GROUP; `fp8` is
`mt.ops.matmul_fp8` of rows that are quantised already. All go by the plans that a plain call takes. Weights lie in
memory as they are packed once: those of fp8 in rows of whole 16 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minitile.driver.jit import spec
from minitile.language.math import dtype_of_name
from minitile.ops.choice import choose
from minitile.ops.machine import PLANNED_FOR, Machine
from minitile.ops.multiply import assembled
from minitile.ops.plan import Plan, Problem
from minitile.ops.quantised.fp8_gemm import SCALED, gemm_fp8_blocks
from minitile.ops.quantised.gemm import gemm_quantised
from minitile.ops.quantised.pack import FORMATS, TILE
from minitile.ops.quantised.plans import Fp8Plan, QuantisedPlan, choose_fp8, choose_quantised

DEVICE = "cuda"
GROUP = 128
SHARED = 227 * 1024  # bytes of a block
BOUND = 4e-3  # relative
LONG = 16  # bytes that rows are multiples of, for the copy engine


def up(number: int, to: int) -> int:
    return -(-number // to) * to


def same(x: Any) -> tuple[Any, Any]:
    """Rows that are multiplied as they are."""
    return x, x.double()


@dataclass(frozen=True)
class Operation:
    """How a product with weights of one kind is made and launched.

    weights(n, k, seed): what the layer holds, tensors. launch(x, weights, out): out is m × n bf16. exact(weights,
    columns): the weights that it stands for, float64, of these columns of the result, as they lie (columns × k).
    bytes(n, k): of the weights. plan(m, n, k, machine): by which `launch` multiplies. compile(m, n, k, plan): puts into
    the cache what that needs, without a GPU; what is worth a word, such as that it spills registers. rows(x): of m × k
    bf16 what `launch` takes, which is not timed, and the numbers that it stands for, float64. bound: of the relative
    error.
    """

    weights: Callable[[int, int, int], tuple[Any, ...]]
    launch: Callable[[Any, tuple[Any, ...], Any], Any]
    exact: Callable[[tuple[Any, ...], Any], Any]
    bytes: Callable[[int, int], int]
    plan: Callable[[int, int, int, Machine], Any]
    compile: Callable[[int, int, int, Any], str]
    rows: Callable[[Any], tuple[Any, Any]] = same
    bound: float = BOUND


def of_layer(n: int, k: int, seed: int) -> Any:
    """Torch's generator of random numbers for these weights."""
    import torch

    return torch.Generator(DEVICE).manual_seed(seed + n + k)


# bf16 ----------------------------------------------------------------------------------------------------------------


def random_weights(n: int, k: int, seed: int) -> tuple[Any, ...]:
    """Standard normal numbers, n × k."""
    import torch

    return (torch.randn((n, k), device=DEVICE, generator=of_layer(n, k, seed), dtype=torch.bfloat16),)


def multiply(x: Any, weights: tuple[Any, ...], out: Any) -> Any:
    import minitile as mt

    return mt.ops.matmul(x, weights[0].t(), out=out)


def plan_bf16(m: int, n: int, k: int, machine: Machine) -> Plan:
    return choose(Problem(m, n, k, False, True), machine, True, SHARED)


def compile_bf16(m: int, n: int, k: int, plan: Plan) -> str:
    bf16 = dtype_of_name("bf16")
    assembled(Problem(m, n, k, False, True), bf16, bf16, plan)
    return ""


# W4A16 ---------------------------------------------------------------------------------------------------------------


def int4_weights(n: int, k: int, seed: int) -> tuple[Any, ...]:
    """Random codes and scales: packed, and as they were."""
    import torch

    import minitile as mt

    generator = of_layer(n, k, seed)
    codes = torch.randint(-8, 8, (n, k), device=DEVICE, generator=generator, dtype=torch.int8)
    scales = (torch.rand((n, -(-k // GROUP)), device=DEVICE, generator=generator) + 0.5).bfloat16()
    return mt.ops.pack_weights(codes, scales, group=GROUP), codes, scales


def multiply_int4(x: Any, weights: tuple[Any, ...], out: Any) -> Any:
    import minitile as mt

    return mt.ops.matmul_quantised(x, weights[0], out=out)


def exact_int4(weights: tuple[Any, ...], columns: Any) -> Any:
    _, codes, scales = weights
    return codes[columns].double() * scales[columns].double().repeat_interleave(GROUP, 1)[:, : codes.shape[1]]


def plan_int4(m: int, n: int, k: int, machine: Machine) -> QuantisedPlan:
    return choose_quantised(m, n, k, GROUP, machine.multiprocessors, True)


def compile_int4(
    m: int, n: int, k: int, plan: QuantisedPlan, format: str = "int4", group: int = GROUP, zeros: bool = False
) -> str:
    """The kernel of a plan; what went wrong, or that it spills registers."""
    scales, bf16 = "u8" if format == "mxfp4" else "bf16", dtype_of_name("bf16")
    kernel = gemm_quantised(bf16, bf16, format, group, zeros, dtype_of_name(scales)).configured(**plan._asdict())
    wide = up(n, TILE)
    words = spec((wide // TILE, -(-k // FORMATS[format].unit) * 4, 128), "i32")
    tables = [spec((-(-k // group), wide), scales)] * (2 if zeros else 1)
    arrays = [spec((m, up(k, LONG // 2)), "bf16"), words, *tables, spec((m, n), "bf16")]
    return spills(kernel.compile(*arrays, target=PLANNED_FOR))


def spills(compiled: Any) -> str:
    return f"spills {compiled.spills} bytes" if compiled.spills else ""


# fp8 -----------------------------------------------------------------------------------------------------------------


def fp8_weights(n: int, k: int, seed: int) -> tuple[Any, ...]:
    """Random e4m3 numbers in rows of whole 16 bytes, and f32 scales of 128 × 128."""
    import torch

    generator = of_layer(n, k, seed)
    numbers = torch.randn((n, k), device=DEVICE, generator=generator, dtype=torch.bfloat16).mul_(40)
    b = torch.zeros((n, up(k, LONG)), device=DEVICE, dtype=torch.float8_e4m3fn)
    b[:, :k] = numbers.clamp_(-448, 448).to(b.dtype)
    return b, torch.rand((-(-n // SCALED), -(-k // SCALED)), device=DEVICE, generator=generator) + 0.5


def quantised_rows(x: Any) -> tuple[Any, Any]:
    """A row by 128 numbers in e4m3 of one scale, the scales column-major."""
    import torch

    m, k = x.shape
    blocks, deep = -(-k // SCALED), up(k, LONG)
    wide = torch.nn.functional.pad(x.float(), (0, blocks * SCALED - k)).view(m, blocks, SCALED)
    scales = torch.empty((blocks, up(m, 4)), device=x.device)[:, :m].t()
    scales.copy_(wide.abs().amax(2) / 448)
    q = (wide / scales[..., None]).view(m, -1)[:, :deep].contiguous().to(torch.float8_e4m3fn)
    return (q, scales), (q.double() * scales.double().repeat_interleave(SCALED, 1)[:, :deep])


def multiply_fp8(x: Any, weights: tuple[Any, ...], out: Any) -> Any:
    import minitile as mt

    return mt.ops.matmul_fp8(x[0], weights[0], (x[1], weights[1]), out=out, ahead=True)


def exact_fp8(weights: tuple[Any, ...], columns: Any) -> Any:
    b, scales = weights
    rows = scales.double().repeat_interleave(SCALED, 1)[:, : b.shape[1]]
    return b[columns].double() * rows[columns // SCALED]


def plan_fp8(m: int, n: int, k: int, machine: Machine) -> Fp8Plan:
    return choose_fp8(m, n, k, machine.multiprocessors)


def compile_fp8(m: int, n: int, k: int, plan: Fp8Plan) -> str:
    """The kernel of a plan; what went wrong, or that it spills registers."""
    kernel = gemm_fp8_blocks(*map(dtype_of_name, ("e4m3", "e4m3", "bf16")), True).configured(**plan._asdict())
    blocks, deep = -(-k // SCALED), up(k, LONG)
    scales = spec((blocks, up(m, 4)), "f32"), spec((-(-n // SCALED), blocks), "f32")
    arrays = spec((m, deep), "e4m3"), spec((n, deep), "e4m3"), *scales, spec((m, n), "bf16")
    return spills(kernel.compile(*arrays, target=PLANNED_FOR))


# All of them ---------------------------------------------------------------------------------------------------------

OPERATIONS: dict[str, Operation] = {
    "bf16": Operation(
        random_weights,
        multiply,
        lambda weights, columns: weights[0][columns].double(),
        lambda n, k: 2 * n * k,
        plan_bf16,
        compile_bf16,
    ),
    "w4a16": Operation(
        int4_weights,
        multiply_int4,
        exact_int4,
        lambda n, k: up(n, TILE) * (up(k, 64) // 2 + -(-k // GROUP) * 2),
        plan_int4,
        compile_int4,
    ),
    "fp8": Operation(
        fp8_weights,
        multiply_fp8,
        exact_fp8,
        lambda n, k: n * up(k, LONG),
        plan_fp8,
        compile_fp8,
        quantised_rows,
        6e-3,  # tensor cores add products of fp8 with some 14 bits
    ),
}
