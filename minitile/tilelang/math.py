"""`tilelang.math` and numbers of the host."""

from __future__ import annotations


def next_power_of_2(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 if n <= 1 else 1 << (n - 1).bit_length()


def cdiv(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def get_num_sms(device: object = None) -> int:
    """How many multiprocessors the GPU has; 132, an H100's, where there is none."""
    from minitile.runtime import cuda

    return cuda.device_info(0).multiprocessors if cuda.available() and cuda.device_count() else 132
