"""The targets that the examples run for: in the simulator sm_80 and sm_90a, and AMD's where a test asks for EVERY; on a
GPU sm_80 and the GPU's own one."""

from __future__ import annotations

import os

ON_GPU = os.environ.get("MINITILE_GPU") == "1"
TARGETS = ("sm_80", "auto") if ON_GPU else ("sm_80", "sm_90a")
AMD = () if ON_GPU else ("gfx942", "gfx950")
EVERY = TARGETS + AMD
