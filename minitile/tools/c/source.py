"""The header, the source and the CMake file of a kernel for C.

The source is C99 and C++11 at once: what all kernels share (common.c; cuda.c or hip.c), set up by a few macros, and the
one function that checks the arguments, evaluates the launch's expressions and launches. For `A: (N,) f32`, `n: i32`:

    int scale_launch(const float *A, int32_t n, int64_t N, struct CUstream_st *stream) {
      …
      if (N < 0) return mt_fail(MT_ARGUMENT, "N is %lld", (long long)N);
      g0 = mt_ceildiv(N, 128, &big);
      …
      const void *p0 = A;
      int32_t p1 = n;
      …
      status = mt_cuda.cuLaunchKernelEx(&config, function, params, 0);
    }
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from minitile import __version__
from minitile.ir.diagnostics import MinitileError
from minitile.runtime.cuda import MOST_BLOCKS
from minitile.runtime.launch_info import Expr, LaunchInfo, Param, ScalarArg, TensorMapParam, byte_size, show_expr
from minitile.runtime.saved import Saved, capability_of
from minitile.runtime.tensor_map import check_box, driver_numbers
from minitile.tools.c import checks
from minitile.tools.c.expressions import c_expr, c_string
from minitile.tools.c.names import BITS, LIMITS, Argument, arguments, number_type, slot_names

_STREAM = {"cuda": "struct CUstream_st", "rocm": "struct ihipStream_t"}  # what cudaStream_t and hipStream_t point to
_CONTEXTS = 64
_ROW = 32  # bytes of the code on a line


def header(saved: Saved, name: str) -> str:
    """NAME.h."""
    guard, upper, stream = f"MINITILE_{name.upper()}_H", name.upper(), _STREAM[saved.device]
    given = arguments(saved.launch)
    width = max([len(a.name) for a in given], default=0)
    lines = [f" *   {a.name:<{width}}  {a.about}".rstrip() for a in given]
    device = "CUDA's current context" if saved.device == "cuda" else "HIP's current device"
    return "\n".join(
        [
            f"/* {saved.name} for {saved.arch}: one launch. Made by minitile {__version__}.",
            " *",
            *lines,
            " *",
            f" * The kernel is loaded into {device} by its first launch there, which must not be one of a stream",
            " * capture. Safe to call from several threads. Pointers are the GPU's. */",
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            "#include <stdint.h>",
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            f"{stream};",
            "",
            f"enum {{ {upper}_BAD_ARGUMENT = -1, {upper}_UNAVAILABLE = -2 }};",
            "",
            "/* Queues the kernel on a stream (0: the default one); 0, one of the above, or the driver's error. */",
            f"{_prototype(name, given, stream)};",
            "",
            "/* What went wrong in this thread's last launch that did. */",
            f"const char *{name}_error(void);",
            "",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "#endif",
            "",
        ]
    )


def _prototype(name: str, given: Sequence[Argument], stream: str) -> str:
    texts = [*(a.text for a in given), f"{stream} *stream"]
    head, rows = f"int {name}_launch(", [""]
    for i, text in enumerate(texts):
        last = ")" if i == len(texts) - 1 else ","
        if rows[-1] and len(head) + len(rows[-1]) + len(text) + 3 > 120:
            rows.append("")
        rows[-1] += f"{' ' if rows[-1] else ''}{text}{last}"
    return head + ("\n" + " " * len(head)).join(rows)


def source(saved: Saved, name: str) -> str:
    """NAME.c. Raises MinitileError for what C cannot do."""
    return "\n".join([*_head(saved, name), *_code(saved), *_launch(saved, name), ""])


def _shared(file: str) -> str:
    return Path(__file__).with_name(file).read_text(encoding="utf-8")


def _head(saved: Saved, name: str) -> Iterator[str]:
    yield f"/* The launch of {name}.h, and the kernel's code. Made by minitile {__version__}; do not edit. */"
    yield f'#include "{name}.h"\n'
    yield from (f"#include <{each}.h>" for each in ("stdarg", "stddef", "stdio", "string"))
    yield _MACROS
    info, upper = saved.launch, name.upper()
    numbers: dict[str, str | int] = {
        "MT_ARGUMENT": f"{upper}_BAD_ARGUMENT",
        "MT_UNAVAILABLE": f"{upper}_UNAVAILABLE",
        "MT_CONTEXTS": _CONTEXTS,
        "MT_ENTRY": c_string(info.entry),
        "MT_ARCH": c_string(saved.arch),
    }
    if saved.device == "cuda":
        capability, only = capability_of(saved.arch)
        major, minor = capability
        numbers |= {
            "MT_RUNS_ON(major, minor)": f"((major) == {major} && (minor) {'==' if only else '>='} {minor})",
            "MT_ONLY": int(only),
            "MT_CUBIN": int("cubin" in saved.images),
            "MT_PTX": int("ptx" in saved.images),
            "MT_MAPS": int(any(isinstance(p, TensorMapParam) for p in info.params)),
            "MT_WINDOW": int(info.window is not None),
            "MT_SHARED": info.dynamic_shared,
            "MT_CLUSTER": math.prod(info.cluster),
            "MT_REGISTERS": saved.jit.max_registers or 0,
            "MT_LEVEL": saved.jit.opt_level,
        }
    yield from (f"#define {macro} {value}" for macro, value in numbers.items())
    yield ""
    yield _shared("common.c")


_MACROS = """
#ifdef __cplusplus
#define MT_C extern "C"
#else
#define MT_C extern
#endif
#if defined(_MSC_VER)
#include <intrin.h>
#define MT_THREAD __declspec(thread)
#define MT_MAYBE
#define MT_API __stdcall
#else
#define MT_THREAD __thread
#define MT_MAYBE __attribute__((unused))
#define MT_API
#endif
"""


def _code(saved: Saved) -> Iterator[str]:
    """The images as arrays, of which text ends with a zero; then what is done with them."""
    for kind, image in saved.images.items():
        data = image + b"\0" if kind == "ptx" else image
        rows = (",".join(map(str, data[at : at + _ROW])) for at in range(0, len(data), _ROW))
        yield f"static const union {{ unsigned char bytes[{len(data)}]; uint64_t aligned; }} mt_{kind}_ = {{{{"
        yield ",\n".join(rows)
        yield f"}}}};\n#define mt_{kind} mt_{kind}_.bytes\n"
    yield _shared("cuda.c" if saved.device == "cuda" else "hip.c")


def _launch(saved: Saved, name: str) -> Iterator[str]:
    info, names = saved.launch, slot_names(saved.launch)
    cuda = saved.device == "cuda"
    yield f"const char *{name}_error(void) {{ return mt_text; }}\n"
    yield f"{_prototype(name, arguments(info), _STREAM[saved.device])} {{"
    body = [
        "void *function = 0;",
        "int64_t g0, g1, g2;",
        f"int big = 0, status{', device = 0' if cuda else ''};",
        *checks.of_sizes(info, names),
        *(f"g{i} = {c_expr(extent, names)};" for i, extent in enumerate(info.grid)),
        checks.TOO_LARGE,
        "if (!g0 || !g1 || !g2) return 0;",
        *_grid_fits(info, cuda),
        "{",
        *(f"  {line}" for line in checks.of_memory(info, names)),
        "}",
        f"status = mt_function(&function{', &device' if cuda else ''});",
        "if (status) return status;",
        "{",
        *(f"  {line}" for line in (_cuda(info, names) if cuda else _hip(info, names))),
        "}",
    ]
    yield from (f"  {line}" for line in body)
    yield "}"


def _grid_fits(info: LaunchInfo, cuda: bool) -> Iterator[str]:
    for axis, (most, threads, cluster) in enumerate(zip(MOST_BLOCKS, info.block, info.cluster, strict=True)):
        letter = "xyz"[axis]
        limit = str(most) if cuda else f"UINT32_MAX / {threads}"
        yield f"if (g{axis} < 0 || g{axis} > {limit})"
        said = f"the grid is %lld in {letter}, which no GPU launches"
        yield f'  return mt_fail(MT_ARGUMENT, "{said}", (long long)g{axis});'
        if cluster > 1:
            said = f"the grid is %lld in {letter}: clusters of {cluster} blocks do not divide it"
            yield f'if (g{axis} % {cluster}) return mt_fail(MT_ARGUMENT, "{said}", (long long)g{axis});'


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


def _declared(info: LaunchInfo, names: Names) -> tuple[list[tuple[str, str, list[str]]], list[str]]:
    """The parameters, and the statements that make them."""
    values = list(_values(info, names))
    wide = [f"w{i}" for i, (_, _, before) in enumerate(values) if before and before[0].startswith("w")]
    lines = [f"int64_t {', '.join(wide)};"] if wide else []
    lines += [f"{kind}{'' if kind.endswith('*') else ' '}p{i};" for i, (kind, _, _) in enumerate(values)]
    for i, (_, value, before) in enumerate(values):
        lines += [*before, *([f"p{i} = {value};"] if value else [])]
    return values, lines


def _cuda(info: LaunchInfo, names: Names) -> Iterator[str]:
    values, lines = _declared(info, names)
    yield f"void *params[{max(1, len(values))}];"
    attributes = list(_attributes(info, names))
    yield f"mt_attribute attributes[{max(1, len(attributes))}];"
    yield "mt_config config;"
    yield from lines
    yield checks.TOO_LARGE
    for i, (kind, _, _) in enumerate(values):
        yield f"params[{i}] = mt_aligned(&p{i});" if kind == "mt_map" else f"params[{i}] = (void *)&p{i};"
    yield "memset(attributes, 0, sizeof attributes);"
    for i, (number, statements) in enumerate(attributes):
        yield f"attributes[{i}].id = {number};"
        yield from (s.format(f"attributes[{i}].value") for s in statements)
    yield "memset(&config, 0, sizeof config);"
    for axis, extent in enumerate(info.block):
        yield f"config.grid[{axis}] = (unsigned)g{axis}, config.block[{axis}] = {extent};"
    yield "config.shared = MT_SHARED, config.stream = stream;"
    yield f"config.attributes = {'attributes' if attributes else '0'}, config.count = {len(attributes)};"
    yield "(void)device;"
    yield "status = mt_cuda.cuLaunchKernelEx(&config, function, params, 0);"
    yield 'return status ? mt_driver(status, "launching " MT_ENTRY) : 0;'


def _attributes(info: LaunchInfo, names: Names) -> Iterator[tuple[str, list[str]]]:
    """The launch's attributes: the number of each, and what sets it, of its value."""
    if info.window is not None:
        yield (
            "MT_LAUNCH_WINDOW",
            [
                "{{",
                "  int most = 0;",
                "  status = mt_cuda.cuDeviceGetAttribute(&most, MT_DEVICE_WINDOW, device);",
                '  if (status) return mt_driver(status, "asking for the window of L2");',
                f"  {{0}}.window.base = (const void *)(uintptr_t)({c_expr(info.window.start, names)});",
                f"  {{0}}.window.size = (size_t)mt_min({c_expr(info.window.size, names)}, most);",
                "}}",
                f"{{0}}.window.ratio = {info.window.ratio!r}f;",
                "{0}.window.hit = 2, {0}.window.miss = 1; /* persisting, streaming */",
            ],
        )
    if info.cluster != (1, 1, 1):
        yield "MT_LAUNCH_CLUSTER", [f"{{0}}.cluster[{axis}] = {extent};" for axis, extent in enumerate(info.cluster)]
    if info.early:
        yield "MT_LAUNCH_EARLY", ["{0}.flag = 1;"]


