"""Multiplication by a factor and a shift, where it is a division.

before                                       after
`mul.wide.u32 w, x, M; shr.u64 w, w, s;      `mul.wide.u32 …; shr.u64 …; div.u32 q, x, d`
 cvt.u32.u64 q, w`
`mul.hi.u32 h, x, M; shr.u32 q, h, s`        `mul.hi.u32 …; div.u32 q, x, d`
"""

from __future__ import annotations

from dataclasses import replace

from minitile.proof.loops.flow import Flow, number

_NEAR = 16  # statements behind the multiplication, at most


def quotients(flow: Flow) -> None:
    """`x·M >> s` stands as x / d, if both are one number for every x of 32 bits (`divisor`). Precondition: between the
    multiplication and the last shift no label, branch or guard stands, and x is not written, by the multiplication
    neither."""
    for n, each in enumerate(flow.items):
        if each.guard or each.op not in ("mul.wide.u32", "mul.hi.u32") or len(each.args) != 3:
            continue
        x, factor = each.args[1], number(each.args[2])
        if x.startswith("%") and factor is not None and x not in flow.writes(each):
            _quotient(flow, n, x, factor % (1 << 32))


def _quotient(flow: Flow, at: int, x: str, factor: int) -> None:
    each = flow.items[at]
    name, shift = each.args[0], 0 if each.op == "mul.wide.u32" else 32
    for place in range(at + 1, min(at + _NEAR, len(flow.items))):
        now = flow.items[place]
        if now.labels or now.op.startswith(("bra", "ret")) or x in flow.writes(now):
            return
        if len(now.args) >= 2 and now.args[1] == name and not now.guard:
            ends = now.op in ("cvt.u32.u64", "shr.u32")
            if now.op in ("shr.u64", "shr.u32") and (by := number(now.args[2])) is not None:
                name, shift = now.args[0], shift + by
            elif not ends:
                return
            if ends and (d := divisor(factor, shift)):
                flow.items[place] = replace(now, op="div.u32", args=(now.args[0], x, str(d)))
                return
        elif name in flow.writes(now):
            return


def divisor(factor: int, shift: int) -> int:
    """d, if x·factor >> shift is x / d for every x of 32 bits; else 0 (Granlund and Montgomery, PLDI 1994)."""
    if not factor or shift < 32:
        return 0
    d = -(-(1 << shift) // factor)
    return d if 1 < d < 1 << 32 and 0 <= d * factor - (1 << shift) <= 1 << (shift - 32) else 0


__all__ = ["divisor", "quotients"]
