"""PTX text of the program's own in the IR (`T.ptx`): the operations carry the text, which is only written out.

    %y = ptx_text (%a, %b) {text = "mul.hi.u32 %0, %1, %2;", names = ("%0", "%1", "%2"), outs = (u32)}

`names` are the operands as the text calls them: first the results, then the inputs. Of tiles and of several registers
the text is written for each element.
"""

from __future__ import annotations

from minitile.ir import inline_ptx
from minitile.ir.core import Op, Value, attr, maybe_operands, operand, operands
from minitile.ir.effects import Access
from minitile.ir.ops.arith import widest
from minitile.ir.ops.checks import require, require_indices, require_one_of
from minitile.ir.relations import Relation, Same
from minitile.ir.types import I64, BufferType, DType, ScalarType, TensorType, Type, u32, with_dtype

TOUCHES = ("", "any", "read", "write", "atomic")


class _Text(Op):
    inputs: tuple[Value, ...] = operands()
    text: str = attr()
    names: tuple[str, ...] = attr()
    outs: tuple[DType, ...] = attr(())

    def infer(self) -> tuple[Type, ...]:
        like: Type = widest(*self.inputs) if self.inputs else ScalarType(u32)
        return tuple(with_dtype(like, dtype) for dtype in self.outs)

    def verify(self) -> None:
        require(len(self.names) == len(self.outs) + len(self.inputs), f"{len(self.names)} names of operands")
        try:
            inline_ptx.read(self.text)
        except inline_ptx.TextError as error:
            raise ValueError(str(error)) from None

    def relations(self) -> list[Relation]:
        return [Same(self.results[0], v) for v in (*self.inputs, *self.results[1:])] if self.results else []


class Ptx(_Text, name="ptx_text", pure=True, elementwise=True):
    """A text that computes its results from its inputs alone."""

    def varies(self) -> bool:
        return inline_ptx.varies(inline_ptx.read(self.text))


class PtxEffect(_Text, name="ptx_effect"):
    """A text that stays where it is, once for each thread that comes there: it touches memory, or orders accesses, or
    has another effect. `touches`: "read", "write", "atomic", "any" of them; "": no memory. What it touches is `mems`,
    whose addresses are among the inputs, or, without any, all memory."""

    mems: tuple[Value, ...] = maybe_operands()
    touches: str = attr("")

    def verify(self) -> None:
        super().verify()
        require_one_of(self.touches, TOUCHES, "kind of access")

    def varies(self) -> bool:
        return True

    def accesses(self) -> tuple[Access, ...]:
        kinds = {"": (), "any": ("read", "write")}.get(self.touches, (self.touches,))
        if self.touches and not self.mems:
            return (Access("atomic" if self.touches == "any" else self.touches, None, proxy="any"),)
        return tuple(Access(kind, mem) for mem in self.mems for kind in kinds)


class AddressOf(Op, name="address_of", stage="tile", pure=True):
    """Where an element lies: in a tensor an address of global memory (i64), in a shared buffer one of shared memory
    (u32). Bounds are not looked at."""

    mem: Value = operand()
    indices: tuple[Value, ...] = operands()

    def infer(self) -> tuple[Type, ...]:
        return (I64,) if isinstance(self.mem.type, TensorType) else (ScalarType(u32),)

    def verify(self) -> None:
        t = self.mem.type
        require(isinstance(t, TensorType) or (isinstance(t, BufferType) and t.space == "shared"), f"an address in {t}")
        require_indices(self.indices, len(self.mem.shape))
