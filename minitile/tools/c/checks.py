"""What the generated launch refuses, each with its words: the rules of the runtime's binder (`bind.py`), the facts that
the kernel was compiled for, and arrays that overlap (`overlap.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from minitile.ir.diagnostics import MinitileError
from minitile.runtime.launch_info import Expr, LaunchInfo, Slot, TensorArg, byte_size, dims_of, mentioned, show_expr
from minitile.runtime.overlap import pairs
from minitile.tools.c.expressions import c_expr, c_string

Names = Mapping[Slot, str]
MOST_DIMENSIONS = 16  # of a tensor, in common.c
TOO_LARGE = 'if (big) return mt_fail(MT_ARGUMENT, "the sizes are too large: a product of them has more than 64 bits");'


def of_sizes(info: LaunchInfo, names: Names) -> Iterator[str]:
    """Statements: sizes and addresses that no array has, and facts that are not so."""
    for dim in dims_of(info.args, strides=False):
        name = names["dim", dim]
        yield f'if ({name} < 0) return mt_fail(MT_ARGUMENT, "{name} is %lld", (long long){name});'
    for arg in _tensors(info):
        name, size = names["pointer", arg.name], byte_size(arg.dtype)
        if size > 1:
            said = f"{name} is misaligned: its address %p is no multiple of a {arg.dtype}'s size"
            yield f'if ((uintptr_t){name} % {size}) return mt_fail(MT_ARGUMENT, "{said}", (const void *){name});'
    for fact in info.facts:
        yield f"if (!{c_expr(fact, names)} && !big)"
        form, values = _having(fact, names)
        said = c_string(f"this kernel was compiled for {_escaped(show_expr(fact))}, but {form}")
        yield f"  return mt_fail(MT_ARGUMENT, {said}{''.join(f', {v}' for v in values)});"
    yield TOO_LARGE


def _having(fact: Expr, names: Names) -> tuple[str, list[str]]:
    """What stands against it, for printf."""
    words, values = [], []
    for kind, name in sorted(mentioned(fact)):
        text = names[kind, name]
        if kind == "pointer":
            words.append(f"the address of {text} is %p")
            values.append(f"(const void *){text}")
        else:
            words.append(f"{text} is %lld")
            values.append(f"(long long){text}")
    return " and ".join(words), values


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def of_memory(info: LaunchInfo, names: Names) -> Iterator[str]:
    """Statements, in a block of their own: null pointers to elements, elements in one place, arrays that overlap."""
    tensors = _tensors(info)
    for i, arg in enumerate(tensors):
        if len(arg.shape) > MOST_DIMENSIONS:
            raise MinitileError(
                f"{arg.name} has {len(arg.shape)} dimensions; in C a tensor has up to {MOST_DIMENSIONS}"
            )
        shape = ", ".join(_number(d, names) for d in arg.shape) or "1"
        steps = ", ".join(_strides(arg, names)) or "1"
        yield f"const int64_t shape{i}[] = {{{shape}}}, strides{i}[] = {{{steps}}};"
        given = f"{names['pointer', arg.name]}, {byte_size(arg.dtype)}, {len(arg.shape)}, shape{i}, strides{i}, &big"
        yield f"const mt_lies lies{i} = mt_where({given});"
    yield TOO_LARGE
    for i, arg in enumerate(tensors):
        name = names["pointer", arg.name]
        yield f"if (!{name} && lies{i}.begin < lies{i}.end)"
        yield f'  return mt_fail(MT_ARGUMENT, "{name} is a null pointer, and its elements are to be accessed");'
        if arg.name in info.written and arg.strides is not None:
            said = f"the kernel writes {name}, which has several elements in one place (a stride of 0)"
            yield f'if (lies{i}.folded) return mt_fail(MT_ARGUMENT, "{said}");'
    at = {arg.name: i for i, arg in enumerate(tensors)}
    for a, b in pairs(info):
        one, other = names["pointer", a.name], names["pointer", b.name]
        written = " and ".join(names["pointer", t.name] for t in (a, b) if t.name in info.written)
        said = f"{one} and {other} overlap, and the kernel writes {written}"
        yield f"if (mt_overlap(&lies{at[a.name]}, &lies{at[b.name]}, &big))"
        yield f'  return mt_fail(MT_ARGUMENT, "{said}");'


def _strides(arg: TensorArg, names: Names) -> list[str]:
    if arg.strides is not None:
        return [_number(s, names) for s in arg.strides]
    steps: list[Expr] = []
    step: Expr = 1
    for size in reversed(arg.shape):
        steps.insert(0, step)
        each: Expr = size if isinstance(size, int) else ("dim", size)
        step = each if step == 1 else ("mul", step, each)
    return [c_expr(s, names) for s in steps]


def _number(of: int | str, names: Names) -> str:
    return c_expr(of if isinstance(of, int) else ("dim", of), names)


def _tensors(info: LaunchInfo) -> list[TensorArg]:
    return [arg for arg in info.args if isinstance(arg, TensorArg)]
