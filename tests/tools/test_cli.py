"""The command line: each subcommand's output and exit status."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile import __version__
from minitile.driver import cache
from minitile.driver.cache import Cache, Entry, Kind, make_key
from minitile.ir.diagnostics import MinitileError
from minitile.tools import cli_args
from minitile.tools.cli import COMMANDS, main

ROOT = Path(__file__).parents[2]
VECTOR_ADD = ROOT / "tests" / "runtime" / "vector_add.ptx"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("MINITILE_CACHE", raising=False)
    monkeypatch.setenv("MINITILE_CACHE_DIR", str(tmp_path / "cache"))
    return Cache(tmp_path / "cache")


def test_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "minitile", "--version"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"minitile {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert COMMANDS[command].help in " ".join(capsys.readouterr().out.split())


def test_cache(own_cache, capsys):
    kind = Kind("cubin", {"arch": cache.text, "registers": cache.count}, bool)
    key = make_key(kind, x="x", name="gemm__block64")
    own_cache.store(key, Entry({"arch": "sm_80", "registers": 40}, b"cubin"))
    path = own_cache.root / key.name[:2] / f"{key.name}.mt"
    used = time.mktime((2026, 3, 4, 5, 6, 0, 0, 0, -1))
    os.utime(path, (used, used))
    own_cache.store(make_key(kind, x="y", name="add"), Entry({"arch": "sm_80", "registers": 8}, bytes(5000)))
    assert main(["cache"]) == 0
    out = capsys.readouterr().out
    assert "add  8 registers" in out.splitlines()[0]  # used last
    assert out.splitlines()[1].split() == [
        *(key.name[:16], "2026-03-04", "05:06", str(path.stat().st_size), "bytes", "cubin", "sm_80"),
        *("gemm__block64", "40", "registers"),
    ]
    assert f"{own_cache.root}: 2 entries" in out
    for order, first in (("name", "add"), ("size", "add"), ("used", "add")):
        assert main(["cache", "show", "--sort", order]) == 0
        assert first in capsys.readouterr().out.splitlines()[0]
    assert main(["cache", "--name", "gemm"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["cache", "trim", "--size", "1M"]) == 0
    assert "0 entries removed" in capsys.readouterr().out
    assert main(["cache", "trim", "--size", "much"]) == 1
    assert "--size much is no size" in capsys.readouterr().err
    assert main(["cache", "trim", "--size", "5.3K"]) == 0  # what was not used for longest goes
    assert "1 entries removed" in capsys.readouterr().out
    assert [name for name, _ in own_cache.entries()] == [make_key(kind, x="y", name="add").name]
    assert main(["cache", "clear"]) == 0
    assert "1 entries removed" in capsys.readouterr().out
    assert list(own_cache.entries()) == []


def test_the_cache_has_the_names_of_kernels(own_cache, capsys):
    @mt.kernel
    def doubled(A: T.Tensor(("N",), T.float32), block=64):
        with T.Kernel(T.ceildiv(A.shape[0], block), threads=64) as bx:
            for i in T.Parallel(block):
                A[bx * block + i] = A[bx * block + i] * 2

    assert doubled.compile(target="sm_80", block=128).binary
    doubled.compile(target="gfx942")
    assert main(["cache"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[:-1]]
    assert {(r[-3] if r[-1] == "registers" else r[-1]) for r in rows} == {"doubled__block128", "doubled"}


def test_a_cache_that_is_not_used(own_cache, capsys):
    own_cache.root.mkdir()
    own_cache.root.chmod(0o777)
    assert main(["cache"]) == 1
    assert "the cache is not used: " in capsys.readouterr().out
    assert main(["doctor"]) == 0
    assert "not used: " in capsys.readouterr().out


def test_cache_off(monkeypatch, capsys):
    monkeypatch.setenv("MINITILE_CACHE", "0")
    assert main(["cache"]) == 0
    assert "switched off" in capsys.readouterr().out


def test_doctor(capsys):
    assert main(["doctor"]) == 0
    found = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert found["minitile"].strip() == __version__
    assert found["numpy"].strip() == np.__version__
    assert "CUDA driver" in found
    assert "assembles" in found["nvJitLink"]


RACE = """.version 8.0
.target sm_80
.address_size 64
.visible .entry race(.param .u64 out)
{
    .reg .b32 %t, %a, %v;
    .reg .b64 %p;
    .shared .align 4 .b8 buffer[256];
    mov.u32 %t, %tid.x;
    shl.b32 %a, %t, 2;
    mov.u32 %v, buffer;
    add.u32 %a, %a, %v;
    st.shared.u32 [%a], %t;
    xor.b32 %a, %a, 128;
    ld.shared.u32 %v, [%a];
    ld.param.u64 %p, [out];
    st.global.u32 [%p], %v;
    ret;
}
"""


def test_check_finds_nothing(capsys):
    arguments = ["f32[1000]", "f32[1000]", "f32[1000]=0", "u32=1000"]
    assert main(["check", str(VECTOR_ADD), "--grid", "8", "--block", "128", "--args", *arguments]) == 0
    assert "vector_add: " in capsys.readouterr().err


def test_check_finds_a_race(tmp_path, capsys):
    file = tmp_path / "race.ptx"
    file.write_text(RACE)
    assert main(["check", str(file), "--block", "64", "--args", "u32[1]"]) == 1
    assert "missing_barrier (RAW)" in capsys.readouterr().out
    file.write_text(RACE.replace("xor.b32", "bar.sync 0;\n    xor.b32").replace("st.global.u32", "// "))
    assert main(["check", str(file), "--block", "64", "--args", "u32[1]"]) == 0


def test_check_says_what_cures(tmp_path, capsys):
    file = tmp_path / "race.ptx"
    file.write_text(RACE)
    main(["check", str(file), "--block", "64", "--args", "u32[1]"])
    out = capsys.readouterr().out
    assert "bytes 128 to 131 of buffer (shared)" in out
    assert "cure: bar.sync between PTX line 13 and line 15" in out


def test_check_lists_what_is_to_spare(tmp_path, capsys):
    """Of two barriers in a row each does for the other; one alone is needed, and so is a wait."""
    file = tmp_path / "barriers.ptx"
    text = RACE.replace("    st.global.u32", "    mov.u32 %a, 0; // ")
    file.write_text(text.replace("    xor.b32", "    bar.sync 0;\n    xor.b32"))
    arguments = ["check", str(file), "--redundant", "--block", "64", "--args", "u32[1]"]
    assert main(arguments) == 0
    assert "1 synchronising instructions, 0 to spare" in capsys.readouterr().err
    file.write_text(text.replace("    xor.b32", "    bar.sync 0;\n    bar.sync\n        0;\n    xor.b32"))
    assert main(arguments) == 1
    said = capsys.readouterr()
    assert said.out.splitlines() == ["nothing misses PTX line 14: bar.sync 0", "nothing misses PTX line 15: bar.sync 0"]
    assert "2 synchronising instructions, 2 to spare" in said.err
    file.write_text(text)
    assert main(arguments) == 1
    assert "missing_barrier (RAW)" in capsys.readouterr().err, "at fault as it is: there is nothing to compare with"


def test_check_takes_kernels(capsys):
    gemm = f"{ROOT / 'examples' / 'gemm.py'}:gemm_nt_bf16"
    sizes = [word for shape in ("bf16[64,72]", "bf16[64,72]", "bf16[64,64]=0") for word in ("--arg", shape)]
    tiles = ["--set", "block_M=64", "--set", "block_N=64", "--set", "num_stages=2"]
    for target in ("sm_80", "sm_90a"):
        assert main(["check", gemm, "--target", target, *sizes, *tiles]) == 0
        assert "0 findings" in capsys.readouterr().err
        assert main(["check", gemm, "--target", target, *sizes, *tiles, "--redundant"]) == 0
        assert "0 to spare" in capsys.readouterr().err


def test_check_takes_amd_code(tmp_path, capsys):
    """A kernel for gfx950, and its assembly as a file."""
    pytest.importorskip("llvmlite")
    softmax = f"{ROOT / 'examples' / 'softmax.py'}:softmax"
    arguments = ["--target", "gfx950", "--args", "f32[5,100]", "f32[5,100]=0"]
    assert main(["check", softmax, *arguments]) == 0
    assert "0 findings" in capsys.readouterr().err
    assert main(["check", softmax, "--cycles", *arguments]) == 0
    assert "waves waited longest" in capsys.readouterr().out
    assert main(["check", softmax, "--cycles", "--args", "f32[5,100]", "f32[5,100]=0"]) == 1
    assert "AMD code only" in capsys.readouterr().err
    file = tmp_path / "softmax.s"
    shapes = ["--arg", "f32[5,100]", "--arg", "f32[5,100]", "--set", "columns=256", "--output", str(file)]
    assert main(["compile", softmax, "--target", "gfx950", "--emit", "gcn", *shapes]) == 0
    given = ["--grid", "2", "--block", "128", "--args", "f32[5,100]", "f32[5,100]=0", "i32=5", "i32=100"]
    assert main(["check", str(file), *given]) == 0
    assert main(["check", str(file), "--redundant", *given]) == 0
    assert "synchronising instructions, 0 to spare" in capsys.readouterr().err
    file.write_text(file.read_text().replace("vmcnt(0)", "vmcnt(63)"))
    assert main(["check", str(file), *given]) == 1
    assert "missing_wait (RAW)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([str(VECTOR_ADD)], "how many threads"),
        (["nowhere.py:kernel"], "there is no file nowhere.py"),
        (["nowhere.ptx", "--block", "1"], "cannot read nowhere.ptx"),
        ([str(VECTOR_ADD), "--block", "128", "--args", "f99[4]"], "unknown dtype 'f99'"),
        ([str(VECTOR_ADD), "--block", "128", "--args", "i32=x"], "'x' is no i32"),
    ],
)
def test_check_says_what_is_wrong(arguments, message, capsys):
    assert main(["check", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_opt_says_what_is_wrong(capsys):
    assert main(["opt", "nowhere.mt"]) == 1
    assert "minitile opt: cannot read nowhere.mt" in capsys.readouterr().err


def test_arguments():
    array, filled, number, tosses = cli_args.parse_arguments(["bf16[3,4]", "i8[2]=-3", "u64=0x10", "bool[100]"])
    assert (array.shape, array.dtype) == ((3, 4), ml_dtypes.bfloat16)
    assert array.astype(np.float32).std() > 0
    assert filled.tolist() == [-3, -3]
    assert (type(number), int(number)) == (np.uint64, 16)
    assert set(tosses.tolist()) == {True, False}
    assert cli_args.parse_arguments(["f32[9]"], seed=1)[0].tolist() != cli_args.parse_arguments(["f32[9]"])[0].tolist()


def test_tensor_maps():
    """For PTX only: an array with a box and a swizzle, and with strides."""
    dense, strided = cli_args.parse_arguments(["bf16[256,96]@64,32/64", "f32[2,8,16:256,32,1]@1,8,16=3"], maps=True)
    assert (dense.array.shape, dense.box, dense.swizzle) == ((256, 96), (64, 32), 64)
    assert strided.array.strides == (1024, 128, 4)
    assert (strided.array == 3).all()
    twin = strided.copy()
    twin.array[...] = 4
    assert (strided.array == 3).all()
    assert (twin.array == 4).all()
    for text in ("bf16[256,96]@64,32/64", "f32[4,4:4,1]", "f32[4,4:4,1]=0"):
        with pytest.raises(MinitileError, match="PTX texts only"):
            cli_args.parse_arguments([text])
    for text in (
        "bf16[256,96]@64,32/48",
        "bf16[256,96]@64",
        "bf16[256,96:96]@64,32",
        "bf16=3@64",
        "bf16[256,90]@64,32",
    ):
        with pytest.raises(MinitileError):
            cli_args.parse_arguments([text], maps=True)


BY_TMA = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry box(.param .align 64 .b8 map[128], .param .u64 out)
{
    .shared .align 128 .b8 tile[2048];
    .shared .align 8 .b8 bar[8];
    .reg .b32 %t, %s, %b, %x, %y, %v;
    .reg .b64 %m, %p, %o;
    .reg .pred %lead, %done;
    mov.u32 %t, %tid.x;
    mov.u32 %s, tile;
    mov.u32 %b, bar;
    mov.u32 %x, 16;
    mov.u32 %y, 4;
    mov.b64 %m, map;
    cvta.param.u64 %m, %m;
    setp.eq.u32 %lead, %t, 0;
    @%lead mbarrier.init.shared::cta.b64 [%b], 1;
    @%lead fence.mbarrier_init.release.cluster;
    bar.sync 0;
    @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 2048;
    @%lead cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], [%m, {%x, %y}], [%b];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%b], 0;
    @!%done bra WAIT;
    shl.b32 %x, %t, 2;
    add.u32 %s, %s, %x;
    ld.shared.u32 %v, [%s];
    ld.param.u64 %p, [out];
    cvt.u64.u32 %o, %x;
    add.u64 %p, %p, %o;
    st.global.u32 [%p], %v;
    ret;
}
"""


def test_check_takes_tensor_maps(tmp_path, capsys):
    file = tmp_path / "box.ptx"
    file.write_text(BY_TMA)
    arguments = ["--block", "64", "--args", "u32[32,48]@32,16", "u32[64]=0"]
    assert main(["check", str(file), *arguments]) == 0
    assert main(["check", str(file), "--redundant", *arguments]) == 0
    file.write_text(
        BY_TMA.replace("mbarrier.try_wait.parity.shared::cta.b64 %done, [%b], 0", "setp.eq.u32 %done, 0, 0")
    )
    assert main(["check", str(file), *arguments]) == 1
    assert "missing_wait" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["f32", "f32[a]", "f32[2", "i8=300", "=3", "i32=1.5", ""])
def test_wrong_arguments(text):
    with pytest.raises(MinitileError):
        cli_args.parse_arguments([text])


def test_only_entry():
    assert cli_args.only_entry(".visible .entry a(") == "a"
    with pytest.raises(MinitileError, match="the kernels a, b"):
        cli_args.only_entry(".entry a( .entry b(")
    with pytest.raises(MinitileError, match="no kernel"):
        cli_args.only_entry("")
