"""Kernels and compiled kernels in pickles: what is written, and how they are made of it again.

A kernel is pickled as Python's functions are: by its module and name. One that is made of such a kernel (a method's, of
an object; `configured`) is that kernel and what differs. One without a name to be found under takes its function along,
which plain `pickle` refuses and `cloudpickle` does not, and the text of its source and of its helpers', since their
files need not be where it is unpickled.

A compiled kernel is its case, its assembly and, where it has been assembled, its binary: nothing is compiled again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from minitile.language.tracing.source import Text, source_is, text_of

if TYPE_CHECKING:
    from minitile.driver.compiled import Case, CompiledKernel
    from minitile.driver.jit import Kernel
    from minitile.driver.pipeline import Result
    from minitile.hardware import Target
    from minitile.language.tracing.signature import Signature

Reduced = tuple[Callable[..., Any], tuple[Any, ...]]


def reduce_kernel(kernel: Kernel) -> Reduced:
    """What `Kernel.__reduce__` gives."""
    if kernel.method_of is not None:
        return _method, kernel.method_of
    named = _found(kernel.__module__, kernel.__qualname__)
    if named is kernel:
        return _named, (kernel.__module__, kernel.__qualname__)
    rest = kernel.signature, kernel.target, kernel.passes, kernel.launch
    if named is not None and named.function is kernel.function:
        return _like, (named, *rest)
    texts: dict[FunctionType, Text] = {f: text_of(f) for f in kernel.captured_functions()}
    sources = tuple((f, text.file, "".join(text.lines)) for f, text in texts.items())
    return _of_function, (kernel.function, sources, *rest)


def reduce_compiled(compiled: CompiledKernel) -> Reduced:
    """What `CompiledKernel.__reduce__` gives."""
    program = compiled.executable.program
    prebuilt = program.prebuilt() if program.known_costs() is not None else None
    return _compiled, (compiled.case, compiled.target, compiled.passes, compiled.result, prebuilt)


def _found(module: str, name: str) -> Kernel | None:
    """The kernel of that name, or that the object of that name tunes; None where there is none."""
    from minitile.driver.jit import Kernel

    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    found = found if isinstance(found, Kernel) else getattr(found, "kernel", None)
    return found if isinstance(found, Kernel) else None


def _named(module: str, name: str) -> Kernel:
    __import__(module)
    found = _found(module, name)
    if found is None:
        raise AttributeError(f"the pickle has the kernel {name} of {module}, which has none of that name here")
    return found


def _method(kernel: Kernel, owner: Any) -> Kernel:
    return kernel.__get__(owner, type(owner))


def _like(
    kernel: Kernel, signature: Signature, target: str | Target, passes: dict[str, bool], launch: int | None
) -> Kernel:
    return type(kernel)(kernel.function, signature, target, passes, launch)


def _of_function(
    function: FunctionType,
    sources: tuple[tuple[FunctionType, str, str], ...],
    signature: Signature,
    target: str | Target,
    passes: dict[str, bool],
    launch: int | None,
) -> Kernel:
    from minitile.driver.jit import Kernel

    for each, file, text in sources:
        source_is(each, file, text.splitlines(keepends=True))
    return Kernel(function, signature, target, passes, launch)


def _compiled(case: Case, target: Target, passes: dict[str, bool], result: Result, prebuilt: Any) -> CompiledKernel:
    from minitile.driver.compiled import CompiledKernel

    made = CompiledKernel(case, target, passes, result)
    if prebuilt is not None:
        made.executable.program.adopt(prebuilt)
    return made
