"""Where synchronisation comes from: on the golden kernels of all targets, and some that synchronise by themselves, each
fence, wait, barrier and mbarrier operation names the pass that put it there, the reason and a source line; in thread
IR, behind the line of PTX, and behind the line of AMD's assembly."""

from __future__ import annotations

import re
from functools import cache

import pytest

import minitile as mt
import minitile.language as T
from minitile.driver.pipeline import PASSES, compile_ir
from minitile.ir.core import Kernel
from minitile.ir.origin import PROGRAM, Origin, by_program
from minitile.ir.parser import parse_kernel
from minitile.ir.printer import print_kernel
from minitile.ir.rewrite import clone, remake
from minitile.tools.why import synchronisation, why
from tests.golden.test_golden import KERNELS as NVIDIA

# Instructions that are there for order alone (PTX ISA 9.7.13, 9.7.14, 9.7.9.27; "CDNA 3" ISA, 4.4).
PTX = re.compile(
    r"\s*(?:@!?%\S+ )?(?:bar\.|barrier\.|fence|membar|mbarrier\.|griddep"
    r"|cp\.async\.(?:bulk\.)?wait|wgmma\.(?:wait|fence))"
)
GCN = re.compile(r"\s+s_(?:waitcnt|barrier)\b")
SHAPE = mt.spec((128, 128), "bfloat16")
TILE = {"block_M": 64, "block_N": 32, "block_K": 64, "num_stages": 2, "threads": 128}


def amd(target, *left_out):
    from gemm import gemm_nt_bf16

    return gemm_nt_bf16().compile(*[SHAPE] * 3, target=target, passes=dict.fromkeys(left_out, False), **TILE)


@mt.kernel
def explicit(A: T.Tensor((256,), T.float32), B: T.Tensor((256,), T.float32)):
    with T.Kernel(1, threads=256):
        S = T.alloc_shared((256,), T.float32)
        i = T.get_thread_binding()
        S[i] = A[i]
        T.sync_threads()
        B[i] = S[255 - i]
        T.fence("gpu")


@mt.kernel
def shifted(A: T.Tensor((256,), T.float32), B: T.Tensor((256,), T.float32)):
    with T.Kernel(1, threads=256):
        S = T.alloc_shared((256,), T.float32)
        i = T.get_thread_binding()
        S[i] = A[i] * 2.0
        B[i] = S[255 - i] * 3.0


VECTOR = [mt.spec((256,), "float32")] * 2
CASES = {
    **NVIDIA,
    "gfx942": lambda: amd("gfx942"),
    "gfx950_interleaved": lambda: amd("gfx950", "cdna4_half_tiles"),
    "gfx950_half_tiles": lambda: amd("gfx950", "cdna4_interleave"),
    "gfx950_plain": lambda: amd("gfx950", "cdna4_interleave", "cdna4_half_tiles", "cdna4_modulo"),
    **{f"explicit_{t}": lambda t=t: explicit.compile(*VECTOR, target=t) for t in ("sm_80", "sm_90a", "gfx942")},
    **{f"shifted_{t}": lambda t=t: shifted.compile(*VECTOR, target=t) for t in ("sm_80", "gfx950")},
}
compiled = cache(lambda name: CASES[name]())


@cache
def thread_ir(name: str) -> Kernel:
    """The kernel behind all passes."""
    kernel = compiled(name)
    traced = kernel.case.trace()
    compile_ir(traced, kernel.target, kernel.passes)
    return traced


def complete(origin: Origin | None) -> bool:
    """Whether all is said: a pass or the program, a reason, and a source line."""
    if origin is None or not origin.reason:
        return False
    known = origin.pass_name in {*PASSES, PROGRAM, "clusters"}
    return known and bool(origin.before or origin.after)


@pytest.mark.parametrize("name", CASES)
def test_in_thread_ir(name: str) -> None:
    assert [(op.mnemonic, op.why) for op in thread_ir(name).walk() if op.orders and not complete(op.why)] == []


@pytest.mark.parametrize("name", CASES)
def test_in_assembly(name: str) -> None:
    """No line is left out; on AMD, waits that no line of ours asks for are said to be LLVM's."""
    text = compiled(name).text
    is_amd = compiled(name).target.vendor == "amd"
    told = {n: one.origins for one in synchronisation(text) for n in one.lines}
    for number, line in enumerate(text.splitlines(), 1):
        if (GCN if is_amd else PTX).match(line):
            assert number in told, line
            own = is_amd and "s_waitcnt" in line and line.endswith("; LLVM: registers")
            assert own or all(map(complete, told[number])), line


@pytest.mark.parametrize("name", ["gemm_sm90a", "gfx950_interleaved"])
def test_survives_text_and_copies(name: str) -> None:
    """IR text with origins reads back the same; clones and remade operations keep them."""
    kernel = thread_ir(name)
    text = print_kernel(kernel, origins=True)
    again = parse_kernel(text)
    assert print_kernel(again, origins=True) == text
    assert [str(op.why) for op in again.walk() if op.orders] == [str(op.why) for op in kernel.walk() if op.orders]
    assert "why(" not in print_kernel(kernel)
    op = next(op for op in kernel.walk() if op.orders)
    assert clone(op, {}).why is op.why
    assert remake(op, lambda v: v).why is op.why


