"""PTX from elsewhere, in a folder that MINITILE_REFERENCE_PTX names: reference.json says of each text how it is
launched. Nothing of it stands here."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from minitile.proof import Launch, answer

FOLDER = os.environ.get("MINITILE_REFERENCE_PTX")
pytestmark = pytest.mark.skipif(not FOLDER, reason="MINITILE_REFERENCE_PTX is not set")
LEAST = dict.fromkeys(("ptm", "ptn", "pkb", "pgrp"), 1)  # tiles, steps: its loops are not guarded against none


def texts() -> dict[str, dict]:
    return json.loads(Path(FOLDER, "reference.json").read_text()) if FOLDER else {}


def launch(facts: dict) -> Launch:
    configuration, boxes = facts["cfg"], {}
    if "BM" in configuration:
        box = {"ta": configuration["BM"] * 128, "tc": 8192}
        boxes = box | {"tb": 8192 if configuration["form"] == "NN" else configuration["BN"] * 128}
    return Launch(boxes, threads=facts["block"][0], shared=facts["dynamic_shared_bytes"], least=LEAST)


@pytest.mark.slow
@pytest.mark.parametrize("name", texts())
def test_reference(name):
    """None is called faulty; what is not known is refused by name."""
    facts = texts()[name]
    found = answer(Path(FOLDER, facts["file"]).read_text(), launch(facts), seconds=120)
    print(name, found)
    assert found.verdict in ("proved", "refused"), found
