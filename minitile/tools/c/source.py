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

from collections.abc import Iterator, Sequence
from pathlib import Path

from minitile import __version__
from minitile.runtime.launch_info import LaunchInfo
from minitile.runtime.saved import Saved
from minitile.tools.c import checks
from minitile.tools.c.drivers import DRIVERS, Driver
from minitile.tools.c.expressions import c_expr, c_string
from minitile.tools.c.names import Argument, arguments, slot_names

_CONTEXTS = 64
_ROW = 32  # bytes of the code on a line


def header(saved: Saved, name: str) -> str:
    """NAME.h."""
    guard, upper, driver = f"MINITILE_{name.upper()}_H", name.upper(), DRIVERS[saved.device]
    stream = driver.stream
    given = arguments(saved.launch)
    width = max([len(a.name) for a in given], default=0)
    lines = [f" *   {a.name:<{width}}  {a.about}".rstrip() for a in given]
    return "\n".join(
        [
            f"/* {saved.name} for {saved.arch}: one launch. Made by minitile {__version__}.",
            " *",
            *lines,
            " *",
            f" * The kernel is loaded into {driver.where} by its first launch there, which must not be one of a stream",
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
    numbers |= DRIVERS[saved.device].macros(saved)
    yield from (f"#define {macro} {value}" for macro, value in numbers.items())
    yield ""
    yield _shared("common.c")


_MACROS = """
#ifdef __cplusplus
#define MT_C extern "C"
#else
#define MT_C extern
#endif
#if !defined(_WIN32)
#include <pthread.h>
#endif
#if defined(_MSC_VER)
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
    yield _shared(DRIVERS[saved.device].shared)


def _launch(saved: Saved, name: str) -> Iterator[str]:
    info, names = saved.launch, slot_names(saved.launch)
    driver = DRIVERS[saved.device]
    yield f"const char *{name}_error(void) {{ return mt_text; }}\n"
    yield f"{_prototype(name, arguments(info), driver.stream)} {{"
    body = [
        "void *function = 0;",
        "int64_t g0, g1, g2;",
        f"int big = 0, status{driver.locals};",
        *checks.of_sizes(info, names),
        *(f"g{i} = {c_expr(extent, names)};" for i, extent in enumerate(info.grid)),
        checks.TOO_LARGE,
        "if (!g0 || !g1 || !g2) return 0;",
        *_grid_fits(info, driver),
        "{",
        *(f"  {line}" for line in checks.of_memory(info, names)),
        "}",
        f"status = {driver.find};",
        "if (status) return status;",
        "{",
        *(f"  {line}" for line in driver.launch(info, names)),
        "}",
    ]
    yield from (f"  {line}" for line in body)
    yield "}"


def _grid_fits(info: LaunchInfo, driver: Driver) -> Iterator[str]:
    for axis, (threads, cluster) in enumerate(zip(info.block, info.cluster, strict=True)):
        letter = "xyz"[axis]
        yield f"if (g{axis} < 0 || g{axis} > {driver.most_blocks(axis, threads)})"
        said = f"the grid is %lld in {letter}, which no GPU launches"
        yield f'  return mt_fail(MT_ARGUMENT, "{said}", (long long)g{axis});'
        if cluster > 1:
            said = f"the grid is %lld in {letter}: clusters of {cluster} blocks do not divide it"
            yield f'if (g{axis} % {cluster}) return mt_fail(MT_ARGUMENT, "{said}", (long long)g{axis});'


def cmake(saved: Saved, name: str) -> str:
    """NAME.cmake: a static library minitile::NAME, for `include(OUT/NAME.cmake)`."""
    driver = DRIVERS[saved.device]
    package, library = driver.package, driver.library
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
