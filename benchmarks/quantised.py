"""Few rows by weights of 4 and 8 bits: many plans of `mt.ops.matmul_quantised` and `matmul_fp8`, beside bf16.

    PYTHONPATH=. python benchmarks/quantised.py --out benchmarks/results/quantised_h200
    PYTHONPATH=. python benchmarks/quantised.py --rows 16 --layers 4096x4096 --state build/quantised.json

Contenders: W4A16 (int4 in groups of 128), fp8 with scales of blocks (from 16 rows on), our bf16 `mt.ops.matmul`,
torch's (cuBLAS); with --formats also other weights, by their default plans. Processes compile first, one for each core.
Then each layer's cases are measured: all plans in a few rounds, which choose; the chosen ones in rounds that count,
beside the default plan. What is timed is a CUDA graph of launches, whose weights are several copies in turn, at least
ROTATED bytes, so that L2 does not hold them. A ratio is the median over rounds of that within a round (timing.py).

Measurements are kept in --state as soon as they are there; the same command goes on where the last one ended. After
--seconds no new case is begun.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import contest
import timing

from minitile.driver.jit import spec
from minitile.language.math import dtype_of_name
from minitile.ops.choice import choose
from minitile.ops.machine import PLANNED_FOR, Machine
from minitile.ops.multiply import assembled
from minitile.ops.plan import Problem
from minitile.ops.quantised.fp8_gemm import gemm_fp8_blocks
from minitile.ops.quantised.gemm import gemm_quantised
from minitile.ops.quantised.pack import FORMATS
from minitile.ops.quantised.plans import PARTS, Fp8Plan, QuantisedPlan, choose_fp8, choose_quantised, rows_of

LAYERS = (
    (6144, 4096),
    (4096, 4096),
    (28672, 4096),
    (4096, 14336),
    (10240, 8192),
    (8192, 28672),
    (24576, 1536),
    (32768, 512),
    (128256, 4096),
)  # N × K; 4099×4097 has no groups
ROWS = (1, 8, 16, 32, 64, 128, 256)
GROUP = 128
ROTATED = 200e6  # bytes of weights between two uses of the same
BATCH_US = 300.0  # of a graph
SHARED = 227 * 1024
BOUND = 6e-3
W4, FP8, BF16, TORCH = "W4A16", "fp8", "bf16", "torch"


@dataclass(frozen=True)
class Case:
    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


def parts_of(tiles: int, steps: int, processors: int) -> Iterator[int]:
    """Clusters along K that leave neither most multiprocessors idle nor many more blocks than there is room for."""
    found = [p for p in PARTS if steps >= 2 * p and 0.45 * processors <= tiles * p <= 5 * processors]
    yield from found or [1]


def plans(case: Case, processors: int) -> list[QuantisedPlan]:
    """Of W4A16."""
    rows, found = rows_of(case.m), [default(case, processors)]
    forms = [(64, 128, 1), (128, 256, 1), (256, 512, 1)]
    forms += [(64, 128, 2), (128, 256, 2), (256, 512, 2), (128, 128, 1), (256, 256, 1)] if rows <= 32 else []
    for wide, threads, groups in forms:
        tiles, deep = -(-case.n // wide) * -(-case.m // rows), GROUP * groups
        for parts in parts_of(tiles, case.k // deep, processors):
            for sums in (True,) if rows <= 32 else (True, False) if rows <= 64 else (False,):
                for stages in (4, 8) if rows <= 64 else (3, 5):
                    stages = stages * 5 // 8 if groups > 1 else stages
                    plan = QuantisedPlan(rows, wide, deep, stages, threads, parts, sums)
                    room = stages * (wide * 66 + rows * 256) * groups + wide * rows * 4 + 2048
                    if room <= SHARED and plan not in found:
                        found.append(plan)
    return found + variants(found)


def variants(found: list[Any]) -> list[Any]:
    """The first ones with a late trigger; clusters that add up otherwise, where tiles are small."""
    late = [plan._replace(early=False) for plan in found[:2]]
    small = [plan for plan in found if plan.parts > 1 and plan.block_M <= 32 and plan.stages <= 4]
    return late + [plan._replace(all_reduce=True) for plan in small]


def plans_fp8(case: Case, processors: int) -> list[Fp8Plan]:
    found = [choose_fp8(case.m, case.n, case.k, processors)]
    for rows in dict.fromkeys((rows_of(case.m), rows_of(case.m, 64))):
        for wide, threads in ((64, 128), (128, 256)):
            tiles = -(-case.n // wide) * -(-case.m // rows)
            for parts in parts_of(tiles, case.k // 128, processors):
                for overlap in (False, True):
                    for stages in (4, 7):
                        plan = Fp8Plan(rows, wide, stages, threads, parts, overlap)
                        room = stages * (wide * 128 + rows * 132) + wide * rows * 4 + 2048
                        if room <= SHARED and plan not in found and not (rows > 64 and wide == 64 and overlap):
                            found.append(plan)
    return found + variants(found)


def default(case: Case, processors: int, format: str = "int4", group: int = GROUP) -> QuantisedPlan:
    return choose_quantised(case.m, case.n, case.k, group, processors, True)


# Compiling -----------------------------------------------------------------------------------------------------------


def compile_quantised(case: Case, plan: QuantisedPlan, format: str, group: int, zeros: bool) -> str:
    scales = "u8" if format == "mxfp4" else "bf16"
    bf16 = dtype_of_name("bf16")
    kernel = gemm_quantised(bf16, bf16, format, group, zeros, dtype_of_name(scales)).configured(**plan._asdict())
    wide = -(-case.n // 64) * 64
    words = spec((wide // 64, case.k // FORMATS[format].unit * 4, 128), "i32")
    tables = [spec((case.k // group, wide), scales)] * (2 if zeros else 1)
    arrays = [spec((case.m, case.k), "bf16"), words, *tables, spec((case.m, case.n), "bf16")]
    return done(partial(kernel.compile, *arrays, target=PLANNED_FOR))


def compile_fp8(case: Case, plan: Fp8Plan) -> str:
    kernel = gemm_fp8_blocks(*map(dtype_of_name, ("e4m3", "e4m3", "bf16")), True).configured(**plan._asdict())
    deep, up = -(-case.k // 128), -(-case.m // 4) * 4
    scales = spec((deep, up), "f32"), spec((-(-case.n // 128), deep), "f32")
    operands = spec((case.m, case.k), "e4m3"), spec((case.n, case.k), "e4m3")
    return done(partial(kernel.compile, *operands, *scales, spec((case.m, case.n), "bf16"), target=PLANNED_FOR))


def compile_bf16(case: Case, machine: Machine) -> str:
    problem = Problem(case.m, case.n, case.k, False, True)
    bf16 = dtype_of_name("bf16")
    plan = choose(problem, machine, True, SHARED)
    assembled(problem, bf16, bf16, plan)
    return ""


def done(make: Callable[[], Any]) -> str:
    """What went wrong, or that the code spills."""
    try:
        spills = make().spills
    except Exception as error:
        return contest.short(error)
    return f"spills {spills} bytes" if spills else ""


FORMS = (
    ("int4", 64, True),
    ("int4", 128, True),
    ("int4", 64, False),
    ("int8", 128, False),
    ("e4m3", 128, False),
    ("mxfp4", 32, False),
)


def compile_all(pool: ProcessPoolExecutor, cases: Sequence[Case], machine: Machine, formats: bool) -> dict[str, str]:
    """Everything that will be launched; by case and plan what went wrong."""
    processors, jobs = machine.multiprocessors, {}
    for case in cases:
        for plan in plans(case, processors):
            jobs[f"{case} {W4} {plan}"] = pool.submit(compile_quantised, case, plan, "int4", GROUP, False)
        if case.m >= 16:
            for fp8 in plans_fp8(case, processors):
                jobs[f"{case} {FP8} {fp8}"] = pool.submit(compile_fp8, case, fp8)
        for form in FORMS if formats else ():
            plan = default(case, processors, *form[:2])
            jobs[f"{case} {form}"] = pool.submit(compile_quantised, case, plan, *form)
        jobs[f"{case} {BF16}"] = pool.submit(compile_bf16, case, machine)
    found = {}
    for name, job in jobs.items():
        try:
            found[name] = job.result()
        except Exception as error:
            found[name] = contest.short(error)
    return {name: text for name, text in found.items() if text}


# Measuring -----------------------------------------------------------------------------------------------------------


@dataclass
class Entry:
    contender: str
    config: str
    launch: Callable[[int], Any]  # with copy number n of the weights
    copies: int
    result: Any
    expected: Any


class Layer:
    """The weights of a layer in all forms, several copies of each."""

    def __init__(self, n: int, k: int, formats: bool) -> None:
        import torch

        import minitile as mt

        self.n, self.k = n, k
        torch.manual_seed(n + k)
        codes = torch.randint(-8, 8, (n, k), device="cuda", dtype=torch.int8)
        scales = (torch.rand(n, k // GROUP, device="cuda") * 0.01 + 0.002).bfloat16()
        packed = mt.ops.pack_weights(codes, scales)
        self.dense = (codes.float().view(n, -1, GROUP) * scales.float()[..., None]).view(n, k).bfloat16()
        del codes
        self.int4 = [packed, *(self.copy(packed) for _ in range(self.count(packed.nbytes) - 1))]
        self.bf16 = [self.dense, *(self.dense.clone() for _ in range(self.count(2 * n * k) - 1))]
        self.fp8 = self.dense.float().mul(200).to(torch.float8_e4m3fn)
        self.fp8_scales = torch.rand(-(-n // 128), -(-k // 128), device="cuda") + 0.5
        self.fp8s = [self.fp8, *(self.fp8.clone() for _ in range(self.count(n * k) - 1))]
        self.others = {}
        for format, group, zeros in FORMS if formats else ():
            one = mt.ops.quantise_weights(self.dense[:64], format=format, group=group, zero_points=zeros)
            arrays = [x.repeat(n // 64, 1, 1) if x.dim() == 3 else x.repeat(1, n // 64) for x in one.arrays]
            whole = type(one)(format, n, k, group, *arrays)
            self.others[format, group, zeros] = [whole] + [
                self.copy(whole) for _ in range(self.count(whole.nbytes) - 1)
            ]

    @staticmethod
    def copy(weights: Any) -> Any:
        return type(weights)(*weights.key, *(x.clone() for x in weights.arrays))

    @staticmethod
    def count(size: int) -> int:
        return max(2, min(24, math.ceil(ROTATED / size)))


def fp8_by(a: Any, layer: Layer, scale: Any, c: Any, plan: Fp8Plan, copy: int) -> Any:
    import minitile as mt

    return mt.ops.matmul_fp8(a, layer.fp8s[copy], (scale, layer.fp8_scales), out=c, ahead=True, plan=plan)


def int4_by(a: Any, weights: Sequence[Any], c: Any, plan: QuantisedPlan | None, copy: int) -> Any:
    import minitile as mt

    return mt.ops.matmul_quantised(a, weights[copy], out=c, plan=plan)


def entries(layer: Layer, case: Case, processors: int, formats: bool) -> Iterator[Entry]:
    import torch

    import minitile as mt

    a = torch.randn(case.m, case.k, device="cuda", dtype=torch.bfloat16)
    c = torch.empty(case.m, case.n, device="cuda", dtype=torch.bfloat16)
    expected = (a @ layer.dense.t()).float()
    turned = [w.t() for w in layer.bf16]
    yield Entry(TORCH, "", lambda i: torch.matmul(a, turned[i], out=c), len(turned), c, expected)
    yield Entry(
        BF16, str(mt.ops.plan_for(a, turned[0])), lambda i: mt.ops.matmul(a, turned[i], out=c), len(turned), c, expected
    )
    for plan in plans(case, processors):
        yield Entry(W4, str(plan), partial(int4_by, a, layer.int4, c, plan), len(layer.int4), c, expected)
    if case.m >= 16:
        q = a.float().mul(50).clamp(-448, 448).to(torch.float8_e4m3fn)
        scale = (torch.rand(-(-case.k // 128), -(-case.m // 4) * 4, device="cuda") + 0.5).t()[: case.m]
        wide_a = (q.float().view(case.m, -1, 128) * scale[..., None]).view(case.m, case.k)
        wide_b = layer.fp8.float() * layer.fp8_scales.repeat_interleave(128, 0).repeat_interleave(128, 1)[: case.n]
        exact = wide_a @ wide_b.t()
        for fp8 in plans_fp8(case, processors):
            launch = partial(fp8_by, q, layer, scale, c, fp8)
            yield Entry(FP8, str(fp8), launch, len(layer.fp8s), c, exact)
    for form, weights in layer.others.items() if formats else ():
        first = torch.from_numpy(
            type(weights[0])(*weights[0].key, *(x.cpu() for x in weights[0].arrays)).dequantise()[:64]
        )
        rows = a.double() @ first.cuda().t()
        exact = rows.repeat(1, case.n // 64).float()
        plan = default(case, processors, *form[:2])
        launch = partial(int4_by, a, weights, c, None)
        yield Entry(" ".join(map(str, form)), str(plan), launch, len(weights), c, exact)


def measure(
    layer: Layer, case: Case, processors: int, bad: dict[str, str], rounds: int, formats: bool
) -> dict[str, Any]:
    """By contender: µs, the ratio to bf16, plan; and all that was tried."""
    batches, of, found, tried, errors = {}, {}, {}, {}, {}
    for entry in entries(layer, case, processors, formats):
        name = f"{entry.contender} {entry.config}".rstrip()
        problem = bad.get(f"{case} {name}", "")
        if problem and not problem.startswith("spills"):
            tried[name] = problem
            continue
        try:
            with contest.watched(f"{case} {name}"):
                entry.result.fill_(math.nan)
                errors[name] = contest.relative_error(entry.launch(0), entry.expected)
                if not errors[name] <= BOUND:
                    raise contest.Wrong(f"relative error {errors[name]:.1e}")
                size = 2 * case.n * case.k / 4e6  # µs, more or less
                turns = max(1, min(4, round(BATCH_US / (entry.copies * size / 3))))
                order = [i for _ in range(turns) for i in range(entry.copies)]
                replay, _ = contest.record(lambda e=entry, o=order: [e.launch(i) for i in o][-1], 1)
        except Exception as error:
            tried[name] = contest.short(error)
            contest.synchronize()
            continue
        batches[name], of[name], found[name] = replay, entry.contender, len(order)
    with contest.watched(f"{case}: graphs"):
        times = timing.time_interleaved(batches, contest.CHOOSING_ROUNDS, 1)
    tried |= {name: round(statistics.median(t) / found[name] * 1e3, 3) for name, t in times.items()}
    names = list(dict.fromkeys(contest.choose(of, times)))
    standard = [
        n
        for n in batches
        if n in (f"{W4} {default(case, processors)}", f"{FP8} {choose_fp8(case.m, case.n, case.k, processors)}")
    ]
    names += [n for n in standard if n not in names]
    counted = timing.time_interleaved({n: batches[n] for n in names}, rounds, 1)
    each = {n: [t / found[n] for t in counted[n]] for n in names}
    base = next(n for n in names if of[n] == BF16)
    return {
        "rows": [
            {
                "contender": of[n] + (" (default)" if n in standard else ""),
                "config": n.removeprefix(of[n]).strip(),
                "us": statistics.median(each[n]) * 1e3,
                "of bf16": timing.ratio(each[n], each[base]),
                "spread": timing.spread(each[n]),
                "error": errors[n],
            }
            for n in names
        ],
        "tried": tried,
    }


def table(known: dict[str, Any]) -> list[str]:
    lines = ["| case | contender | plan | µs | of bf16 | spread | error |", "|---|---|---|---:|---:|---:|---:|"]
    for case, found in known.items():
        for r in found.get("rows", ()):
            numbers = f"{r['us']:.2f} | {r['of bf16']:.3f} | {r['spread']:.1%} | {r['error']:.1e}"
            lines.append(f"| {case} | {r['contender']} | {r['config']} | {numbers} |")
    return [*lines, "", *means(known)]


def means(known: dict[str, Any]) -> list[str]:
    """Geometric means over the layers by rows, of the best plan and of the default one; and the worst."""
    lines = ["| rows | contender | of bf16 | worst |", "|---:|---|---:|---:|"]
    by: dict[tuple[int, str], list[float]] = {}
    for case, found in known.items():
        best: dict[str, float] = {}
        for r in found.get("rows", ()):
            name = r["contender"].removesuffix(" (default)")
            best[name] = max(best.get(name, 0.0), r["of bf16"])
            if name != r["contender"]:
                best[r["contender"]] = r["of bf16"]
        for name, value in best.items():
            by.setdefault((int(case.split("x")[0]), name), []).append(value)
    for (rows, name), values in sorted(by.items()):
        mean = math.exp(math.fsum(map(math.log, values)) / len(values))
        lines.append(f"| {rows} | {name} | {mean:.3f} | {min(values):.3f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--layers", nargs="+", default=[f"{n}x{k}" for n, k in LAYERS], help="as 4096x4096, N × K")
    parser.add_argument("--formats", action="store_true", help="other weights, too")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=340.0)
    parser.add_argument("--state", default="build/quantised.json")
    parser.add_argument("--out", help="also write OUT.md and OUT.json")
    given = parser.parse_args()
    start = time.monotonic()
    layers = [tuple(map(int, text.split("x"))) for text in given.layers]
    state = Path(given.state)
    known: dict[str, Any] = json.loads(state.read_text(encoding="utf-8")) if state.exists() else {}
    cases = [Case(m, n, k) for n, k in layers for m in given.rows if str(Case(m, n, k)) not in known]
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=context) as pool:
        pool.submit(os.getpid).result()  # the processes are there before there is CUDA
        for job in [pool.submit(time.sleep, 0.05) for _ in range(2 * len(os.sched_getaffinity(0)))]:
            job.result()
        from minitile.ops.multiply import machine_of_device

        machine = machine_of_device(0)
        bad = compile_all(pool, cases, machine, given.formats)
    print(f"compiled in {time.monotonic() - start:.0f} s; {len(bad)} remarks", flush=True)
    for name, text in bad.items():
        print(f"  {name}: {text}", flush=True)
    for n, k in layers:
        wanted = [case for case in cases if (case.n, case.k) == (n, k)]
        if not wanted:
            continue
        import torch

        layer = Layer(n, k, given.formats)
        for case in wanted:
            if time.monotonic() - start > given.seconds:
                print(f"{case}: no time left")
                continue
            begun = time.monotonic()
            state.parent.mkdir(parents=True, exist_ok=True)
            state.write_text(json.dumps({**known, str(case): {}}), encoding="utf-8")  # not again, if it hangs
            known[str(case)] = measure(layer, case, machine.multiprocessors, bad, given.rounds, given.formats)
            state.write_text(json.dumps(known, indent=1, ensure_ascii=False), encoding="utf-8")
            words = "  ".join(f"{r['contender']} {r['us']:.2f} ({r['of bf16']:.2f})" for r in known[str(case)]["rows"])
            print(f"{case}: {words}  [{time.monotonic() - begun:.1f} s]", flush=True)
        del layer
        torch.cuda.empty_cache()
    lines = table(known)
    print("\n".join(means(known)))
    if given.out:
        head = [
            "# Weights of 4 and 8 bits",
            "",
            *(f"- {name}: {value}" for name, value in timing.machine().items()),
            "",
        ]
        Path(given.out + ".md").write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")
        Path(given.out + ".json").write_text(json.dumps(known, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
