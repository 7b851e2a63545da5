"""Which waits and barriers of LLVM's assembly are ours: what the comments behind its lines say."""

from __future__ import annotations

import pytest

from minitile.backends.amd.verify.origins import OWN, annotated

IR = """define amdgpu_kernel void @k() {
entry:
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(…), !dbg !8
  br label %for.1
for.1:
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(…), !dbg !8
  call void @llvm.amdgcn.s.waitcnt(i32 3953), !dbg !9  ; software_pipeline: RAW S, k.py:3 -> k.py:4
  fence syncscope("singlethread") release, !dbg !10  ; thread_barriers: RAW S, k.py:3 -> k.py:4
  call void @llvm.amdgcn.s.waitcnt(i32 49279), !dbg !10  ; thread_barriers: RAW S, k.py:3 -> k.py:4
  call void @llvm.amdgcn.s.barrier(), !dbg !10  ; thread_barriers: RAW S, k.py:3 -> k.py:4
  br i1 %more, label %for.1, label %end.2
end.2:
  call void @llvm.amdgcn.s.waitcnt(i32 3952), !dbg !9  ; software_pipeline: WAW S, k.py:3
  ret void
}
!8 = !DILocation(line: 3, column: 5, scope: !7)
!9 = !DILocation(line: 2, column: 1, scope: !7)
!10 = !DILocation(line: 4, column: 5, scope: !7)
"""
COPY = "\t.loc\t1 3 5\n\tbuffer_load_dwordx4 v1, s[0:3], 0 offen lds\n"
WAIT = "\t.loc\t1 2 1\n\ts_waitcnt vmcnt(1) lgkmcnt(0)\n"
REGISTERS = "\t.loc\t1 4 5\n\ts_waitcnt lgkmcnt(0)\n"
BRANCH = "\ts_cbranch_scc1 .LBB0_1\n"
END = "\t.loc\t1 2 1\n\ts_waitcnt vmcnt(0)\n\ts_endpgm\n.Lfunc_end0:\n"
FIRST, SECOND = "software_pipeline: RAW S, k.py:3 -> k.py:4", "thread_barriers: RAW S, k.py:3 -> k.py:4"


def said(text: str) -> list[str]:
    """What stands behind the waits and barriers."""
    found = annotated(IR, text)
    assert [line.partition("  ; ")[0] for line in found.splitlines()] == text.splitlines()
    return [line.partition("  ; ")[2] for line in found.splitlines() if line.startswith(("\ts_waitcnt", "\ts_barrier"))]


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        (WAIT + "\ts_barrier\n", [f"{FIRST} | {SECOND}", SECOND]),
        # One by one.
        ("\ts_waitcnt vmcnt(1)\n" + REGISTERS + "\ts_barrier\n", [FIRST, SECOND, SECOND]),
        # What LLVM waits for behind the barrier is its own, though the line and the counter are the same.
        (WAIT + "\ts_barrier\n" + REGISTERS, [f"{FIRST} | {SECOND}", SECOND, OWN]),
        # In front of it, too, where another is nearer.
        (REGISTERS + WAIT + "\ts_barrier\n", [OWN, f"{FIRST} | {SECOND}", SECOND]),
    ],
)
def test_which_are_ours(loop, expected):
    text = f"k:\n{REGISTERS}{COPY}.LBB0_1:\n{COPY}{loop}{BRANCH}{END}"
    assert said(text) == [OWN, *expected, "software_pipeline: WAW S, k.py:3"]


def test_another_order():
    """Where the assembly does something else than the IR nothing is claimed."""
    assert said(f"k:\n\ts_barrier\n{COPY}{END}")[0] == ""
