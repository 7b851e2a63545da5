"""minitile beside TileLang itself, on kernels of TileLang's own examples: speed, and the time of a cold compile.

    python benchmarks/tilelang_peers.py fetch                    a checkout of the examples, at COMMIT, into EXAMPLES
    python benchmarks/bars.py tilelang                           every case, kept in build/bars.json as it is measured
    python benchmarks/bars.py tilelang --only gemm --again       some of them, anew
    python benchmarks/tilelang_peers.py one "gemm 1024"          one case, all that is known of it
    MINITILE_VARIANTS=1 python benchmarks/bars.py tilelang       beside them minitile without some of its passes

Needs tilelang (pip install tilelang==0.1.15), torch, einops and the toolkit that TileLang compiles with.
MINITILE_TILELANG names another checkout than build/tilelang.

Each case's file is loaded twice, untouched: with TileLang, and with minitile.tilelang in its place. Both kernels get
the same inputs; both results are checked against a reference in float64, in buffers that were filled with NaN before,
and against each other. Both are recorded in CUDA graphs over copies of the inputs that together are three times as
large as the L2 cache, and timed interleaved. A cold compile is, in a process of its own and with empty caches, the time
of the first launch less that of the second: all from the Python function to code on the GPU. A small kernel has been
compiled before (tilelang_first.py), so that neither imports nor what else is done once in a process is part of it.
"""

from __future__ import annotations

import fcntl
import io
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import timing
from bars import Found, Row
from contest import Missing, Wrong, record_all, relative_error, short
from tilelang_cases import BY_NAME, CASES
from tilelang_problems import Case, Tensors

COMMIT = "a35008a42531c62b976ae4cec3855d4383db0f3c"
REPOSITORY = "https://github.com/tile-ai/tilelang"
BUILD = Path(__file__).parents[1] / "build"
EXAMPLES = Path(os.environ.get("MINITILE_TILELANG", BUILD / "tilelang")) / "examples"
WORK = BUILD / "tilelang_peers"
SIDES = ("minitile", "tilelang")
# Of minitile's side, with MINITILE_VARIANTS=1: passes left out.
_LEFT_OUT = {
    "stages as written": ("choose_stages", "deepen_stages"),
    "two stages at most chosen": ("deepen_stages",),
    "without roles": ("warp_specialize",),
    "copies in place": ("hoist_copies",),
}
VARIANTS = _LEFT_OUT if os.environ.get("MINITILE_VARIANTS") else {}
L2_BYTES = 50 << 20
MOST_SETS, MOST_LAUNCHES, BATCH_MS, ROUNDS = 128, 300, 3.0, 15
COMPILE_SECONDS, MEASURE_SECONDS = 90, 120

_ALL = tuple(case.name for case in CASES)
ROWS: tuple[Row, ...] = (
    Row("speed", "speed, of TileLang's", 1.15, 1.15, tuple((n, "tilelang") for n in _ALL), least=0.95),
    Row("compile", "cold compile, of TileLang's", 6.0, 6.0, tuple((n, "tilelang compile") for n in _ALL), least=4.0),
)
TITLE = "minitile beside TileLang, on TileLang's examples"
REMARKS = (
    "- Each case is a kernel of TileLang's examples, of its example's own size and configuration, its file untouched.",
    "- tilelang: how many times as fast as TileLang's the kernel is, in the same rounds.",
    "- tilelang compile: how many times as fast a cold compile is.",
)


# Loading an example --------------------------------------------------------------------------------------------------


def front_end(side: str) -> Any:
    """A context in which `import tilelang` gives this side."""
    if side == "tilelang":
        return nullcontext()
    from minitile.tilelang import hook

    return hook.in_place()


@contextmanager
def _not_needed() -> Iterator[None]:
    """Packages that some files import for comparisons that are not made here."""
    made = []
    for name in ("fla", "fla.ops", "fla.ops.linear_attn", "fla.modules", "fla.modules.l2norm"):
        if name not in sys.modules:
            module = sys.modules[name] = ModuleType(name)
            module.__dict__.update(__path__=[], __file__="", fused_chunk_linear_attn=None, l2norm_fwd=None)
            made.append(name)
    try:
        yield
    finally:
        for name in made:
            sys.modules.pop(name, None)


