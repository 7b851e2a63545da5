"""`tilelang.contrib.nvcc`: what scripts ask of the CUDA target. There is no nvcc."""

from __future__ import annotations

import re
from typing import Any

from minitile.target import parse_target
from minitile.tilelang.mode import MODE


def get_target_compute_version(target: Any = None) -> str:
    """The version of the target that kernels are compiled for, "9.0"; "8.0" where that is no CUDA device."""
    found = re.fullmatch(r"sm_(\d+)(\d)[a-z]*", parse_target(MODE.target).name)
    return "8.0" if found is None else f"{found[1]}.{found[2]}"


def parse_compute_version(version: str) -> tuple[int, int]:
    """(9, 0) of "9.0"."""
    major, minor = version.split(".")
    return int(major), int(minor)


def get_cuda_version(*_: Any) -> tuple[int, int]:
    """Of a toolkit that is recent enough for all that is asked."""
    return 13, 0


def have_fp16(version: str) -> bool:
    """Whether there are tensor cores of f16."""
    return parse_compute_version(version) >= (7, 0)
