"""What a wrong schedule of copies looks like in the result: faults planted one by one in a GEMM for gfx950.

    python benchmarks/planted_faults.py [--size 256 256 320]

The kernel is the example's GEMM of 256x256x64 tiles with eight waves and two versions of A and B; its assembly is
right. Each fault is made by editing that text (or, for the last one, the LLVM IR) and run in the simulator, on random
matrices, under the schedules "lazy" (a copy lands when it is waited for, and never without a wait), "eager" (at once)
and "random" (anywhere between, and waves run in any order). Printed are the share of wrong values, the share that is
NaN, where they are, and which races the simulator reports.

Shared memory begins as NaN, as memory that was never written may.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

import minitile as mt
from minitile.driver.pipeline import OPTIONAL
from minitile.driver.simulate import launch_of
from minitile.runtime.sim import SimulationError, run_gcn

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from gemm import gemm_nt_bf16

TILE = {"block_M": 256, "block_N": 256, "block_K": 64, "num_stages": 2, "threads": 512}
COPY = re.compile(r"\tbuffer_load_dwordx4 .* lds\n")
READ = re.compile(r"\tds_read_b128 v\[(\d+):(\d+)\], (.*)\n")


@dataclass(frozen=True)
class Outcome:
    """Shares of the values; `rows` and `columns`: in how many something is wrong; `found`: kinds of findings."""

    wrong: float
    nan: float
    rows: int
    columns: int
    found: tuple[str, ...]

    def __str__(self) -> str:
        where = f"{self.rows} rows x {self.columns} columns" if self.wrong else ""
        return f"{self.wrong:6.1%} {self.nan:6.1%}  {where:26} {', '.join(self.found) or 'nothing'}"


def compiled(m: int, n: int, k: int, passes: Mapping[str, bool] | None = None) -> mt.CompiledKernel:
    """The right kernel, by default as plainly pipelined."""
    specs = [mt.spec(shape, "bfloat16") for shape in ((m, k), (n, k), (m, n))]
    return gemm_nt_bf16().compile(*specs, target="gfx950", passes=PLAIN if passes is None else passes, **TILE)


PLAIN = {name: False for name in ("cdna4_interleave", "cdna4_half_tiles", "cdna4_modulo") if name in OPTIONAL}
MEMORY = ("lazy", "eager", "random")


# The faults -----------------------------------------------------------------------------------------------------------


def loop_of(text: str) -> tuple[int, int]:
    """Where the steady loop begins and ends: the block that has copies and jumps back to itself."""
    for label in re.finditer(r"^(\.LBB\d+_\d+):.*\n", text, re.MULTILINE):
        jump = re.compile(rf"\ts_cbranch_\w+ {re.escape(label.group(1))}\n").search(text, label.end())
        if jump and COPY.search(text, label.end(), jump.start()):
            return label.end(), jump.start()
    raise ValueError("there is no loop of copies")


def in_loop(edit: Callable[[str], str]) -> Callable[[str], str]:
    def whole(text: str) -> str:
        begin, end = loop_of(text)
        return text[:begin] + edit(text[begin:end]) + text[end:]

    return whole


def lost(which: int) -> Callable[[str], str]:
    """One of a wave's copies is left out."""

    def edit(text: str) -> str:
        copy = list(COPY.finditer(text))[which]
        return text[: copy.start()] + text[copy.end() :]

    return edit


def doubled(which: int) -> Callable[[str], str]:
    """One goes where the one before it went: its M0 is not moved on."""

    def edit(text: str) -> str:
        before, copy = list(COPY.finditer(text))[which - 1 : which + 1]
        between = re.sub(r"\ts_\w+ m0, .*\n", "", text[before.end() : copy.start()])
        return text[: before.end()] + between + text[copy.start() :]

    return edit


def weaker(old: str, new: str) -> Callable[[str], str]:
    """The wait in front of the loop's barrier."""

    def edit(text: str) -> str:
        wait = re.compile(r"\ts_waitcnt ([^\n;]*?)(?:  ;[^\n]*)?\n(?=(?:\t\.loc[^\n]*\n)*\ts_barrier)").search(text)
        assert wait is not None
        assert old in wait.group(1)
        return text[: wait.start(1)] + wait.group(1).replace(old, new).strip() + text[wait.end(1) :]

    return edit


def no_barrier(text: str) -> str:
    return re.sub(r"\ts_barrier(?:  ;.*)?\n", "", text, count=1)


