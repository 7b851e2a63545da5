"""The name of a kernel's entry, which profilers show: the function's, and what tells this specialisation from others.

    gemm                                    all parameters have their defaults
    gemm__block_M64_bf16                    block_M=64; a tensor whose dtype is the caller's
    add__strided                            also unaligned; wide: indices of 64 bits

Compile-time parameters stand there whose value is not the default that the function has; those that are no plain
numbers, names or dtypes do not. A name is an identifier of ASCII, as PTX and LLVM both take it, of at most 100
characters: a longer one ends with eight digits of its digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

from minitile.ir.types import DType
from minitile.language.tracing.signature import Signature

LONGEST = 100
_DIGEST = 8


def entry_name(
    function: FunctionType, signature: Signature, constants: Mapping[str, Any], dtypes: Mapping[str, DType], *how: str
) -> str:
    """how: words for what else is special."""
    words = [*_constants(function, signature, constants), *_dtypes(signature, dtypes), *how]
    whole = "__".join([function.__name__, "_".join(words)] if words else [function.__name__])
    name = _identifier(whole)
    if len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(whole.encode(errors="replace")).hexdigest()[:_DIGEST]
    return f"{name[: LONGEST - _DIGEST - 1]}_{digest}"


def _constants(function: FunctionType, signature: Signature, constants: Mapping[str, Any]) -> Iterator[str]:
    code, given = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(given) : code.co_argcount]
    defaults = {**dict(zip(names, given, strict=True)), **(function.__kwdefaults__ or {})}
    for p in signature.constants:
        value, default = constants[p.name], defaults.get(p.name, signature)  # of which no constant has the type
        if type(value) is type(default) and value == default:
            continue
        if isinstance(value, bool):
            yield p.name if value else f"no_{p.name}"
        elif isinstance(value, int | float):
            yield f"{p.name}{value}"
        elif isinstance(value, DType | str):
            yield f"{p.name}_{value}"


def _dtypes(signature: Signature, dtypes: Mapping[str, DType]) -> Sequence[str]:
    found = [dtypes[p.name].name for p in signature.runtime if p.kind == "tensor" and not p.dtype and p.name in dtypes]
    return [*dict.fromkeys(found)]


def _identifier(text: str) -> str:
    text = text.replace("-", "m").replace(".", "p")
    return re.sub(r"[^A-Za-z0-9_]", lambda found: "_" if found[0].isascii() else f"u{ord(found[0]):x}", text)
