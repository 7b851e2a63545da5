"""`minitile build`: what a C program launches is what Python launches, from the same description.

The generated source is compiled with a stand-in for the driver and called through ctypes; Python's launcher gets a
driver made of Python, and both say what arrived.
"""

from __future__ import annotations

import ctypes
import json
import random
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.runtime import cuda
from minitile.runtime.arrays import Place
from minitile.runtime.errors import ArgumentError
from minitile.runtime.launch_info import (
    LaunchInfo,
    Param,
    ScalarArg,
    TensorArg,
    TensorMapParam,
    Window,
    byte_size,
    compile_exprs,
    param_layout,
    slots_of,
)
from minitile.runtime.launcher_base import BaseLauncher
from minitile.runtime.saved import Saved
from minitile.tools.c import files, write
from minitile.tools.c.expressions import c_expr
from minitile.tools.c.names import arguments, slot_names
from minitile.tools.cli import main
from tests.runtime.fake_cuda import FakeDriver

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RUNTIME = ROOT / "tests" / "runtime"
GCC = shutil.which("gcc") or shutil.which("cc")
pytestmark = pytest.mark.skipif(GCC is None, reason="there is no C compiler here")
STRICT = ["-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wno-sign-conversion"]

A, B, C = 0x7F0000000000, 0x7F1000000000, 0x7F2000000000
SIMPLE = LaunchInfo(
    entry="axpy",
    args=(
        TensorArg("x", "f32", ("n",)),
        TensorArg("y", "bf16", ("n", 3)),
        ScalarArg("a", "bf16"),
        ScalarArg("flag", "bool"),
        ScalarArg("int", "i8"),
        ScalarArg("f", "f64"),
        ScalarArg("u", "u64"),
    ),
    params=(
        Param("flag", "bool", ("scalar", "flag")),
        Param("x", "pointer", ("pointer", "x")),
        Param("int", "i8", ("scalar", "int")),
        Param("y", "pointer", ("pointer", "y")),
        Param("a", "bf16", ("scalar", "a")),
        Param("f", "f64", ("scalar", "f")),
        Param("u", "u64", ("scalar", "u")),
        Param("n", "i32", ("dim", "n")),
        Param("less", "i16", ("sub", ("dim", "n"), 7)),
    ),
    grid=(("ceildiv", ("dim", "n"), 128), ("max", 1, ("scalar", "int")), 1),
    block=(128, 2, 1),
    facts=(("divides", ("pointer", "x"), 16), ("less", ("dim", "n"), 1 << 30), ("divides", ("dim", "n"), 4)),
    written=("y",),
)
MAPS = LaunchInfo(
    entry="tiles",
    args=(
        TensorArg("A", "f32", ("M", "K"), ("lda", 1)),
        TensorArg("B", "bf16", ("N", 8, "K")),
        TensorArg("p0", "u8", ("g0",)),
    ),
    params=(
        TensorMapParam("A_map", "A", "f32", (("dim", "M"), ("dim", "K")), (("dim", "lda"),), (64, 32), 128, tf32=True),
        Param("g0", "i64", ("dim", "g0")),
        TensorMapParam(
            "B_map",
            "B",
            "bf16",
            (("dim", "N"), 8, ("dim", "K")),
            (("mul", ("dim", "K"), 8), ("dim", "K")),
            (2, 8, 64),
            0,
            256,
            "nan",
        ),
        TensorMapParam("p_map", "p0", "u8", (("dim", "g0"),), (), (32,), 32, 0),
    ),
    grid=(("mul", 16, ("dim", "M")), ("dim", "N"), 1),
    block=(384, 1, 1),
    cluster=(16, 1, 1),
    dynamic_shared=200_000,
    early=True,
    cooperative=True,
    window=Window(("pointer", "B"), ("mul", ("dim", "N"), ("mul", ("dim", "K"), 16)), 0.75),
    written=("A",),
)
KINDS = {
    "pointer": ctypes.c_void_p,
    "bool": ctypes.c_bool,
    "f64": ctypes.c_double,
    "f32": ctypes.c_float,
    **dict.fromkeys(("f16", "bf16"), ctypes.c_uint16),
    **{f"i{b}": getattr(ctypes, f"c_int{b}") for b in (8, 16, 32, 64)},
    **{f"u{b}": getattr(ctypes, f"c_uint{b}") for b in (8, 16, 32, 64)},
}


def kinds(info):
    return [ctypes.c_ubyte * 128 if isinstance(p, TensorMapParam) else KINDS[p.dtype] for p in info.params]


