"""`tilelang.carver.arch`: the device at hand, as far as scripts ask for it."""

from __future__ import annotations

from typing import Any

from minitile.tilelang.math import get_num_sms


def get_num_sms_of(*_: Any) -> int:
    """How many multiprocessors."""
    return get_num_sms()


class _Driver:
    get_num_sms = staticmethod(get_num_sms)


class CUDA:
    """A CUDA device, by its target."""

    def __init__(self, target: Any = "cuda") -> None:
        self.target = target
        self.compute_max_core = get_num_sms()


class CDNA(CUDA):
    """An AMD device, likewise."""


driver = _Driver()
__all__ = ["CDNA", "CUDA", "driver", "get_num_sms"]