def exchanged(groups: Callable[[list[tuple[int, ...]]], list[tuple[int, int]]], first: int = 0) -> Callable[[str], str]:
    """The multiplications, from the `first`-th quarter of them on, take registers of other fragments. All reads are
    waited for before, so that it is the data that is wrong and no wait."""

    def edit(text: str) -> str:
        reads = [(int(r.group(1)), number) for number, r in enumerate(READ.finditer(text))]
        names = {}
        for a, b in groups([register for register, _ in reads]):
            names[a], names[b] = b, a
        waited = re.sub(r"s_waitcnt lgkmcnt\(\d+\)", "s_waitcnt lgkmcnt(0)", text)
        lines = waited.splitlines(keepends=True)
        products = [n for n, line in enumerate(lines) if "v_mfma" in line]
        for n in products[first * len(products) // 4 :]:
            lines[n] = re.sub(
                r"(?<=, )v\[(\d+):(\d+)\](?=, v\[\d+:\d+\],|, v\[\d+:\d+\]\n|,)",
                lambda m: f"v[{names[int(m[1])]}:{names[int(m[1])] + 3}]" if int(m[1]) in names else m[0],
                lines[n],
            )
        return "".join(lines)

    return edit


def fragments(registers: list[int]) -> dict[str, list[int]]:
    """The registers that the loop's reads fill, by what they hold, in the order in which they are read: A of kp 0, B of
    kp 0, B of kp 1, A of kp 1 (see `compiled`)."""
    a, b = len(registers) // 6, len(registers) // 3
    return {
        "a0": registers[:a],
        "b0": registers[a : a + b],
        "b1": registers[a + b : a + 2 * b],
        "a1": registers[a + 2 * b :],
    }


def kp_of_a(registers: list[int]) -> list[tuple[int, int]]:
    found = fragments(registers)
    return list(zip(found["a0"], found["a1"], strict=True))


def halves_of_b(registers: list[int]) -> list[tuple[int, int]]:
    found = fragments(registers)
    pairs = []
    for name in ("b0", "b1"):
        half = len(found[name]) // 2
        pairs += list(zip(found[name][:half], found[name][half:], strict=True))
    return pairs


FAULTS: list[tuple[str, Callable[[str], str]]] = [
    ("nothing", lambda text: text),
    ("a quarter of A's copies lost", in_loop(lost(1))),
    ("a quarter of B's copies lost", in_loop(lost(5))),
    ("a quarter of A's and of B's lost", in_loop(lambda text: lost(1)(lost(5)(text)))),
    ("a quarter of A's copies doubled, another lost", in_loop(doubled(1))),
    ("the last quarter late: vmcnt(1)", in_loop(weaker("vmcnt(0)", "vmcnt(1)"))),
    ("all copies late: no vmcnt", in_loop(weaker("vmcnt(0)", ""))),
    ("kp of A and B do not match", in_loop(exchanged(kp_of_a))),
    ("kp does not match in one quarter", in_loop(exchanged(kp_of_a, 3))),
    ("halves of B exchanged", in_loop(exchanged(halves_of_b))),
    ("the barrier removed", in_loop(no_barrier)),
    ("no lgkmcnt before the barrier", in_loop(weaker("lgkmcnt(0)", ""))),
]


def with_null_destination(llvm: str) -> str:
    """The assembly of LLVM IR whose copies name no object as their destination, but 0, after the passes of -O3."""
    import llvmlite.binding as binding

    nulls = re.sub(r"(load\.lds\(ptr addrspace\(8\) [^,]*, ptr addrspace\(3\)) [^,]*,", r"\1 null,", llvm)
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    module = binding.parse_assembly(nulls)
    machine = binding.Target.from_triple("amdgcn-amd-amdhsa").create_target_machine(cpu="gfx950", opt=3)
    options = binding.create_pipeline_tuning_options(speed_level=3)
    binding.create_pass_builder(machine, options).getModulePassManager().run(
        module, binding.create_pass_builder(machine, options)
    )
    return str(machine.emit_assembly(module))


# Running them ---------------------------------------------------------------------------------------------------------


def run(kernel: mt.CompiledKernel, text: str, m: int, n: int, k: int, schedule: str) -> Outcome:
    """One run on random matrices, with what the simulator finds."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (n, k)))
    c = np.full((m, n), 0, ml_dtypes.bfloat16)
    want = a.astype(np.float64) @ b.astype(np.float64).T
    info = kernel.launch_info
    grid, args = launch_of(info, [a, b, c])
    found: tuple[str, ...]
    try:
        report = run_gcn(text, info.entry, grid, info.block, args, schedule=schedule, seed=0)
        found = tuple(sorted({f"{f.kind} ({f.hazard})" if f.hazard else f.kind for f in report.findings}))
    except SimulationError as error:
        found = (str(error).splitlines()[0],)
    got = c.astype(np.float64)
    wrong = ~(np.abs(got - want) <= 2e-2 * np.sqrt(k))
    return Outcome(
        float(wrong.mean()),
        float(np.isnan(got).mean()),
        int(wrong.any(axis=1).sum()),
        int(wrong.any(axis=0).sum()),
        found,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, nargs=3, default=(256, 256, 320), metavar=("M", "N", "K"))
    m, n, k = parser.parse_args().size
    print(f"{'fault':46} {'memory':6}  wrong    NaN  where                      found")

    def show(name: str, kernel: mt.CompiledKernel, text: str) -> None:
        assert name == "nothing" or text != kernel.text, name
        for schedule in MEMORY:
            print(f"{name:46} {schedule:6} {run(kernel, text, m, n, k, schedule)}", flush=True)

    kernel = compiled(m, n, k)
    for name, edit in FAULTS:
        show(name, kernel, edit(kernel.text))
    if "cdna4_interleave" in OPTIONAL:  # there reads are under way where the barrier stands
        staged = compiled(m, n, k, {})
        show("no lgkmcnt before the barrier, interleaved", staged, in_loop(weaker("lgkmcnt(0)", ""))(staged.text))
    show("copies to a null destination, -O3", kernel, with_null_destination(kernel.asm["llvm"]))


if __name__ == "__main__":
    main()