class Launch(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint32 * 3) for name in ("grid", "block")),
        *((name, ctypes.c_uint32) for name in ("shared", "count")),
        *((name, ctypes.c_uint64) for name in ("stream", "function", "context")),
        ("attributes", ctypes.c_ubyte * 72 * 4),
        ("params", ctypes.c_ubyte * 128 * 32),
        ("aligned", ctypes.c_uint32),
    )


class Map(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("dtype", "rank", "interleave", "swizzle", "promotion", "fill")),
        ("address", ctypes.c_uint64),
        *((name, ctypes.c_uint64 * 5) for name in ("dims", "strides")),
        *((name, ctypes.c_uint32 * 5) for name in ("box", "steps")),
    )


def saved_of(info, arch="sm_90a", images=None):
    return Saved("kernel", "cuda", arch, info, images or {"ptx": b".version 8.0", "cubin": b"\x7fELF" + bytes(60)})


class Program:
    """A kernel's generated source with the stand-in driver, as a shared object."""

    def __init__(self, saved, folder, stub="standin_cuda.c"):
        self.info, self.folder = saved.launch, folder
        write(saved, folder, "kernel")
        self._run([GCC, "-std=c99", *STRICT, "-fPIC", "-c", "kernel.c"])
        self._run([GCC, "-w", "-shared", "-fPIC", "-o", "kernel.so", "kernel.o", str(RUNTIME / stub)])
        self.library = ctypes.CDLL(str(folder / "kernel.so"))
        self.library.kernel_error.restype = ctypes.c_char_p
        dtypes = {a.name: a.dtype for a in self.info.args if isinstance(a, ScalarArg)}
        self.types = [
            ctypes.c_void_p if "*" in a.kind else ctypes.c_int64 if slot[0] == "dim" else KINDS[dtypes[slot[1]]]
            for a, slot in zip(arguments(self.info), slot_names(self.info), strict=True)
        ]
        self.library.kernel_launch.argtypes = [*self.types, ctypes.c_void_p]

    def _run(self, command):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def set(self, **values):
        for name, value in values.items():
            ctypes.c_int.in_dll(self.library, f"standin_{name}").value = value

    def get(self, name, kind=ctypes.c_int):
        return kind.in_dll(self.library, f"standin_{name}").value

    def call(self, values, stream=77):
        """`values` by name of slot: bf16 scalars as numbers."""
        given = []
        for (kind, name), how in zip(slot_names(self.info), self.types, strict=True):
            value = values[name]
            dtype = {a.name: a.dtype for a in self.info.args}.get(name)
            if kind == "scalar" and dtype == "bf16":
                value = int(np.asarray(value, ml_dtypes.bfloat16).view(np.uint16))
            given.append(how(value))
        return self.library.kernel_launch(*given, ctypes.c_void_p(stream))

    def error(self):
        return self.library.kernel_error().decode()

    def launched(self, values, stream=77):
        sizes = (ctypes.c_int * 32).in_dll(self.library, "standin_sizes")
        for i, kind in enumerate(kinds(self.info)):
            sizes[i] = ctypes.sizeof(kind)
        self.set(count=len(self.info.params), launches=0, maps=0)
        assert self.call(values, stream) == 0, self.error()
        if not self.get("launches"):
            return None, []
        found = (Launch * 16).in_dll(self.library, "standin_launch")[0]
        maps = (Map * 16).in_dll(self.library, "standin_map")[: self.get("maps")]
        return found, maps


@pytest.fixture
def driver(monkeypatch):
    """Python's launcher on a driver made of Python."""
    made = []

    def launch(info, values, stream=77):
        fake = FakeDriver(kinds(info))
        fake.stack = [1000]
        monkeypatch.setattr(cuda, "driver", lambda: fake)
        monkeypatch.setattr(cuda, "_ctypes_driver", lambda: fake)
        for each in (cuda.device_info, cuda._primary_context, cuda.largest_window):
            each.cache_clear()
        monkeypatch.setattr("minitile.runtime.tensor_map._ZEROS", [])
        launcher = cuda.Launcher(info, lambda _: b"\x7fELF")
        launcher.launch_checked(
            tuple(values[name] for _, name in slots_of(info.args)), Place("cuda", 0, lambda: stream)
        )
        made.append(fake)
        return fake

    yield launch
    for each in (cuda.device_info, cuda._primary_context, cuda.largest_window):
        each.cache_clear()


