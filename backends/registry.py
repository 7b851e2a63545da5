"""Which backend compiles for which target. A new backend is one more row here.

The rows of the targets are read at once, they are small; a backend is imported when it is first asked for, so that
compiling for one vendor loads nothing of another.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from minitile.backends.amd.targets import TARGETS as AMD
from minitile.backends.nvidia.targets import TARGETS as NVIDIA
from minitile.hardware import Target

if TYPE_CHECKING:  # a name and a row should not cost the import of the layouts and of lowering
    from minitile.backends.base import Backend

TARGETS: dict[str, Target] = {target.name: target for target in (*NVIDIA, *AMD)}
DEFAULT = TARGETS["sm_80"]  # of the simulator, where nothing says what to compile for

# By name: the module that has the backend as BACKEND, and the kind of device whose arrays it launches on.
_HOMES = {"nvidia": ("minitile.backends.nvidia.backend", "cuda"), "amd": ("minitile.backends.amd.backend", "rocm")}
_known: dict[str, Backend] = {}


def backend_of(target: Target) -> Backend:
    """The backend that compiles for a target. Raises KeyError for a target without a registered backend."""
    return _named(target.backend)


def backends() -> Iterator[Backend]:
    """All of them, the built-in ones first; each is imported when its turn comes."""
    return map(_named, [*_HOMES, *(name for name in _known if name not in _HOMES)])


def backend_of_device(kind: str) -> Backend | None:
    """The backend that launches on devices of a kind; None where there is none."""
    for name, (_, device_kind) in _HOMES.items():
        if kind == device_kind:
            return _named(name)
    return next((b for b in _known.values() if b.device_kind == kind), None)


def backend_of_text(text: str) -> Backend:
    """The backend whose assembly a text is; of a text that none knows, the default target's."""
    return next((backend for backend in backends() if backend.reads(text)), backend_of(DEFAULT))


def register(backend: Backend, targets: Sequence[Target]) -> None:
    """Adds a backend and its targets, for this process. Raises ValueError for a name that is taken."""
    taken = {backend.name} & {*_HOMES, *_known} or {t.name for t in targets} & {*TARGETS}
    if taken:
        raise ValueError(f"there is a backend or target {', '.join(taken)}")
    _known[backend.name] = backend
    TARGETS.update({target.name: target for target in targets})


def unregister(name: str) -> None:
    """Takes away what `register` has added. Raises KeyError for any other."""
    del _known[name]
    for target in [t for t in TARGETS.values() if t.backend == name]:
        del TARGETS[target.name]


def _named(name: str) -> Backend:
    if name not in _known:
        module, _ = _HOMES[name]
        _known[name] = importlib.import_module(module).BACKEND
    return _known[name]
