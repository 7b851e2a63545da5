"""Loops written by schedules as data beside the same kernels by the passes that there were before.

    python benchmarks/bars.py schedule                                  the bar; a GPU only where texts differ
    PYTHONPATH=. python benchmarks/schedule_bars.py                     which texts differ, AMD's among them; no GPU
    PYTHONPATH=. python benchmarks/schedule_bars.py --time              how long scheduling takes; no GPU

Kernels are the examples of this tree: plain, persistent, ping-pong, split-K, stream-K, grouped and fp8 GEMMs, and
attention. Both texts are compiled for the same launch; lines that only say where code comes from do not count. Where
texts are equal, so are the cubins, and the ratio is 1 by construction; so it is where the machine code that texts are
assembled to is equal. Only the others are timed, in turn. What the texts before were is kept as hashes
(results/schedule_before.json); to assemble and time what differs since, they are made anew:

    git worktree add build/before 04580774
    PYTHONPATH=build/before MINITILE_CACHE_DIR=build/cache python benchmarks/schedule_bars.py --write build/before.json
    SCHEDULE_BEFORE=build/before.json PYTHONPATH=. python benchmarks/bars.py schedule
    SCHEDULE_BEFORE=build/before.json PYTHONPATH=. python benchmarks/schedule_bars.py   compares machine code as well
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import re
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bars import Found, Row

HERE = Path(__file__).resolve().parent
BEFORE = Path(os.environ.get("SCHEDULE_BEFORE", HERE / "results" / "schedule_before.json"))
TITLE = "Loops by schedules as data, beside those before"
REMARKS = ["Times of the text before over those of today's, medians of ratios round by round; 1 where they are equal."]
B = "bfloat16"


@dataclass(frozen=True)
class Case:
    """A kernel of an example (`make`: an attribute, or the arguments of a factory), its specs and its constants."""

    module: str
    make: str
    specs: tuple[tuple[tuple[Any, ...], str], ...]
    constants: dict[str, Any] = field(default_factory=dict)
    target: str = "sm_90a"
    with_: tuple[Any, ...] | None = None

    def compiled(self) -> Any:
        import minitile as mt

        folder = str(HERE.parent / "examples")
        if folder not in sys.path:
            sys.path.append(folder)
        found = getattr(_module(self.module), self.make)
        kernel = found if self.with_ is None else found(*self.with_)
        specs = [mt.spec(shape, dtype) for shape, dtype in self.specs]
        return kernel.compile(*specs, target=self.target, **self.constants)


def _module(name: str) -> Any:
    """An example; benchmarks/ has files of the same names."""
    if f"examples_{name}" not in sys.modules:
        spec = importlib.util.spec_from_file_location(f"examples_{name}", HERE.parent / "examples" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    return sys.modules[f"examples_{name}"]


def _gemm(m: int, n: int, k: int, target: str = "sm_90a", ta: bool = False, tb: bool = True, **constants: Any) -> Case:
    import minitile.language as T

    a, b = ((k, m) if ta else (m, k)), ((n, k) if tb else (k, n))
    made = T.bfloat16, T.float32, T.bfloat16, ta, tb
    return Case("gemm", "make_gemm", ((a, B), (b, B), ((m, n), B)), constants, target, made)


def _one(
    name: str, m: int, n: int, k: int, *more: tuple[tuple[Any, ...], str], make: str = "", **constants: Any
) -> Case:
    return Case(name, make or name, (((m, k), B), ((n, k), B), ((m, n), B), *more), constants)


def _attention(s: int, d: int, target: str = "sm_90a", **constants: Any) -> Case:
    shape = 2, 16, s, d
    return Case("attention", "attention", ((shape, B),) * 4, {"D": d, **constants}, target)


def _grouped(make: str, *more: tuple[tuple[Any, ...], str], **constants: Any) -> Case:
    shapes = {
        "gemm_contiguous": ((4096, 4096), (8, 4096, 4096), (4096, 4096)),
        "gemm_masked": ((8, 1024, 4096), (8, 4096, 4096), (8, 1024, 4096)),
        "gemm_behind_each_other": ((4096, 4096), (8, 4096, 4096), (4096, 4096)),
    }[make]
    return Case("gemm_grouped", make, (*((shape, B) for shape in shapes), *more), constants)


def _fp8(**constants: Any) -> Case:
    e4m3, f32 = "float8_e4m3fn", "float32"
    rows = 4096 if constants.get("per_row") else 1
    specs = (((4096, 4096), e4m3), ((4096, 4096), e4m3), ((rows,), f32), ((rows,), f32), ((4096, 4096), B))
    return Case("gemm_fp8", "gemm_fp8", specs, constants)


def _blocks(**constants: Any) -> Case:
    e4m3, f32 = "float8_e4m3fn", "float32"
    specs = (((4096, 4096), e4m3), ((4096, 4096), e4m3), ((32, 4096), f32), ((32, 32), f32), ((4096, 4096), B))
    return Case("gemm_fp8", "gemm_fp8_blocks", specs, constants)


BIG = {"block_K": 64, "num_stages": 4, "threads": 256}
PARTS = ((4, 1024, 1024), "float32"), ((256,), "int32")
CASES: dict[str, Case] = {
    "sm_80 gemm nt 128x128x32": _gemm(4096, 4096, 4096, "sm_80", panel=8),
    "sm_80 gemm nt 128x128x64": _gemm(4096, 4096, 4096, "sm_80", block_K=64, threads=256),
    "sm_80 gemm nt two stages": _gemm(4096, 4096, 4096, "sm_80", num_stages=2),
    "sm_80 gemm nt four stages": _gemm(4096, 4096, 4096, "sm_80", num_stages=4),
    "sm_80 gemm nn 128x256x32": _gemm(4096, 4096, 4096, "sm_80", tb=False, block_N=256, threads=256),
    "sm_80 gemm tn 64x64x32": _gemm(4096, 4096, 4096, "sm_80", ta=True, tb=False, block_M=64, block_N=64),
    "sm_80 gemm of odd sizes": _gemm(1000, 1001, 999, "sm_80"),
    "sm_80 attention d64": _attention(2048, 64, "sm_80", threads=128, block_M=64),
    "sm_80 attention d128 causal": _attention(2048, 128, "sm_80", causal=True, block_N=64),
    "plain 128x128x64": _gemm(4096, 4096, 4096, **{**BIG, "threads": 128}),
    "plain 128x256x64": _gemm(4096, 4096, 4096, block_N=256, panel=8, **BIG),
    "plain 256x128x64": _gemm(4096, 4096, 4096, block_M=256, panel=8, **BIG),
    "plain nn 128x128x64": _gemm(4096, 4096, 4096, tb=False, **BIG),
    "plain tn 128x128x64": _gemm(4096, 4096, 4096, ta=True, tb=False, **BIG),
    "plain 64x64x64": _gemm(1024, 1024, 4096, block_M=64, block_N=64, block_K=64, num_stages=4),
    "plain of odd sizes": _gemm(1000, 1001, 999, block_K=64),
    "persistent 128x128x64": _one("gemm_persistent", 4096, 4096, 4096, teams=1, **BIG),
    "persistent 128x256x64": _one("gemm_persistent", 4096, 4096, 4096, teams=1, block_N=256, **BIG),
    "ping-pong 128x128x64": _one("gemm_persistent", 4096, 4096, 4096, **BIG),
    "ping-pong 64x256x64": _one("gemm_persistent", 4096, 4096, 4096, block_M=64, block_N=256, **BIG),
    "split-K 4": _one("gemm_split_k", 1024, 1024, 8192, *PARTS),
    "split-K 4 shared": _one("gemm_split_k", 1024, 1024, 8192, *PARTS, share=True),
    "stream-K": _one("gemm_stream_k", 2048, 2048, 4096, ((132, 128, 128), "float32"), ((256,), "int32")),
    "cluster-K 2": _one("gemm_cluster_k", 1024, 1024, 8192),
    "grouped contiguous": _grouped("gemm_contiguous", ((4096,), "int32")),
    "grouped masked": _grouped("gemm_masked", ((8,), "int32")),
    "grouped, persistent": _grouped("gemm_behind_each_other", ((8,), "int32")),
    "fp8": _fp8(),
    "fp8 per row, ping-pong": _fp8(per_row=True, teams=2),
    "fp8 promoted": _fp8(promote=True),
    "fp8 promoted, overlapped": _fp8(promote=True, overlap=True),
    "fp8 blocks": _blocks(),
    "fp8 blocks, overlapped": _blocks(overlap=True),
    "attention d128": _attention(4096, 128),
    "attention d128 causal": _attention(4096, 128, causal=True),
    "attention d64": _attention(4096, 64),
    "attention d128, three stages": _attention(4096, 128, num_stages=3, block_N=64),
}
AMD: dict[str, Case] = {
    f"{target} {name}": case
    for target in ("gfx942", "gfx950")
    for name, case in {
        "gemm 128x128x32": _gemm(4096, 4096, 4096, target, threads=256),
        "gemm two stages": _gemm(4096, 4096, 4096, target, num_stages=2, threads=256),
        "gemm 128x128x64": _gemm(4096, 4096, 4096, target, block_K=64, num_stages=2, threads=256),
        "gemm 256x256x64": _gemm(
            4096, 4096, 4096, target, block_M=256, block_N=256, block_K=64 if target == "gfx950" else 32, num_stages=2,
            threads=512,
        ),
        "gemm nn": _gemm(4096, 4096, 4096, target, tb=False, block_K=64, num_stages=2, threads=256),
        "gemm 192x128x64": _gemm(4608, 4096, 4096, target, block_M=192, block_K=64, num_stages=2, threads=256),
        "gemm of odd sizes": _gemm(1000, 1001, 999, target, threads=256),
        "attention d64": _attention(2048, 64, target, num_stages=2, block_N=64),
        "attention d128": _attention(2048, 128, target, num_stages=1, block_N=64),
    }.items()
}  # fmt: skip


def bare(text: str) -> str:
    """A text without what only says where it comes from."""
    lines = (re.sub(r"\s*(//|;|!dbg).*$", "", line) if "$" not in line else line for line in text.splitlines())
    kept = (line.rstrip() for line in lines if not re.match(r"\s*\.(loc|file)\b|\s*//|\s*;|!\d+ =", line))
    return "\n".join(line for line in kept if line)


def code(text: str) -> list[bytes]:
    """The machine code of a PTX text: the sections .text of its cubin, which say nothing of names and source lines."""
    from minitile.backends.nvidia.assemble import assemble

    match = re.search(r"^\.target (\w+)", text, re.MULTILINE)
    assert match is not None
    cubin = assemble(text, match[1]).cubin
    table, entry, count, names = (*struct.unpack_from("<Q", cubin, 0x28), *struct.unpack_from("<3H", cubin, 0x3A))
    sections = [struct.unpack_from("<IIQQQQ", cubin, table + n * entry) for n in range(count)]
    named = [(cubin[sections[names][4] + s[0] :].split(b"\0", 1)[0], cubin[s[4] : s[4] + s[5]]) for s in sections]
    return [body for name, body in named if name.startswith(b".text")]


def texts(cases: dict[str, Case]) -> dict[str, dict[str, str]]:
    """Of each case the text, its hash, and the launch as text; "error" where it does not compile."""
    found = {}
    for name, case in cases.items():
        try:
            kernel = case.compiled()
            text = kernel.asm["ptx"] if "ptx" in kernel.asm else kernel.asm["gcn"]
            mark = hashlib.sha256(bare(text).encode()).hexdigest()[:16]
            found[name] = {"text": text, "hash": mark, "info": repr(kernel.launch_info)}
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
        print(f"{name:32} {found[name].get('hash', found[name].get('error'))}", flush=True)
    return found


CELLS = tuple((name, "before") for name in CASES)
ROWS = [Row("schedule", "GEMMs and attention, old text over new", 1.0, 1.0, CELLS, least=0.985)]


def measure(name: str, against: Sequence[str]) -> Found:
    """One case: 1 where the texts are equal, else the ratio of times. Raises what keeps them from running."""
    old = json.loads(BEFORE.read_text(encoding="utf-8"))[name]
    kernel = CASES[name].compiled()
    text = kernel.asm["ptx"]
    if hashlib.sha256(bare(text).encode()).hexdigest()[:16] == old["hash"]:
        return {"before": [1.0, 0.0], "note": f"equal texts, {old['hash']}"}
    if "text" not in old:
        raise ValueError("texts differ, and the one before is not at hand: SCHEDULE_BEFORE")
    if repr(kernel.launch_info) != old["info"]:
        raise ValueError("the launches differ")
    if code(text) == code(old["text"]):
        return {"before": [1.0, 0.0], "note": "texts differ, machine code is equal"}
    import timing
    import torch

    from minitile.runtime.cuda import Launcher

    arrays = []
    for shape, dtype in CASES[name].specs:
        kind = getattr(torch, dtype)
        full = torch.zeros(shape, device="cuda", dtype=kind) if dtype == "int32" else torch.randn(shape, device="cuda")
        arrays.append(full.to(kind))
    runs = {
        which: Launcher(kernel.launch_info, lambda _, ptx=ptx: ptx.encode()).prepare(*arrays)
        for which, ptx in (("new", text), ("old", old["text"]))
    }
    times = timing.time_interleaved(runs)
    return {"before": [timing.ratio(times["new"], times["old"]), timing.spread(times["new"])], "note": "texts differ"}


SCHEDULING = (
    "check_schedule", "skew", "software_pipeline", "spread_copies", "prefetch_fragments", "cdna4_half_tiles",
    "cdna4_interleave", "cdna4_modulo",
)  # fmt: skip


def times(cases: dict[str, Case]) -> None:
    """Milliseconds of processor time that scheduling takes in each case, all of its loops together, and all passes: the
    least of three compilations."""
    from minitile.driver import pipeline

    os.environ["MINITILE_CACHE"] = os.environ["MINITILE_VERIFY"] = "0"
    spent: dict[str, float] = {}

    def timed(name: str, run: Any) -> Any:
        def measured(kernel: Any, context: Any) -> None:
            start = time.process_time()
            run(kernel, context)
            spent[name] = spent.get(name, 0.0) + (time.process_time() - start) * 1e3

        return measured

    def run_passes(kernel: Any, passes: Any, context: Any, **more: Any) -> None:
        before(kernel, [(name, timed(name, run)) for name, run in passes], context, **more)

    before, pipeline.run_passes = pipeline.run_passes, run_passes
    least = {}
    cases |= {
        "gfx950 gemm 192x192x64, searched": _gemm(
            4608, 4608, 4096, "gfx950", block_M=192, block_N=192, block_K=64, num_stages=2, threads=256
        )
    }
    for name, case in cases.items():
        runs = []
        for _ in range(3):
            spent.clear()
            case.compiled()
            runs.append((sum(spent.get(each, 0.0) for each in SCHEDULING), sum(spent.values())))
        least[name] = min(runs)[0]
        print(f"{name:32} {least[name]:6.2f} ms of {min(runs)[1]:8.2f} ms", flush=True)
    most = max(least, key=least.__getitem__)
    print(f"at most {least[most]:.2f} ms, in {most}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", default="", help="the texts, as JSON")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--time", action="store_true", help="how long scheduling takes, in each case")
    options = parser.parse_args()
    cases = {name: case for name, case in {**CASES, **AMD}.items() if options.only in name}
    if options.time:
        times(cases)
        return
    found = texts(cases)
    if options.write:
        Path(options.write).parent.mkdir(parents=True, exist_ok=True)
        Path(options.write).write_text(json.dumps(found, indent=1), encoding="utf-8")
    else:
        old = json.loads(BEFORE.read_text(encoding="utf-8"))
        same = [name for name, it in found.items() if it.get("hash") == old.get(name, {}).get("hash") and "hash" in it]
        others = {name: old[name].get("text", "") for name in found if name not in same}
        print(f"{len(same)} of {len(found)} texts are equal; not: {', '.join(others) or '–'}")
        for name, text in others.items():
            if ".target sm_" in text and "text" in found[name]:  # PTX, and both at hand
                print(f"{name}: machine code {'equal' if code(text) == code(found[name]['text']) else 'differs'}")


if __name__ == "__main__":
    main()