def same(info, launch, maps, fake):
    (there,) = fake.launches
    assert tuple(launch.grid) == there.grid
    assert tuple(launch.block) == there.block
    assert launch.shared == there.shared == info.dynamic_shared
    assert launch.stream == there.stream
    found = {int.from_bytes(bytes(a)[:4], "little"): bytes(a)[8:] for a in launch.attributes[: launch.count]}
    assert found == there.attributes
    values = []
    for kind, param in zip(kinds(info), launch.params, strict=False):
        value = kind.from_buffer_copy(bytes(param)[: ctypes.sizeof(kind)])
        values.append(bytes(value) if issubclass(kind, ctypes.Array) else value.value)
    assert tuple(values) == there.values
    assert launch.aligned
    assert len(maps) == len(fake.maps)
    for m, n in zip(maps, fake.maps, strict=True):
        rank = m.rank
        assert (m.dtype, m.swizzle, m.promotion, m.fill) == (n.dtype, n.swizzle, n.l2_promotion, n.fill)
        assert (tuple(m.dims)[:rank], tuple(m.strides)[: rank - 1]) == (n.dims, n.strides)
        assert (tuple(m.box)[:rank], tuple(m.steps)[:rank]) == (n.box, n.steps)
        assert m.interleave == 0


VALUES = {"x": A, "y": B, "a": 1.7, "flag": True, "int": -5, "f": 0.1, "u": 2**64 - 1, "n": 1000}
MAP_VALUES = {"A": A, "B": B, "p0": C, "M": 100, "K": 96, "lda": 128, "N": 17, "g0": 1001}


@pytest.fixture(scope="module")
def simple(tmp_path_factory):
    return Program(saved_of(SIMPLE), tmp_path_factory.mktemp("simple"))


@pytest.fixture(scope="module")
def tiles(tmp_path_factory):
    return Program(saved_of(MAPS), tmp_path_factory.mktemp("tiles"))


@pytest.mark.parametrize("n", [4, 1000, 7 + 32764])
def test_a_launch_is_pythons(simple, driver, n):
    values = {**VALUES, "n": n - n % 4}
    launch, maps = simple.launched(values)
    same(SIMPLE, launch, maps, driver(SIMPLE, values))
    assert simple.get("image", ctypes.c_char * 4)[:4] == b"\x7fELF"
    assert simple.get("entry", ctypes.c_char * 256) == b"axpy"
    assert launch.function == 7501


def test_tensor_maps_clusters_windows_early_cooperative(tiles, driver):
    launch, maps = tiles.launched(MAP_VALUES)
    same(MAPS, launch, maps, driver(MAPS, MAP_VALUES))
    assert {int.from_bytes(bytes(a)[:4], "little") for a in launch.attributes[: launch.count]} == {1, 2, 4, 6}
    assert (tiles.get("shared"), tiles.get("large")) == (200_000, 1)
    assert tiles.get("persisting", ctypes.c_uint64) == 1 << 24
    wide = {**MAP_VALUES, "N": 700, "K": 200}  # a window larger than the device's
    launch, maps = tiles.launched(wide)
    same(MAPS, launch, maps, driver(MAPS, wide))


def test_tensors_without_elements(tiles, driver):
    values = {**MAP_VALUES, "g0": 0, "p0": 0}
    launch, maps = tiles.launched(values)
    fake = driver(MAPS, values)
    same(MAPS, launch, maps, fake)
    assert maps[2].address == tiles.get("host", ctypes.c_uint64)
    assert ctypes.string_at(maps[2].address, 16) == bytes(16)
    assert maps[1].address == B
    assert tiles.launched({**MAP_VALUES, "M": 0}) == (None, [])  # an empty grid


def test_a_kernel_is_loaded_once_in_each_context(tmp_path):
    info = replace(SIMPLE, facts=(), written=())
    program = Program(saved_of(info), tmp_path)
    contexts = ctypes.c_uint64.in_dll(program.library, "standin_context")
    functions = []
    for context in (1000, 2001, 1000, 2001):
        contexts.value = context
        functions.append(program.launched(VALUES)[0].function)
    assert program.get("loads") == 2
    assert functions == [7501, 7502] * 2
    contexts.value = 0
    assert program.call(VALUES) == -1
    assert "no CUDA context is current" in program.error()


