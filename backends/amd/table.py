"""The intrinsics that may be asked for, and on which targets: LLVM aborts the process on one that it cannot select, and
makes a call of a name that it does not know.

A name includes the types that overload it, so what stands here has been compiled as it stands.

Source: LLVM 22, llvm/include/llvm/IR/IntrinsicsAMDGPU.td and the subtarget features in AMDGPU.td.
"""

from __future__ import annotations

from minitile.target import Target

_EVERYWHERE = frozenset(
    {
        "llvm.amdgcn.workitem.id.x",
        *(f"llvm.amdgcn.workgroup.id.{axis}" for axis in "xyz"),
        "llvm.amdgcn.s.barrier",
        "llvm.amdgcn.s.waitcnt",
        "llvm.amdgcn.readfirstlane.i32",
        "llvm.amdgcn.make.buffer.rsrc.p8.p1",
        "llvm.amdgcn.mbcnt.lo",
        "llvm.amdgcn.mbcnt.hi",
        "llvm.amdgcn.ds.bpermute",
        "llvm.amdgcn.ds.swizzle",
        "llvm.amdgcn.update.dpp.i32",
        "llvm.amdgcn.rsq.f32",
        "llvm.amdgcn.exp2.f32",
        "llvm.amdgcn.log.f32",
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
        "llvm.amdgcn.mfma.f32.16x16x4f32",
        "llvm.amdgcn.mfma.f32.16x16x16f16",
        "llvm.amdgcn.mfma.f32.16x16x16bf16.1k",
        "llvm.amdgcn.mfma.i32.16x16x32.i8",
    }
)
_GFX950 = frozenset(
    {
        "llvm.amdgcn.raw.ptr.buffer.load.lds",
        "llvm.amdgcn.mfma.f32.16x16x32.f16",
        "llvm.amdgcn.mfma.f32.16x16x32.bf16",
        "llvm.amdgcn.mfma.i32.16x16x64.i8",
        "llvm.amdgcn.mfma.f32.16x16x32.fp8.fp8",
        "llvm.amdgcn.mfma.f32.16x16x32.bf8.bf8",
    }
)
ALLOWED = {"gfx942": _EVERYWHERE, "gfx950": _EVERYWHERE | _GFX950}


def allowed(name: str, target: Target) -> bool:
    """Whether LLVM selects the intrinsic on this target."""
    return name in ALLOWED[target.lowering]
