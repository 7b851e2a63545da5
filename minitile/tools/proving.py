"""Proofs of compiled kernels: the facts of their launch, and sizes on which the simulator shows a fault.

`CompiledKernel.certificate` and `minitile prove` come here; what is proved is in docs/proof.md.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from minitile.ir.diagnostics import MinitileError
from minitile.ir.types import dtype
from minitile.proof import Answer, Launch, answer
from minitile.proof.answer import Asked
from minitile.proof.arithmetic.values import symbol
from minitile.proof.launches.witness import evaluate
from minitile.runtime.launch_info import (
    Expr,
    LaunchInfo,
    ScalarArg,
    TensorArg,
    TensorMapParam,
    compile_exprs,
    slots_of,
)

if TYPE_CHECKING:
    from minitile.driver.compiled import CompiledKernel

# Sizes that are tried, rounded up to what the kernel was compiled for.
_SIZES = (
    1,
    8,
    17,
    32,
    40,
    64,
    72,
    96,
    104,
    128,
    160,
    200,
    256,
    264,
    320,
    392,
    512,
    520,
    648,
    768,
    1024,
    1544,
    2048,
    4096,
)
_SCHEDULES = (("lazy", 0), ("eager", 0), ("random", 0), ("random", 1))
_MOST_RUNS = 12
_MOST_WORK = 1 << 24  # the product of the sizes of a run


def launch_facts(info: LaunchInfo) -> Launch:
    """What a proof is to know of a launch. Raises MinitileError for what it does not cover."""
    if math.prod(info.cluster) != 1:
        raise MinitileError("clusters are not proved")
    maps = [each for each in info.params if isinstance(each, TensorMapParam)]
    boxes = {each.name: math.prod(each.box) * dtype(each.dtype).bits // 8 for each in maps}
    names = {each.source: each.name for each in info.params if not isinstance(each, TensorMapParam)}
    known = [fact[1:] for fact in info.facts if isinstance(fact, tuple) and fact[0] == "divides"]
    divides = {names[size]: n for size, n in known if size in names and size[0] != "pointer"}
    grid = {axis: size for axis, each in zip("xyz", info.grid, strict=True) if (size := _size(each, names)) is not None}
    return Launch(boxes, math.prod(info.block), info.dynamic_shared, divides, grid=grid)


def _size(of: Expr, names: Mapping[Any, str]) -> Any:
    """A size of the grid over the parameters' names; None: it is of others."""
    if isinstance(of, int):
        return of
    if len(of) == 2:
        return ("param", names[of]) if of in names else None
    sizes = tuple(_size(each, names) for each in of[1:])
    return (of[0], *sizes) if of[0] in ("add", "sub", "mul", "floordiv") and None not in sizes else None


def certificate(compiled: CompiledKernel, *, seconds: float, examples: float) -> Answer:
    """See CompiledKernel.certificate."""
    if "ptx" not in compiled.asm:
        raise MinitileError(f"only PTX is proved, not code for {compiled.target}")
    try:
        launch = launch_facts(compiled.launch_info)
    except MinitileError as why:
        return Answer("refused", compiled.launch_info.entry, reason=str(why))
    found = answer(compiled.asm["ptx"], launch, seconds=seconds)
    return with_sizes(compiled, found, examples) if found.steps and examples > 0 else found


def with_sizes(compiled: CompiledKernel, found: Answer, seconds: float) -> Answer:
    """The answer, with sizes on which the simulator shows the fault if some are found within this time."""
    until = time.monotonic() + seconds
    for sizes in itertools.islice(sizes_to_try(compiled.launch_info, found), _MOST_RUNS):
        for schedule, seed in _SCHEDULES:
            if time.monotonic() > until:
                return found
            try:
                compiled.simulate(*_arguments(compiled.launch_info, sizes), schedule=schedule, seed=seed)
            except MinitileError as error:
                from minitile.driver.simulate import SimulationError

                if not isinstance(error, SimulationError):
                    break  # sizes that the kernel does not take
                return replace(
                    found,
                    verdict="fault",
                    sizes=sizes,
                    shown=f"{schedule} schedule: {str(error).strip().splitlines()[0]}",
                )
    return found


