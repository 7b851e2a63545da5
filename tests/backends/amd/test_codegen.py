"""LLVM in a process of its own: every intrinsic of the table compiles, what does not compile is an error and no death,
and what must not run is refused."""

from __future__ import annotations

import re

import pytest

from minitile.backends.amd.assemble import codegen
from minitile.backends.amd.emit.intrinsics import ALLOWED, SWITCHED_OFF
from minitile.backends.amd.emit.warp import INSTRUCTIONS
from minitile.backends.amd.verify.check import check, costs, erratum, unwaited_barrier
from minitile.ir.diagnostics import InternalError, TargetError
from minitile.target import TARGETS

pytest.importorskip("llvmlite")
GFX = [TARGETS[name] for name in ("gfx942", "gfx950")]
TYPES = {"f64": "double", "f32": "float", "f16": "half", "v2f16": "<2 x half>"}


@pytest.fixture(autouse=True)
def _without_cache(monkeypatch):
    monkeypatch.setenv("MINITILE_CACHE", "0")


def kernel(body: str, declarations: str = "") -> str:
    return (
        'target triple = "amdgcn-amd-amdhsa"\n'
        "define amdgpu_kernel void @k(ptr addrspace(1) %p) {\n"
        f"{body}\n  ret void\n}}\n{declarations}\n"
    )


FORMS = {form.name: form for forms in INSTRUCTIONS.values() for form in forms}
OTHERS = {
    "llvm.amdgcn.workitem.id.x": ("i32", []),
    **{f"llvm.amdgcn.workgroup.id.{axis}": ("i32", []) for axis in "xyz"},
    "llvm.amdgcn.s.barrier": ("void", []),
    "llvm.amdgcn.s.waitcnt": ("void", ["i32 3952"]),
    "llvm.amdgcn.readfirstlane.i32": ("i32", ["i32"]),
    "llvm.amdgcn.mbcnt.lo": ("i32", ["i32 -1", "i32 0"]),
    "llvm.amdgcn.mbcnt.hi": ("i32", ["i32 -1", "i32 0"]),
    "llvm.amdgcn.ds.bpermute": ("i32", ["i32", "i32"]),
    "llvm.amdgcn.ds.swizzle": ("i32", ["i32", "i32 1055"]),
    "llvm.amdgcn.update.dpp.i32": ("i32", ["i32", "i32", "i32 177", "i32 15", "i32 15", "i1 true"]),
    **{f"llvm.amdgcn.{name}.f32": ("float", ["float"]) for name in ("rsq", "rcp", "exp2", "log")},
    "llvm.amdgcn.s.setprio": ("void", ["i16 1"]),
    "llvm.amdgcn.s.nop": ("void", ["i16 7"]),
    "llvm.amdgcn.sched.barrier": ("void", ["i32 0"]),
    "llvm.trap": ("void", []),
    "llvm.amdgcn.ds.read.tr16.b64.v4i16": ("<4 x i16>", ["ptr addrspace(3) @lds"]),
    "llvm.amdgcn.ds.read.tr8.b64.v2i32": ("<2 x i32>", ["ptr addrspace(3) @lds"]),
    "llvm.amdgcn.sdot4": ("i32", ["i32", "i32", "i32", "i1 false"]),
    "llvm.amdgcn.udot4": ("i32", ["i32", "i32", "i32", "i1 false"]),
}


BUFFERS = (
    "  %rsrc = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1("
    "ptr addrspace(1) %p, i16 0, i64 64, i32 159744)",
    "declare ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1), i16, i64, i32)\n"
    "@lds = internal addrspace(3) global [1024 x i8] poison",
)
_LDS = "ptr addrspace(8), ptr addrspace(3), i32, i32, i32, i32, i32"
DMA = (
    "  call void @llvm.amdgcn.raw.ptr.buffer.load.lds("
    "ptr addrspace(8) %rsrc, ptr addrspace(3) @lds, i32 16, i32 0, i32 0, i32 0, i32 0)",
    f"declare void @llvm.amdgcn.raw.ptr.buffer.load.lds({_LDS})",
)