def load(case: Case, side: str) -> ModuleType:
    """The case's file as a module, with one front end; modules beside it are loaded anew for each. Call it in
    `front_end(side)`."""
    path = EXAMPLES / case.file
    if not path.exists():
        raise Missing(f"no {path}: see `fetch`")
    with fla_or_not(case):
        return load_file(path, side)


def load_file(path: Path, side: str) -> ModuleType:
    import importlib.util

    spec = importlib.util.spec_from_file_location(f"{path.stem}_with_{side}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    argv, paths, known = sys.argv, sys.path[:], {*sys.modules}
    sys.argv, sys.path[:0] = [str(path)], [str(path.parent)]
    sys.modules[spec.name] = module
    try:
        with redirect_stdout(io.StringIO()):
            spec.loader.exec_module(module)
    finally:
        sys.argv, sys.path[:] = argv, paths
        for name in {*sys.modules} - known - {spec.name}:
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(path.parent)):
                del sys.modules[name]
    return module


def fla_or_not(case: Case) -> Any:
    return _not_needed() if case.file.startswith("linear_attention") else nullcontext()


# A cold compile ------------------------------------------------------------------------------------------------------


def compile_once(case: Case, side: str) -> dict[str, Any]:
    """Seconds of a cold compile, in this process."""
    import torch

    torch.cuda.init()
    with front_end(side):
        first = load_file(Path(__file__).with_name("tilelang_first.py"), side)
        first.doubled(torch.ones(256, device="cuda"))
        module = load(case, side)
        torch.manual_seed(0)
        inputs = case.inputs(module)
        torch.cuda.synchronize()
        times = [time.perf_counter()]
        kernel = case.kernel(module)
        for _ in range(2):
            case.launch(kernel, inputs)
            torch.cuda.synchronize()
            times.append(time.perf_counter())
    return {
        "seconds": times[1] - times[0] - (times[2] - times[1]),
        "costs": costs(kernel) if side == "minitile" else "",
    }


def costs(kernel: Any) -> str:
    """Registers and spilled bytes of minitile's kernels, where they can be told."""
    kernels = kernel if isinstance(kernel, tuple) else (kernel,)
    try:
        found = [c for k in kernels for c in k.compiled()]
        return ", ".join(f"{c.registers} registers" + (f" {c.spills} B spilled" if c.spills else "") for c in found)
    except Exception:
        return ""


# Speed ---------------------------------------------------------------------------------------------------------------


def results_of(found: Any) -> Tensors:
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def size(tensors: Sequence[Any]) -> int:
    return sum(x.numel() * x.element_size() for x in tensors if hasattr(x, "numel"))


def copies(inputs: Tensors, count: int) -> list[Tensors]:
    return [inputs, *(tuple(x.clone() if hasattr(x, "clone") else x for x in inputs) for _ in range(count - 1))]


def fill(tensors: Tensors, case: Case) -> None:
    """NaN, or for integers -1, where a launch writes; 0 where it adds."""
    import torch

    for i, x in enumerate(tensors):
        flat = x.view(torch.uint8) if x.dim() else x
        flat.fill_(0 if i in case.adds else 255)


def error_of(case: Case, results: Tensors, expected: Tensors, times: int = 1) -> float:
    """The worst relative error. times: how many launches have added to what is added to."""
    scaled = [x.double() / times if i in case.adds else x for i, x in enumerate(results)]
    parts = case.part(tuple(scaled))
    if len(parts) != len(expected):
        raise Wrong(f"{len(parts)} results in place of {len(expected)}")
    return max(_relative(have, want) for have, want in zip(parts, expected, strict=True))