def test_threads_sleep_while_one_of_them_loads(tmp_path):
    """Loading takes half a second here: threads that spun would take as much of every processor."""
    program = Program(saved_of(replace(SIMPLE, facts=(), written=())), tmp_path)
    program.set(count=len(SIMPLE.params), slow=500)
    for i, kind in enumerate(kinds(SIMPLE)):
        (ctypes.c_int * 32).in_dll(program.library, "standin_sizes")[i] = ctypes.sizeof(kind)
    start = time.process_time()
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(program.call, [VALUES] * 4)] == [0] * 4
    assert time.process_time() - start < 0.25
    assert (program.get("loads"), program.get("launches")) == (1, 4)


def test_which_code_is_loaded(tmp_path):
    both = {"ptx": b".ver", "cubin": b"\x7fELF"}
    plain, hopper = (Program(saved_of(SIMPLE, arch, both), tmp_path / arch) for arch in ("sm_80", "sm_90a"))
    text = Program(saved_of(SIMPLE, "sm_90a", {"ptx": b".ver"}), tmp_path / "text")
    contexts = iter(range(1000, 9000, 1000))

    def loaded(program, *capability):
        """The beginning of what is loaded in a context of a device like that."""
        ctypes.c_uint64.in_dll(program.library, "standin_context").value = next(contexts)
        program.set(major=capability[0], minor=capability[1])
        status = program.call(VALUES)
        return program.get("image", ctypes.c_char * 64)[:4] if status == 0 else (status, program.error())

    assert loaded(plain, 8, 0) == loaded(plain, 8, 9) == b"\x7fELF"
    assert loaded(plain, 9, 0) == b".ver"
    assert loaded(plain, 7, 5) == b".ver"  # and the driver will say what it thinks of that
    assert loaded(hopper, 9, 0) == b"\x7fELF"
    assert loaded(hopper, 10, 0) == (-1, "compiled for sm_90a, and device 0 is sm_100")
    assert loaded(text, 9, 0) == b".ver"


def test_what_the_driver_refuses(tmp_path):
    program = Program(saved_of(SIMPLE, images={"ptx": b".ver"}), tmp_path)
    program.set(fail_load=218)
    assert program.call(VALUES) == 218
    assert program.error() == "loading the code of axpy failed: CUDA_ERROR_INVALID_PTX (CUDA error 218)\nptxas says no"
    program.set(fail_load=0, fail_launch=1)
    assert program.call(VALUES) == 1
    assert program.error() == "launching axpy failed: CUDA_ERROR_INVALID_VALUE (CUDA error 1)"
    program.set(fail_launch=0)
    assert program.call(VALUES) == 0


def test_an_old_driver(tmp_path):
    program = Program(saved_of(MAPS), tmp_path)
    program.set(version=11080)
    assert program.call(MAP_VALUES) == 500
    assert program.error() == "this CUDA driver has no cuTensorMapEncodeTiled"
    program.set(version=12000)
    assert program.call(MAP_VALUES) == 0


@pytest.mark.parametrize(
    ("which", "wrong", "said"),
    [
        ("simple", {"n": 1002}, "this kernel was compiled for n divisible by 4, but n is 1002"),
        ("simple", {"n": -4}, "n is -4"),
        ("simple", {"n": 1 << 30}, "this kernel was compiled for n < 1073741824, but n is 1073741824"),
        ("simple", {"x": A + 4}, "address of x divisible by 16, but the address of x is 0x7f0000000004"),
        ("simple", {"y": B + 1}, "y is misaligned: its address 0x7f1000000001 is no multiple of a bf16's size"),
        ("simple", {"y": 0}, "y is a null pointer"),
        ("simple", {"y": A + 3998}, "x and y overlap, and the kernel writes y"),
        ("simple", {"y": A - 5998}, "x and y overlap, and the kernel writes y"),
        ("simple", {"n": 40000}, "(n - 7) = 39993 does not fit the parameter less (i16)"),
        ("tiles", {"N": 65536}, "the grid is 65536 in y"),
        ("tiles", {"M": 1 << 60}, "too large"),
        ("tiles", {"A": A + 8}, "A cannot be copied by TMA: its address 0x7f0000000008 is no multiple of 16"),
        ("tiles", {"lda": 130}, "A cannot be copied by TMA: dimension 0 has a stride of 520 bytes"),
        ("tiles", {"lda": 0}, "the kernel writes A, which has several elements in one place"),
        ("tiles", {"K": 1 << 33, "lda": 1 << 34, "M": 1, "N": 1, "B": 1 << 60}, "A cannot be copied by TMA: dimension"),
        ("tiles", {"B": A + 128 * 4 * 50}, "A and B overlap, and the kernel writes A"),
    ],
)
def test_what_is_refused(request, driver, which, wrong, said):
    """Python refuses the same."""
    program = request.getfixturevalue(which)
    values = {**(VALUES if which == "simple" else MAP_VALUES), **wrong}
    before = program.get("launches")
    assert program.call(values) == -1
    assert said in program.error()
    assert program.get("launches") == before
    if not said.startswith(("n is -4", "y is misaligned", "the grid")):  # the binder finds these, and CUDA's driver
        with pytest.raises(ArgumentError):
            driver(program.info, values)


