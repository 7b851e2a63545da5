"""Products of a warpgroup (wgmma): what they read, the registers that they hold, and when they are complete.

Matrix descriptors (PTX ISA 8.3, 9.7.14.5.1): bits 0-13: start address / 16; 16-29 and 32-45: leading and stride byte
offset / 16; 49-51: base offset; 62-63: swizzle (none, 128, 64, 32 bytes). A core matrix is 8 rows of 16 bytes,
unswizzled; else 8 rows of the swizzle's width.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from minitile.proof.events import Footprint, Product, replace
from minitile.proof.memory import Memory
from minitile.proof.registers import Registers
from minitile.proof.state import ALL, State, Warp, committed, without_empty
from minitile.proof.text import Fault, Instruction, Refused, registers

_PRODUCT = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\.\w+\.(\w+)\.(\w+)(\.satfinite)?")
_ITEM = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
_WIDTHS = (0, 128, 64, 32)  # of swizzles, by their bits


def repeats_after(word: int) -> int:
    """Bytes after which the swizzle of a descriptor is the same again: it goes by the address."""
    return 8 * _WIDTHS[word >> 62 & 3]


@lru_cache(maxsize=4096)
def rows_of_16(word: int, major: int, outer: int, inner_bytes: int) -> tuple[int, ...] | None:
    """The addresses (without bits above 17) of the 16-byte pieces that an operand covers; None: a form not known.

    major 0 (K-major): `outer` rows (M or N), each of `inner_bytes` along K. major 1: `outer` is the number of k, and
    `inner_bytes` are along M or N.
    """
    start, leading, stride = (word & 0x3FFF) << 4, (word >> 16 & 0x3FFF) << 4, (word >> 32 & 0x3FFF) << 4
    width = _WIDTHS[word >> 62 & 3]
    if word >> 49 & 7 or word >> 14 & 3 or word >> 30 & 3 or word >> 46 & 7 or word >> 52 & 0x3FF or inner_bytes % 16:
        return None
    if width and start % (8 * width) + min(inner_bytes, width) > width:
        return None  # without a base offset the pattern begins where the swizzle does
    out = []
    for row in range(outer):
        for byte in range(0, inner_bytes, 16):
            if width:
                if not major and byte >= width:
                    return None
                address = start + row // 8 * stride + row % 8 * width + byte // width * leading + byte % width
                address ^= (address >> 7 & (width // 16 - 1)) << 4
            elif major:
                address = start + byte // 16 * stride + row // 8 * leading + row % 8 * 16
            else:
                address = start + row // 8 * stride + byte // 16 * leading + row % 8 * 16
            out.append(address)
    return tuple(out)


class Products(Registers):
    """`products`: registers that products hold, as bits; `named`: those that each instruction names, as
    accumulators and as a fragment; `covered`: what operands read."""

    memory: Memory
    products: dict[str, int]
    named: list[tuple[int, int]]
    covered: dict[tuple[tuple[int, int, int, int], ...], Footprint]

    def _product_registers(self) -> dict[str, int]:
        names: dict[str, int] = {}
        for each in self.program.code:
            if each.op.startswith("wgmma.mma_async"):
                for arg in each.args[:2]:
                    for name in registers(arg) if arg.startswith("{") else ():
                        names.setdefault(name, len(names))
        return names

    def _bits(self, names: set[str]) -> int:
        return sum(1 << self.products[each] for each in names if each in self.products)

    def _named(self, each: Instruction) -> tuple[int, int]:
        """Accumulators and fragments that a product names, as bits."""
        if not each.op.startswith("wgmma.mma_async"):
            return 0, 0
        accumulators, first = (self._bits(set(registers(arg))) for arg in each.args[:2])
        return accumulators, first if each.args[1].startswith("{") else 0

    def wgmma(self, state: State, warp: Warp, each: Instruction, lanes: int) -> bool:
        if lanes != ALL:
            raise Refused(each.line, "wgmma by some lanes of a warp")
        warp.converge()
        if each.op == "wgmma.fence.sync.aligned":
            warp.dirty = 0
        elif each.op == "wgmma.commit_group.sync.aligned":
            warp.groups, warp.open = committed(warp.groups, warp.open), ()
        elif each.op == "wgmma.wait_group.sync.aligned":
            cut = max(len(warp.groups) - self.number(warp, each.args[0], each.line), 0)
            pending = {event for _, event, _, _ in state.products.get(warp.number // 4, ())}
            if any(product.ids in pending for group in warp.groups[:cut] for product in group):
                return False  # other warps have yet to execute their part
            for group in warp.groups[:cut]:
                for product in group:
                    warp.known |= product.ids | product.waits
            warp.groups = without_empty(warp.groups[cut:])
        elif match := _PRODUCT.fullmatch(each.op):
            self.product(state, warp, each, match)
        else:
            raise Refused(each.line, f"not known: {each.op}")
        return True

    def product(self, state: State, warp: Warp, each: Instruction, match: re.Match[str]) -> None:
        args, line = each.args, each.line
        if match[3] not in _ITEM or _ITEM[match[3]] * int(match[2]) != 32 or not args[0].startswith("{"):
            raise Refused(line, f"not known: {each.op}")
        fragment = args[1].startswith("{")
        accumulators, fragments = self.named[each.pc]
        form = (f"n{match[1]}k{match[2]}", args[0])
        if accumulators & fragments:
            raise Refused(line, "a product that writes registers which it reads as a matrix")
        if warp.dirty & (accumulators | fragments):
            raise Fault(line, "no wgmma.fence since an access to registers of this product")
        for other in (p for group in (*warp.groups, warp.open) for p in group):
            mixed = accumulators & other.accumulators and form != other.form
            if mixed or accumulators & other.fragments or fragments & other.accumulators:
                raise Fault(line, "accesses registers of a product that need not be complete")
        majors = [self.number(warp, arg, line) for arg in args[6:]]
        expected = (0 if _ITEM[match[3]] != 2 else 1 if fragment else 2) if match[3] not in ("s8", "u8") else 0
        if len(majors) != expected:
            raise Refused(line, f"not known: {each.text}")
        operands = [] if fragment else [(args[1], 64, majors[0] if majors else 0)]
        operands.append((args[2], int(match[1]), majors[-1] if majors else 0))
        words = []
        for arg, outer, major in operands:
            word = self.number(warp, arg, line) % (1 << 64)
            words.append((word, major, *((int(match[2]), outer * _ITEM[match[3]]) if major else (outer, 32))))
        known = self.begun(state, warp, (warp.pc, *(word for word, *_ in words)), line)
        foot = self.read_by_product(tuple(words), line)
        event = self.memory.access(state, warp, line, foot, write=False, asynchronous=True, begun=known)
        warp.open += (Product(event, accumulators, fragments, form),)
        self.part(state, warp, event)

    def read_by_product(self, operands: tuple[tuple[int, int, int, int], ...], line: int) -> Footprint:
        """What operands (descriptor, major, rows, bytes of a row) cover."""
        if operands not in self.covered:
            units = 0
            for operand in operands:
                pieces = rows_of_16(*operand)
                if pieces is None or self.alignment_at(min(pieces), max(pieces)) < repeats_after(operand[0]):
                    raise Refused(line, f"a descriptor that is not known: {operand[0]:#x}")
                for address in pieces:
                    units |= self.memory.span(address, 16, line)
            self.covered[operands] = self.memory.of(((0, units),))
        return self.covered[operands]

    def alignment_at(self, first: int, last: int) -> int:
        """What the shared array is aligned to in which there are these addresses; 0: not in one."""
        arrays = self.program.arrays.items()
        found = (self.program.aligned[name] for name, (at, size) in arrays if at <= first <= last < at + size)
        return next(found, 0)

    def part(self, state: State, warp: Warp, event: int) -> None:
        """A warp has executed its part of the product; with the last part all warps learn which waits the others had
        passed by then: its completion comes behind them."""
        group, me = warp.number // 4, 1 << warp.number % 4
        waits = sum(wait for each in state.mbarriers.values() for wait, _, _ in each.waits) & warp.known
        queue = state.products[group]
        place = next(n for n, each in enumerate(queue) if each[2] & me and each[1] in (0, event))
        what, _, warps, passed = queue[place]
        passed |= waits
        if warps != 15:
            state.products[group] = (*queue[:place], (what, event, warps, passed), *queue[place + 1 :])
            return
        state.products[group] = (*queue[:place], *queue[place + 1 :])

        def told(products: tuple[Product, ...]) -> tuple[Product, ...]:
            return tuple(replace(each, waits=passed) if each.ids == event else each for each in products)

        for other in state.warps[group * 4 : group * 4 + 4]:
            other.open, other.groups = told(other.open), tuple(map(told, other.groups))

    def by_warpgroup(self, state: State, warp: Warp, each: Instruction) -> None:
        """setmaxnreg, which the four warps of a warpgroup execute alike, as they do products (PTX ISA)."""
        event = self.begun(state, warp, (warp.pc, self.number(warp, each.args[0], each.line)), each.line)
        self.part(state, warp, event or state.new())

    def begun(self, state: State, warp: Warp, what: tuple[Any, ...], line: int) -> int:
        """The event of a product that another warp of the warpgroup has begun, 0 if this is the first. The four warps
        execute the same products; the product is one event of the warpgroup."""
        group, me = warp.number // 4, 1 << warp.number % 4
        if (group + 1) * 4 > len(state.warps):
            raise Refused(line, "a product, or setmaxnreg, by less than four warps")
        queue = state.products.get(group, ())
        for place, (other, event, warps, passed) in enumerate(queue):
            if warps & me:
                continue
            if other != what:
                raise Refused(line, "warps of a warpgroup execute different products, or setmaxnreg")
            state.products[group] = (*queue[:place], (other, event, warps | me, passed), *queue[place + 1 :])
            return int(event)
        state.products[group] = (*queue, (what, 0, me, 0))
        return 0


__all__ = ["Products", "rows_of_16"]