def said(name: str) -> list[tuple[str, str, str]]:
    """Instruction, pass, reason of all that a text says."""
    found = synchronisation(compiled(name).text)
    return [(one.instruction, o.pass_name, o.reason) for one in found for o in one.origins]


def lines(name: str, instruction: str) -> list[tuple[list[int], list[int]]]:
    found = [one for one in synchronisation(compiled(name).text) if one.instruction.startswith(instruction)]
    return [([at.line for at in o.before], [at.line for at in o.after]) for one in found for o in one.origins]


def line_of(name: str, text: str) -> int:
    """The line of the kernel's file on which a text stands first."""
    kernel = compiled(name).case
    file = next(op.loc.file for op in kernel.trace().walk() if op.loc is not None)
    with open(file, encoding="utf-8") as source:
        return next(n for n, line in enumerate(source, 1) if text in line)


def test_of_a_pipeline() -> None:
    """sm_80: copies have landed before the gemm reads them, in this thread and in all; staging reuses their bytes."""
    a, b, gemm, out = (
        line_of("gemm", text) for text in ("T.copy(A[by", "T.copy(B[bx", "T.gemm(A_shared", "T.copy(C_local")
    )
    wait, *barriers = said("gemm")
    assert wait[1:] == ("software_pipeline", "RAW A_shared, B_shared")
    assert lines("gemm", "cp.async.wait") == [([a, b], [gemm])]
    assert [(by, reason) for _, by, reason in barriers] == [
        ("thread_barriers", "RAW A_shared"),
        ("thread_barriers", "WAR A_shared and staged, in the same bytes"),
        ("thread_barriers", "RAW staged"),
    ]
    assert lines("gemm", "bar.sync") == [([a], [gemm]), ([gemm], [out]), ([out], [out])]


def test_the_first_barrier_of_hopper() -> None:
    """mbarriers are initialised, and known to the copy engine and to all threads before any of the copies is issued."""
    found = said("gemm_sm90a")
    kinds = [kind for kind, _, _ in found]
    fence, barrier = kinds.index("fence.mbarrier_init.release.cluster;"), kinds.index("bar.sync 0;")
    assert found[fence][1:] == ("warp_specialize", "mbarrier init visible to the async proxy")
    assert found[barrier][1:] == ("warp_specialize", "mbarrier init visible to all threads")
    copies = [line_of("gemm_sm90a", text) for text in ("T.copy(A[by", "T.copy(B[bx")]
    assert lines("gemm_sm90a", "bar.sync 0;")[0][1] == copies


def test_slots_of_a_ring() -> None:
    """Both ends of the two barriers of a slot name both sides."""
    copies = [line_of("gemm_sm90a", text) for text in ("T.copy(A[by", "T.copy(B[bx")]
    gemm = [line_of("gemm_sm90a", "T.gemm(A_shared")]
    reasons = [reason.partition(": ")[2] for _, by, reason in said("gemm_sm90a") if by == "warp_specialize"]
    assert reasons[-4:] == ["slot free", "bytes of the slot announced", "slot full", "slot read"]
    assert lines("gemm_sm90a", "mbarrier.try_wait") == [(gemm, copies), (copies, gemm)]
    assert ("fence.proxy.async.shared::cta;", "proxy_fence", "RAW staged: generic-to-async proxy") in said("gemm_sm90a")


@pytest.mark.parametrize("name", ["explicit_sm_80", "explicit_sm_90a", "explicit_gfx942"])
def test_of_the_program(name: str) -> None:
    """What the program asks for is its own, on its own line."""
    meets, fences = line_of(name, "T.sync_threads()"), line_of(name, 'T.fence("gpu")')
    ours = {str(by_program(op.loc)) for op in thread_ir(name).walk() if op.orders}
    assert len(ours) == 2
    found = synchronisation(compiled(name).text)
    asked_for = {at.line for one in found for o in one.origins if o.pass_name == PROGRAM for at in o.before}
    assert asked_for == {meets, fences}
    assert not any(o.pass_name == "thread_barriers" for one in found for o in one.origins)


@pytest.mark.parametrize("name", ["shifted_sm_80", "shifted_gfx950"])
def test_of_threads_that_meet(name: str) -> None:
    """One store, one load: the barrier between them names both, and nothing else is there."""
    store, load = line_of(name, "S[i] = A[i] * 2.0"), line_of(name, "B[i] = S[255 - i] * 3.0")
    assert lines(name, "bar.sync" if name == "shifted_sm_80" else "s_barrier") == [([store], [load])]
    assert [(by, reason) for what, by, reason in said(name) if "bar" in what] == [("thread_barriers", "RAW S")]


def test_in_words() -> None:
    """Both source lines are quoted."""
    text = why([one for one in synchronisation(compiled("gemm").text) if one.instruction.startswith("cp.async.wait")])
    rows = [row.strip() for row in text.splitlines()]
    assert rows[1:3] == ["by      software_pipeline", "reason  RAW A_shared, B_shared (a read after a write)"]
    assert rows[3].startswith("between gemm.py:")
    assert rows[3].endswith("T.copy(A[by * block_M, k * block_K], A_shared)")
    assert rows[5].startswith("and     gemm.py:")
    assert "T.gemm(A_shared, B_shared" in rows[5]
