"""The expressions of a launch as C, over `int64_t`; `big` is set where a number has more than 64 bits."""

from __future__ import annotations

from collections.abc import Mapping

from minitile.ir.diagnostics import MinitileError
from minitile.runtime.launch_info import Expr, Slot

_OPERATIONS = {
    **{op: f"mt_{op}({{}}, {{}}, &big)" for op in ("add", "sub", "mul", "floordiv", "mod", "ceildiv")},
    **{op: f"mt_{op}({{}}, {{}})" for op in ("min", "max", "gcd", "or")},
    "divides": "(mt_mod({}, {}, &big) == 0)",
    "less": "({} < {})",
    "same": "({} == {})",
}


def c_expr(expr: Expr, names: Mapping[Slot, str]) -> str:
    """Raises MinitileError for a number that C has not."""
    if isinstance(expr, int):
        return integer(expr)
    if len(expr) == 2:
        kind, name = expr
        text = names[kind, name]
        return f"(int64_t)(uintptr_t){text}" if kind == "pointer" else f"(int64_t){text}" if kind == "scalar" else text
    operation, x, y = expr
    return _OPERATIONS[operation].format(c_expr(x, names), c_expr(y, names))


def integer(number: int) -> str:
    """A constant of 64 bits."""
    if not -(2**63) < number < 2**63:
        raise MinitileError(f"the launch has the number {number}, which C's int64_t has not")
    return str(number) if -(2**31) < number < 2**31 else f"INT64_C({number})"


def c_string(text: str) -> str:
    """A string constant; bytes that are no plain ASCII as octal escapes."""
    escaped = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "?": "\\?"}
    shown = (
        escaped.get(chr(b), chr(b)) if 32 <= b < 127 or b == 10 else f"\\{b:03o}" for b in text.encode(errors="replace")
    )
    return f'"{"".join(shown)}"'