def signature(name: str) -> tuple[str, list[str]]:
    """Result and arguments; an argument without a value is loaded."""
    if name in OTHERS:
        return OTHERS[name]
    if name.startswith("llvm.amdgcn.mfma."):
        count = 4 if "16x16" in name else 16
        c = f"<{count} x {'i32' if '.i32.' in name else 'float'}>"
        widths = re.search(r"f8f6f4\.v(\d)i32\.v(\d)i32", name)
        if widths:  # a register holds 4 elements of 8 bits, 32 of 6 bits are 6 registers, of 4 bits 4
            codes = (f"i32 { ({'8': 0, '6': 2, '4': 4}[width]) }" for width in widths.groups())
            scales = ("i32 0", "i32", "i32 3", "i32")
            return c, [*(f"<{width} x i32>" for width in widths.groups()), c, *codes, *scales]
        return c, [FORMS[name].operand, FORMS[name].operand, c, *(f"i32 {number}" for number in FORMS[name].rest)]
    saturating = re.fullmatch(r"llvm\.fpto[su]i\.sat\.(i\d+)\.(\w+)", name)
    if saturating:
        return saturating.group(1), [TYPES[saturating.group(2)]]
    function, kind = re.fullmatch(r"llvm\.(\w+)\.(\w+)", name).groups()
    kind = TYPES.get(kind, kind)
    count = {"fma": 3, "fshl": 3, "fshr": 3}.get(
        function, 2 if function in ("minnum", "maxnum", "smin", "smax", "umin", "umax") else 1
    )
    return kind, [kind] * count + (["i1 false"] if function == "abs" else [])


@pytest.mark.parametrize("target", GFX, ids=str)
def test_the_table(target):
    """All of it in one kernel; a name or type that LLVM does not know would be a call, or the end of its process."""
    lines, declarations = [BUFFERS[0]], [BUFFERS[1]]
    if "llvm.amdgcn.raw.ptr.buffer.load.lds" in ALLOWED[target.lowering]:
        lines.append(DMA[0])
        declarations.append(DMA[1])
    for number, name in enumerate(sorted(ALLOWED[target.lowering])):
        if "buffer" in name:
            continue
        result, arguments = signature(name)
        given = []
        for n, argument in enumerate(arguments):
            if not argument.split()[-1].lstrip("-").isdigit() and argument.split()[-1] not in ("true", "false", "@lds"):
                lines.append(f"  %a{number}.{n} = load volatile {argument}, ptr addrspace(1) %p")
                argument = f"{argument} %a{number}.{n}"
            given.append(argument)
        types = [a.rsplit(" ", 1)[0] if not a.startswith("<") else a[: a.index(">") + 1] for a in given]
        call = f"call {result} @{name}({', '.join(given)})"
        if result == "void":
            lines.append(f"  {call}")
        else:
            lines.append(f"  %r{number} = {call}")
            lines.append(f"  store volatile {result} %r{number}, ptr addrspace(1) %p")
        declarations.append(f"declare {result} @{name}({', '.join(types)})")
    text = codegen.generate(kernel("\n".join(lines), "\n".join(declarations)), target)
    assert costs(text).vgpr_spills == 0


def test_what_llvm_cannot_select_is_an_error():
    bad = kernel(
        "  %r = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x8.xf32("
        "<2 x float> zeroinitializer, <2 x float> zeroinitializer, <4 x float> zeroinitializer, i32 0, i32 0, i32 0)\n"
        "  store <4 x float> %r, ptr addrspace(1) %p",
        "declare <4 x float> @llvm.amdgcn.mfma.f32.16x16x8.xf32(<2 x float>, <2 x float>, <4 x float>, i32, i32, i32)",
    )
    with pytest.raises(InternalError, match=r"LLVM gave up on the kernel: .*[Cc]annot select"):
        codegen.generate(bad, TARGETS["gfx950"])
    # and the next one is served
    assert "s_endpgm" in codegen.generate(kernel(""), TARGETS["gfx950"])


def test_too_much_lds_is_an_error():
    """LLVM ends its process for this as well."""
    text = (
        "@big = internal addrspace(3) global [70000 x i8] poison\n"
        "define amdgpu_kernel void @k(i32 %n) {\n"
        "  %q = getelementptr i8, ptr addrspace(3) @big, i32 %n\n"
        "  store volatile i8 1, ptr addrspace(3) %q\n  ret void\n}\n"
    )
    with pytest.raises(InternalError, match=r"exceeds limit|70000"):
        codegen.generate('target triple = "amdgcn-amd-amdhsa"\n' + text, TARGETS["gfx942"])


def test_malformed_text_is_an_error():
    with pytest.raises(InternalError, match="LLVM refuses the kernel's text"):
        codegen.generate(kernel("  %x = add i32 1, %nothing"), TARGETS["gfx942"])


def test_a_call_is_refused():
    misspelt = kernel("  call void @llvm_amdgcn_s_barrier()", "declare void @llvm_amdgcn_s_barrier()")
    with pytest.raises(InternalError, match="made a call"):
        codegen.generate(misspelt, TARGETS["gfx942"])


def test_without_llvmlite(monkeypatch):
    monkeypatch.setattr(codegen, "_installed", lambda: False)
    with pytest.raises(TargetError, match="needs llvmlite, which is not installed") as caught:
        codegen.generate(kernel(""), TARGETS["gfx942"])
    assert "minitile[amd]" in caught.value.hint


