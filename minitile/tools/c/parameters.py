"""The parameters of a kernel's entry as C: their types, the statements that make them, and what is checked before."""

from __future__ import annotations

from collections.abc import Iterator

from minitile.ir.diagnostics import MinitileError
from minitile.runtime.launch_info import Expr, LaunchInfo, Param, ScalarArg, TensorMapParam, byte_size, show_expr
from minitile.runtime.tensor_map import check_box, driver_numbers
from minitile.tools.c import checks
from minitile.tools.c.expressions import c_expr, c_string
from minitile.tools.c.names import BITS, LIMITS, number_type

Names = dict[tuple[str, str], str]


def _values(info: LaunchInfo, names: Names) -> Iterator[tuple[str, str, list[str]]]:
    """Of each parameter the C type, the text of its value, and what is checked before."""
    dtypes = {a.name: a.dtype for a in info.args if isinstance(a, ScalarArg)}
    for i, param in enumerate(info.params):
        if isinstance(param, TensorMapParam):
            yield "mt_map", "", _map(i, param, names)
        elif param.dtype == "pointer":
            yield "const void *", names[_slot(param)], []
        elif isinstance(param.source, tuple) and param.source[0] == "scalar":
            if dtypes[param.source[1]] != param.dtype:
                raise MinitileError(f"{param.source[1]} is a {dtypes[param.source[1]]}, and passed as {param.dtype}")
            yield number_type(param.dtype), names[_slot(param)], []
        elif param.dtype in BITS or param.dtype in ("f32", "f64"):
            raise MinitileError(f"the parameter {param.name} is computed by the host, as {param.dtype}")
        else:
            yield number_type(param.dtype), f"({number_type(param.dtype)})w{i}", _fits(i, param, names)


def _slot(param: Param) -> tuple[str, str]:
    if not isinstance(param.source, tuple) or len(param.source) != 2:
        raise MinitileError(f"the parameter {param.name} is computed by the host, as {param.dtype}")
    return param.source[0], param.source[1]


def _fits(i: int, param: Param, names: Names) -> list[str]:
    lines = [f"w{i} = {c_expr(param.source, names)};"]
    if param.dtype in LIMITS:
        least, most = LIMITS[param.dtype]
        said = f"{show_expr(param.source)} = %lld does not fit the parameter {param.name} ({param.dtype})"
        said = said.replace("%", "%%").replace("%%lld", "%lld")
        lines.append(f"if (w{i} < {least} || w{i} > {most})")
        lines.append(f"  return mt_fail(MT_ARGUMENT, {c_string(said)}, (long long)w{i});")
    return lines


def _map(i: int, param: TensorMapParam, names: Names) -> list[str]:
    """Encodes a tensor map into p{i}."""
    check_box(param)
    dtype, swizzle, promotion, fill = driver_numbers(param)
    strides: list[Expr] = [("mul", s, byte_size(param.dtype)) for s in param.strides] or [0]
    pointer = names["pointer", param.tensor]
    return [
        "{",
        "  static void *zero;",
        f"  static const unsigned box[] = {{{', '.join(map(str, param.box))}}};",
        f"  const int64_t dims[] = {{{', '.join(c_expr(d, names) for d in param.dims)}}};",
        f"  const int64_t strides[] = {{{', '.join(c_expr(s, names) for s in strides)}}};",
        f"  {checks.TOO_LARGE}",
        f"  status = mt_encode(&p{i}, {c_string(pointer)}, {dtype}, {len(param.dims)}, {pointer}, dims, strides, box, "
        f"{swizzle}, {promotion}, {fill}, &zero);",
        "  if (status) return status;",
        "}",
    ]


def declared(info: LaunchInfo, names: Names) -> tuple[list[tuple[str, str, list[str]]], list[str]]:
    """The parameters, and the statements that make them."""
    values = list(_values(info, names))
    wide = [f"w{i}" for i, (_, _, before) in enumerate(values) if before and before[0].startswith("w")]
    lines = [f"int64_t {', '.join(wide)};"] if wide else []
    lines += [f"{kind}{'' if kind.endswith('*') else ' '}p{i};" for i, (kind, _, _) in enumerate(values)]
    for i, (_, value, before) in enumerate(values):
        lines += [*before, *([f"p{i} = {value};"] if value else [])]
    return values, lines
