"""From a name, an array's device or nothing at all to a `Target`: the record of what a GPU has (hardware.py).

`parse_target` turns a name into one; `"auto"` asks the current device and fits the best lowering there is to it,
assembled for the device's own architecture. The environment variable MINITILE_TARGET says what "auto" means instead:
to run the code for one GPU on a newer one, or in the simulator.
"""

from __future__ import annotations

import os

from minitile.backends.registry import DEFAULT, TARGETS, backend_of_device, backends
from minitile.hardware import Target
from minitile.ir.diagnostics import TargetError


def parse_target(name: str | Target) -> Target:
    """The target called `name`; "auto" is MINITILE_TARGET, else the current device's, or the default one (for the
    simulator) where there is no GPU.

    Raises TargetError for an unknown name.
    """
    if isinstance(name, Target):
        return name
    if name == "auto":
        return chosen_target() or _auto()
    if name not in TARGETS:
        raise TargetError(f"unknown target {name!r}", hint=f"known targets: auto, {', '.join(TARGETS)}")
    return TARGETS[name]


def chosen_target() -> Target | None:
    """The target that MINITILE_TARGET names; None where it names none. Raises TargetError for an unknown name."""
    name = os.environ.get("MINITILE_TARGET", "auto")
    if name == "auto" or name in TARGETS:
        return TARGETS.get(name)
    raise TargetError(f"unknown target {name!r} in MINITILE_TARGET", hint=f"known targets: auto, {', '.join(TARGETS)}")


def target_at(kind: str, index: int) -> Target:
    """The target for arrays on a device: MINITILE_TARGET, else the device's; on the CPU the default one, for the
    simulator. Raises TargetError as `chosen_target` and `target_of_device`."""
    chosen = chosen_target()
    if chosen is not None:
        return chosen
    return DEFAULT if kind == "cpu" else target_of_device(kind, index)


def target_of_device(kind: str, index: int) -> Target:
    """The target for a device that arrays are on: `kind` is a backend's, such as "cuda" or "rocm". Raises TargetError
    for others and for devices that there is no lowering for."""
    backend = backend_of_device(kind)
    if backend is None:
        raise TargetError(
            f"there is no backend for the arrays on {kind}:{index}", hint="NumPy arrays go to the simulator"
        )
    return backend.target_of_device(index)


def _auto() -> Target:
    for backend in backends():
        found = backend.current_target()
        if found is not None:
            return found
    return DEFAULT


__all__ = ["DEFAULT", "TARGETS", "Target", "chosen_target", "parse_target", "target_at", "target_of_device"]
