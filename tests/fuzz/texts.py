"""`make fuzz-text`: hostile and broken texts until as many mutants as wanted have been tried.

    python -m tests.fuzz.texts --mutants 20000            # goes on where it stopped; the state is in build/fuzz
    python -m tests.fuzz.texts --only ptx:1234            # one of them again: its text and what became of it

    ir          IR text, read and printed            llvm      LLVM IR, to AMD's assembly in the worker
    ir_verify   the same, verified                   cache     damaged entries of the on-disk cache
    ir_passes   run through passes                   cli       arguments of the command line
    ptx, gcn    assembly, in the simulator; half of them made up from the tables of forms

A mutant follows from its kind and seed alone. It may be accepted or refused with a MinitileError or SimulationError;
any other exception, more than 10 seconds, more than 1 GB on top of what an idle process has, and the end of the process
are failures, written to build/fuzz/texts with the shortest text of their kind.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import io
import json
import multiprocessing
import os
import random
import re
import resource
import shlex
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType

import numpy as np

from minitile.ir.diagnostics import InternalError, MinitileError
from minitile.ir.printer import print_kernel
from minitile.runtime.sim import SimulationError, run_gcn, run_ptx
from minitile.runtime.sim.core import errors
from minitile.target import parse_target
from minitile.tools import opt
from minitile.tools.opt import optimize
from tests.fuzz import mutants

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / "build" / "fuzz" / "texts.json"
REPORTS = ROOT / "build" / "fuzz" / "texts"
SECONDS = 10  # that one mutant may take
MEMORY = 1 << 30  # bytes that a mutant may take on top of an idle process
CHUNK = 100  # mutants of a kind before the next kind's turn
SMALL = """import minitile as mt
import minitile.language as T


@mt.kernel
def small(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32)):
    with T.Kernel(T.ceildiv(A.shape[0], 64), threads=64) as bx:
        for i in T.Parallel(64):
            B[bx * 64 + i] = A[bx * 64 + i] * 2.0
