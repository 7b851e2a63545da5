"""TileLang's pass_configs, target and compile flags: what of them means something here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from minitile.hardware import Target
from minitile.target import parse_target


class _Keys(type):
    def __getattr__(cls, name: str) -> str:
        group, _, rest = name.partition("_")
        if group in ("TL", "TIR", "CUDA") and rest:
            return f"{group.lower()}.{rest.lower()}"
        raise AttributeError(f"PassConfigKey has no {name}")


class PassConfigKey(metaclass=_Keys):
    """Keys of pass_configs, which are strings: any TL_…, TIR_…. TL_DISABLE_WARP_SPECIALIZED and TL_DISABLE_TMA_LOWER
    change what is compiled; the others are ignored. "minitile.NAME" is minitile's own pass of that name, False leaves
    it out: {"minitile.choose_stages": False}."""


_PASSES: dict[str, dict[str, bool]] = {
    "tl.disable_warp_specialized": {"warp_specialize": False},
    "tl.disable_tma_lower": {"warp_specialize": False, "tma_multistage": False},
}
_OWN = "minitile."


@dataclass(frozen=True)
class Options:
    """How a kernel is compiled: passes left out, and for which target ("auto": the device of a call's arrays)."""

    passes: Mapping[str, bool] = field(default_factory=dict)
    target: str | Target = "auto"


def options(pass_configs: Mapping[Any, Any] | None = None, target: Any = None) -> Options:
    """Options from `tilelang.jit`'s arguments. Other pass_configs are ignored: synchronisation and layouts are
    computed, and each operation is as exact as its documentation says."""
    passes: dict[str, bool] = {}
    for key, value in (pass_configs or {}).items():
        if value and str(key) in _PASSES:
            passes |= _PASSES[str(key)]
        elif str(key).startswith(_OWN):
            passes[str(key).removeprefix(_OWN)] = bool(value)
    return Options(passes, _target(target))


def _target(target: Any) -> str | Target:
    """minitile's target of a TileLang one; "auto", "cuda" and "hip" are the device at hand."""
    text = "auto" if target is None else str(target)
    known = re.search(r"\b(sm_\d+a?|gfx\w+)\b", text)
    if known:
        return parse_target(known.group(1))
    return "auto"
