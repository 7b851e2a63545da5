"""Kernels that are called in functions of torch.compile.

Dynamo, which traces these, takes `traced_call` in place of `Kernel.__call__`: it calls an operator of torch that the
kernel is made into (`mt.torch_op`), and so stays in one graph. A kernel that cannot be one, or a call with arguments
that a schema has no types for, is called between two graphs instead, and no part of it is traced.
"""

from __future__ import annotations

import sys
from itertools import count
from types import CodeType
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from minitile.ir.diagnostics import MinitileError

if TYPE_CHECKING:
    from minitile.driver.jit import Kernel

_numbers = count()
_kernels: WeakValueDictionary[int, Kernel] = WeakValueDictionary()
_skipped: list[CodeType] = []


def numbered(kernel: Kernel) -> int:
    """A number by which traced code names a kernel."""
    number = next(_numbers)
    _kernels[number] = kernel
    if "torch" in sys.modules:
        _skip()
    return number


def traced_call(kernel: Kernel, *args: Any, **kwargs: Any) -> Any:
    """What Dynamo traces of a kernel's call. No gradient goes through it, as without torch.compile."""
    torch = sys.modules["torch"]
    given = {**dict(zip(kernel._names, args, strict=False)), **kwargs}
    if is_operator(kernel._number) and all(n in kernel._operator_names for n in given):
        with torch.no_grad():
            return kernel._operator(**given)
    torch._dynamo.graph_break("this call of a kernel of minitile is no operator: see mt.torch_op")
    return kernel._first_call(args, kwargs)


def is_operator(number: int) -> bool:
    """Whether a kernel can be an operator; it is one then. Dynamo runs this as it is (see ops/torch_ops.py)."""
    from minitile.driver.torch_op import torch_op

    _skip()
    kernel = _kernels[number]
    if not kernel._operator_asked:
        kernel._operator_asked = True
        try:
            made = torch_op(kernel, name=f"minitile_kernels::{kernel.__name__}_{number}")
        except MinitileError:
            return False
        kernel._operator = made
        kernel._operator_names = tuple(a.name for a in made._opoverload._schema.arguments)
    return kernel._operator is not None


is_operator._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _skip() -> None:
    """Lets Dynamo run a kernel's call, and all that it calls, as it is, where it comes between two graphs: by what
    torch._dynamo.disable does, but as a mark of the code, which costs other calls nothing (as torch/_dynamo/utils.py
    has it for its own)."""
    from minitile.driver.jit import Kernel

    if not _skipped:
        _skipped.append(Kernel.__call__.__code__)
        frames: Any = getattr(getattr(getattr(sys.modules["torch"], "_C", None), "_dynamo", None), "eval_frame", None)
        if hasattr(frames, "set_code_exec_strategy"):  # torch 2.6
            whole = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
            frames.set_code_exec_strategy(_skipped[0], whole)