def test_an_old_llvmlite(monkeypatch):
    monkeypatch.setattr(codegen, "_version", lambda: "0.44.0")
    with pytest.raises(TargetError, match=r"llvmlite 0\.50 or newer, not 0\.44\.0"):
        codegen.generate(kernel(""), TARGETS["gfx942"])


UNWAITED = "\tds_write_b32 v0, v1\n\ts_waitcnt vmcnt(0)\n\ts_barrier\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (UNWAITED, 3),
        (UNWAITED.replace("vmcnt(0)", "vmcnt(0) lgkmcnt(0)"), 0),
        (UNWAITED.replace("vmcnt(0)", "lgkmcnt(1)"), 3),
        ("\tds_read_b32 v0, v1\n\ts_barrier\n", 2),
        ("\ts_barrier\n\tds_write_b32 v0, v1\n", 0),
        ("\tds_swizzle_b32 v4, v1 offset:swizzle(SWAP,4)\n\tds_bpermute_b32 v5, v1, v2\n\ts_barrier\n", 0),
        (UNWAITED.replace("vmcnt(0)", "lgkmcnt(0)\n\tds_swizzle_b32 v4, v1"), 0),
    ],
)
def test_barriers_wait_for_writes(text, line):
    assert unwaited_barrier(text) == line


def test_costs_are_read_from_the_metadata():
    text = codegen.generate(kernel("  store i32 7, ptr addrspace(1) %p"), TARGETS["gfx942"])
    check(text, TARGETS["gfx942"])
    found = costs(text)
    assert 0 < found.vgprs < 8
    assert (found.vgpr_spills, found.sgpr_spills, found.scratch, found.lds) == (0, 0, 0, 0)


BROADCAST = """  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %q = getelementptr <2 x float>, ptr addrspace(1) %p, i32 %t
  %v = load <2 x float>, ptr addrspace(1) %q
  %high = shufflevector <2 x float> %v, <2 x float> poison, <2 x i32> <i32 1, i32 1>
  %f = call <2 x float> @llvm.fma.v2f32(<2 x float> %v, <2 x float> %high, <2 x float> %v)
  store <2 x float> %f, ptr addrspace(1) %q"""


def test_a_wrong_packed_multiply_add():
    """gfx950 computes v_pk_fma_f32 with op_sel:[0,1,0] wrongly at times. LLVM writes it; what we write asks it not to,
    and what has it all the same is refused."""
    declared = "declare <2 x float> @llvm.fma.v2f32(<2 x float>, <2 x float>, <2 x float>)"
    text = kernel(BROADCAST, declared + "\ndeclare i32 @llvm.amdgcn.workitem.id.x()")
    assert re.search(r"v_pk_fma_f32 .* op_sel:\[0,1,0\]", codegen.generate(text, TARGETS["gfx942"]))
    with pytest.raises(InternalError, match=r"v_pk_fma_f32 with op_sel:\[0,1,0\], which gfx950 computes wrongly"):
        codegen.generate(text, TARGETS["gfx950"])
    assert [*SWITCHED_OFF] == ["gfx942", "gfx950"]
    (feature,) = SWITCHED_OFF["gfx950"]
    without = text.replace("%p) {", f'%p) "target-features"="-{feature}" {{')
    assert re.findall(r"v_(?:pk_)?fma", codegen.generate(without, TARGETS["gfx950"])) == ["v_fma"] * 2


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel:[0,1,0]", True),
        ("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel:[0,1,0] op_sel_hi:[1,0,1] neg_lo:[0,1,0]", True),
        ("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7]", False),
        ("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel:[1,1,0]", False),
        ("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel_hi:[0,1,0]", False),
        ("v_pk_fma_f16 v0, v2, v4, v6 op_sel:[0,1,0]", False),
        ("; v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel:[0,1,0]", False),
    ],
)
def test_which_form_it_is(line, bad):
    text = f"k:\n\t{line}\n\ts_endpgm\n"
    assert erratum(text, TARGETS["gfx950"]) == (2 if bad else 0)
    assert erratum(text, TARGETS["gfx942"]) == 0


def test_every_kernel_asks_for_no_packed_f32():
    """Sums, products and their like of pairs of f32, which would take that form."""
    import minitile as mt
    import minitile.language as T

    @mt.kernel
    def scale(A: T.Tensor((64, 64), T.float32), s: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64):
            f, g = T.alloc_fragment((64, 64), T.float32), T.alloc_fragment((64,), T.float32)
            T.copy(A, f)
            T.copy(s, g)
            for i, j in T.Parallel(64, 64):
                f[i, j] = f[i, j] * g[i] + f[i, j]
            T.copy(f, A)

    for target in GFX:
        made = scale.compile(target=target.name)
        off = re.findall(r'"target-features"="-([\w-]+)"', made.asm["llvm"])
        assert off == [*SWITCHED_OFF[target.lowering]]
    assert "v_pk_fma_f32" not in made.text
