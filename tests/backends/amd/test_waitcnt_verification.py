"""The waits verified on LLVM's assembly: what is weaker or in another order is refused, what is stronger noted;
what is compiled instead."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
from minitile.backends.amd.verify.assembly import read
from minitile.backends.amd.verify.scheduling_barrier_retry import awaited, pinned
from minitile.backends.amd.verify.waitcnt_verification import (
    BARRIER,
    COPY,
    END,
    Wait,
    awaited_at_once,
    decoded,
    graph_of_assembly,
    graph_of_ir,
    verify_waits,
)
from minitile.ir.diagnostics import InternalError
from tests.comments import bare

pytest.importorskip("llvmlite")
sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

from tests.backends.amd.test_dma import K, M, N, compiled

PIN = "call void @llvm.amdgcn.sched.barrier(i32 0)"

IR = """define amdgpu_kernel void @k() {
entry:
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(…)
  br label %for.1
for.1:
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(…)
  call void @llvm.amdgcn.s.waitcnt(i32 3953)
  call void @llvm.amdgcn.s.barrier()
  br i1 %more, label %for.1, label %end.2
end.2:
  call void @llvm.amdgcn.s.waitcnt(i32 3952)
  ret void
}
"""
COPIES = "\tbuffer_load_dwordx4 v1, s[0:3], 0 offen lds\n"
LOOP = COPIES + "\ts_waitcnt vmcnt(1)\n\ts_barrier\n\ts_cbranch_scc1 .LBB0_1\n"
TEXT = f"k:\n{COPIES}.LBB0_1:\n{LOOP}\ts_waitcnt vmcnt(0)\n\ts_endpgm\n.Lfunc_end0:\n"


def test_what_was_asked():
    graph = graph_of_ir(IR)
    assert [event for event in graph.event if event is not None] == [
        *(COPY, COPY, Wait(vm=1), BARRIER, Wait(vm=0), END),
    ]
    assert decoded(0xC07F) == Wait(lgkm=0)
    assert decoded(0xF70) == Wait(vm=0)
    made = graph_of_assembly(read(TEXT))
    assert [event for event in made.event if event is not None] == [e for e in graph.event if e is not None]
    assert verify_waits(IR, TEXT) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("vmcnt(1)\n", "vmcnt(2)\n", r"line 6 has barrier, where vmcnt\(1\) was to come"),
        ("\ts_waitcnt vmcnt(1)\n\ts_barrier\n", "\ts_barrier\n\ts_waitcnt vmcnt(1)\n", "line 5 has barrier"),
        ("\ts_waitcnt vmcnt(1)\n", "", "has barrier"),
        ("\ts_barrier\n", "", "has (copy|end), where barrier"),
        (LOOP, LOOP.replace(COPIES, "").replace("\ts_barrier\n", f"{COPIES}\ts_barrier\n"), "line 4 has copy|barrier"),
        (f".LBB0_1:\n{COPIES}", ".LBB0_1:\n", "has barrier, where copy was to come"),
        ("\ts_waitcnt vmcnt(0)\n", "", r"line 8 has end, where .*vmcnt\(0\)"),
        ("vmcnt(0)", "lgkmcnt(0)", "has end"),
    ],
)
def test_what_is_weaker_or_in_another_order(old, new, said):
    changed = TEXT.replace(old, new, 1)
    assert changed != TEXT
    with pytest.raises(InternalError, match=said):
        verify_waits(IR, changed)


def test_another_path():
    """Of two ways to the barrier, one without the wait."""
    around = TEXT.replace("\ts_waitcnt vmcnt(1)\n", "\ts_cbranch_scc0 .LBB0_9\n\ts_waitcnt vmcnt(1)\n.LBB0_9:\n")
    with pytest.raises(InternalError, match=r"has barrier, where vmcnt\(1\)"):
        verify_waits(IR, around)


@pytest.mark.parametrize(
    ("old", "new", "noted"),
    [
        ("vmcnt(1)", "vmcnt(0)", ["vmcnt(0) in a loop of asynchronous copies, where the schedule asks for vmcnt(1)"]),
        ("\ts_barrier\n", "\ts_barrier\n\ts_waitcnt vmcnt(0)\n", ["vmcnt(0) in a loop"]),
        ("\ts_barrier\n", "\ts_barrier\n\ts_waitcnt lgkmcnt(0)\n", []),
        ("k:\n", "k:\n\ts_waitcnt vmcnt(0)\n", []),
        ("vmcnt(1)", "vmcnt(1) lgkmcnt(0)", []),
    ],
)
def test_what_is_stronger(old, new, noted):
    """It is right, and noted where it costs: in a loop of copies."""
    found = verify_waits(IR, TEXT.replace(old, new, 1))
    assert len(found) == len(noted)
    assert all(part in text for part, text in zip(noted, found, strict=True))


def test_one_wave_needs_no_barriers():
    one = IR + 'attributes #0 = { "amdgpu-flat-work-group-size"="64,64" }\n'
    assert verify_waits(one, TEXT.replace("\ts_barrier\n", "")) == []
    with pytest.raises(InternalError):
        verify_waits(one.replace("64,64", "128,128"), TEXT.replace("\ts_barrier\n", ""))


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_of_a_gemm(stages):
    kernel = compiled(stages)
    llvm, text = kernel.asm["llvm"], bare(kernel.text)
    assert verify_waits(llvm, text) == []
    count = 4 * (stages - 2)
    wait = re.search(rf"\ts_waitcnt vmcnt\({count}\)[^\n]*\n(?:\s*\.loc[^\n]*\n)*\ts_barrier\n", text).group(0)
    for weaker in (
        wait.replace(f"vmcnt({count})", f"vmcnt({count + 1})"),
        wait.replace("\ts_barrier\n", ""),
        wait[wait.index("\n") + 1 :],
    ):
        with pytest.raises(InternalError, match="does not keep the schedule"):
            verify_waits(llvm, text.replace(wait, weaker))
    if count:
        (note,) = verify_waits(llvm, text.replace(wait, wait.replace(f"vmcnt({count})", f"vmcnt({count - 1})")))
        assert f"asks for vmcnt({count})" in note


FAULTS = {  # of an LLVM: what it makes of its own assembly
    "a weaker wait": lambda text: text.replace(b"vmcnt(4)", b"vmcnt(5)"),
    "a lost barrier": lambda text: text.replace(b"\ts_barrier\n", b"", 1),
    "an LDS write sunk across a barrier": lambda text: text.replace(
        b"\ts_barrier\n", b"\tds_write_b32 v0, v1\n\ts_barrier\n", 1
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_compiled_again(fault, monkeypatch):
    """An LLVM that moves what scheduling barriers hold: the second time is right, and a note says why."""
    asked = broken(FAULTS[fault], 1, monkeypatch)
    kernel = compiled(3)
    assert len(asked) == 2
    assert kernel.asm["llvm"] == asked[1] == pinned(asked[0])
    plain, again = ([line for line in text.splitlines() if PIN not in line] for text in asked)
    assert plain == again
    assert sum("scheduling barriers: LLVM" in note for note in kernel.notes) == 1
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((M, K), (N, K)))
    c = np.full((M, N), np.nan, np.float32)
    kernel.simulate(a, b, c, schedule="lazy")
    assert np.abs(c - a.astype(np.float64) @ b.astype(np.float64).T).max() < 1e-3


def broken(fault, times, monkeypatch):
    """An LLVM that makes the first compilations wrong; what it is asked."""
    from minitile.backends.amd.assemble import codegen

    monkeypatch.setenv("MINITILE_CACHE", "0")
    right, asked = codegen.ask, []

    def moves(llvm, cpu, emit):
        asked.append(llvm)
        text = right(llvm, cpu, emit)
        return fault(text) if len(asked) <= times else text

    monkeypatch.setattr(codegen, "ask", moves)
    return asked


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wait_behind_each_copy(fault, monkeypatch):
    """Where scheduling barriers do not help, no copy runs beside anything else: right in any case, and noted."""
    asked = broken(FAULTS[fault], 2, monkeypatch)
    kernel = compiled(3)
    assert kernel.asm["llvm"] == asked[2] == awaited(asked[0])
    assert sum("a wait behind each copy" in note and "LLVM" in note for note in kernel.notes) == 1
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((M, K), (N, K)))
    for schedule in ("lazy", "eager", "random"):
        c = np.full((M, N), np.nan, np.float32)
        kernel.simulate(a, b, c, schedule=schedule, seed=3)
        assert np.abs(c - a.astype(np.float64) @ b.astype(np.float64).T).max() < 1e-3


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda text: text.replace(b"vmcnt(", b"vmcnt(1"), "does not wait for the copy"),
        (lambda text: re.sub(rb"\ts_waitcnt vmcnt\(\d\)\n", b"", text), "does not wait for the copy"),
        (lambda text: text.replace(b"\ts_barrier", b"\tds_write_b32 v0, v1\n\ts_barrier"), "LDS accesses outstanding"),
    ],
)
def test_what_is_wrong_in_any_case(fault, said, monkeypatch):
    """Also in the third compilation, whose blocks are looked at one by one."""
    asked = broken(fault, 3, monkeypatch)
    with pytest.raises(mt.MinitileError, match=said):
        compiled(3)
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{COPIES}\ts_waitcnt vmcnt(0)\n\ts_waitcnt lgkmcnt(0)\n\ts_barrier\n\ts_endpgm\n", ""),
        (f"{COPIES}\ts_waitcnt vmcnt(0)\n{COPIES}\ts_waitcnt vmcnt(0)\n.L:\n\ts_endpgm\n", ""),
        (f"{COPIES}\tv_mov_b32 v1, 0\n\ts_waitcnt vmcnt(0) lgkmcnt(0)\n\ts_barrier\n\ts_endpgm\n", ""),
        (f"{COPIES}{COPIES}\ts_waitcnt vmcnt(0)\n\ts_endpgm\n", "the copy in line 1"),
        (f"{COPIES}.L:\n\ts_waitcnt vmcnt(0)\n\ts_endpgm\n", "the copy in line 1"),
        (f"\ts_nop 0\n{COPIES}\ts_waitcnt vmcnt(1)\n\ts_endpgm\n", "the copy in line 2"),
        (f"{COPIES}\ts_cbranch_scc0 .L\n.L:\n\ts_waitcnt vmcnt(0)\n\ts_endpgm\n", "the copy in line 1"),
        (f"{COPIES}\tds_read_b32 v1, v2\n\ts_waitcnt vmcnt(0)\n\ts_endpgm\n", "the copy in line 1"),
        ("\ts_waitcnt vmcnt(0) lgkmcnt(0)\n.L:\n\ts_barrier\n\ts_endpgm\n", "the barrier in line 3"),
        ("\ts_waitcnt vmcnt(0)\n\ts_barrier\n\ts_endpgm\n", "the barrier in line 2"),
        ("\ts_waitcnt vmcnt(0) lgkmcnt(0)\n\tds_write_b32 v1, v2\n\ts_barrier\n\ts_endpgm\n", "the barrier in line 3"),
    ],
)
def test_nothing_under_way_between_blocks(text, said):
    if not said:
        awaited_at_once(text)
        return
    with pytest.raises(InternalError, match=said):
        awaited_at_once(text)


def test_waits_behind_copies():
    """One behind each copy and one in front of each barrier, pinned; they are declared."""
    lines = awaited(IR).splitlines()
    calls = [line.partition("amdgcn.")[2] for line in lines if "call void" in line and PIN not in line]
    copy, wait = ["raw.ptr.buffer.load.lds(…)", "s.waitcnt(i32 3952)"], "s.waitcnt(i32 3953)"
    assert calls == [*copy, *copy, wait, "s.waitcnt(i32 112)", "s.barrier()", "s.waitcnt(i32 3952)"]
    assert decoded(3952) == Wait(vm=0)
    assert decoded(112) == Wait(vm=0, lgkm=0)
    assert sorted(lines[-2:]) == [f"declare void @llvm.amdgcn.s{name}(i32)" for name in (".waitcnt", "ched.barrier")]
    assert awaited(awaited(IR)).count("declare") == 2


def test_a_copy_in_a_loop_over_lanes():
    """LLVM's own, where the descriptor is in vector registers: the same instruction again is the same copy."""
    lanes = (
        ".LBB0_7:\n\ts_and_saveexec_b64 s[20:21], s[20:21]\n"
        f"{COPIES}\ts_xor_b64 exec, exec, s[20:21]\n\ts_cbranch_execnz .LBB0_7\n"
    )
    looped = TEXT.replace(f"k:\n{COPIES}", f"k:\n{lanes}")
    assert looped != TEXT
    assert verify_waits(IR, looped) == []
    for more in (
        lanes + COPIES,
        lanes.replace(COPIES, COPIES + COPIES),
        lanes.replace(COPIES, f"{COPIES}\ts_barrier\n"),
    ):
        with pytest.raises(InternalError, match=r"has (copy|barrier), where"):
            verify_waits(IR, TEXT.replace(f"k:\n{COPIES}", f"k:\n{more}"))