def _hip(info: LaunchInfo, names: Names) -> Iterator[str]:
    values, lines = _declared(info, names)
    fields = "".join(f"{kind}{'' if kind.endswith('*') else ' '}p{i}; " for i, (kind, _, _) in enumerate(values))
    yield f"struct {{ {fields or 'char nothing; '}}} kernarg;"
    last = f"p{len(values) - 1}"
    size = f"(size_t)((char *)&kernarg.{last} - (char *)&kernarg) + sizeof kernarg.{last}" if values else "0"
    yield "void *extra[5];"
    yield "size_t size;"
    yield from lines
    yield checks.TOO_LARGE
    yield "memset(&kernarg, 0, sizeof kernarg);"
    yield from (f"kernarg.p{i} = p{i};" for i in range(len(values)))
    yield f"size = {size};"
    yield "extra[0] = (void *)1, extra[1] = &kernarg, extra[2] = (void *)2, extra[3] = &size, extra[4] = (void *)3;"
    extents = ", ".join([*(f"(unsigned)g{axis}" for axis in range(3)), *map(str, info.block)])
    yield f"status = hipModuleLaunchKernel(function, {extents}, 0, stream, 0, extra);"
    yield 'return status ? mt_driver(status, "launching " MT_ENTRY) : 0;'


def cmake(saved: Saved, name: str) -> str:
    """NAME.cmake: a static library minitile::NAME, for `include(OUT/NAME.cmake)`."""
    package, library = ("CUDAToolkit", "CUDA::cuda_driver") if saved.device == "cuda" else ("hip", "hip::host")
    return f"""# include() this file: minitile::{name} is the library of {name}.h. Made by minitile {__version__}.
if(NOT TARGET {library})
  find_package({package} REQUIRED)
endif()
add_library({name} STATIC "${{CMAKE_CURRENT_LIST_DIR}}/{name}.c")
target_include_directories({name} PUBLIC "${{CMAKE_CURRENT_LIST_DIR}}")
target_link_libraries({name} PUBLIC {library})
set_target_properties({name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
add_library(minitile::{name} ALIAS {name})
"""
