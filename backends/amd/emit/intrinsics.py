"""The intrinsics that may be asked for, and on which targets: LLVM aborts the process on one that it cannot select, and
makes a call of a name that it does not know.

A name includes the types that overload it, so what stands here has been compiled as it stands.

Source: LLVM 22, llvm/include/llvm/IR/IntrinsicsAMDGPU.td and the subtarget features in AMDGPU.td.
"""

from __future__ import annotations

from minitile.hardware import Target

_EVERYWHERE = frozenset(
    {
        "llvm.amdgcn.workitem.id.x",
        *(f"llvm.amdgcn.workgroup.id.{axis}" for axis in "xyz"),
        "llvm.amdgcn.s.barrier",
        "llvm.amdgcn.s.nop",
        "llvm.amdgcn.s.waitcnt",
        "llvm.amdgcn.s.setprio",
        "llvm.amdgcn.sched.barrier",
        "llvm.amdgcn.readfirstlane.i32",
        "llvm.amdgcn.make.buffer.rsrc.p8.p1",
        "llvm.amdgcn.mbcnt.lo",
        "llvm.amdgcn.mbcnt.hi",
        "llvm.amdgcn.ds.bpermute",
        "llvm.amdgcn.ds.swizzle",
        "llvm.amdgcn.update.dpp.i32",
        "llvm.amdgcn.rsq.f32",
        "llvm.amdgcn.rcp.f32",
        "llvm.amdgcn.exp2.f32",
        "llvm.amdgcn.log.f32",
        "llvm.amdgcn.sdot4",
        "llvm.amdgcn.udot4",
        "llvm.fshr.i32",
        "llvm.trap",
        *(f"llvm.{f}.{t}" for f in ("fabs", "floor", "ceil", "trunc", "rint") for t in ("f32", "f64", "f16")),
        *(f"llvm.{f}.{t}" for f in ("minnum", "maxnum", "fma", "fabs") for t in ("f32", "f64", "f16", "v2f16")),
        *(f"llvm.sqrt.{t}" for t in ("f32", "f64", "f16")),
        *(f"llvm.{f}.{t}" for f in ("smin", "smax", "umin", "umax", "abs") for t in ("i8", "i16", "i32", "i64")),
        *(
            f"llvm.fpto{sign}i.sat.{i}.{f}"
            for sign in "su"
            for i in ("i8", "i16", "i32", "i64")
            for f in ("f32", "f64", "f16")
        ),
        *(
            f"llvm.amdgcn.mfma.{name}"
            for name in (
                *("f32.16x16x4f32", "f32.16x16x16f16", "f32.16x16x16bf16.1k", "i32.16x16x32.i8"),
                *("f32.32x32x2f32", "f32.32x32x8f16", "f32.32x32x8bf16.1k", "i32.32x32x16.i8"),
                *(f"f32.{s}.{a}.{b}" for s in ("16x16x32", "32x32x16") for a in ("fp8", "bf8") for b in ("fp8", "bf8")),
            )
        ),
    }
)
_GFX950 = frozenset(
    {
        "llvm.amdgcn.raw.ptr.buffer.load.lds",
        "llvm.amdgcn.ds.read.tr16.b64.v4i16",
        "llvm.amdgcn.ds.read.tr8.b64.v2i32",
        *(
            f"llvm.amdgcn.mfma.{name}"
            for name in (
                *("f32.16x16x32.f16", "f32.16x16x32.bf16", "i32.16x16x64.i8"),
                *("f32.32x32x16.f16", "f32.32x32x16.bf16", "i32.32x32x32.i8"),
                *(
                    f"scale.f32.{shape}.f8f6f4.v{a}i32.v{b}i32"
                    for shape in ("16x16x128", "32x32x64")
                    for a in (8, 6, 4)
                    for b in (8, 6, 4)
                ),
            )
        ),
    }
)
ALLOWED = {"gfx942": _EVERYWHERE, "gfx950": _EVERYWHERE | _GFX950}

# Features of a processor that LLVM must not use. An erratum of gfx950: v_pk_fma_f32 with op_sel:[0,1,0] (its low lane
# takes the high half of the second operand) at times gives a wrong low lane (ROCm/rocMLIR, issue 2459). LLVM writes it
# by itself, where a factor is broadcast; `check` refuses it wherever it comes from.
SWITCHED_OFF: dict[str, tuple[str, ...]] = {"gfx942": (), "gfx950": ("packed-fp32-ops",)}


def allowed(name: str, target: Target) -> bool:
    """Whether LLVM selects the intrinsic on this target."""
    return name in ALLOWED[target.lowering]
