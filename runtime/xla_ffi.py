"""Functions of Python as handlers of XLA's foreign function interface (FFI), made by ctypes: no C compiler is needed.

XLA calls a handler with one pointer, to a call frame: the buffers of arguments and results as they lie in the device's
(on the CPU: the host's) memory, the attributes, and functions of its own, by which the handler asks for the stream and
makes errors. `handler` gives the C function; what it calls gets Python's numbers.

    XLA's thread ──▶ C function of ctypes, which takes the GIL ──▶ run(text, arguments, results, queue)

A handler is registered without traits: XLA then records none of its calls in a CUDA graph (a command buffer), but calls
it each time. It only starts work on the stream, as XLA wants of one, and never waits for the device.

Source: xla/ffi/api/c_api.h of OpenXLA, versions 0.1 to 0.4 (jaxlib 0.5 to 0.11), which differ in nothing that is read
here; a struct's size comes first in it, and fields are only appended.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

API_MAJOR = 0
_METADATA, _EXECUTE, _STRING, _INTERNAL = 1, 3, 4, 13  # an extension, a stage, an attribute's type, an error's code
# Places among the functions of the API: of errors, of the stream, and, since 0.1 of jaxlib 0.6, of the device's index.
_CREATE, _MESSAGE, _DESTROY, _STREAM, _DEVICE = 0, 1, 2, 4, 17


class Buffer(NamedTuple):
    """An argument or a result: its address and its extents, row-major."""

    data: int
    shape: tuple[int, ...]


class Queue(NamedTuple):
    """Where work goes: a device's index, None where XLA does not say it, and the raw handle of a stream there."""

    device: int | None
    stream: int


Run = Callable[[str, Sequence[Buffer], Sequence[Buffer], Queue | None], None]


class _Extension(Structure):
    _fields_ = (("struct_size", c_size_t), ("type", c_int), ("next", c_void_p))


class _Version(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("major", c_int), ("minor", c_int))


class _Metadata(Structure):  # of 0.1; what comes behind is left as it is
    _fields_ = (("struct_size", c_size_t), ("version", _Version), ("traits", c_uint32))


class _MetadataExtension(Structure):
    _fields_ = (("base", _Extension), ("metadata", POINTER(_Metadata)))


class _Api(Structure):  # as far as it is used
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("version", _Version),
        ("internal", c_void_p),
        ("functions", c_void_p * (_DEVICE + 1)),
    )


class _Buffer(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("dtype", c_int32),
        ("data", c_void_p),
        ("rank", c_int64),
        ("dims", POINTER(c_int64)),
    )


class _Buffers(Structure):  # XLA_FFI_Args, XLA_FFI_Rets; the only type there is, 1, is a buffer
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("size", c_int64),
        ("types", POINTER(c_int)),
        ("items", POINTER(POINTER(_Buffer))),
    )


class _Span(Structure):
    _fields_ = (("data", c_void_p), ("size", c_size_t))


class _Attributes(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("size", c_int64),
        ("types", POINTER(c_int)),
        ("names", c_void_p),
        ("items", POINTER(POINTER(_Span))),
    )


class _Frame(Structure):  # XLA_FFI_CallFrame
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", POINTER(_Extension)),
        ("api", POINTER(_Api)),
        ("context", c_void_p),
        ("stage", c_int),
        ("arguments", _Buffers),
        ("results", _Buffers),
        ("attributes", _Attributes),
    )


class _CreateArgs(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("message", c_char_p), ("code", c_int))


class _MessageArgs(Structure):  # behind what XLA_FFI_Error_Destroy_Args has: the message, and since 0.4 the code
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("error", c_void_p),
        ("message", c_char_p),
        ("code", c_int),
    )


class _QueueArgs(Structure):  # the value is a pointer, the stream, or 32 bits, the device's index
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("context", c_void_p), ("value", c_uint64))


_Handler = ctypes.CFUNCTYPE(c_void_p, POINTER(_Frame))
_Function = ctypes.PYFUNCTYPE(c_void_p, c_void_p)  # of the API: no work worth releasing the GIL for
_handlers: list[Any] = []  # XLA may call them as long as the process lives


def handler(run: Run, gpu: bool) -> Any:
    """A C function that XLA can register. `run` is called with the only attribute, a text, with the buffers of the
    arguments and of the results, and with the queue, if it is of a `gpu`; what it raises becomes XLA's error."""

    def call(frame: Any) -> int | None:
        it = frame.contents
        try:
            if it.extension and it.extension.contents.type == _METADATA:
                _describe(it)
            elif it.stage == _EXECUTE:
                run(_text(it.attributes), _buffers(it.arguments), _buffers(it.results), _queue(it) if gpu else None)
        except BaseException as error:  # none may pass through C
            return _failed(it, str(error) or type(error).__name__)
        return None

    made = _Handler(call)
    _handlers.append(made)
    return made


def _describe(frame: _Frame) -> None:
    """Says which API the handler speaks: the caller's own, of which it uses what all versions of this number have."""
    extension = ctypes.cast(frame.extension, POINTER(_MetadataExtension)).contents
    about = extension.metadata.contents
    about.version.major = API_MAJOR
    about.version.minor = frame.api.contents.version.minor if frame.api else 1  # 0.1 shows none here
    about.traits = 0


def _text(attributes: _Attributes) -> str:
    if attributes.size != 1 or attributes.types[0] != _STRING:
        raise ValueError(f"XLA passes {attributes.size} attributes, not one text")
    span = attributes.items[0].contents
    return ctypes.string_at(span.data, span.size).decode()


def _buffers(of: _Buffers) -> list[Buffer]:
    found = []
    for i in range(of.size):
        each = of.items[i].contents
        found.append(Buffer(each.data or 0, tuple(each.dims[: each.rank])))
    return found


def _queue(frame: _Frame) -> Queue:
    stream = _QueueArgs(ctypes.sizeof(_QueueArgs), None, frame.context, 0)
    _must(frame, _STREAM, stream, "stream")
    if frame.api.contents.struct_size < _Api.functions.offset + ctypes.sizeof(c_void_p) * (_DEVICE + 1):
        return Queue(None, stream.value)
    device = _QueueArgs(_QueueArgs.value.offset + ctypes.sizeof(c_int32), None, frame.context, 0)
    _must(frame, _DEVICE, device, "device")
    return Queue(ctypes.c_int32(device.value & 0xFFFFFFFF).value, stream.value)


def _must(frame: _Frame, place: int, args: Structure, what: str) -> None:
    error = _ask(frame, place, args)
    if error:
        raise RuntimeError(f"XLA tells of no {what}: {_said(frame, error)}")


def _failed(frame: _Frame, message: str) -> int | None:
    return _ask(frame, _CREATE, _CreateArgs(ctypes.sizeof(_CreateArgs), None, message.encode(), _INTERNAL))


def _said(frame: _Frame, error: int) -> str:
    """The message of an error of XLA's, which is then gone."""
    args = _MessageArgs(ctypes.sizeof(_MessageArgs), None, error, None, 0)
    _ask(frame, _MESSAGE, args)
    message = (args.message or b"").decode(errors="replace")
    args.struct_size = _MessageArgs.message.offset
    _ask(frame, _DESTROY, args)
    return message


def _ask(frame: _Frame, place: int, args: Structure) -> int | None:
    """Calls a function of the API with its arguments' struct."""
    found: int | None = _Function(frame.api.contents.functions[place])(ctypes.addressof(args))
    return found
