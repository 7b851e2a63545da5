"""`tilelang.cuda.intrinsics`: layouts, which are the compiler's choice, as instructions are T.gemm's."""

from __future__ import annotations

from minitile.tilelang.language.hints import make_swizzled_layout

make_mma_swizzle_layout = get_swizzle_layout = make_swizzled_layout

__all__ = ["get_swizzle_layout", "make_mma_swizzle_layout"]
