"""The verifier of pipelines: it accepts what the compiler makes, and finds each operation on a pipeline that is left
out, doubled or changed."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

import minitile as mt
from minitile.ir.core import Block, Kernel, Op
from minitile.ir.diagnostics import IRError
from minitile.ir.ops import arith, blackwell, launch_control, roles, tile
from minitile.ir.parser import parse_kernel
from minitile.transforms.warp_specialize import verify_pipelines as module
from minitile.transforms.warp_specialize.verify_pipelines import verify_pipelines

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

NAMES = ("gemm", "attention", "teams", "gemm, one role", "attention, one role", "dynamic tiles")
BATON_OPS = (roles.PingPongWait, roles.PingPongArrive)
CHANNEL_OPS = (
    roles.ProducerAcquire,
    roles.ProducerExpectTx,
    roles.TmaCopy,
    launch_control.RequestTile,
    blackwell.ProductsCommit,
    roles.ConsumerWait,
    roles.ConsumerRelease,
    roles.Await,
    tile.Wait,
)


@cache
def text_of(name: str) -> str:
    """The tile IR of an example for sm_90a; of tiles that are taken as they come for sm_100a."""
    roles_of_warps = {"warp_specialize": False} if name.endswith("one role") else {}
    if name.startswith("attention"):
        from attention import attention

        specs = [mt.spec((1, 2, 256, 64), "bfloat16")] * 4
        tiles = {"D": 64, "block_M": 64, "block_N": 64, "threads": 128}
        return attention.compile(*specs, target="sm_90a", causal=True, **tiles, **roles_of_warps).asm["tile_ir"]
    if name in ("teams", "dynamic tiles"):
        from gemm_persistent import gemm_persistent

        specs = [mt.spec((256, 256), "bfloat16")] * 3
        tiles = {"block_N": 64, "num_stages": 3, "blocks": 1}
        if name == "teams":
            tiles |= {"block_M": 64, "threads": 256, "teams": 2}
            return gemm_persistent.compile(*specs, target="sm_90a", **tiles).asm["tile_ir"]
        tiles |= {"threads": 128, "teams": 1, "dynamic": True}
        return gemm_persistent.compile(*specs, target="sm_100a", **tiles).asm["tile_ir"]
    from gemm import gemm_nt_bf16

    tiles = {"block_M": 64, "block_N": 64, "block_K": 64, "num_stages": 3, "threads": 128}
    specs = [mt.spec((256, 256), "bfloat16")] * 3
    return gemm_nt_bf16().compile(*specs, target="sm_90a", **tiles, **roles_of_warps).asm["tile_ir"]


def blocks(kernel: Kernel) -> list[Block]:
    return [region for op in kernel.walk() for region in op.regions]


def places(kernel: Kernel, kinds: tuple[type[Op], ...]) -> list[tuple[Block, int]]:
    return [(block, n) for block in blocks(kernel) for n, op in enumerate(block.ops) if isinstance(op, kinds)]


def sites(kinds: tuple[type[Op], ...]) -> list[tuple[str, int]]:
    return [(name, n) for name in NAMES for n in range(len(places(parse_kernel(text_of(name)), kinds)))]


@pytest.mark.parametrize("name", NAMES)
def test_examples_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the runs get somewhere: all pipelines are used, each slot more than once."""
    rounds = []
    run = module._Run.run

    def counted(self):
        run(self)
        rounds.append({slot.freed for slot in self.slots.values()} | {slot.filled for slot in self.slots.values()})

    monkeypatch.setattr(module._Run, "run", counted)
    verify_pipelines(parse_kernel(text_of(name)))
    assert max(max(each) for each in rounds) > 2


@pytest.mark.parametrize(("name", "n"), sites(CHANNEL_OPS))
def test_deletion_is_found(name: str, n: int) -> None:
    kernel = parse_kernel(text_of(name))
    block, at = places(kernel, CHANNEL_OPS)[n]
    op = block.ops.pop(at)
    if isinstance(op, roles.Await):
        for other in kernel.walk():
            other.replace_operands(lambda v: op.a if v is op.result else v)
    if isinstance(op, (roles.Await, tile.Wait)) and not holds_a_slot(kernel, block, at):
        return  # no slot hangs on it; that the tile is complete is for resolve_wait_counts and the simulator to see
    with pytest.raises(IRError):
        verify_pipelines(kernel)


def holds_a_slot(kernel: Kernel, block: Block, at: int) -> bool:
    """Whether a release comes behind the await that stood here, before the next one."""
    for op in block.ops[at:]:
        if isinstance(op, roles.ConsumerRelease):
            return True
        if isinstance(op, (roles.Await, tile.Wait)):
            return False
    return False


@pytest.mark.parametrize(("name", "n"), sites(BATON_OPS))
def test_a_lost_baton_is_found(name: str, n: int) -> None:
    """It orders the waits of the teams for slots: without it they wait for ever, or take each other's slots."""
    kernel = parse_kernel(text_of(name))
    block, at = places(kernel, BATON_OPS)[n]
    del block.ops[at]
    with pytest.raises(IRError):
        verify_pipelines(kernel)


@pytest.mark.parametrize(("name", "n"), sites((roles.ProducerExpectTx, roles.ConsumerWait, roles.ConsumerRelease)))
def test_doubling_is_found(name: str, n: int) -> None:
    kernel = parse_kernel(text_of(name))
    block, at = places(kernel, (roles.ProducerExpectTx, roles.ConsumerWait, roles.ConsumerRelease))[n]
    block.ops.insert(at, block.ops[at])
    with pytest.raises(IRError):
        verify_pipelines(kernel)


@pytest.mark.parametrize(("name", "n"), sites((roles.ProducerAcquire, roles.ConsumerWait)))
def test_a_wrong_phase_is_found(name: str, n: int) -> None:
    kernel = parse_kernel(text_of(name))
    block, at = places(kernel, (roles.ProducerAcquire, roles.ConsumerWait))[n]
    op = block.ops[at]
    one = arith.Constant(1, op.phase.type)
    turned = arith.Xor(op.phase, one.result)
    block.ops[at:at] = [one, turned]
    op.phase = turned.result
    with pytest.raises(IRError):
        verify_pipelines(kernel)


@pytest.mark.parametrize(("name", "n"), sites((roles.ConsumerRelease,)))
def test_a_wrong_slot_is_found(name: str, n: int) -> None:
    kernel = parse_kernel(text_of(name))
    block, at = places(kernel, (roles.ConsumerRelease,))[n]
    op = block.ops[at]
    one = arith.Constant(1, op.index.type)
    other = arith.Xor(op.index, one.result)
    block.ops[at:at] = [one, other]
    op.index = other.result
    with pytest.raises(IRError):
        verify_pipelines(kernel)


def test_a_deadlock_names_who_waits() -> None:
    """No slot is ever released."""
    kernel = parse_kernel(text_of("attention"))
    released = [(block, n) for block, n in places(kernel, (roles.ConsumerRelease,))]
    for block, n in reversed(released):
        del block.ops[n]
    with pytest.raises(
        IRError, match=r"deadlock: the producer wait for the ring of .*slot 0, to be free; the consumers"
    ):
        verify_pipelines(kernel)
