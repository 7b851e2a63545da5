"""Thread IR to LLVM IR text: the kernel's function, its parameters and attributes, LDS objects, control flow.

    for %k in 0..%n carry(%c = %z)          if %p { A } else { B } -> %r

      %more = icmp slt i32 0, %n              br i1 %p, label %then, label %else
      br i1 %more, label %for, label %end   then:
    for:                                      A
      %k = phi i32 [0, …], [%next, …]         br label %endif
      %c = phi <4 x float> …                else:
      body                                    B
      %next = add i32 %k, step                br label %endif
      %again = icmp slt i32 %next, %n       endif:
      br i1 %again, label %for, label %end    %r = phi float [%a, …], [%b, …]
    end:

A `while` is a guard and a loop with its test at the end as well.

The attributes keep LLVM from asking for what no kernel here needs: implicit arguments, other dimensions of the thread
index, AGPRs (with them in play, accumulators are moved back and forth).

Source: LLVM 22, "User Guide for AMDGPU Backend", "LLVM IR Attributes" and "Kernel Argument Metadata".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from minitile.analysis.global_sharing import shares_global
from minitile.backends.amd.emit import arith as emit_arith
from minitile.backends.amd.emit import atomic as emit_atomic
from minitile.backends.amd.emit import memory as emit_memory
from minitile.backends.amd.emit import schedule as emit_schedule
from minitile.backends.amd.emit import shuffle as emit_shuffle
from minitile.backends.amd.emit import warp as emit_warp
from minitile.backends.amd.emit.emitter import Emitter
from minitile.backends.amd.emit.forms import phi_widths
from minitile.backends.amd.emit.intrinsics import SWITCHED_OFF
from minitile.backends.amd.emit.lds_globals import extent, lds_objects
from minitile.backends.amd.emit.llvm import DATA_LAYOUT, identifier, memory_type, scalar_type, type_of
from minitile.backends.amd.emit.uniform import scalar, shared_in_lanes
from minitile.backends.amd.legalize import legalize
from minitile.hardware import Target
from minitile.ir.builder import known_trips
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import InternalError
from minitile.ir.ops import control, thread, tile
from minitile.ir.ops.thread import count_of, in_registers
from minitile.ir.types import ALIGNMENT, DType, TensorType

_EMIT: dict[type[Op], Callable[[Emitter, Any], None]] = {
    **emit_arith.EMIT,
    **emit_memory.EMIT,
    **emit_atomic.EMIT,
    **emit_warp.EMIT,
    **emit_shuffle.EMIT,
    **emit_schedule.EMIT,
}
_UNUSED = (
    "implicitarg-ptr", "dispatch-ptr", "queue-ptr", "dispatch-id", "default-queue", "completion-action", "heap-ptr",
    "hostcall-ptr", "lds-kernel-id", "multigrid-sync-arg", "flat-scratch-init", "workitem-id-y", "workitem-id-z",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Program:
    """LLVM IR. `params`: (name, kind, dtype) in the entry's order; kind is "pointer", "scalar" or "dim"."""

    text: str
    entry: str
    params: tuple[tuple[str, str, str], ...]


def write_llvm(kernel: Kernel, target: Target) -> Program:
    """The LLVM IR of a kernel in the thread stage, which is legalised in place.

    `kernel.attrs`: "threads" (an int). Raises TargetError for what the target has no instructions for.
    """
    legalize(kernel, target)
    return _Writer(kernel, target).write()