def test_columns_of_one_array_do_not_overlap(tiles, driver):
    """B lies in the gaps between A's rows: 96 of 128 numbers of 4 bytes."""
    info = replace(MAPS, args=(MAPS.args[0], TensorArg("B", "bf16", ("N", 8, "K"), ("ldb", 0, 1)), MAPS.args[2]))
    values = {**MAP_VALUES, "K": 32, "lda": 256, "ldb": 512, "B": A + 512, "N": 9}
    program = Program(saved_of(replace(info, window=None)), tiles.folder / "columns")
    assert program.call(values) == 0, program.error()
    assert program.call({**values, "B": A + 96}) == -1
    assert "A and B overlap" in program.error()


def test_overlaps_as_python_finds_them(tmp_path):
    """Of random strides, sizes and places."""
    info = LaunchInfo(
        "two",
        (
            TensorArg("X", "f32", ("a", "b"), ("s", "t")),
            TensorArg("Y", "f32", ("c", "d"), ("u", "v")),
        ),
        (Param("X", "pointer", ("pointer", "X")), Param("Y", "pointer", ("pointer", "Y"))),
        (1, 1, 1),
        (32, 1, 1),
        written=("Y",),
    )
    program, rng = Program(saved_of(info), tmp_path), random.Random(5)
    python = BaseLauncher.__new__(BaseLauncher)
    BaseLauncher.__init__(python, info)
    seen = {0: 0, -1: 0}
    for _ in range(2000):
        values = {name: rng.choice((0, 1, 2, 3, 5)) for name in "abcd"}
        values |= {name: rng.choice((-8, -4, -1, 0, 1, 2, 3, 4, 8, 16)) for name in "stuv"}
        values |= {"X": A, "Y": A + 4 * rng.randint(-40, 40)}
        try:
            python.check_memory(tuple(values[name] for _, name in slots_of(info.args)))
            wanted = 0
        except ArgumentError:
            wanted = -1
        assert program.call(values) == wanted, (values, program.error())
        seen[wanted] += 1
    assert min(seen.values()) > 300


def test_expressions_are_pythons(tmp_path):
    """Random expressions over random numbers; where Python's is beyond 64 bits, C's says so."""
    rng = random.Random(3)
    names = {("dim", "a"): "a", ("dim", "b"): "b", ("scalar", "c"): "c"}
    operations = [
        "add",
        "sub",
        "mul",
        "floordiv",
        "mod",
        "ceildiv",
        "min",
        "max",
        "gcd",
        "or",
        "divides",
        "less",
        "same",
    ]

    def made(depth):
        if not depth or rng.random() < 0.2:
            return rng.choice([*names, rng.randint(-9, 9), rng.choice((2**31, -(2**40), 2**62))])
        operation = rng.choice(operations)
        by = rng.choice((1, 2, 3, 16, 128)) if operation == "divides" else made(depth - 1)
        return (operation, made(depth - 1), by)

    exprs = [made(rng.randint(1, 3)) for _ in range(150)]
    lines = "\n".join(f"  *big = 0; out[{i}] = {c_expr(e, names)}; bigs[{i}] = *big;" for i, e in enumerate(exprs))
    common = (ROOT / "minitile" / "tools" / "c" / "common.c").read_text()
    text = f"""#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <pthread.h>
#define MT_MAYBE
#define MT_THREAD __thread
{common}
void all(int64_t a, int64_t b, int64_t c, int64_t *out, int *bigs) {{
  int big[1];
{lines.replace("&big", "big")}
}}
"""
    (tmp_path / "all.c").write_text(text)
    flags = ["-fsanitize=undefined", "-fno-sanitize-recover", "-static-libubsan"]
    for extra in (flags, []):
        command = [GCC, "-O1", "-shared", "-fPIC", *extra, "-o", "all.so", "all.c"]
        if subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0:
            break
    library = ctypes.CDLL(str(tmp_path / "all.so"))
    compared = overflowed = 0
    for _ in range(60):
        scale = rng.choice((10, 1000, 2**31, 2**62))
        values = [rng.randint(-scale, scale) for _ in names]
        out, bigs = (ctypes.c_int64 * len(exprs))(), (ctypes.c_int * len(exprs))()
        library.all(*map(ctypes.c_int64, values), out, bigs)
        for i, expr in enumerate(exprs):
            try:
                (wanted,) = compile_exprs([expr], [*names])(values)
            except ZeroDivisionError:
                assert bigs[i]
                continue
            if bigs[i]:
                overflowed += 1
                assert scale >= 2**31 or "4611686018427387904" in str(expr) or "1099511627776" in str(expr)
            else:
                assert out[i] == int(wanted), (expr, values)
                compared += 1
    assert compared > 5000
    assert overflowed > 100


