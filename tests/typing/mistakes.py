"""Mistakes that a type checker finds; behind each, the error that mypy gives."""

from typing import Annotated

import minitile as mt
import minitile.language as T

Vector = Annotated[T.Tensor, ("N",), T.float32]


misspelt = mt.kernl  # error: attr-defined


@mt.kernel
def wrong(A: Vector, n: T.int32) -> None:
    with T.Kernel(1, 1) as (bx, by, bz):  # error: misc
        tile = T.alloc_fragmnt((32,), T.float32)  # error: attr-defined
        T.copy(A[bx + by + bz])  # error: call-arg
        T.copy(A[bx], tile, eviction_polic="evict_first")  # error: call-arg
        for i in T.Parallel(32, 32):
            A[0] = i + 1  # error: operator
        A[0] = A.dtyp  # error: attr-defined
        A[0] = A + 1  # error: operator
        A[0] = n.shape[0]  # error: attr-defined
        T.gemm(A, A, A, transpose_B="yes")  # error: arg-type


wrong.compil(target="sm_80")  # error: attr-defined
