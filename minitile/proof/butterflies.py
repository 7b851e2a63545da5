"""Numbers that reductions by `shfl.sync.bfly` make the same in all lanes of a warp, so that all may store them to one
place: z = op(x, shfl.bfly(x, m)), for an op that commutes, does not change when lanes are exchanged by m.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_COMMUTES = re.compile(r"(?:add|max|min|mul|and|or|xor)(?:\.lo)?(?:\.(?:rn|ftz|NaN|nan))*\.[busf]\w+")
_MOVE = re.compile(r"mov\.[busf]32")
_SHUFFLE = re.compile(r"shfl\.sync\.bfly\.b32")
_FULL = ("-1", "0xffffffff", "0xFFFFFFFF", "4294967295")
ALL = 16 + 8 + 4 + 2 + 1
Sites = Mapping[tuple[int, str], tuple[int, ...]]


def same_in_all_lanes(code: list[Any], reaching: Sites) -> Iterator[int]:
    """Stores to shared memory whose data come out of such a reduction, in one block of instructions without branches:
    so that all its lanes have taken part. `code`: instructions; `reaching`: for each read, what may have written it."""
    starts = {0} | {each.target for each in code} | {each.pc + 1 for each in code if each.base == "bra"}
    block = 0
    begin = []
    for each in code:
        block = each.pc if each.pc in starts else block
        begin.append(block)
    known: dict[tuple[int, str], int] = {}

    def source(at: int, name: str) -> tuple[int, str] | None:
        """What has written a register, through moves of the same block."""
        places = reaching.get((at, name), ())
        if len(places) != 1:
            return None
        made = code[places[0]]
        if _MOVE.fullmatch(made.op) and not made.guard and begin[made.pc] == begin[at] and made.pc < at:
            found = source(made.pc, made.args[1]) if made.args[1].startswith("%") else None
            return found or (made.pc, name)
        return made.pc, name

    def number(at: int, arg: str) -> int | None:
        for _ in range(4):
            if re.fullmatch(r"0[xX][0-9a-fA-F]+|\d+", arg):
                return int(arg, 0)
            places = reaching.get((at, arg), ())
            if len(places) != 1 or not _MOVE.fullmatch(code[places[0]].op) or code[places[0]].guard:
                return -1 if arg == "-1" else None
            at, arg = places[0], code[places[0]].args[1]
        return None

    def exchanged(site: tuple[int, str] | None, within: int) -> int:
        """The lanes' bits that may be exchanged without a change of what a site has written."""
        if site is None or begin[site[0]] != within:
            return 0
        if site not in known:
            known[site] = 0
            each = code[site[0]]
            if _COMMUTES.fullmatch(each.op) and not each.guard and len(each.args) == 3:
                for one, other in (each.args[1:], each.args[:0:-1]):
                    x, y = source(each.pc, one), source(each.pc, other)
                    shuffle = code[y[0]] if y else None
                    if x is None or y is None or shuffle is None or not _SHUFFLE.fullmatch(shuffle.op) or shuffle.guard:
                        continue
                    by = number(shuffle.pc, shuffle.args[2])
                    full = number(shuffle.pc, shuffle.args[4]) in (-1, 0xFFFFFFFF) if len(shuffle.args) == 5 else False
                    named = shuffle.args[0].partition("|")[0] == y[1] and number(shuffle.pc, shuffle.args[3]) == 31
                    inside = begin[shuffle.pc] == within and x[0] < shuffle.pc < each.pc
                    if (
                        full
                        and named
                        and inside
                        and by in (1, 2, 4, 8, 16)
                        and source(shuffle.pc, shuffle.args[1]) == x
                    ):
                        known[site] = exchanged(x, within) | by
        return known[site]

    for each in code:
        if each.op.startswith("st.shared") and each.args[-1].startswith("%"):
            within = begin[each.pc]
            if exchanged(source(each.pc, each.args[-1]), within) == ALL:
                yield each.pc


__all__ = ["same_in_all_lanes"]
