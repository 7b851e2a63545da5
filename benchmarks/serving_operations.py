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

    weights(n, k, seed): what the layer holds, tensors. launch(x, weights, out, plan=None): out is m × n bf16. exact(
    weights, columns): what these weights are in float64, those of some columns of the result (columns × k).
    bytes(n, k): of the weights. plan(m, n, k, machine): by which `launch` multiplies. compile(m, n, k, plan): puts into
    the cache what that needs, without a GPU; what is worth a word, such as that it spills registers. rows(x): of m × k
    bf16 what `launch` takes, which is not timed, and the numbers that it stands for, float64. bound: of the relative
    error.
    """

    weights: Callable[[int, int, int], tuple[Any, ...]]
    launch: Callable[..., Any]
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


def multiply(x: Any, weights: tuple[Any, ...], out: Any, plan: Plan | None = None) -> Any:
    import minitile as mt

    return mt.ops.matmul(x, weights[0].t(), out=out, plan=plan)


def plan_bf16(m: int, n: int, k: int, machine: Machine) -> Plan:
    return choose(Problem(m, n, k, False, True), machine, True, SHARED)


def compile_bf16(m: int, n: int, k: int, plan: Plan) -> str:
    bf16 = dtype_of_name("bf16")
    assembled(Problem(m, n, k, False, True), bf16, bf16, plan)
    return ""


# W4A16, and other packed weights -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Packed:
    """Weights of `mt.ops.matmul_quantised` in groups of `group`, with or without zero points."""

    format: str = "int4"
    group: int = GROUP
    zeros: bool = False

    def weights(self, n: int, k: int, seed: int) -> tuple[Any, ...]:
        """Random ones, packed; and what they are made of: numbers, scales, zero points or None."""
        import torch

        import minitile as mt

        generator, groups = of_layer(n, k, seed), (n, -(-k // self.group))
        integer, zeros = FORMATS[self.format].integer, None
        if integer and not self.zeros:
            most = 1 << FORMATS[self.format].bits - 1
            codes = torch.randint(-most, most, (n, k), device=DEVICE, generator=generator, dtype=torch.int8)
        else:
            codes = torch.randint(0, 16, (n, k), device=DEVICE, generator=generator, dtype=torch.uint8)
        if self.format == "e4m3":
            codes += 48  # with exponents in the middle
        numbers = codes.view(torch.float8_e4m3fn) if self.format == "e4m3" else codes
        if self.format == "mxfp4":
            numbers = torch.tensor(E2M1 + [-x for x in E2M1], device=DEVICE).half()[codes.int()]
            exponents = torch.randint(125, 130, groups, device=DEVICE, generator=generator, dtype=torch.uint8)
            return mt.ops.pack_weights(codes, exponents, format="mxfp4"), numbers, (exponents - 127.0).exp2(), None
        scales = (torch.rand(groups, device=DEVICE, generator=generator) + 0.5).bfloat16()
        if self.zeros:
            zeros = torch.randint(0, 16, groups, device=DEVICE, generator=generator, dtype=torch.uint8)
        return mt.ops.pack_weights(codes, scales, zeros, format=self.format, group=self.group), numbers, scales, zeros

    def exact(self, weights: tuple[Any, ...], columns: Any) -> Any:
        _, numbers, scales, zeros = weights
        found = numbers[columns].double()
        wide = [
            x[columns].double().repeat_interleave(self.group, 1)[:, : found.shape[1]]
            for x in (scales, zeros)
            if x is not None
        ]
        return (found - wide[1] if self.zeros else found) * wide[0]

    def bytes(self, n: int, k: int) -> int:
        tables = -(-k // self.group) * (1 if self.format == "mxfp4" else 4 if self.zeros else 2)
        return up(n, TILE) * (up(k, 64) * FORMATS[self.format].bits // 8 + tables)

    def plan(self, m: int, n: int, k: int, machine: Machine) -> QuantisedPlan:
        return choose_quantised(m, n, k, self.group, machine.multiprocessors, True, self.format)

    def compile(self, m: int, n: int, k: int, plan: QuantisedPlan) -> str:
        """What is worth a word: that it spills registers."""
        scales, bf16 = "u8" if self.format == "mxfp4" else "bf16", dtype_of_name("bf16")
        made = gemm_quantised(bf16, bf16, self.format, self.group, dtype_of_name(scales))
        wide = up(n, TILE)
        words = spec((wide // TILE, -(-k // FORMATS[self.format].unit) * 4, 128), "i32")
        table = spec((-(-k // self.group), wide), scales)
        arrays = [
            spec((m, up(k, LONG // 2)), "bf16"),
            words,
            table,
            table if self.zeros else None,
            spec((m, n), "bf16"),
        ]
        return spills(made.configured(**plan._asdict()).compile(*arrays, target=PLANNED_FOR))

    def operation(self) -> Operation:
        return Operation(self.weights, multiply_packed, self.exact, self.bytes, self.plan, self.compile)


E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def multiply_packed(x: Any, weights: tuple[Any, ...], out: Any, plan: QuantisedPlan | None = None) -> Any:
    import minitile as mt

    return mt.ops.matmul_quantised(x, weights[0], out=out, plan=plan)


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


def multiply_fp8(x: Any, weights: tuple[Any, ...], out: Any, plan: Fp8Plan | None = None) -> Any:
    import minitile as mt

    return mt.ops.matmul_fp8(x[0], weights[0], (x[1], weights[1]), out=out, ahead=True, plan=plan)


def exact_fp8(weights: tuple[Any, ...], columns: Any) -> Any:
    b, scales = weights
    rows = scales.double().repeat_interleave(SCALED, 1)[:, : b.shape[1]]
    return b[columns].double() * rows[columns // SCALED]


def plan_fp8(m: int, n: int, k: int, machine: Machine) -> Fp8Plan:
    return choose_fp8(m, n, k, machine.multiprocessors)


def compile_fp8(m: int, n: int, k: int, plan: Fp8Plan) -> str:
    """What is worth a word: that it spills registers."""
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
    "w4a16": Packed().operation(),
    "w4a16 64 zeros": Packed(group=64, zeros=True).operation(),
    "w8a16": Packed("int8").operation(),
    "e4m3": Packed("e4m3").operation(),
    "mxfp4": Packed("mxfp4", 32).operation(),
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
