"""The scenarios of tests/filetests/proxy_fence, run: what the pass leaves assembles, and is clean in the simulator's
race model, which shares nothing with the pass; without any one of the fences it is not."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pytest

from minitile.backends.nvidia.assemble import assemble
from minitile.backends.nvidia.emit.writer import write_ptx
from minitile.ir.core import Block, Kernel, Op
from minitile.ir.ops import fences
from minitile.ir.parser import parse_kernel
from minitile.runtime.sim import Report, TensorMap, run_ptx
from minitile.target import parse_target
from minitile.tools.opt import optimize, read_header
from tests.opaque import TEXTS, Opaque
from tests.transforms.random_proxies import plain, versioned, with_roles

FOLDER = Path(__file__).parents[1] / "filetests" / "proxy_fence"
FILES = sorted(FOLDER.glob("*.mt"))
NUMBERS = (0, 2)  # for a scalar parameter
SCHEDULES = ("lazy", "eager", "random")
UNCHECKED = {"uninitialised"}  # a scenario need not fill what it reads
NOT_EMITTED = "tcgen05"  # these texts allocate no tensor memory: what is inserted is read, not run


def compiled(path: Path) -> Kernel:
    return optimize(path.read_text(encoding="utf-8"), str(path), verify=True)


def simulate(kernel: Kernel, target: str, number: int, schedule: str) -> Report:
    tensors = {p.name: p for p in kernel.params if hasattr(p.type, "shape")}
    module = write_ptx(parse_kernel(str(kernel)), parse_target(target))
    arrays = {n: np.zeros(v.shape, {2: np.float16, 4: np.float32}[v.dtype.bytes]) for n, v in tensors.items()}
    maps = {
        name: TensorMap(arrays[t], box, swizzle=width) for name, t, box, width in kernel.attrs.get("tensor_maps", ())
    }
    args = [maps.get(name, arrays.get(name, np.int32(number))) for name, _, _ in module.params]
    threads = kernel.attrs["threads"] + kernel.attrs.get("producer_threads", 0)
    shared = kernel.attrs.get("shared_bytes", 0)
    cluster = kernel.attrs.get("cluster", (1, 1, 1))  # the grid is one
    more = {"cluster": cluster, "dynamic_shared": shared, "schedule": schedule, "seed": 1}
    return run_ptx(module.text, module.entry, cluster, (threads,), args, **more)


def findings(kernel: Kernel, target: str) -> set[str]:
    found: set[str] = set()
    for number, schedule in product(NUMBERS, SCHEDULES):
        found |= {f.kind for f in simulate(kernel, target, number, schedule).findings}
    return found - UNCHECKED


def inserted(block: Block) -> list[tuple[Block, Op]]:
    """The fences that are not the program's own."""
    found = [(block, op) for op in block.ops if isinstance(op, fences.ProxyFence) and not own(op)]
    return found + [pair for op in block.ops for region in op.regions for pair in inserted(region)]


def own(op: Op) -> bool:
    assert op.loc is not None
    return "proxy_fence" in linecache.getline(op.loc.file, op.loc.line)


@pytest.mark.parametrize("path", [p for p in FILES if NOT_EMITTED not in p.stem], ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    target = read_header(path.read_text(encoding="utf-8"))["target"]
    kernel = compiled(path)
    assemble(write_ptx(compiled(path), parse_target(target)).text, target)
    assert findings(kernel, target) == set(), kernel
    for number in range(len(inserted(kernel.body))):
        missed: set[str] = set()
        for does in TEXTS:  # what an unknown operation needs a fence for is seen when it does that
            without = compiled(path)
            for op in without.walk():
                if isinstance(op, Opaque):
                    op.does = does
            block, fence = inserted(without.body)[number]
            block.ops.remove(fence)
            missed |= findings(without, target)
            if missed:
                break
        assert missed == {"missing_proxy_fence"}, without


# Random kernels -------------------------------------------------------------------------------------------------------

PASSES = ["insert_bulk_store_waits", "allocate_shared_memory", "thread_barriers", "proxy_fence", "resolve_wait_counts"]


def numbers(bits: int, seed: int, count: int) -> list[int]:
    """Values of %n that take different paths."""
    last = (1 << bits) - 1
    if last < count + 2:
        return list(range(last, -1, -1))
    random = Random(seed)
    return [last, 0, *(random.getrandbits(bits) for _ in range(count))]


def kinds(kernel: Kernel, values: list[int], enough: str = "") -> set[str]:
    found: set[str] = set()
    for number, schedule in product(values, ("lazy", "eager")):
        found |= {f.kind for f in simulate(kernel, "sm_90a", number, schedule).findings} - UNCHECKED
        if enough in found:
            break
    return found


def check_random(write: Callable[[int], tuple[str, int]], seed: int) -> None:
    """Nothing is missing, and nothing too much: without any one of the fences something is, on some path. Between roles
    there may be one too many, since whom an arrival tells is known by words, not by turns; and where version numbers of
    several loops meet."""
    text, bits = write(seed)
    kernel = optimize(text, "<random>", PASSES, "sm_90a", verify=True)
    assert kinds(kernel, numbers(bits, seed, 4)) == set(), kernel
    if write is not plain:
        return
    for number in range(len(inserted(kernel.body))):
        without = optimize(text, "<random>", PASSES, "sm_90a")
        block, fence = inserted(without.body)[number]
        block.ops.remove(fence)
        missed = kinds(without, numbers(bits, seed, 30), "missing_proxy_fence")
        assert missed == {"missing_proxy_fence"}, f"{number}: {kernel}"


@pytest.mark.parametrize("write", [plain, versioned, with_roles])
@pytest.mark.parametrize("seed", range(8))
def test_random(write: Callable[[int], tuple[str, int]], seed: int) -> None:
    check_random(write, seed)


@pytest.mark.slow
@pytest.mark.parametrize("write", [plain, versioned, with_roles])
@pytest.mark.parametrize("seed", range(8, 100))
def test_more_random(write: Callable[[int], tuple[str, int]], seed: int) -> None:
    check_random(write, seed)


@pytest.mark.slow
def test_the_simulator_sees_missing_fences() -> None:
    """Without the pass, most of these kernels are found wrong."""
    found = 0
    for seed in range(10):
        text, bits = plain(seed)
        kernel = optimize(text, "<random>", [name for name in PASSES if name != "proxy_fence"], "sm_90a")
        found += "missing_proxy_fence" in kinds(kernel, numbers(bits, seed, 4))
    assert found >= 7
