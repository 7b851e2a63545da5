"""Places in shared memory: when random programs run, no buffer finds another one's writing in its bytes while it is
needed; and bytes are shared where they can be."""

from __future__ import annotations

from random import Random

import pytest

from minitile.ir.core import Kernel, Op, Value
from minitile.ir.diagnostics import ResourceError
from minitile.ir.ops import thread, tile
from minitile.ir.parser import parse_kernel
from minitile.target import parse_target
from minitile.transforms.manager import PassContext
from minitile.transforms.sync.allocate_shared_memory import allocate_shared_memory
from tests.transforms.test_thread_barriers import Run, write

STORE = '{space = "shared", address_of = (0,), offsets = (0,)}'


class Contents(Run):
    """What each buffer's versions hold, as they see it and as memory has it. An asynchronous write may land at any time
    between its issue and its wait, so that no other buffer may use the bytes from one to the other."""

    def __init__(self, random: Random, early: bool) -> None:
        super().__init__(random, None)
        self.early = early
        self.memory: dict[int, tuple[Value, int]] = {}
        self.mine: dict[tuple[Value, int], int] = {}
        self.clock = 0
        self.flying: list[tuple[Value, int, int]] = []

    def op(self, op: Op) -> None:
        if isinstance(op, tile.Wait) and not self.early:
            for touch in self.values[op.token]:  # type: ignore[attr-defined]
                self.land(*touch)
        super().op(op)

    def land(self, mem: Value, at: int, stamp: int) -> None:
        alloc = mem.owner
        assert isinstance(alloc, tile.Alloc)
        assert alloc.offset is not None
        assert alloc.bytes is not None
        self.mine[mem, at] = stamp
        start = alloc.offset + at * alloc.bytes
        self.memory.update(dict.fromkeys(range(start, start + alloc.bytes), (mem, stamp)))

    def access(self, op: Op) -> None:
        for access in op.accesses():
            if access.mem is None or not isinstance(access.mem.owner, tile.Alloc):
                continue
            at = 0 if access.slot is None else int(self.values[access.slot])  # type: ignore[call-overload]
            self.clock += 1
            if access.token is not None:
                self.values[access.token] = [(access.mem, at, self.clock)]
                if self.early:
                    self.land(access.mem, at, self.clock)
            elif access.writes:
                self.land(access.mem, at, self.clock)
            elif (access.mem, at) in self.mine:
                self.check(access.mem, at)
        if isinstance(op, thread.LoadMem) and op.space == "global":
            self.values[op.result] = self.random.randrange(4)

    def check(self, mem: Value, at: int) -> None:
        alloc = mem.owner
        assert isinstance(alloc, tile.Alloc)
        start = (alloc.offset or 0) + at * (alloc.bytes or 0)
        found = {self.memory[byte] for byte in range(start, start + (alloc.bytes or 0))}
        assert found == {(mem, self.mine[mem, at])}, f"{mem} has been overwritten"


def total(kernel: Kernel) -> int:
    allocs = [op for op in kernel.walk() if isinstance(op, tile.Alloc)]
    return sum((op.bytes or 0) * op.type_.versions for op in allocs)


@pytest.mark.parametrize("early", [False, True])
def test_nothing_is_overwritten(early: bool) -> None:
    saved = 0
    for seed in range(60):
        kernel = write(Random(seed), ("P", "Q", "S", "T"), True)
        allocate_shared_memory(kernel, PassContext())
        for run in range(12):
            Contents(Random(run), early).block(kernel.body)
        saved += kernel.attrs["shared_bytes"] < total(kernel)
    assert saved > 5


def place(body: str, target: str = "sm_80") -> Kernel:
    kernel = parse_kernel(f"thread kernel @k(%A: tensor<64xf32>) attrs {{threads = 96}} {{\n{body}\n}}")
    allocate_shared_memory(kernel, PassContext(parse_target(target)))
    return kernel


def test_too_much_names_the_buffers_and_their_lines() -> None:
    with pytest.raises(ResourceError) as caught:
        place(
            f"""%As = alloc {{type_ = shared<4 versions x 128x64xf32>}}
            %Bs = alloc {{type_ = shared<64x64xf32>}}
            %a = buffer_address %As
            store_mem %a, 1.0, %As, slot = 0 {STORE}
            store_mem %a, 1.0, %Bs {STORE}
            store_mem %a, 1.0, %As, slot = 1 {STORE}""",
            "sm_89",
        )
    text = str(caught.value)
    assert "needs 147456 bytes of shared memory at once; sm_89 has 101376" in text
    assert "As: 131072 bytes (4 versions of 128x64 f32, line 2)" in text
    assert "Bs: 16384 bytes (64x64 f32, line 3)" in text
    assert "smaller tiles or fewer stages" in text
    assert caught.value.loc is not None
    assert caught.value.loc.line == 2


def test_one_after_the_other_fits_where_both_do_not() -> None:
    kernel = place(
        f"""%P = alloc {{type_ = shared<128x128xf32>}}
        %Q = alloc {{type_ = shared<128x128xf32>}}
        %a = buffer_address %P
        store_mem %a, 1.0, %P {STORE}
        store_mem %a, 1.0, %Q {STORE}""",
        "sm_89",
    )
    assert kernel.attrs["shared_bytes"] == 65536


def test_no_buffers_no_bytes() -> None:
    assert place("%U = alloc {type_ = shared<128xf32>}").attrs["shared_bytes"] == 0
