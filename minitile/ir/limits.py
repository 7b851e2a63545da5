"""What IR text may ask for: limits on sizes, counts and depth, so that no text exhausts memory, time or the stack.

Far above what the compiler itself prints, far below what a machine cannot hold. The parser checks them (`parser.py`,
`type_parser.py`); what is over one is an IRError at the place in the text.
"""

from __future__ import annotations

MAX_TEXT = 64 << 20  # characters
MAX_NUMBER = 64  # characters of one number
MAX_INTEGER = 1 << 64  # integers are below this, and not below its half negated: what 64 bits hold
MAX_NESTING = 40  # regions within regions, brackets within brackets, each
MAX_ELEMENTS = 1 << 20  # of a tuple, counted through the tuples in it; of a tile, registers or a buffer
MAX_DIMS = 32  # of a shape; the verifier looks, with the elements
MAX_OPERATIONS = 1 << 20  # of a kernel
MAX_ARGUMENTS = 4096  # parameters of a kernel, arguments of a block, operands or results of an operation
MAX_SLOTS = 4096  # versions of a buffer, slots of a pipeline


def integer(text: str) -> int:
    """The integer that decimal digits stand for; ValueError where it is longer or larger than the limits."""
    if len(text) > MAX_NUMBER:
        raise ValueError(f"a number of {len(text)} characters; there may be {MAX_NUMBER}")
    value = int(text)
    if not -MAX_INTEGER // 2 <= value < MAX_INTEGER:
        raise ValueError(f"{text} does not fit 64 bits")
    return value


def elements(value: object) -> int:
    """The elements of nested tuples, all counted; 1 for anything else."""
    return sum(map(elements, value)) if isinstance(value, tuple) else 1