def test_names_that_c_has_not():
    info = LaunchInfo(
        "k",
        tuple(TensorArg(n, "f16", ("stream", n)) for n in ("int", "p0", "größe", "mt_x", "__y", "A")),
        (),
        (1, 1, 1),
        (32, 1, 1),
    )
    found = [a.name for a in arguments(info)]
    assert len({*found}) == len(found)
    assert found[:6] == ["int_", "a_p0", "gru00f6u00dfe".replace("u00", "u"), "a_mt_x", "y", "A"]
    assert {"stream_", "A_"} <= {*found}
    for name in ("int", "9k", "größe", "_k", "mt_k", "p0"):
        with pytest.raises(mt.MinitileError, match="is no name for a function in C"):
            files(saved_of(info), name)


def test_of_hip(tmp_path):
    """The same launch on the stand-in for HIP, parameters packed as kernarg."""
    info = replace(SIMPLE, facts=SIMPLE.facts[1:])
    saved = Saved("kernel", "rocm", "gfx942", info, {"hsaco": b"\x7fELF" + bytes(60)})
    program = Program(saved, tmp_path, "standin_hip.c")
    device = program.library.hipSetDevice
    for which in (0, 1, 0):
        device(which)
        assert program.call(VALUES) == 0, program.error()
    assert program.get("loads") == 2

    class HipLaunch(ctypes.Structure):
        _fields_ = (
            ("function", ctypes.c_uint64),
            ("stream", ctypes.c_uint64),
            ("numbers", ctypes.c_uint32 * 8),
            ("device", ctypes.c_int32),
            ("pad", ctypes.c_int32),
            ("kernarg", ctypes.c_ubyte * 512),
        )

    found = (HipLaunch * 64).in_dll(program.library, "standin_launch")[0]
    _, offsets = param_layout(info.params)
    assert list(found.numbers) == [8, 1, 1, 128, 2, 1, 0, ctypes.sizeof(ctypes.c_int16) + offsets[-1]]
    there = {
        p.name: bytes(found.kernarg)[at : at + byte_size(p.dtype)] for p, at in zip(info.params, offsets, strict=True)
    }
    assert there["x"] == A.to_bytes(8, "little")
    assert there["u"] == b"\xff" * 8
    assert there["n"] == (1000).to_bytes(4, "little")
    assert there["less"] == (993).to_bytes(2, "little")
    assert there["a"] == np.asarray(1.7, ml_dtypes.bfloat16).tobytes()
    ctypes.c_int.in_dll(program.library, "standin_fail_launch").value = 1
    assert program.call(VALUES) == 1
    assert program.error().startswith("launching axpy failed: hipErrorInvalidValue")