def test_pins():
    """On either side of each copy, wait and barrier, once between two, and declared."""
    lines = pinned(IR).splitlines()
    fixed = [n for n, line in enumerate(lines) if re.search(r"call void @llvm\.amdgcn\.(raw|s\.)", line)]
    assert len(fixed) == 5
    assert all(PIN in lines[n - 1] and PIN in lines[n + 1] for n in fixed)
    assert not any(PIN in one and PIN in two for one, two in itertools.pairwise(lines))
    assert lines[-1] == "declare void @llvm.amdgcn.sched.barrier(i32)"
    assert verify_waits(pinned(IR), TEXT) == []


def test_a_refusal_names_the_kernels_line():
    """By the last .loc that has a line, and a way out."""
    marked = TEXT.replace("k:\n", f'k:\n\t.file\t1 "{Path(__file__).parent}" "{Path(__file__).name}"\n\t.loc\t1 2 5\n')
    marked = marked.replace("\ts_waitcnt vmcnt(1)\n\ts_barrier\n", "\t.loc\t1 1 3\n\t.loc\t1 0 3\n\ts_barrier\n")
    with pytest.raises(InternalError, match="line 9 has barrier") as refusal:
        verify_waits(IR, marked)
    assert (refusal.value.loc.file, refusal.value.loc.line) == (__file__, 1)
    assert "The waits verified on" in str(refusal.value)
    assert "num_stages=1" in refusal.value.hint
    with pytest.raises(InternalError) as refusal:
        verify_waits(IR, TEXT.replace("\ts_waitcnt vmcnt(1)\n", ""))
    assert refusal.value.loc is None
