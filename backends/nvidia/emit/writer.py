"""Thread IR to PTX text: the entry point, parameters, and structured control flow.

`write_ptx` legalises the kernel for its target, coalesces registers, then prints each operation through the tables
of the files beside this one, and of the target's extension. Loops are rotated: a guard, then the body with its test at
the end, so that an iteration costs one branch. A branch whose condition is the same in all threads is a `bra.uni`.

    for %k in 0..%n carry(%c = %z)          if %p { A } else { B }

      mov %k, 0                               @!%p bra $L_else
      setp.ge %done, %k, %n                   A
      @%done bra $L_for_end                   bra.uni $L_end
    $L_for:                                 $L_else:
      body                                    B
      add %k, %k, step                      $L_end:
      setp.lt %again, %k, %n
      @%again bra $L_for
    $L_for_end:

Sources: PTX ISA 8.3, 9.7.11.3 (bra), 11.1 (.version, .target, .address_size), 11.3 (.entry and parameters), 11.4
(.reqntid, .minnctapersm), 11.5 (.file, .loc).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitile.analysis.affine import Facts
from minitile.analysis.trips import enters
from minitile.backends.nvidia.emit import arith as emit_arith
from minitile.backends.nvidia.emit import atomic as emit_atomic
from minitile.backends.nvidia.emit import cast as emit_cast
from minitile.backends.nvidia.emit import hopper as emit_hopper
from minitile.backends.nvidia.emit import inline as emit_inline
from minitile.backends.nvidia.emit import memory as emit_memory
from minitile.backends.nvidia.emit import print as emit_print
from minitile.backends.nvidia.emit import warp as emit_warp
from minitile.backends.nvidia.emit.emitter import Emitter
from minitile.backends.nvidia.emit.ptx import PtxModule, identifier, is_register, ptx_type, register_type
from minitile.backends.nvidia.emit.register_coalescing import LOADS, plan
from minitile.backends.nvidia.extensions import extension_of
from minitile.backends.nvidia.legalize import legalize
from minitile.hardware import Target
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import InternalError
from minitile.ir.ops import control, roles, thread
from minitile.ir.ops.thread import in_registers
from minitile.ir.types import DType, TensorType, u8

_EMIT: dict[type[Op], Callable[[Emitter, Any], None]] = {
    **emit_arith.EMIT,
    **emit_cast.EMIT,
    **emit_memory.EMIT,
    **emit_atomic.EMIT,
    **emit_warp.EMIT,
    **emit_print.EMIT,
    **emit_hopper.EMIT,
    **emit_inline.EMIT,
}


def write_ptx(kernel: Kernel, target: Target) -> PtxModule:
    """The PTX of a kernel in the thread stage. The kernel is legalised in place, also where it was before: the passes
    behind may have joined two casts to one that has no instruction.

    `kernel.attrs`: "threads" (an int), "shared_bytes" (dynamic shared memory; 0 or absent: none), "min_ctas" (for
    `.minnctapersm`; absent: none). Comments say which bytes of shared memory are whose; the simulator's findings name
    buffers by them. Raises TargetError for what the target has no instructions for.
    """
    legalize(kernel, target)
    writer = _Writer(kernel, target)
    writer.parameters()
    writer.block(kernel.body)
    return writer.module()


class _Writer:
    def __init__(self, kernel: Kernel, target: Target) -> None:
        self.kernel = kernel
        self.target = target
        self.w = Emitter(plan(kernel), target)
        extension = extension_of(target)
        self.printers = _EMIT if extension is None else {**_EMIT, **extension.printers()}
        self.w.fetch_maps = bool(kernel.attrs.get("resources_are_hints"))
        self.needed = self.w.plan.needed
        self.params: list[tuple[str, str, DType]] = []
        self.entry_names: list[str] = []
        self.uniform: dict[Value, bool] = {}
        self.facts = Facts(kernel)
        self.conditions: list[Value] = []  # of the branches around

    # Parameters and the frame --------------------------------------------------------------------------------------

    def parameters(self) -> None:
        """Every parameter of the signature has its place in the entry; only those that are used are loaded."""
        taken: set[str] = {"smem", identifier(self.kernel.name, "kernel")}
        for value in self.kernel.params:
            is_pointer = isinstance(value.type, TensorType)
            self._parameter(value, "pointer" if is_pointer else "scalar", value.name, taken)
        for name, value in self.kernel.dims.items():
            if value in self.needed:
                self._parameter(value, "dim", name, taken)
        for name, *_ in self.kernel.attrs.get("tensor_maps", ()):
            self.params.append((name, "tensor_map", u8))
            self.entry_names.append(name)

    def _parameter(self, value: Value, kind: str, name: str, taken: set[str]) -> None:
        w = self.w
        unique = base = identifier(name, "param")
        number = 0
        while unique in taken:
            number += 1
            unique = f"{base}_{number}"
        taken.add(unique)
        self.params.append((unique if kind != "dim" else name, kind, value.dtype))
        self.entry_names.append(unique)
        if value not in self.needed:
            return
        if kind == "pointer":
            register = w.registers.one("b64", name)
            w.prologue.append(f"ld.param.u64 {register}, [{unique}];")
            w.prologue.append(f"cvta.to.global.u64 {register}, {register};")
            w.define(value, [register])
            return
        if value.dtype.kind == "bool":
            byte = w.temp("b16")
            w.prologue.append(f"ld.param.u8 {byte}, [{unique}];")
            (register,) = w.targets(value)
            w.prologue.append(f"setp.ne.u16 {register}, {byte}, 0;")
            return
        if not value.name:
            value.name = name
        (register,) = w.targets(value)
        w.prologue.append(f"ld.param.{_memory_type(value.dtype)} {register}, [{unique}];")

    def module(self) -> PtxModule:
        kernel, w = self.kernel, self.w
        entry = identifier(kernel.name, "kernel")
        shared = int(kernel.attrs.get("shared_bytes", 0) or 0)
        head = [f".version {w.isa}", f".target {self.target.lowering}", ".address_size 64", ""]
        head += [f'.file {number} "{_quoted(file)}"' for file, number in w.code.files.items()]
        if shared:
            head.append(f".extern .shared .align 1024 .b8 smem[];  // {shared} bytes")
            head += [f"// smem[{first}:{end}] is {what}" for (first, end), what in sorted(w.shared.items())]
        head += w.globals
        declared = [
            f"  .param {_parameter(name, kind, dtype)}"
            for name, (_, kind, dtype) in zip(self.entry_names, self.params, strict=True)
        ]
        head += ["", f".visible .entry {entry}("]
        if declared:
            head.append(",\n".join(declared))
        head += [")", f".reqntid {kernel.attrs['threads'] + kernel.attrs.get('producer_threads', 0)}"]
        cluster = kernel.attrs.get("cluster", (1, 1, 1))
        if cluster != (1, 1, 1):
            head.append(f".reqnctapercluster {', '.join(map(str, cluster))}")
        if kernel.attrs.get("min_ctas"):
            head.append(f".minnctapersm {kernel.attrs['min_ctas']}")
        body = w.registers.declarations()
        body += [f".local .align 16 .b8 {symbol}[{size}];" for symbol, size in w.locals.values()]
        body += w.prologue
        text = "\n".join(head) + "\n{\n"
        text += "\n".join([line if line[0] == "$" else "  " + line for line in body + w.lines])
        text += "\n  ret;\n}\n"
        return PtxModule(text, entry, tuple((name, kind, dtype.name) for name, kind, dtype in self.params))

    # Operations ----------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        w, needed = self.w, self.needed
        for op in block.ops:
            kind = type(op)
            if (kind.pure or kind in LOADS) and not any(r in needed for r in op.results):
                continue
            w.code.at(op.loc)
            if kind.orders:
                w.why = op.why
            emit = self.printers.get(kind)
            if emit is not None:
                emit(w, op)
            elif kind in _CONTROL:
                _CONTROL[kind](self, op)
            elif not kind.terminator:
                raise InternalError(f"the PTX writer has no rule for {op.mnemonic}", op.loc)

    def region(self, block: Block) -> None:
        with self.w.scope():
            self.block(block)

    def hand_over(self, to: Sequence[Value], sources: Sequence[Value]) -> None:
        """Copies each source to the registers of its target, all at once; nothing for those that are there already."""
        pairs = [(d, s) for d, s in zip(to, sources, strict=True) if in_registers(d)]
        self.w.parallel([move for d, s in pairs for move in self.w.copies(d, s)])

    def loop(self, op: control.For) -> None:
        w = self.w
        dtype = op.lower.dtype
        typed, kind = ptx_type(dtype), register_type(dtype)
        (iv,) = w.targets(op.iv)
        self.uniform[op.iv] = all(map(self.is_uniform, (op.lower, op.upper, op.step)))
        lower, upper, step = (w.element(v) for v in (op.lower, op.upper, op.step))
        w.emit(f"mov.{kind} {iv}, {lower};")
        self.hand_over(op.carried, op.init)
        entered = enters(self.facts, op, self.conditions)
        if entered is not False:
            branch = "bra.uni" if self.is_uniform(op.iv) else "bra"
            head, end = w.code.label("for"), w.code.label("for_end")
            if entered is None:
                done = w.temp("pred")
                w.emit(f"setp.ge.{typed} {done}, {iv}, {upper};")
                w.emit(f"@{done} {branch} {end};")
            w.code.place(head)
            with w.scope():
                self.block(op.body)
                w.code.at(op.loc)
                self.hand_over(op.carried, op.body.yielded)
                w.emit(f"add.{typed} {iv}, {iv}, {step};")
            again = w.temp("pred")
            w.emit(f"setp.lt.{typed} {again}, {iv}, {upper};")
            w.emit(f"@{again} {branch} {head};")
            if entered is None:
                w.code.place(end)
        self.settle(op.results, op.carried)

    def while_(self, op: control.While) -> None:
        """The body comes first, then the test, which is where the loop is entered."""
        w = self.w
        end = op.before.terminator
        assert isinstance(end, control.Condition)
        self.hand_over(op.before.args, op.init)
        body, test = w.code.label("while"), w.code.label("while_test")
        w.emit(f"bra.uni {test};")
        w.code.place(body)
        for arg in op.body.args:
            self.settle([arg], [arg])
        with w.scope():
            self.block(op.body)
            self.hand_over(op.before.args, op.body.yielded)
        w.code.place(test)
        with w.scope():
            self.block(op.before)
            w.code.at(op.loc)
            flag = w.register(w.element(end.flag), "pred")
            self.hand_over(op.body.args, end.values)
        w.emit(f"@{flag} bra {body};")
        self.settle(op.results, op.body.args)

    def branch(self, op: control.If) -> None:
        w = self.w
        condition = w.element(op.condition)
        if not is_register(condition):
            taken = op.then if condition == "1" else op.orelse
            self.arm(taken, op.results)
            return
        jump = "bra.uni" if self.is_uniform(op.condition) else "bra"
        end = w.code.label("if_end")
        then_empty, else_empty = (self.is_empty(b, op.results) for b in (op.then, op.orelse))
        if then_empty and else_empty:
            self.settle(op.results, op.results)
            return
        if else_empty or then_empty:
            w.emit(f"@{'!' if else_empty else ''}{condition} {jump} {end};")
            if else_empty:
                self.taken(op)
            else:
                self.arm(op.orelse, op.results)
        else:
            other = w.code.label("else")
            w.emit(f"@!{condition} {jump} {other};")
            self.taken(op)
            w.emit(f"bra.uni {end};")
            w.code.place(other)
            self.arm(op.orelse, op.results)
        w.code.place(end)

    def taken(self, op: control.If) -> None:
        """The branch's first region. A loop that has a turn, as the condition says, has no guard: no way leads past it
        to what stands behind it, such as the wait for its products."""
        self.conditions.append(op.condition)
        self.arm(op.then, op.results)
        self.conditions.pop()

    def arm(self, block: Block, results: Sequence[Value]) -> None:
        with self.w.scope():
            self.block(block)
            self.hand_over(results, block.yielded)

    def is_empty(self, block: Block, results: Sequence[Value]) -> bool:
        """Whether a branch has no operation and every value that it yields is in the registers of its class already."""
        if any(not op.terminator for op in block.ops):
            return False
        class_of = self.w.plan.class_of
        pairs = [(d, s) for d, s in zip(results, block.yielded, strict=True) if in_registers(d)]
        return all(d in class_of and class_of.get(s) is class_of[d] for d, s in pairs)

    def is_uniform(self, value: Value) -> bool:
        """Whether a value is seen to be the same in all threads of the CTA: made of block indices, parameters,
        constants, and induction variables between such bounds."""
        known = self.uniform.get(value)
        if known is None:
            owner = value.owner
            if isinstance(owner, thread.Special):
                known = not owner.varies()
            elif isinstance(owner, Op):
                known = owner.pure and owner.stage == "both" and all(map(self.is_uniform, owner.operands))
            else:
                known = owner is None  # a parameter; not what a loop carries
            self.uniform[value] = known
        return known

    def settle(self, values: Sequence[Value], same_as: Sequence[Value]) -> None:
        """`values` are where `same_as` are: one class by construction (register_coalescing.py)."""
        for value, other in zip(values, same_as, strict=True):
            if in_registers(value):
                assert self.w.plan.class_of.get(value) is self.w.plan.class_of.get(other)
                self.w.targets(value)


_CONTROL: dict[type[Op], Callable[[_Writer, Any], None]] = {
    control.For: _Writer.loop,
    control.While: _Writer.while_,
    control.If: _Writer.branch,
    roles.ByRole: _Writer.branch,
}


def _memory_type(dtype: DType) -> str:
    """The type of a scalar in the parameter space."""
    if dtype.bits >= 32:
        return ptx_type(dtype)
    return "b16" if dtype.bits == 16 else ("s8" if dtype.kind == "int" else "u8")


def _parameter(name: str, kind: str, dtype: DType) -> str:
    if kind == "tensor_map":
        return f".align 64 .b8 {name}[128]"
    return f"{'.u64 .ptr .global .align 16' if kind == 'pointer' else '.' + _memory_type(dtype)} {name}"


def _quoted(file: str) -> str:
    return file.replace("\\", "/").replace('"', "'")
