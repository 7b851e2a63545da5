"""What can go wrong between a compiled kernel and the GPU. The compiler's `jit` shows these as MinitileErrors."""

from __future__ import annotations

import reprlib
from typing import Any


class LaunchError(Exception):
    """Base of the runtime's errors: `message` says what is wrong with the values involved, `hint` the way out."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class ArgumentError(LaunchError):
    """The caller's arguments do not fit the kernel's signature or what it was compiled for."""


class DriverError(LaunchError):
    """A driver call failed; `code` is the driver's name of the error, such as CUDA_ERROR_INVALID_VALUE."""

    def __init__(self, message: str, code: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.code = code


class UnavailableError(LaunchError):
    """No driver, no device, or a missing Python package; `hint` says what to install."""


def short(value: Any) -> str:
    """A caller's value in a message, by its beginning; whatever its `repr` does."""
    try:
        return reprlib.repr(value)
    except Exception:  # an integer of more than 4300 digits, or the user's own __repr__
        return f"this {type(value).__name__}"