def test_the_structures_are_those_of_cuda_h(tmp_path):
    """Sizes, places and numbers, where a toolkit is installed."""
    header = Path("/usr/local/cuda/include/cuda.h")
    if not header.exists():
        pytest.skip("there is no cuda.h")
    head = (tmp_path / "kernel.c", write(saved_of(MAPS), tmp_path, "kernel"))[0].read_text()
    fields = {"grid": "gridDimX", "block": "blockDimX", "shared": "sharedMemBytes", "stream": "hStream"}
    fields |= {"attributes": "attrs", "count": "numAttrs"}
    asserts = [f"offsetof(mt_config, {a}) == offsetof(CUlaunchConfig, {b})" for a, b in fields.items()]
    asserts += ["sizeof(mt_config) == sizeof(CUlaunchConfig)", "sizeof(mt_attribute) == sizeof(CUlaunchAttribute)"]
    asserts += ["offsetof(mt_attribute, value) == offsetof(CUlaunchAttribute, value)", "sizeof(CUtensorMap) == 128"]
    window = {"base": "base_ptr", "size": "num_bytes", "ratio": "hitRatio", "hit": "hitProp", "miss": "missProp"}
    asserts += [
        f"offsetof(mt_attribute, value.window.{a}) == offsetof(CUlaunchAttribute, value.accessPolicyWindow.{b})"
        for a, b in window.items()
    ]
    numbers = {
        "MT_FUNCTION_SHARED": "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
        "MT_FUNCTION_LARGE_CLUSTER": "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED",
        "MT_DEVICE_MAJOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
        "MT_DEVICE_MINOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
        "MT_DEVICE_PERSISTING": "CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE",
        "MT_DEVICE_WINDOW": "CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE",
        "MT_JIT_REGISTERS": "CU_JIT_MAX_REGISTERS",
        "MT_JIT_ERRORS": "CU_JIT_ERROR_LOG_BUFFER",
        "MT_JIT_ERRORS_SIZE": "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES",
        "MT_JIT_LEVEL": "CU_JIT_OPTIMIZATION_LEVEL",
        "MT_LIMIT_PERSISTING": "CU_LIMIT_PERSISTING_L2_CACHE_SIZE",
        "MT_LAUNCH_WINDOW": "CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW",
        "MT_LAUNCH_CLUSTER": "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION",
        "MT_LAUNCH_EARLY": "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION",
        "MT_LAUNCH_COOPERATIVE": "CU_LAUNCH_ATTRIBUTE_COOPERATIVE",
        "2": "CU_ACCESS_PROPERTY_PERSISTING",
        "1": "CU_ACCESS_PROPERTY_STREAMING",
        "3": "(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)",
    }
    asserts += [f"(int){a} == (int){b}" for a, b in numbers.items()]
    types = head[head.index("typedef struct { unsigned id") : head.index("MT_C int MT_API cuGetProcAddress_v2")]
    text = "#include <cuda.h>\n#include <stddef.h>\n#include <stdint.h>\n" + types
    text += "\n".join(f'_Static_assert({a}, "{i}");' for i, a in enumerate(asserts))
    (tmp_path / "mirror.c").write_text(text)
    command = [GCC, "-std=c11", "-c", f"-I{header.parent}", "mirror.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


PROGRAM = """
#include <cstdio>
#include <cstdlib>
#include "add.h"
#include "again.h"
int main(int count, char **words) {
  float *memory = (float *)0x7f0000000000;
  int64_t n = std::atoll(words[1]);
  int status = add_launch(memory, memory + 4096, memory + 8192, n, 0);
  if (status) std::printf("%d %s\\n", status, add_error());
  else std::printf("launched\\n");
  return again_launch(memory, memory + 4096, memory + 8192, n, 0) != status || count != 2;
}
"""


def test_a_program_in_c(tmp_path):
    write(saved_of(SIMPLE, "sm_80"), tmp_path, "axpy")
    (tmp_path / "main.c").write_text("""
#include <stdio.h>
#include <string.h>
#include "axpy.h"
extern int standin_launches, standin_major;
int main(void) {
  float *x = (float *)0x7f0000000000;
  standin_major = 8;
  if (axpy_launch(x, x + 4096, 0x3f80, 1, 2, 0.5, 7, 1000, 0)) return puts(axpy_error()), 1;
  if (axpy_launch(x, x + 1, 0x3f80, 1, 2, 0.5, 7, 1000, 0) != AXPY_BAD_ARGUMENT) return 2;
  puts(axpy_error());
  return standin_launches != 1;
}
""")
    command = [GCC, "-Wall", "-Werror", "-O2", "-o", "main", "main.c", "axpy.c", str(RUNTIME / "standin_cuda.c")]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "x and y overlap, and the kernel writes y\n")


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler here")
@pytest.mark.parametrize("device", ["cuda", "rocm"])
def test_the_source_is_cxx_too(tmp_path, device):
    info = MAPS if device == "cuda" else SIMPLE
    write(
        replace(saved_of(info), device=device, images={"ptx": b".ver"} if device == "cuda" else {"hsaco": b"ELF"}),
        tmp_path,
    )
    command = ["g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", "kernel.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cmake") is None or shutil.which("g++") is None, reason="no CMake or C++ compiler")
