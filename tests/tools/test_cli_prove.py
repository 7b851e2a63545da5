"""`CompiledKernel.certificate`, `minitile prove` and `minitile check-certificate`: proved, at fault, refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import MinitileError
from minitile.tools.cli import main


def roles(first_parity: int, limit: int = 0):
    """A copy by two roles through one slot; first_parity 1 is right. From round `limit` on, if it is given, no slot is
    given back."""

    @mt.kernel
    def copied(A: T.Tensor((64, "K"), T.float32), B: T.Tensor((64, "K"), T.float32)):
        with T.Kernel(1, threads=256):
            slot = T.alloc_shared((64, 32), T.float32)
            ready, done = T.alloc_barrier(128), T.alloc_barrier(128)
            for k in range(T.ceildiv(A.shape[1], 32)):
                with T.ws(1):
                    T.barrier_wait(done, (k + first_parity) % 2)
                    T.tma_copy(A[0, k * 32], slot, barrier=ready)
                    T.barrier_arrive(ready)
                with T.ws(0):
                    T.barrier_wait(ready, k % 2)
                    part = T.alloc_fragment((64, 32), T.float32)
                    T.copy(slot, part)
                    if limit:
                        if k < limit:
                            T.barrier_arrive(done)
                    else:
                        T.barrier_arrive(done)
                    T.copy(part, B[0, k * 32])

    return copied


SPECS = [np.zeros((64, 128), np.float32)] * 2  # K: a multiple of 4


@pytest.fixture(scope="module")
def sound():
    return roles(1).compile(*SPECS, target="sm_90a")


def test_certificate(sound):
    found = sound.certificate()
    assert found
    assert found.verdict == "proved"
    assert found.certificate["name"] == sound.launch_info.entry
    assert str(found).startswith("proved: ")


@pytest.mark.parametrize(("parity", "limit", "least"), [(0, 0, 1), (1, 5, 193)])
def test_a_fault_is_shown_on_the_sizes_it_needs(parity, limit, least):
    """A deadlock at once, and one of the seventh round."""
    found = roles(parity, limit).compile(*SPECS, target="sm_90a").certificate()
    assert found.verdict == "fault"
    assert not found
    assert found.reason.startswith("stuck: ")
    assert found.certificate is None
    assert found.sizes is not None
    assert least <= found.sizes["K"] <= least + 200
    assert "lazy" in found.shown
    assert "barrier" in found.steps[-1].text or "bra" in found.steps[-1].text


@pytest.mark.slow
def test_what_may_differ_from_warp_to_warp_is_called_a_fault_only_if_it_is_shown():
    """k < 100 is not known, and was taken to differ, as no launch does; 4096 has 128 rounds and shows the deadlock."""
    found = roles(1, 100).compile(*SPECS, target="sm_90a").certificate(examples=300)
    assert (found.verdict, found.sizes) == ("fault", {"K": 4096})
    found = roles(1, 1000).compile(*SPECS, target="sm_90a").certificate(examples=0)
    assert (found.verdict, found.sizes) == ("refused", None)
    assert any("of warp" in str(each) for each in found.steps)


def test_other_targets():
    plain = mt.kernel(_plain).compile(mt.spec(("N",), "float32"), target="gfx942")
    with pytest.raises(MinitileError, match="only PTX"):
        plain.certificate()


def _plain(A: T.Tensor(("N",), T.float32)):
    with T.Kernel(T.ceildiv(A.shape[0], 128), threads=128) as b:
        for i in T.Parallel(128):
            A[b * 128 + i] = 0.0


@pytest.fixture
def text(sound, tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(sound.asm["ptx"])
    (name, size) = next(iter(sound.certificate().certificate["launch"]["boxes"].items()))
    return path, ["--block", "256", "--dynamic-shared", str(sound.launch_info.dynamic_shared)], name, size


def test_prove_and_check(text, tmp_path, capsys):
    path, launch, name, size = text
    proof = str(tmp_path / "k.json")
    assert main(["prove", str(path), *launch, "--map", f"{name}=f32:64,32", "-o", proof]) == 0
    assert capsys.readouterr().out.startswith("proved: ")
    assert main(["check-certificate", proof, str(path)]) == 0
    said = capsys.readouterr()
    assert "256 threads" in said.out
    assert f"{name} with boxes of {size} bytes" in said.out

    data = json.loads((tmp_path / "k.json").read_text())
    for damage in ({"lines": [1]}, {"together": [-1]}, {"cases": []}, {"launch": None}):
        (tmp_path / "other.json").write_text(json.dumps(data | damage))
        assert main(["check-certificate", str(tmp_path / "other.json"), str(path)]) == 1
        assert "not accepted" in capsys.readouterr().out
    path.write_text(path.read_text() + "\n")
    assert main(["check-certificate", proof, str(path)]) == 1
    assert "of another text" in capsys.readouterr().out


def test_a_kernels_certificate_is_checked_with_its_grid(sound, tmp_path, capsys):
    """What `minitile prove KERNEL -o` writes: a launch with a grid, which comes back from JSON as it was."""
    path, proof = tmp_path / "k.ptx", tmp_path / "k.json"
    path.write_text(sound.asm["ptx"])
    certificate = sound.certificate().certificate
    assert certificate["launch"]["grid"]
    proof.write_text(json.dumps(certificate))
    assert main(["check-certificate", str(proof), str(path)]) == 0
    assert "a grid of " in capsys.readouterr().out
    grid = dict(certificate["launch"]["grid"])
    for damage in ({"x": "os"}, {"x": ["pow", 2, 3]}, {"x": ["add", 1]}, {"x": ["param"]}, {"x": None}, []):
        launch = certificate["launch"] | {"grid": {**grid, **damage} if damage else damage}
        proof.write_text(json.dumps(certificate | {"launch": launch}))
        assert main(["check-certificate", str(proof), str(path)]) == 1
        assert "not a certificate" in capsys.readouterr().out


def test_a_fault_of_a_text(text, capsys):
    path, launch, name, size = text
    broken = path.read_text().replace("fence.mbarrier_init.release.cluster;", "")
    assert broken != path.read_text()
    path.write_text(broken)
    assert main(["prove", str(path), *launch, "--map", f"{name}={size}"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("fault: line ")
    assert "fence.mbarrier_init" in said
    assert "warp 4, line " in said


def test_refused(text, capsys):
    path, launch, _, _ = text
    assert main(["prove", str(path), *launch]) == 1
    said = capsys.readouterr().out
    assert said.startswith("refused: line ")
    assert "a tensor map that is not known" in said
    assert "--map A_map0=4096" in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--map", "Amap0=4096"], "no parameter 'Amap0'"),
        (["--divides", "Q=8"], "no parameter 'Q'"),
        (["--map", "A"], "is no box"),
        (["--map", "A=x9:4"], "unknown dtype"),
        (["--divides", "K=0"], "is no number of a parameter"),
        (["--least", "K=0"], "is no number of a parameter"),
    ],
)
def test_what_cannot_be_read(text, words, why, capsys):
    assert main(["prove", str(text[0]), *words]) == 1
    assert why in capsys.readouterr().err


def test_certificates_that_cannot_be_read(text, tmp_path, capsys):
    (tmp_path / "x.json").write_text("{")
    assert main(["check-certificate", str(tmp_path / "x.json"), str(text[0])]) == 1
    assert "cannot read" in capsys.readouterr().err
    assert main(["check-certificate", str(text[0]), str(tmp_path / "x.json")]) == 1
    assert "the certificate comes first" in capsys.readouterr().err
    (tmp_path / "x.json").write_text("[]")
    assert main(["check-certificate", str(tmp_path / "x.json"), str(text[0])]) == 1
    assert "not a certificate" in capsys.readouterr().out
