"""PTX text in a kernel: T.ptx, and T.address_of for what it accesses."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minitile.ir import inline_ptx
from minitile.ir.core import Value
from minitile.ir.diagnostics import TypeMismatchError, shown
from minitile.ir.ops.inline import AddressOf, Ptx, PtxEffect
from minitile.ir.types import DType
from minitile.language.math import dtype_of_name
from minitile.language.memory import as_region
from minitile.language.scalars import Expr, is_scalar, operand_value
from minitile.language.tiles import regions, tile_scope
from minitile.language.tracing.context import Trace, current

_TOUCHES: dict[Any, str] = {False: "", True: "any", "read": "read", "write": "write", "atomic": "atomic"}


@dataclass(frozen=True, eq=False)
class Address:
    """What T.address_of gives: for T.ptx alone."""

    value: Value
    mem: Value

    def __repr__(self) -> str:
        return f"<address in {self.mem.name or 'memory'}>"


@regions("element")
def address_of(element: Any) -> Address:
    """The address of an element, for T.ptx: 64 bits of global memory in a tensor, 32 bits of shared memory in a buffer.

    The compiler chooses how a shared buffer lies: what stands behind an element is known up to 16 bytes, unless
    T.annotate_layout says more. Bounds are not checked.

    Args:
        element: an element of a tensor or a shared buffer, such as A[i, j].

    Raises:
        LanguageError: a region of several elements; another kind of memory; outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        V[tx] = T.ptx("ld.global.nc.f32 %0, [%1];", T.address_of(V[255 - tx]), out=T.float32, memory="read")
        ```
    """
    trace = tile_scope("T.address_of")
    region = as_region(element, "T.address_of's element")
    mem = region.memory
    if mem.space not in ("global", "shared") or hasattr(mem, "rank"):
        raise trace.error(f"T.address_of {mem.describe()}", "tensors and shared buffers have addresses")
    if not region.start:
        raise trace.error(f"T.address_of {region.describe()}", "give one element")
    return Address(trace.b.emit(AddressOf(mem.value, region.offsets)).result, mem.value)


def ptx(
    text: str,
    *inputs: Any,
    out: Any = None,
    memory: bool | str = False,
    volatile: bool = False,
    **named: Any,
) -> Any:
    """PTX text, as each thread that comes there executes it; in T.Parallel for each element.

    Operands are called `%0`, `%1`, … in the text, results first, or by the names they are given here: `%x`. What is
    not an operand is a special register (`%laneid`) or a register that the text declares (`.reg .b32 t;`). Registers
    and labels of the text are its own. The simulator executes the text as a part of the kernel.

    Without `memory` and `volatile` the text computes its results from its inputs alone: equal ones are computed once,
    unused ones are not. What it starts (cp.async, wgmma) the program waits for by itself; where that is in the async
    proxy, `with T.proxy_hint("async"):` around says so.

    Args:
        text: instructions, each with a semicolon behind it.
        inputs: scalars of 16, 32 or 64 bits or bool, each in a register of its dtype (float16 and bfloat16: .b16, bool:
            .pred; Python numbers: int32, float32, bool), or addresses (T.address_of).
        out: the results: a dtype, several, or a dict of dtypes by name; None for none.
        memory: True where the text reads or writes memory, "read", "write" or "atomic" where it does only that: the
            memory that it has addresses of, or, without any, all.
        volatile: True where the text has another effect, or orders others (barriers, fences, shuffles, clocks): it
            stays where it is, and is executed as often as the program says.
        named: inputs by name.

    Returns:
        The result, a tuple of several, or None.

    Raises:
        LanguageError: an operand that is not given, or not used; a register that is not declared; an effect that is not
            said; with effects inside T.Parallel.
        TypeMismatchError: a dtype without registers; one that an instruction does not take.
        TargetError: AMD.

    Example:
        ```py
        high = T.ptx("mul.hi.s32 %0, %1, %2;", I[tx], I[bx], out=T.int32)
        low, carry = T.ptx(
            ".reg .pred p; add.s32 %sum, %a, %b; setp.lt.s32 p, %sum, %a; selp.s32 %over, 1, 0, p;",
            out={"sum": T.int32, "over": T.int32}, a=high, b=I[tx],
        )
        I[tx] = low + carry
        ```
    """
    trace = current()
    if trace.launch is None:
        raise trace.error("T.ptx outside T.Kernel", "write it inside `with T.Kernel(…) as …:`")
    if not isinstance(text, str):
        raise TypeMismatchError(f"the text of T.ptx is {shown(text)}, no str", trace.loc)
    if memory not in _TOUCHES:
        raise trace.error(f"T.ptx with memory={memory!r}", 'True, False, "read", "write" or "atomic"')
    outs = _outs(trace, out, bool(named))
    given = _inputs(trace, inputs, named, len(outs), isinstance(out, Mapping))
    names = (*outs, *given)
    try:
        piece = inline_ptx.read(text)
    except inline_ptx.TextError as error:
        raise trace.error(f"T.ptx: {error}", error.hint) from None
    _check_names(trace, piece, names)
    mems = tuple(dict.fromkeys(mem for _, mem in given.values() if mem is not None))
    _check_effects(trace, bool(memory), bool(volatile), bool(mems), bool(outs))
    values = tuple(value for value, _ in given.values())
    op: Ptx | PtxEffect = Ptx(values, text, names, outs=tuple(outs.values()))
    if memory or volatile:
        tile_scope("T.ptx with memory or volatile")
        touches = _TOUCHES[memory]
        op = PtxEffect(values, text, names, outs=tuple(outs.values()), mems=mems, touches=touches)
    results = tuple(Expr(result) for result in trace.b.emit(op).results)
    if out is None:
        return None
    return results if isinstance(out, (tuple, list, Mapping)) else results[0]


def _outs(trace: Trace, out: Any, named: bool) -> dict[str, DType]:
    """The results as the text calls them."""
    if out is None:
        return {}
    if isinstance(out, Mapping):
        found = {f"%{name}": dtype_of_name(dtype) for name, dtype in out.items()}
    else:
        if named:
            raise trace.error("T.ptx with inputs by name and results by number", 'name the results: out={"y": T.int32}')
        each = out if isinstance(out, (tuple, list)) else [out]
        found = {f"%{n}": dtype_of_name(dtype) for n, dtype in enumerate(each)}
    for name, dtype in found.items():
        _check_register(trace, name, dtype)
    return found


def _inputs(
    trace: Trace, inputs: tuple[Any, ...], named: dict[str, Any], first: int, by_name: bool
) -> dict[str, tuple[Value, Value | None]]:
    """The inputs as the text calls them: their values, and the memory of those that are addresses."""
    if inputs and (named or (by_name and first)):
        raise trace.error("T.ptx with operands by number and by name", "give all by number, or all by name")
    found: dict[str, tuple[Value, Value | None]] = {}
    for name, x in (*((str(first + n), x) for n, x in enumerate(inputs)), *named.items()):
        if isinstance(x, Address):
            found[f"%{name}"] = x.value, x.mem
            continue
        if not is_scalar(x):
            hint = "T.address_of an element is its address" if hasattr(x, "describe") else ""
            raise TypeMismatchError(f"the operand %{name} of T.ptx is {shown(x)}, no scalar", trace.loc, hint)
        value = operand_value(x)
        _check_register(trace, f"%{name}", value.dtype)
        found[f"%{name}"] = value, None
    return found


def _check_register(trace: Trace, name: str, dtype: DType) -> None:
    if dtype.bits < 16 and dtype.kind != "bool":
        raise TypeMismatchError(
            f"the operand {name} of T.ptx is {dtype}: PTX has no registers of {dtype.bits} bits",
            trace.loc,
            "cast it, or reinterpret several together",
        )


def _check_names(trace: Trace, piece: inline_ptx.Piece, names: tuple[str, ...]) -> None:
    """Each name is something, each operand is used, and none is hidden by a declaration."""
    used = set(piece.names())
    for name in sorted(used):
        if name in names or name in piece.declared or name in piece.labels or inline_ptx.SPECIAL.match(name):
            continue
        if name in ("WARP_SZ", "_"):
            continue
        if name[1:].isdigit():
            what = f"T.ptx has no operand {name}: there are {', '.join(names) or 'none'}"
            raise trace.error(what, "results come first, from %0 on")
        near = difflib.get_close_matches(name, [*names, *piece.declared], 1)
        hint = "operands are called %name; registers of the text's own are declared: .reg .b32 name;"
        raise trace.error(
            f"{name} in T.ptx is no operand, and no register that is declared"
            + (f"; did you mean {near[0]}?" if near else ""),
            hint,
        )
    for name in names:
        if name in piece.declared:
            raise trace.error(f"T.ptx declares {name}, which is an operand", "give one of them another name")
        if name not in used:
            raise trace.error(f"the operand {name} of T.ptx does not stand in its text")


def _check_effects(trace: Trace, memory: bool, volatile: bool, addresses: bool, results: bool) -> None:
    if addresses and not memory:
        raise trace.error("T.ptx with an address and without memory", 'say memory=True, "read", "write" or "atomic"')
    if not (memory or volatile or results):
        raise trace.error("T.ptx without results has no effect", "say volatile=True or memory=True, or give `out`")


__all__ = ["Address", "address_of", "ptx"]
