"""PTX from elsewhere, in a folder that MINITILE_REFERENCE_PTX names: reference.json says of each text how it is
launched. Nothing of it stands here.

The persistent ping-pong GEMMs are proved, for K of at least one step, in 2 to 3 minutes each: 10 or 12 residues of the
number of steps. The attention kernels fetch tiles through a ring in shared memory, and each tile has a counted loop:
that is refused by name.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from minitile.proof import Fault, Launch, Refused, prove
from minitile.proof.text import parse

FOLDER = os.environ.get("MINITILE_REFERENCE_PTX")
pytestmark = pytest.mark.skipif(not FOLDER, reason="MINITILE_REFERENCE_PTX is not set")


def texts() -> dict[str, dict[str, Any]]:
    return json.loads(Path(FOLDER, "reference.json").read_text()) if FOLDER else {}


GEMMS = [name for name in texts() if name.startswith("gemm")]


def read(name: str) -> str:
    return Path(FOLDER or "", texts()[name]["file"]).read_text()


def launch(name: str) -> Launch:
    """A's box is 64 of K by 128 rows, B's 64 by all its columns (NT) or 64 columns by 64 of K (NN), in 2 bytes."""
    facts = texts()[name]
    columns = facts["cfg"]["BN"] if facts["cfg"]["form"] == "NT" else 64
    boxes = {"ta": 64 * 128 * 2, "tb": 64 * columns * 2, "tc": 64 * 64 * 2}
    least = dict.fromkeys(("ptm", "ptn", "pkb", "pgrp"), 1)
    shared = facts["dynamic_shared_bytes"]
    return Launch(boxes, threads=facts["block"][0], shared=shared, aligned=1024, least=least)


@pytest.mark.parametrize("name", GEMMS)
def test_loops_are_read(name):
    program = parse(read(name), launch(name))
    assert program.loops
    assert not program.stepped


@pytest.mark.slow
@pytest.mark.parametrize("name", GEMMS)
def test_gemms_are_proved(name):
    assert prove(read(name), launch(name), seconds=600).states > 1000


@pytest.mark.parametrize(
    ("what", "instead", "number"),
    [
        (r"wgmma\.wait_group\.sync\.aligned 1;", "wgmma.wait_group.sync.aligned 2;", 1),  # a slot is given back early
        (r"bar\.sync %bt, 256;", "", 1),  # a warpgroup goes ahead of the other
        (r"mbarrier\.try_wait[^;]*;\s*@!%pw bra PW;", "", 1),  # no wait for a free slot
        (r"mbarrier\.try_wait[^;]*;\s*@!%pw bra F1;", "", 1),  # no wait for a full one
        (r"fence\.proxy\.async[.:\w]*;", "", 0),  # results are stored before they are seen
        (r"cp\.async\.bulk\.wait_group\.read 0;", "", 0),  # results of the next tile overwrite them
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
@pytest.mark.parametrize("name", GEMMS)
def test_broken_ones_are_not(name, what, instead, number):
    text, count = re.subn(what, instead, read(name), count=number)
    assert count
    with pytest.raises((Fault, Refused), match=r"^(?!.*more time)"):
        prove(text, launch(name), seconds=120)
