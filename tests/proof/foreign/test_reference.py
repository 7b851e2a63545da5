"""PTX from elsewhere, in a folder that MINITILE_REFERENCE_PTX names: reference.json says of each text how it is
launched. Nothing of it stands here.

None of it is proved yet. The GEMMs are read, with all their loops counted; to explore them takes longer than the limit.
The attention kernels fetch tiles through a ring in shared memory: that loop's end is not known.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from minitile.proof import Launch
from minitile.proof.text import parse

FOLDER = os.environ.get("MINITILE_REFERENCE_PTX")
pytestmark = pytest.mark.skipif(not FOLDER, reason="MINITILE_REFERENCE_PTX is not set")


def texts() -> dict[str, dict]:
    return json.loads(Path(FOLDER, "reference.json").read_text()) if FOLDER else {}


@pytest.mark.parametrize("name", [name for name in texts() if name.startswith("gemm")])
def test_loops_are_read(name):
    facts = texts()[name]
    launch = Launch({}, threads=facts["block"][0], shared=facts["dynamic_shared_bytes"])
    program = parse(Path(FOLDER or "", facts["file"]).read_text(), launch)
    assert program.loops
    assert not program.stepped