def _relative(have: Any, want: Any) -> float:
    if have.shape != want.shape:
        raise Wrong(f"a result of shape {tuple(have.shape)} in place of {tuple(want.shape)}")
    error = relative_error(have.double(), want.double())
    return math.inf if math.isnan(error) else error


@dataclass
class Side:
    """One contender of a case. replay: a batch of launches; results: what its first launch writes; error: its worst."""

    name: str
    module: Any
    kernel: Any = None
    replay: Callable[[], Any] = field(default=lambda: None)
    results: Tensors = ()
    error: float = math.nan
    note: str = ""


def does(side: Side, act: Callable[[], None]) -> bool:
    """Whether a variant gets through `act`; the two sides have to."""
    try:
        act()
    except Exception:
        if side.name not in VARIANTS:
            raise
        return False
    return True


def build(case: Case, side: Side, inputs: Tensors) -> None:
    """The kernel, compiled and launched once."""
    with front_end(side.name):
        side.kernel = case.kernel(side.module)
        if side.name in VARIANTS:
            passes = dict.fromkeys(VARIANTS[side.name], False)
            for kernel in side.kernel if isinstance(side.kernel, tuple) else (side.kernel,):
                kernel.options = replace(kernel.options, passes={**kernel.options.passes, **passes})
        case.launch(side.kernel, inputs)
    synchronize()


def prepare(case: Case, side: Side, sets: list[Tensors], expected: Tensors) -> None:
    """One launch with new results, checked."""
    import torch

    first = results_of(case.launch(side.kernel, sets[0]))
    torch.cuda.synchronize()
    shapes = [(x.shape, x.dtype) for x in first]
    fill(first, case)
    given = any(x.data_ptr() == y.data_ptr() for x in first for y in sets[0] if hasattr(y, "data_ptr"))
    del first
    if not given:  # what is freed comes back as the next results
        poisoned = [torch.empty(shape, dtype=dtype, device="cuda") for shape, dtype in shapes]
        fill(tuple(poisoned), case)
        del poisoned
    found = results_of(case.launch(side.kernel, sets[0]))
    torch.cuda.synchronize()
    side.error = error_of(case, found, expected)
    if not side.error <= case.bound:
        raise Wrong(f"{side.name}: relative error {side.error:.1e}")


def launch_all(case: Case, side: Side, sets: list[Tensors], repeat: int) -> list[Tensors]:
    """Launches with every set, `repeat` times; the results of the first time."""
    kept = []
    for i in range(repeat):
        for given in sets:
            found = results_of(case.launch(side.kernel, given))
            if i == 0:
                kept.append(found)
    return kept


def batch(case: Case, side: Side, sets: list[Tensors], repeat: int, expected: Tensors) -> None:
    """A graph of launches over all sets, whose results are checked too; a note where none can be recorded."""

    try:
        side.replay, kept = record_all(partial(launch_all, case, side, sets, repeat))
        for found in kept:
            fill(found, case)
        side.replay()
        synchronize()
        for found in (kept[0], kept[-1]):
            error = error_of(case, found, expected, repeat)
            if not error <= case.bound:
                raise Wrong(f"{side.name}: relative error {error:.1e} in a graph")
        side.results = kept[0]
    except Wrong:
        raise
    except Exception as error:
        side.note = f"both launched one by one: {side.name} {short(error)}"


def synchronize() -> None:
    import torch

    torch.cuda.synchronize()


def once_ms(run: Callable[[], Any]) -> float:
    import torch

    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    run()
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end))