class _Writer:
    def __init__(self, kernel: Kernel, target: Target) -> None:
        self.kernel, self.target = kernel, target
        self.entry = identifier(kernel.name, "kernel")
        self.w = Emitter(target, self.entry, phi_widths(kernel))
        self.w.shares_global = shares_global(kernel)
        self.w.shared_in_lanes = shared_in_lanes(kernel, target.lanes)
        self.w.filled_by_dma = {op.dst_mem for op in kernel.walk() if isinstance(op, thread.CpAsync)}
        self.params: list[tuple[str, str, DType]] = []
        self.declared: list[str] = []
        self.objects: list[str] = []

    def write(self) -> Program:
        self.parameters()
        frame = self.shared_objects()
        self.private_objects()
        self.block(self.kernel.body)
        w = self.w
        w.lines.append("  ret void")
        threads = self.kernel.attrs["threads"]
        attributes = [
            '"amdgpu-agpr-alloc"="0"',
            f'"amdgpu-flat-work-group-size"="{threads},{threads}"',
            '"uniform-work-group-size"="true"',
            '"amdgpu-ieee"="false"',
            *(f'"target-features"="-{name}"' for name in SWITCHED_OFF[self.target.lowering]),
            *([frame] if frame else []),
            *(f'"amdgpu-no-{name}"' for name in _UNUSED),
            *(f'"amdgpu-no-workgroup-id-{axis}"' for axis in "xyz" if f"ctaid.{axis}" not in w.specials),
        ]
        debug = f" !dbg !{w.debug.subprogram}" if w.debug.subprogram >= 0 else ""
        text = [
            f"; {self.kernel.name} for {self.target.lowering}",
            f'target datalayout = "{DATA_LAYOUT}"',
            'target triple = "amdgcn-amd-amdhsa"',
            "",
            *self.objects,
            "",
            f"define amdgpu_kernel void @{self.entry}({', '.join(self.declared)})",
            f"    #0 !reqd_work_group_size !0{debug} {{",
            "entry:",
            *w.lines,
            "}",
            "",
            *sorted(w.declared.values()),
            "",
            f"attributes #0 = {{ nounwind {' '.join(attributes)} }}",
            f"!0 = !{{i32 {threads}, i32 1, i32 1}}",
            "!1 = !{}",
            '!4 = distinct !{!4, !"shared memory"}',
            '!5 = distinct !{!5, !4, !"copies under way"}',
            "!6 = !{!5}",
        ]
        # Version 5 of code objects is what every ROCm loads that knows gfx942.
        text.append('!2 = !{i32 1, !"amdhsa_code_object_version", i32 500}')
        if w.debug.unit < 0:
            text.append("!llvm.module.flags = !{!2}")
        else:
            text += [
                '!llvm.module.flags = !{!2, !3}\n!3 = !{i32 2, !"Debug Info Version", i32 3}',
                f"!llvm.dbg.cu = !{{!{w.debug.unit}}}",
                *w.debug.nodes,
            ]
        params = tuple((name, kind, dtype.name) for name, kind, dtype in self.params)
        return Program("\n".join(text) + "\n", self.entry, params)

    # Parameters and memory ------------------------------------------------------------------------------------------

    def parameters(self) -> None:
        """Every parameter of the signature has its place; of the dimensions, those that are used."""
        used = {v for op in self.kernel.walk() for v in op.operands}
        taken: set[str] = set()
        for value in self.kernel.params:
            self.parameter(value, "pointer" if isinstance(value.type, TensorType) else "scalar", value.name, taken)
        for name, value in self.kernel.dims.items():
            if value in used:
                self.parameter(value, "dim", name, taken)

    def parameter(self, value: Value, kind: str, name: str, taken: set[str]) -> None:
        unique = base = identifier(name, "param")
        number = 0
        while unique in taken:
            number += 1
            unique = f"{base}_{number}"
        taken.add(unique)
        self.params.append((name if kind == "dim" else unique, kind, value.dtype))
        if kind == "pointer":
            align = value.type.align if isinstance(value.type, TensorType) else ALIGNMENT
            self.declared.append(f"ptr addrspace(1) align {align} %{unique}")
            self.w.symbols[value] = f"%{unique}"
            return
        self.declared.append(f"{memory_type(value.dtype)} %{unique}")
        if value.dtype.kind == "bool":
            self.w.define(value, [self.w.let(f"icmp ne i8 %{unique}, 0")])
        else:
            self.w.define(value, [f"%{unique}"])

    def shared_objects(self) -> str:
        """Declares the LDS objects; the attribute that tells LLVM how much there is, where it does not count itself."""
        found = lds_objects(self.kernel)
        for number, group in enumerate(found.groups):
            start = min(extent(alloc)[0] for alloc in group)
            size = max(extent(alloc)[1] for alloc in group) - start
            name = f"@lds.{number}.{'.'.join(identifier(a.result.name, 'buffer') for a in group)}"
            place = f", !absolute_symbol !{{i32 {start}, i32 {start + 1}}}" if found.absolute else ""
            self.objects.append(f"{name} = internal addrspace(3) global [{size} x i8] poison, align 16{place}")
            for alloc in group:
                self.w.symbols[alloc.result] = name
                self.w.starts[alloc.result] = extent(alloc)[0] - start
        return f'"amdgpu-lds-size"="{self.kernel.attrs["shared_bytes"]}"' if found.absolute else ""

    def private_objects(self) -> None:
        for op in self.kernel.walk():
            if isinstance(op, tile.Alloc) and op.type_.space == "local":
                size = op.version_bytes * op.type_.versions
                hint = op.result.name or "local"
                self.w.symbols[op.result] = self.w.let(f"alloca [{size} x i8], align 16, addrspace(5)", hint)

    # Operations -----------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.w.at(op.loc)
            kind = type(op)
            emit = _EMIT.get(kind)
            if emit is not None:
                self.w.comment = "" if op.why is None else f"  ; {op.why}"
                emit(self.w, op)
                self.w.comment = ""
            elif kind in _CONTROL:
                _CONTROL[kind](self, op)
            elif not kind.terminator:
                raise InternalError(f"the LLVM writer has no rule for {op.mnemonic}", op.loc)

    def handed(self, to: Sequence[Value], sources: Sequence[Value]) -> list[list[str]]:
        """The parts of each source in the form in which its target carries it; none for tokens."""
        return [
            self.w.spread(s, count_parts(d, width), width) if in_registers(d) else []
            for d, s in zip(to, sources, strict=True)
            for width in [self.width(d)]
        ]

    def width(self, value: Value) -> int:
        return self.w.phi_widths.get(value, 1)

    def joined(self, values: Sequence[Value], ways: Sequence[tuple[str, list[list[str]]]]) -> None:
        """Phis that define `values`; `ways`: the blocks that come here, each with the parts that it hands over."""
        for number, value in enumerate(values):
            if not in_registers(value):
                continue
            width = self.width(value)
            kind = type_of(value.dtype, width)
            parts = []
            for n in range(count_parts(value, width)):
                choices = ", ".join(f"[{parts_[number][n]}, %{label}]" for label, parts_ in ways)
                parts.append(self.w.let(f"phi {kind} {choices}", value.name or "v"))
            self.w.define(value, parts, width)

    def carry(self, values: Sequence[Value], before: str, given: list[list[str]]) -> Callable[[list[list[str]]], None]:
        """Phis at a loop's head; call the result with the parts that come round, at the end of the block that jumps
        back."""
        w = self.w
        holes: list[tuple[int, str, str, int, int]] = []
        for number, value in enumerate(values):
            if not in_registers(value):
                continue
            width = self.width(value)
            kind = type_of(value.dtype, width)
            names = []
            for n in range(count_parts(value, width)):
                names.append(w.name(value.name or "v"))
                holes.append((len(w.lines), names[-1], kind, number, n))
                w.lines.append("")
            w.define(value, names, width)
        attachment = w.attachment

        def close(around: list[list[str]]) -> None:
            for line, name, kind, number, n in holes:
                choices = f"[{given[number][n]}, %{before}], [{around[number][n]}, %{w.label}]"
                w.lines[line] = f"  {name} = phi {kind} {choices}{attachment}"

        return close

    def loop(self, op: control.For) -> None:
        w = self.w
        kind = scalar_type(op.lower.dtype)
        less = f"icmp {'slt' if op.lower.dtype.kind == 'int' else 'ult'} {kind}"
        lower, upper, step = (scalar(w, v) for v in (op.lower, op.upper, op.step))
        given = self.handed(op.carried, op.init)
        trips = known_trips(op)
        head, end, before = w.new_label("for"), w.new_label("for_end"), w.label
        if trips == 0:
            self.settle(op.results, given)
            return
        if trips is None:
            more = w.let(f"{less} {lower}, {upper}")
            w.do(f"br i1 {more}, label %{head}, label %{end}")
        else:
            w.do(f"br label %{head}")
        w.place(head)
        with w.scope():
            close = self.carry([op.iv, *op.carried], before, [[lower], *given])
            self.block(op.body)
            w.at(op.loc)
            yielded = self.handed(op.carried, op.body.yielded)
            following = w.let(f"add {kind} {w.element(op.iv)}, {step}")
            again = w.let(f"{less} {following}, {upper}")
            close([[following], *yielded])
            w.do(f"br i1 {again}, label %{head}, label %{end}")
            last = w.label
        w.place(end)
        ways = [(last, yielded)] if trips else [(before, given), (last, yielded)]
        self.joined(op.results, ways)

    def settle(self, values: Sequence[Value], parts: list[list[str]]) -> None:
        for value, mine in zip(values, parts, strict=True):
            if in_registers(value):
                self.w.define(value, mine, self.width(value))

    def while_(self, op: control.While) -> None:
        """What stands before the condition is written twice, in front of the loop and at its end: LLVM's way to leave a
        loop at its head has branches that are never taken, over which it does not count wait states rightly."""
        w = self.w
        body, after = w.new_label("while"), w.new_label("while_end")

        def before(given: list[list[str]]) -> tuple[list[list[str]], list[list[str]], str]:
            """From the values that come in: what the body gets, the results, the block that ends in a branch."""
            end = op.before.terminator
            assert isinstance(end, control.Condition)
            with w.scope():
                self.settle(op.before.args, given)
                self.block(op.before)
                w.at(op.loc)
                passed, left = self.handed(op.body.args, end.values), self.handed(op.results, end.values)
                w.do(f"br i1 {scalar(w, end.flag)}, label %{body}, label %{after}")
            return passed, left, w.label

        first = before(self.handed(op.before.args, op.init))
        w.place(body)
        with w.scope():
            close = self.carry(op.body.args, first[2], first[0])
            self.block(op.body)
            again = before(self.handed(op.before.args, op.body.yielded))
            close(again[0])
        w.place(after)
        self.joined(op.results, [(label, left) for _, left, label in (first, again)])

    def branch(self, op: control.If) -> None:
        w = self.w
        condition = scalar(w, op.condition)
        labels = [w.new_label("then"), w.new_label("else")]
        end = w.new_label("endif")
        w.do(f"br i1 {condition}, label %{labels[0]}, label %{labels[1]}")
        ways = []
        for label, block in zip(labels, (op.then, op.orelse), strict=True):
            w.place(label)
            with w.scope():
                self.block(block)
                parts = self.handed(op.results, block.yielded)
                ways.append((w.label, parts))
            w.do(f"br label %{end}")
        w.place(end)
        self.joined(op.results, ways)


_CONTROL: dict[type[Op], Callable[[_Writer, Any], None]] = {
    control.For: _Writer.loop,
    control.While: _Writer.while_,
    control.If: _Writer.branch,
}


def count_parts(value: Value, width: int) -> int:
    return count_of(value.type) // width
