"""What TileLang has and minitile has not (yet): asking for it says so, and what to do instead.

docs/tilelang.md shows the same tables; tests/language/test_docs.py keeps the two together.
"""

from __future__ import annotations

import difflib

from minitile.ir.diagnostics import LanguageError
from minitile.language.tracing.context import active

PLANNED: dict[str, str] = {
    "gemm_sp": "sparse products",
    "async_copy": "T.copy in a T.Pipelined loop is asynchronous",
    "annotate_safe_value": "reads outside a tensor give 0; choose otherwise with T.if_then_else",
    "float8_e8m0fnu": "its bytes as uint8, which is what T.gemm_blockscaled takes for scales",
}
REFUSED: dict[str, str] = {
    "prim_func": "mark the function with @minitile.kernel; minitile.tilelang.language has it",
    "jit": "mark the function with @minitile.kernel; minitile.tilelang.language has it",
    "const": 'name run-time dimensions as strings: T.Tensor(("M", "N"), dtype)',
    "thread_binding": "T.get_thread_binding(0)",
    "block": "write statements",
    "call_extern": "no functions of other languages; T.ptx takes PTX text",
    "import_source": "no source of other languages; T.ptx takes PTX text",
    "ptx_mma": "T.gemm",
    "make_swizzled_layout": "shared layouts are chosen by the compiler; T.annotate_layout takes a SharedLayout",
}


def missing(name: str) -> Exception:
    """What to raise for `T.name`: an error of the language inside a kernel, an AttributeError outside."""
    if name.startswith("__"):
        return AttributeError(f"module 'minitile.language' has no attribute {name!r}")
    trace = active()
    for table, status in ((PLANNED, "planned, not there yet"), (REFUSED, "not a part of minitile")):
        if name in table:
            message, hint = f"T.{name} is {status}", table[name]
            break
    else:
        import minitile.language as language

        near = difflib.get_close_matches(name, language.__all__, 1)
        message, hint = f"there is no T.{name}" + (f"; did you mean T.{near[0]}?" if near else ""), ""
    if trace is None:
        return AttributeError(f"{message} ({hint})" if hint else message)
    return LanguageError(message, trace.loc, hint)