def sizes_to_try(info: LaunchInfo, found: Answer) -> Iterator[dict[str, int]]:
    """Sizes that give the answers of the run at fault in some block, the smallest first; where none do, small ones."""
    slots = slots_of(info.args)
    dims = [name for kind, name in slots if kind == "dim"]
    divisors: dict[str, int] = {}
    for fact in info.facts:
        if isinstance(fact, tuple) and fact[0] == "divides" and isinstance(fact[1], tuple) and fact[1][0] == "dim":
            divisors[fact[1][1]] = math.lcm(divisors.get(fact[1][1], 1), fact[2])
    lists = [_multiples(divisors.get(name, 1)) for name in dims]
    every = sorted(
        (each for each in itertools.product(*lists) if math.prod(each) <= _MOST_WORK),
        key=lambda each: (math.prod(each), each),
    )
    fitting = (each for each in every if _fits(info, slots, dict(zip(dims, each, strict=True)), found))
    first = next(fitting, None)
    chosen: Iterator[tuple[int, ...]] = itertools.chain((first,), fitting) if first is not None else iter(every)
    return (dict(zip(dims, each, strict=True)) for each in chosen)


def _multiples(n: int) -> list[int]:
    return sorted({-(-size // n) * n for size in _SIZES})


def _fits(info: LaunchInfo, slots: Sequence[Any], sizes: Mapping[str, int], found: Answer) -> bool:
    values = tuple(sizes[name] if kind == "dim" else 1 << 20 if kind == "pointer" else 1 for kind, name in slots)
    params = [each for each in info.params if not isinstance(each, TensorMapParam) and each.dtype != "pointer"]
    numbers = compile_exprs([each.source for each in params], slots)(values)
    grid = compile_exprs(info.grid, slots)(values)
    if 0 in grid:
        return False
    known: dict[Any, int] = {
        ("param", each.name): n for each, n in zip(params, numbers, strict=True) if isinstance(n, int)
    }
    known |= {(f"%nctaid.{axis}",): n for axis, n in zip("xyz", grid, strict=True)}
    for block in itertools.product(*(sorted({0, min(1, n - 1), n - 1}) for n in grid)):
        here = known | {(f"%ctaid.{axis}",): n for axis, n in zip("xyz", block, strict=True)}
        if _gives(here, found.asked, found.residues):
            return True
    return False


def _gives(known: Mapping[Any, int], asked: Sequence[Asked], residues: Mapping[Any, tuple[int, int]]) -> bool:
    """Whether these values of symbols give each answer that can be told."""

    def value(key: Any) -> int | None:
        if isinstance(key, tuple) and key and key[0] == "quotient":
            whole = evaluate_key(key[1], value)
            return None if whole is None or key[1] not in residues else whole // residues[key[1]][0]
        return known.get(key)

    for key, (modulus, residue) in residues.items():
        whole = evaluate_key(key, value) if key else None
        if whole is not None and whole % modulus != residue:
            return False
    return all(each.holds(value) is not False for each in asked)


def evaluate_key(key: Any, value: Callable[[Any], int | None]) -> int | None:
    return evaluate(symbol(*key), value)


def _arguments(info: LaunchInfo, sizes: Mapping[str, int]) -> list[Any]:
    rng = np.random.default_rng(0)
    out: list[Any] = []
    for arg in info.args:
        kind = dtype(arg.dtype)
        if isinstance(arg, ScalarArg):
            out.append(kind.numpy.type(1))
            continue
        assert isinstance(arg, TensorArg)
        shape = tuple(sizes[each] if isinstance(each, str) else each for each in arg.shape)
        data = rng.integers(0, 3, shape) if kind.is_float else np.zeros(shape)
        out.append(data.astype(kind.numpy))
    return out


__all__ = ["certificate", "launch_facts", "sizes_to_try", "with_sizes"]
