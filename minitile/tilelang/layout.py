"""`tilelang.layout`: layouts are the compiler's choice; those of TileLang's programs are taken and ignored."""

from __future__ import annotations

from minitile.tilelang.language.hints import Fragment, Layout
from minitile.tilelang.language.hints import make_swizzled_layout as make_swizzled_layout

make_full_bank_swizzled_layout = make_half_bank_swizzled_layout = make_quarter_bank_swizzled_layout = (
    make_swizzled_layout
)
make_volta_swizzled_layout = make_wgmma_swizzled_layout = make_tcgen05mma_swizzled_layout = make_swizzled_layout
make_cutlass_metadata_layout = make_linear_layout = make_gemm_fragment_8x8 = make_swizzled_layout

__all__ = ["Fragment", "Layout", "make_swizzled_layout"]
