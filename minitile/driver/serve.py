"""The frames in which a helper process and this one talk, and the helper's side of the talk.

Run as a script (`python -P serve.py SERVICE.py PARENT`), it loads the file SERVICE.py, which defines

    answer(fields: dict, data: bytes) -> bytes      what was asked for; a RuntimeError's text is a refusal

and answers requests on its standard input until that ends, or until the process PARENT is no longer its parent.
It imports nothing of minitile. What a library prints on standard output goes to standard error.

A frame is

    magic      8 bytes
    digest     32 bytes    SHA-256 of the request's body: an answer bears the digest of the request that it is for
    checksum   32 bytes    SHA-256 of digest and body
    length     8 bytes     of the body, unsigned, the highest byte first
    body

The body of a request is a nonce of 16 bytes (no two requests have one digest, even if they ask for the same), a line of
JSON, and data. The body of an answer is one byte, "+" (done) or "-" (refused), and the result, or the reason.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

MAGIC = b"mtframe1"
HEADER = struct.Struct(">8s32s32sQ")
NONCE = 16
LONGEST = 1 << 30  # bytes of a body
_PARENT_SECONDS = 0.5  # between two looks at whether the parent still lives


class BadFrame(Exception):
    """What came is no frame, or not the one that was waited for."""


def request(fields: dict[str, Any], data: bytes) -> tuple[bytes, bytes]:
    """The frame that asks for something, and its digest."""
    body = os.urandom(NONCE) + json.dumps(fields).encode() + b"\n" + data
    digest = hashlib.sha256(body).digest()
    return frame(digest, body), digest


def frame(digest: bytes, body: bytes) -> bytes:
    return HEADER.pack(MAGIC, digest, _checksum(digest, body), len(body)) + body


def length(header: bytes) -> int:
    """Of the body that follows a header. Raises BadFrame."""
    magic, _, _, size = HEADER.unpack(header)
    if magic != MAGIC or size > LONGEST:
        raise BadFrame("no frame begins there")
    return int(size)


def body(header: bytes, data: bytes) -> tuple[bytes, bytes]:
    """The digest and the body of a frame that was read whole. Raises BadFrame where it is damaged."""
    _, digest, checksum, size = HEADER.unpack(header)
    if size != len(data) or _checksum(digest, data) != checksum:
        raise BadFrame("the frame is damaged")
    return digest, data


def _checksum(digest: bytes, data: bytes) -> bytes:
    found = hashlib.sha256(digest)
    found.update(data)
    return found.digest()


def main(service: str, parent: int) -> None:
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()
    spec = importlib.util.spec_from_file_location("service", service)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    while _serve(sys.stdin.buffer, sink, module.answer):
        pass


def _leave_with(parent: int) -> None:
    """Ends this process soon after its parent, whatever it is doing."""
    while os.getppid() == parent:
        time.sleep(_PARENT_SECONDS)
    os._exit(1)


def _serve(source: BinaryIO, sink: BinaryIO, answer: Callable[[dict[str, Any], bytes], bytes]) -> bool:
    """Answers one request; False at the end of them."""
    header = source.read(HEADER.size)
    if len(header) < HEADER.size:
        return False
    digest, data = body(header, source.read(length(header)))
    if hashlib.sha256(data).digest() != digest:
        raise BadFrame("the digest is not the request's")
    fields, _, rest = data[NONCE:].partition(b"\n")
    try:
        result = b"+" + answer(json.loads(fields), rest)
    except RuntimeError as error:
        result = b"-" + str(error).encode()
    sink.write(frame(digest, result))
    sink.flush()
    return True


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
