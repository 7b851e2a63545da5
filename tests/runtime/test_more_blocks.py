"""Relocatable code takes as few registers as a whole program's, where that brings a second block and spills nothing."""

from __future__ import annotations

import re

import pytest

import minitile as mt
from minitile.backends.nvidia import assemble as assembling
from minitile.backends.nvidia.assemble import assemble
from minitile.backends.nvidia.more_blocks import alone, asking
from minitile.ops.memory_bound.scans import cumsum_rows

HEAD = ".target sm_90a\n{shared}.visible .entry k()\n.reqntid {threads}\n{more}{{\n  {body}\n  ret;\n}}\n"


def text(threads=256, shared=0, more="", body="bar.sync 0;"):
    dynamic = f".extern .shared .align 1024 .b8 smem[];  // {shared} bytes\n" if shared else ""
    return HEAD.format(shared=dynamic, threads=threads, more=more, body=body)


@pytest.mark.parametrize(
    ("options", "registers", "is_alone"),
    [
        ({}, 128, False),
        ({}, 129, True),
        ({"threads": 128}, 255, False),
        ({"threads": 512}, 64, False),
        ({"threads": 512}, 65, True),
        ({"threads": 512}, 128, True),
        ({"threads": 544}, 65, False),
        ({"threads": 1024}, 64, False),
        ({"threads": 512, "shared": 100 * 1024}, 76, True),
        ({"threads": 512, "shared": 120 * 1024}, 76, False),
        ({"threads": 512, "more": ".minnctapersm 1\n"}, 100, False),
        ({"threads": 512, "more": ".maxnreg 128\n"}, 100, False),
        ({"threads": 512, "body": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {};"}, 100, False),
        ({"threads": 512, "body": "@%p wgmma.fence.sync.aligned;"}, 100, False),
        ({"threads": 512, "body": "// mma.sync is no instruction here"}, 100, True),
    ],
)
def test_whose_blocks_are_alone(options, registers, is_alone):
    assert alone(text(**options), registers) == is_alone


def test_static_shared_memory_counts():
    assert not alone(text(512), 76, 120 * 1024)
    assert alone(text(512), 76, 40 * 1024)


def test_texts_without_a_number_of_threads_stay():
    assert not alone(text(512).replace(".reqntid 512\n", ""), 100)


def test_asking_stands_before_the_body():
    assert ".reqntid 256\n.minnctapersm 2\n{" in asking(text())


def log(registers, spilled=0):
    frame = f"{spilled} bytes stack frame, {spilled} bytes spill stores, {spilled} bytes spill loads"
    return f"ptxas info : {frame}\nptxas info : Used {registers} registers, used 1 barriers"


class Scripted:
    """An assembler that answers by the number of blocks that the text asks for."""

    name, identity = "scripted", "scripted"

    def __init__(self, answers, relocatable=True):
        self.answers, self.relocatable, self.asked = answers, relocatable, []

    def honours(self, ptx):
        return True

    def run(self, ptx, arch, options):
        found = re.search(r"\.minnctapersm (\d+)", ptx)
        self.asked.append(int(found.group(1)) if found else 0)
        return str(self.asked[-1]).encode(), self.answers[self.asked[-1]]


@pytest.mark.parametrize(
    ("answers", "relocatable", "asked", "registers"),
    [
        ({0: log(60)}, True, [0], 60),
        ({0: log(100), 2: log(64)}, True, [0, 2], 64),
        ({0: log(100), 2: log(64, 8)}, True, [0, 2], 100),
        ({0: log(100, 16), 2: log(64, 16)}, True, [0, 2], 64),
        ({0: log(100)}, False, [0], 100),
    ],
)
def test_what_spills_more_is_not_taken(monkeypatch, answers, relocatable, asked, registers):
    scripted = Scripted(answers, relocatable)
    monkeypatch.setattr(assembling, "assembler_for", lambda _: scripted)
    monkeypatch.setattr(assembling, "is_whole", lambda _: True)
    done = assemble(text(512), "sm_90a")
    assert scripted.asked == asked
    assert done.registers == registers
    assert int(done.cubin) == next(blocks for blocks, found in answers.items() if f"Used {registers} " in found)


def test_a_limit_of_registers_is_the_callers(monkeypatch):
    scripted = Scripted({0: log(100)})
    monkeypatch.setattr(assembling, "assembler_for", lambda _: scripted)
    monkeypatch.setattr(assembling, "is_whole", lambda _: True)
    assemble(text(512), "sm_90a", assembling.AssembleOptions(max_registers=128))
    assert scripted.asked == [0]


def test_rows_of_cumulative_sums_get_two_blocks():
    """512 threads of more than 64 registers were one."""
    x = mt.spec((4096, 16384), "bfloat16")
    compiled = cumsum_rows.compile(x, x, target="sm_90a", columns=16384, threads=512, exact=True)
    assert compiled.registers <= 64
    assert compiled.spills == 0