def test_a_program_by_cmake(tmp_path):
    """C++, two kernels from the command line, linked by their CMake files."""
    out, stub = tmp_path / "out", tmp_path / "libcuda.so"
    for name in ("add", "again"):
        words = ["build", "examples/vector_add.py:add", "--target", "sm_80", "--name", name, "-o", str(out)]
        assert main([*words, *(["--spec", "f32[N]"] * 3)]) == 0
    compiled = [GCC, "-std=c11", "-w", "-shared", "-fPIC", "-o", str(stub), str(RUNTIME / "standin_cuda.c")]
    subprocess.run(compiled, check=True)
    (tmp_path / "main.cpp").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(f"""
cmake_minimum_required(VERSION 3.13)
project(uses LANGUAGES C CXX)
add_library(CUDA::cuda_driver SHARED IMPORTED)
set_target_properties(CUDA::cuda_driver PROPERTIES IMPORTED_LOCATION "{stub}")
include(out/add.cmake)
include(out/again.cmake)
add_executable(uses main.cpp)
target_link_libraries(uses minitile::add minitile::again)
""")
    for command in (["cmake", "-S", ".", "-B", "b"], ["cmake", "--build", "b"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    for n, said in ((1000, "launched\n"), (0, "launched\n"), (-1, "-1 N is -1\n")):
        done = subprocess.run([str(tmp_path / "b" / "uses"), str(n)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, said), done.stderr


def test_the_files(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    saved = tmp_path / "add.kernel"
    words = ["build", "examples/vector_add.py:add", "--target", "sm_80", "-o", str(tmp_path), "--save", str(saved)]
    assert main([*words, *(["--spec", "f32[N]"] * 3)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert {Path(p).name for p in printed} >= {"add.h", "add.c", "add.cmake", "add.json", "add.ptx", "add.kernel"}
    info = LaunchInfo.from_json(json.loads((tmp_path / "add.json").read_text()))
    assert mt.load(saved).launch_info == info
    assert main([*words, "--spec", "f32[N]", "--name", "for"]) == 1


@mt.kernel(target="sm_90a")
def with_maps(X: T.Tensor(("M", 64), T.float16), Y: T.Tensor(("M", 64), T.float16), n: T.int32):
    with T.Kernel(T.ceildiv(X.shape[0], 64), threads=128) as bx:
        tile = T.alloc_shared((64, 64), X.dtype)
        T.copy(X[bx * 64, 0], tile)
        T.copy(tile, Y[bx * 64, 0])


def test_a_compiled_kernel(tmp_path, driver):
    compiled = with_maps.compile(target="sm_90a")
    info = compiled.launch_info
    assert any(isinstance(p, TensorMapParam) for p in info.params)
    values = {"X": A, "Y": B, "M": 1000, "n": 3}
    launch, maps = Program(compiled.saved, tmp_path).launched(values)
    same(info, launch, maps, driver(info, values))


@pytest.mark.gpu
def test_on_a_gpu(tmp_path):
    """The generated source with the real driver, beside Python's launch."""
    from minitile.runtime.buffers import DeviceArray

    rng = np.random.default_rng(0)
    target = "sm_90a" if cuda.device_info(0).capability == (9, 0) else "sm_80"
    kernel = with_maps.compile(target=target)
    write(kernel.saved, tmp_path, "kernel")
    command = [GCC, "-std=c99", *STRICT, "-shared", "-fPIC", "-o", "kernel.so", "kernel.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(tmp_path / "kernel.so"))
    library.kernel_error.restype = ctypes.c_char_p
    for rows in (0, 1, 64, 1000):
        x = rng.standard_normal((rows, 64)).astype(np.float16)
        given, ours, theirs = DeviceArray(x), DeviceArray(np.full_like(x, np.nan)), DeviceArray(np.full_like(x, np.nan))
        kernel(given, ours, 3)
        with cuda.on_device(Place("cuda", 0)):
            pointers = [ctypes.c_void_p(a.pointer) for a in (given, theirs)]
            status = library.kernel_launch(*pointers, 3, ctypes.c_int64(rows), None)
        assert status == 0, library.kernel_error()
        np.testing.assert_array_equal(theirs.to_host(), x)
        np.testing.assert_array_equal(ours.to_host(), x)
    path = tmp_path / "saved.kernel"
    kernel.save(path)
    again = DeviceArray(np.full_like(x, np.nan))
    mt.load(path)(given, again, n=3)
    np.testing.assert_array_equal(again.to_host(), x)
