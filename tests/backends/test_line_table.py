"""Which source line a line of assembly is of, by the notations of the three texts."""

from __future__ import annotations

from minitile.backends.line_table import line_table

PTX = r"""
.version 8.4
.file 1 "/a/k \"1\".py"
.file 2 "/a/helper.py"
{
  mov.u32 %x, %ctaid.x;
  .loc 1 7 3
  add.s32 %r0, %x, 1;

  // a comment
$L_for0:
  .loc 2 9 1
  bra $L_for0;
}
"""

GCN = """
gemm:
	s_mov_b32 s0, 0
	.file	1 "/a" "k.py"
	.loc	1 7 14 prologue_end
	s_add_i32 s0, s0, 1
	.loc	1 0 14 is_stmt 0
	s_nop 0
	.file	2 "/b/helper.py"
	.loc	2 9 1
	s_endpgm
; a comment
"""

LLVM = r"""
define amdgpu_kernel void @k(i32 %n) !dbg !4 {
  %a = add i32 %n, 1, !dbg !5
  %b = add i32 %a, 1
  %c = add i32 %b, 1, !dbg !7
  ret void, !dbg !5
}
!1 = !DIFile(filename: "/a/k \221\22.py", directory: "")
!2 = !DIFile(filename: "/a/helper.py", directory: "")
!4 = distinct !DISubprogram(name: "k", scope: !1, file: !1, line: 3, type: !9)
!5 = !DILocation(line: 7, column: 3, scope: !4)
!6 = !DILexicalBlockFile(scope: !4, file: !2, discriminator: 0)
!7 = !DILocation(line: 9, column: 1, scope: !6)
"""


def found(text: str) -> dict[str, tuple[str, int]]:
    pairs = zip(text.splitlines(), line_table(text), strict=True)
    return {line.split()[0]: at for line, at in pairs if at is not None}


def test_ptx():
    kernel = '/a/k "1".py'
    assert found(PTX) == {"add.s32": (kernel, 7), "$L_for0:": (kernel, 7), "bra": ("/a/helper.py", 9)}


def test_gcn():
    assert found(GCN) == {"s_add_i32": ("/a/k.py", 7), "s_endpgm": ("/b/helper.py", 9)}


def test_llvm():
    kernel = '/a/k "1".py'
    assert found(LLVM) == {"%a": (kernel, 7), "%c": ("/a/helper.py", 9), "ret": (kernel, 7)}