def measure_once(case: Case, lock: str = "") -> dict[str, Any]:
    """Both sides of a case, in this process; once both kernels are there, all waits for the lock."""
    import torch

    torch.cuda.init()
    sides = []
    for name in ("tilelang", "minitile", *VARIANTS):
        with front_end(name):
            sides.append(Side(name, load(case, name)))
    torch.manual_seed(0)
    inputs = case.inputs(sides[0].module)
    sides = [side for side in sides if does(side, partial(build, case, side, inputs))]
    with locked(lock):
        expected = tuple(x.detach() for x in case.expected(sides[0].module, inputs))
        sides = [side for side in sides if does(side, partial(prepare, case, side, [inputs], expected))]
        probe = results_of(case.launch(sides[0].kernel, inputs))
        bytes_of_set = size(inputs) + size(probe)
        del probe
        count = max(1, min(MOST_SETS, math.ceil(3 * L2_BYTES / bytes_of_set)))
        sets = copies(inputs, count)
        spent = once_ms(lambda: [case.launch(sides[0].kernel, given) for given in sets])
        repeat = max(1, min(math.ceil(BATCH_MS / spent), MOST_LAUNCHES // count))
        for side in sides:
            batch(case, side, sets, repeat, expected)
        if any(side.note for side in sides):
            for side in sides:
                side.replay = partial(launch_all, case, side, sets, repeat)
        apart = _between(case, *sides[:2])
        times = timing.time_interleaved({side.name: side.replay for side in sides}, ROUNDS, 1)
    ours, theirs = times["minitile"], times["tilelang"]
    variants = {side.name: timing.ratio(times[side.name], theirs) for side in sides[2:]}
    launches = repeat * count
    return {
        "ratio": timing.ratio(ours, theirs),
        "spread": max(timing.spread(ours), timing.spread(theirs)),
        "us": {name: statistics.median(t) / launches * 1e3 for name, t in times.items()},
        "errors": {side.name: side.error for side in sides},
        "apart": apart,
        "variants": variants,
        "launches": launches,
        "sets": count,
        "note": "; ".join(side.note for side in sides if side.note),
    }


def _between(case: Case, theirs: Side, ours: Side) -> float:
    """How far the two results are from each other as a whole: no wrong tile hides where the reference is of a part."""
    if not theirs.results or not ours.results or theirs.note or ours.note:
        return math.nan
    pairs = zip(theirs.results, ours.results, strict=True)
    worst = max(_relative(b, a) for a, b in pairs)
    if not worst <= 2 * case.bound:
        raise Wrong(f"the two results are {worst:.1e} apart")
    return worst


@contextmanager
def locked(path: str) -> Iterator[None]:
    if not path:
        yield
        return
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# Children, and the run over all cases ---------------------------------------------------------------------------------


def folder(case: str) -> Path:
    return WORK / "".join(c if c.isalnum() else "_" for c in case)


def environment(case: str) -> dict[str, str]:
    here = folder(case)
    return {
        **os.environ,
        "MINITILE_CACHE_DIR": str(here / "minitile"),
        "TILELANG_CACHE_DIR": str(here / "tilelang"),
        "TILELANG_PRINT_ON_COMPILATION": "0",
        "TQDM_DISABLE": "1",
        "CUDA_CACHE_DISABLE": "1",
        "PYTHONPATH": os.pathsep.join([str(BUILD.parent), os.environ.get("PYTHONPATH", "")]),
    }


def child(*args: str, case: str, seconds: float) -> dict[str, Any]:
    """What a process of this program finds; raises RuntimeError with what it said where it fails."""
    command = [sys.executable, __file__, *args]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=environment(case))
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{args[0]} {args[2]}: still running after {seconds:.0f} s") from None
    name = "_".join(a for a in args if a in (*SIDES, "compile", "measure"))
    (folder(case) / f"{name}.log").write_text(done.stdout + done.stderr)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raised = [line for line in said if re.match(r"[\w.]*(Error|Exception|Missing|Wrong)\b", line)]
        complaint = (raised or said or ["it says nothing"])[-1]
        raise RuntimeError(f"{name}: {complaint.strip()[:180]}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def cold(case: str, side: str) -> dict[str, Any]:
    """A cold compile in a process of its own, with an empty cache, which then serves the timing. TileLang's is not done
    again where it is known."""
    here = folder(case)
    known = here / f"{side}.json"
    if side == "tilelang" and known.exists():
        kept: dict[str, Any] = json.loads(known.read_text())
        return kept
    shutil.rmtree(here / side, ignore_errors=True)
    here.mkdir(parents=True, exist_ok=True)
    found = child("compile", case, side, case=case, seconds=COMPILE_SECONDS)
    known.write_text(json.dumps(found))
    return found


class Run:
    """Compiles cases at once, on three quarters of the cores, then measures them one after the other: while one is
    timed, the next ones load. Nothing is begun after `seconds`."""

    def __init__(self, cases: Sequence[str], seconds: float) -> None:
        WORK.mkdir(parents=True, exist_ok=True)
        self.end = time.monotonic() + seconds
        self.lock = str(WORK / "lock")
        cores = os.cpu_count() or 2
        self.compilers = ThreadPoolExecutor(max(1, cores * 3 // 4))
        self.timers = ThreadPoolExecutor(max(1, cores * 3 // 8))
        self.compiled = {
            (case, side): self.compilers.submit(self._cold, case, side) for case in cases for side in SIDES
        }
        self.measured: dict[str, Future[dict[str, Any]]] = {}
        for case in cases:
            self.measured[case] = self.timers.submit(self._measure, case)

    def _cold(self, case: str, side: str) -> dict[str, Any]:
        self._in_time()
        return cold(case, side)

    def _measure(self, case: str) -> dict[str, Any]:
        for future in self.compiled.values():
            future.exception()  # no timing while anything compiles
        for side in SIDES:
            self.compiled[case, side].result()
        self._in_time()
        return child("measure", case, self.lock, case=case, seconds=MEASURE_SECONDS)

    def _in_time(self) -> None:
        if time.monotonic() > self.end:
            raise TimeoutError("no time left")

    def found(self, case: str) -> Found:
        both = {side: self.compiled[case, side].result() for side in SIDES}
        seconds = {side: both[side]["seconds"] for side in SIDES}
        found: Found = {"tilelang compile": [seconds["tilelang"] / seconds["minitile"], 0.0]}
        seen = self.measured[case].result()
        found["tilelang"] = [seen["ratio"], seen["spread"]]
        us = seen["us"]
        words = [
            f"{us['minitile']:.1f} µs, TileLang {us['tilelang']:.1f} µs",
            f"compiled in {seconds['minitile']:.2f} s, {seconds['tilelang']:.2f} s",
            both["minitile"]["costs"],
            f"error {seen['errors']['minitile']:.1e}, {seen['errors']['tilelang']:.1e}",
            *(f"{name}: {value:.3f}" for name, value in seen["variants"].items()),
            seen["note"],
        ]
        found["note"] = "; ".join(word for word in words if word)
        return found


_run: Run | None = None


def ahead(cases: Sequence[str], seconds: float) -> None:
    """What bars.py is going to ask for."""
    global _run
    _run = Run(cases, seconds)


def measure(case: str, against: Sequence[str]) -> Found:
    if _run is None or case not in _run.measured:
        ahead([case], math.inf)
    assert _run is not None
    return _run.found(case)


def fetch(directory: Path) -> None:
    """A checkout of the examples, of COMMIT alone."""
    directory.mkdir(parents=True, exist_ok=True)

    def git(*args: str) -> None:
        subprocess.run(["git", "-C", str(directory), *args], check=True)

    git("init", "-q")
    git("sparse-checkout", "set", "examples")
    git("fetch", "-q", "--depth", "1", "--filter=blob:none", REPOSITORY, COMMIT)
    git("checkout", "-q", "FETCH_HEAD")


def main() -> int:
    what, *args = sys.argv[1:] or ["help"]
    if what == "fetch":
        fetch(EXAMPLES.parent)
    elif what == "compile":
        print(json.dumps(compile_once(BY_NAME[args[0]], args[1])))
    elif what == "measure":
        print(json.dumps(measure_once(BY_NAME[args[0]], args[1] if len(args) > 1 else "")))
    elif what == "one":
        print(json.dumps(measure(args[0], ()), indent=1, ensure_ascii=False))
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