"""


class Hang(BaseException):
    """A mutant has taken longer than SECONDS. No Exception, so that nothing on the way takes it for its own."""


def _hangs(_: int, __: FrameType | None) -> None:
    raise Hang


# -- the texts that mutants are made of ------------------------------------------------------------------------------


@functools.cache
def corpus(kind: str) -> tuple[list[str], list[str]]:
    """(texts, words in them) of a kind."""
    if kind.startswith("ir"):
        texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests/filetests").rglob("*.mt"))]
        texts = [text.partition("\n// ----")[0] for text in texts if len(text) < 6000]
    elif kind == "ptx":
        texts = [path.read_text() for path in sorted((ROOT / "tests/golden").glob("*.ptx"))]
        texts = [text for text in texts if len(text) < 40_000] + [_compiled(t, "ptx") for t in ("sm_80", "sm_90a")]
    elif kind == "gcn":
        texts = [_compiled(target, "gcn") for target in ("gfx942", "gfx950")]
    elif kind == "llvm":
        paths = sorted((ROOT / "tests/backends/amd/golden").glob("*.ll"))
        texts = [t for t in (path.read_text() for path in paths) if len(t) < 40_000] + [_compiled("gfx942", "llvm")]
    else:
        texts = COMMANDS
    words = sorted({word for text in texts for word in re.findall(r"[\w%@.$:]+|[^\w\s]", text)})
    return texts, words


def _kernel(folder: str) -> object:
    path = Path(folder) / "small.py"
    path.write_text(SMALL)
    found = importlib.util.spec_from_file_location("small", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.small


def _compiled(target: str, what: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return str(_kernel(folder).compile(target=target).asm[what])  # type: ignore[attr-defined]


# -- what is done with one ---------------------------------------------------------------------------------------------


def text_of(kind: str, seed: int) -> str:
    """The mutant."""
    rng = random.Random(f"{kind}:{seed}")
    if kind in ("ptx", "gcn") and rng.random() < 0.6:
        text = (mutants.ptx_program if kind == "ptx" else mutants.gcn_program)(rng)
        return text if rng.random() < 0.7 else mutants.mutant(rng, text, corpus(kind)[1])
    texts, words = corpus("ir" if kind.startswith("ir") else kind)
    text = mutants.mutant(rng, rng.choice(texts), words)
    if kind == "ir_passes":
        passes = list(_passes())
        if rng.random() < 0.5 or "// pass" not in text:
            names = ", ".join(rng.sample(passes, rng.randint(1, 4)))
            return f"// pass: {names}\n// target: {rng.choice(_TARGETS)}\n{text}"
    return text


_TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")


@functools.cache
def _passes() -> tuple[str, ...]:
    from minitile.driver.pipeline import PASSES

    return tuple(PASSES)


def _ir(text: str, _: random.Random) -> None:
    print_kernel(optimize(re.sub(r"(?m)^//\s*pass.*$", "", text)))


def _ir_verify(text: str, _: random.Random) -> None:
    print_kernel(optimize(re.sub(r"(?m)^//\s*pass.*$", "", text), verify=True))


def _ir_passes(text: str, rng: random.Random) -> None:
    print_kernel(optimize(text, verify=rng.random() < 0.5))


def _ptx(text: str, rng: random.Random) -> None:
    entry = re.search(r"\.entry\s+([\w$]+)", text)
    names = re.findall(r"\.param\s+\.(u64|u32|s32|f32)", text.partition(")")[0])
    sizes = re.search(r"\.reqntid\s+(\d{1,4})", text)
    args = [np.zeros(4096, np.float32) if each == "u64" else 5 for each in names]
    block = min(int(sizes[1]), 1024) if sizes else 32
    schedule = rng.choice(("lazy", "eager", "random"))
    run_ptx(text, entry[1] if entry else "k", (1,), (max(block, 1),), args, schedule=schedule, seed=1)


def _gcn(text: str, rng: random.Random) -> None:
    entry = re.search(r"\.amdhsa_kernel\s+(\w+)", text)
    count = max(text.count(".value_kind"), text.count("global_buffer"))
    kinds = re.findall(r"\.value_kind:\s*(\w+)", text)
    args = [np.zeros(4096, np.float32) if each == "global_buffer" else 5 for each in kinds if "hidden" not in each]
    schedule = rng.choice(("lazy", "eager", "random"))
    run_gcn(text, entry[1] if entry else "k", (1,), (64,), args[:count], schedule=schedule, seed=1)


def _llvm(text: str, rng: random.Random) -> None:
    from minitile.backends.amd.verify.scheduling_barrier_retry import generate_in_order

    with contextlib.suppress(InternalError):  # of a text that only we write: a fault of ours
        generate_in_order(text, parse_target(rng.choice(("gfx942", "gfx950"))))


def _cache(text: str, rng: random.Random) -> None:
    """The text is ignored: an entry's file is damaged, swapped or cut, and the kernel compiled again."""
    folder, wanted, files = _cached()
    path, data = rng.choice(files)
    other = rng.choice(files)[1]
    at = rng.randrange(len(data))
    damaged = rng.choice(
        (
            data[:at],
            data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :],
            other,
            data[:at] + other[at:],
            data + data[:at],
            b"",
            data[:at] + data[at + rng.randrange(100) :],
            rng.randbytes(rng.randrange(2000)),
        )
    )
    path.write_bytes(damaged)
    os.environ["MINITILE_CACHE_DIR"] = str(folder / "cache")
    try:
        for target, asm in wanted.items():
            found = _kernel(str(folder)).compile(target=target).asm  # type: ignore[attr-defined]
            if dict(found) != asm:
                raise AssertionError(f"a damaged cache gives another {target} text")
    finally:
        for each, good in files:
            each.parent.mkdir(parents=True, exist_ok=True)
            each.write_bytes(good)


