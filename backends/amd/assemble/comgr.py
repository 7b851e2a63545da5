"""Linking by ROCm's Code Object Manager (libamd_comgr), where there is no ld.lld.

Sources: amd_comgr.h of ROCm 5 to 7 (handles are structs of one 64-bit word, passed by value). Version 3 has dropped
three actions, so that those behind them have other numbers.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

from minitile.ir.diagnostics import InternalError

NAMES = ("libamd_comgr.so.3", "libamd_comgr.so.2", "libamd_comgr.so")
_RELOCATABLE, _EXECUTABLE, _LOG = 7, 8, 5  # amd_comgr_data_kind_t


class Handle(ctypes.Structure):
    """amd_comgr_data_t, amd_comgr_data_set_t, amd_comgr_action_info_t."""

    _fields_ = (("handle", ctypes.c_uint64),)


_POINTER = ctypes.POINTER(Handle)
_FUNCTIONS: dict[str, list[Any]] = {
    "create_data": [ctypes.c_int, _POINTER],
    "set_data": [Handle, ctypes.c_size_t, ctypes.c_char_p],
    "set_data_name": [Handle, ctypes.c_char_p],
    "get_data": [Handle, ctypes.POINTER(ctypes.c_size_t), ctypes.c_void_p],
    "release_data": [Handle],
    "create_data_set": [_POINTER],
    "data_set_add": [Handle, Handle],
    "action_data_get_data": [Handle, ctypes.c_int, ctypes.c_size_t, _POINTER],
    "destroy_data_set": [Handle],
    "create_action_info": [_POINTER],
    "action_info_set_isa_name": [Handle, ctypes.c_char_p],
    "action_info_set_logging": [Handle, ctypes.c_bool],
    "destroy_action_info": [Handle],
    "do_action": [ctypes.c_int, Handle, Handle, Handle],
}


@cache
def library() -> Any:
    """The library with its functions declared; None where it is not installed."""
    folder = Path(os.environ.get("ROCM_PATH", "/opt/rocm"), "lib")
    for name in (*NAMES, *(str(folder / name) for name in NAMES)):
        try:
            found: Any = ctypes.CDLL(name)
            for function, types in _FUNCTIONS.items():
                entry = getattr(found, f"amd_comgr_{function}")
                entry.argtypes, entry.restype = types, ctypes.c_int
        except (OSError, AttributeError):
            continue
        return found
    return None


def available() -> bool:
    return library() is not None


def version() -> tuple[int, int]:
    major, minor = ctypes.c_size_t(), ctypes.c_size_t()
    library().amd_comgr_get_version(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def link(relocatable: bytes, arch: str) -> bytes:
    """The code object of one relocatable. Raises InternalError with comgr's log where it refuses."""
    made: list[tuple[str, Handle]] = []

    def call(function: str, *args: Any) -> None:
        status = getattr(library(), f"amd_comgr_{function}")(*args)
        if status:
            raise InternalError(f"ROCm's comgr fails in {function} (status {status}){said()}")

    def make(function: str, release: str, *args: Any) -> Handle:
        handle = Handle()
        call(function, *args, ctypes.byref(handle))
        made.append((release, handle))
        return handle

    def read(kind: int) -> bytes:
        data = make("action_data_get_data", "release_data", results, kind, 0)
        size = ctypes.c_size_t()
        call("get_data", data, ctypes.byref(size), None)
        buffer = ctypes.create_string_buffer(size.value)
        call("get_data", data, ctypes.byref(size), buffer)
        return buffer.raw

    def said() -> str:
        """The log of an action that failed."""
        if not linking:
            return ""
        linking.clear()
        return ": " + read(_LOG).decode(errors="replace").strip("\0\n ")

    linking: list[bool] = []
    results = Handle()
    try:
        source = make("create_data", "release_data", _RELOCATABLE)
        call("set_data", source, len(relocatable), relocatable)
        call("set_data_name", source, b"kernel.o")
        sources = make("create_data_set", "destroy_data_set")
        call("data_set_add", sources, source)
        info = make("create_action_info", "destroy_action_info")
        call("action_info_set_isa_name", info, f"amdgcn-amd-amdhsa--{arch}".encode())
        call("action_info_set_logging", info, True)
        results = make("create_data_set", "destroy_data_set")
        linking.append(True)
        # AMD_COMGR_ACTION_LINK_RELOCATABLE_TO_EXECUTABLE
        call("do_action", 7 if version()[0] >= 3 else 9, info, sources, results)
        linking.clear()
        return read(_EXECUTABLE)
    finally:
        for release, handle in reversed(made):
            getattr(library(), f"amd_comgr_{release}")(handle)
