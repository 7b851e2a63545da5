"""docs/layouts.md says what is so: its layouts parse and print the same, its examples give what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from minitile.layout import (
    MMA_ATOMS,
    Layout,
    SharedLayout,
    blocked,
    conversion,
    mma_accumulator,
    mma_operand_a,
    row_major,
    swizzled,
)

TEXT = (Path(__file__).parents[2] / "docs" / "layouts.md").read_text()


@pytest.mark.parametrize("text", sorted(set(re.findall(r"(?:layout|shared)<[^>]*>", TEXT))))
def test_layouts_in_the_page_parse_back(text: str) -> None:
    kind = Layout if text.startswith("layout") else SharedLayout
    assert str(kind.parse(text)) == text


@pytest.mark.parametrize(
    ("call", "printed"), re.findall(r"^((?:swizzled|row_major)\(.*?\)) +(shared<.*>)$", TEXT, re.M)
)
def test_shared_examples(call: str, printed: str) -> None:
    assert str(eval(call, {"swizzled": swizzled, "row_major": row_major})) == printed


def test_conversion_examples() -> None:
    atom = MMA_ATOMS["m16n8k16"]
    acc = mma_accumulator((128, 64), atom, (4, 1))
    said = [line.split("# ")[1].split(":")[0] for line in TEXT.splitlines() if line.startswith("conversion(")]
    operands = [mma_operand_a((128, 64), a, (4, 1)) for a in (atom, MMA_ATOMS["m16n8k32.b8"])]
    targets = [*operands, blocked((128, 64), 128, vec=8)]
    assert [conversion(acc, target) for target in targets] == said