@functools.cache
def _cached() -> tuple[Path, dict[str, dict[str, str]], list[tuple[Path, bytes]]]:
    """A cache of two targets: its folder, what the kernel compiles to, its files."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-cache-"))
    os.environ["MINITILE_CACHE_DIR"] = str(folder / "cache")
    wanted = {t: dict(_kernel(str(folder)).compile(target=t).asm) for t in ("gfx942", "gfx950")}  # type: ignore[attr-defined]
    files = [(path, path.read_bytes()) for path in sorted((folder / "cache").rglob("*")) if path.is_file()]
    return folder, wanted, files or [(folder / "cache" / "ab" / "none.mt", b"none")]


COMMANDS = [
    "compile KERNEL --arg f32[1024] --arg f32[1024] --target sm_80 --emit ptx",
    "compile KERNEL --arg f32[N] --arg f32[N] --target gfx942 --emit launch --without simplify",
    "compile KERNEL:small --explain --why --target sm_90a --set threads=64",
    "explain KERNEL:small --target sm_80 --line 7",
    "explain PTX --line 3",
    "run KERNEL --arg f32[128] --arg f32[128]=0 --on simulator --seed 3 --schedule random",
    "run KERNEL --arg f32[64]=0.5 --arg f32[64]=1 --on simulator --no-check --rounds 3",
    "check KERNEL --args f32[64] f32[64]=0 --redundant --schedule eager",
    "check PTX --args bf16[256,96]@64,32/64 f32[64]=0 --grid 1,1 --block 64 --seed 7 --dynamic-shared 16",
    "check PTX --arg f32[64] --arg i32=5 --block 64 --entry small --cluster 1,1,1",
    "opt IR --pass simplify --pass cse --verify --target sm_80 --locations",
    "cache show",
    "bench nothing --rounds 2",
]


def _cli(text: str, _: random.Random) -> None:
    from minitile.tools.cli import main

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "small.py").write_text(SMALL)
        (Path(folder) / "small.ptx").write_text(corpus("ptx")[0][-1])
        (Path(folder) / "small.mt").write_text(corpus("ir")[0][0])
        text = text.replace("KERNEL", f"{folder}/small.py").replace("PTX", f"{folder}/small.ptx")
        text = text.replace("IR ", f"{folder}/small.mt ")
        try:
            words = shlex.split(text.replace("\x00", ""))
        except ValueError:
            words = text.split()
        words = [word for word in words if word not in ("-o", "--output", "-", "doctor") and not word.startswith("-o")]
        os.environ["MINITILE_CACHE_DIR"] = f"{folder}/cache"
        here = os.getcwd()
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
                main(words)
            if "this is a bug in minitile" in said.getvalue():
                raise AssertionError(said.getvalue())
        except SystemExit as end:
            if end.code not in (0, 1, 2):
                raise AssertionError(f"exit status {end.code}: {said.getvalue()}") from None
        finally:
            os.chdir(here)


KINDS: dict[str, Callable[[str, random.Random], None]] = {
    "ir": _ir,
    "ir_verify": _ir_verify,
    "ir_passes": _ir_passes,
    "ptx": _ptx,
    "gcn": _gcn,
    "llvm": _llvm,
    "cache": _cache,
    "cli": _cli,
}


def one(kind: str, seed: int) -> tuple[str, str]:
    """(outcome, report): accepted, refused; or else a failure."""
    text = "" if kind == "cache" else text_of(kind, seed)
    rng = random.Random(f"how {kind}:{seed}")
    signal.signal(signal.SIGPROF, _hangs)
    signal.signal(signal.SIGALRM, _hangs)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of processor time: other processes do not count
    signal.alarm(6 * SECONDS)
    try:
        KINDS[kind](text, rng)
    except (MinitileError, SimulationError) as error:
        if isinstance(error, InternalError):
            return "internal", f"{error}"
        return "refused", ""
    except Hang:
        return "hang", traceback.format_exc()
    except MemoryError:
        return "memory", traceback.format_exc()
    except Exception:
        return "broken", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    return "accepted", ""


# -- many of them ------------------------------------------------------------------------------------------------------


def _work(pipe: Connection, kind: str, seeds: list[int], limit: bool) -> None:
    """In a process of its own: (seed, outcome, report) for each. The simulator's last resort is off: what it would make
    a SimulationError is to be seen as it is."""
    errors.LAST_RESORT = opt.LAST_RESORT = False
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        if kind != "cache":
            corpus("ir" if kind.startswith("ir") else kind)
        if kind in ("llvm", "cache", "cli"):  # imports, and the worker's start
            one(kind, 0)
        if limit:
            size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        for seed in seeds:
            pipe.send((seed, "begun", ""))
            pipe.send((seed, *one(kind, seed)))
    pipe.close()


def chunk(kind: str, seeds: list[int], limit: bool = True) -> list[tuple[int, str, str]]:
    """What became of these mutants, also of one that took its process along."""
    found: list[tuple[int, str, str]] = []
    while seeds:
        ours, theirs = multiprocessing.get_context("fork").Pipe(False)
        worker = multiprocessing.get_context("fork").Process(target=_work, args=(theirs, kind, seeds, limit))
        worker.start()
        theirs.close()
        begun = seeds[0]
        try:
            while True:
                if not ours.poll(20 * SECONDS):
                    worker.kill()
                    found.append((begun, "hang", "no exception reaches it: the process was killed"))
                    break
                seed, outcome, report = ours.recv()
                begun = seed
                if outcome != "begun":
                    found.append((seed, outcome, report))
        except EOFError:
            worker.join()
            if worker.exitcode:
                found.append((begun, "died", f"exit code {worker.exitcode}"))
        worker.join()
        done = {seed for seed, _, _ in found}
        seeds = [seed for seed in seeds if seed not in done]
    return found


def where(report: str) -> str:
    """What failures have in common: the exception and the last place in minitile."""
    places = re.findall(r'File "[^"]*/(minitile/[^"]*)", line (\d+), in (\S+)', report)
    last = report.strip().splitlines()[-1] if report.strip() else ""
    return f"{':'.join(places[-1]) if places else ''} {last.partition(':')[0]}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.texts", description=__doc__.partition("\n")[0])
    parser.add_argument("--mutants", type=int, default=20_000, help="in all, with those of earlier runs")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--seed", type=int, default=0, help="of the first mutant of a new state")
    parser.add_argument("--fresh", action="store_true", help="forget the state of earlier runs")
    parser.add_argument("--only", metavar="KIND:SEED", help="one mutant again, in this process")
    args = parser.parse_args()
    if args.only:
        kind, _, seed = args.only.partition(":")
        print(text_of(kind, int(seed)) if kind != "cache" else "")
        print(*one(kind, int(seed)))
        return 0
    state = {"next": {}, "counts": {}, "failures": {}}
    if STATE.is_file() and not args.fresh:
        state = json.loads(STATE.read_text())
    counts = Counter(state["counts"])
    REPORTS.mkdir(parents=True, exist_ok=True)
    while sum(counts.values()) < args.mutants:
        for kind in args.kinds:
            first = state["next"].get(kind, args.seed)
            share = CHUNK // 5 if kind in ("llvm", "cache", "cli") else CHUNK
            for seed, outcome, report in chunk(kind, list(range(first, first + share))):
                counts[f"{kind} {outcome}"] += 1
                if outcome not in ("accepted", "refused"):
                    _record(state["failures"], kind, seed, outcome, report)
            state["next"][kind] = first + share
            state["counts"] = dict(counts)
            STATE.write_text(json.dumps(state, indent=1))
        print(", ".join(f"{name}: {n}" for name, n in sorted(counts.items())), flush=True)
    for name, seeds in state["failures"].items():
        print(f"FAILURE {name}: {' '.join(map(str, seeds[:5]))}")
    return 1 if state["failures"] else 0


def _record(failures: dict[str, list[str]], kind: str, seed: int, outcome: str, report: str) -> None:
    name = f"{outcome} {kind} {where(report)}"
    if name not in failures:
        print(f"FAILURE {name}: {kind}:{seed}", flush=True)
    failures.setdefault(name, []).append(f"{kind}:{seed}")
    text = text_of(kind, seed) if kind != "cache" else ""
    (REPORTS / f"{kind}-{seed}.txt").write_text(f"{name}\n{report}\n{text}", encoding="utf-8", errors="replace")


if __name__ == "__main__":
    sys.exit(main())
