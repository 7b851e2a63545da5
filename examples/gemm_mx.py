"""C = A · Bᵀ of microscaled operands (MX): fp8, fp6 or fp4 elements, blocks of 32 along K with a scale each.

    gfx950: mfma_scale takes the elements as they are, and one scale for each of a lane's fragments of 32 of them. fp4
    and fp6 elements are packed bytes, half a byte and three quarters of one each, and come in the same kernel.
    sm_100a: tcgen05 takes fp8 by fp8, and fp4 by fp4; scales lie in tensor memory. There also fp4 in blocks of 16 with
    scales of e4m3 ("nvfp4").

`gemm_mx_packed` is persistent, for scales in packs of 512 bytes, as cuBLAS takes them and tcgen05.cp copies them: TMA
brings these beside the elements. On sm_100a a warp of its own multiplies, and a `cluster` of two blocks as one.

`quantize` makes codes and scales of an array as the standard says (OCP Microscaling Formats, 6.3): the scale is the
power of two at which the block's largest element has the format's largest exponent.
"""

from functools import lru_cache

import ml_dtypes
import numpy as np
from support import USE_GPU, error, on_device, poisoned, report

import minitile as mt
import minitile.language as T
from minitile.target import parse_target

BLOCK = 32
FORMATS = {  # name: minitile's, NumPy's, bits, the largest exponent
    "e4m3": (T.float8_e4m3fn, ml_dtypes.float8_e4m3fn, 8, 8),
    "e5m2": (T.float8_e5m2, ml_dtypes.float8_e5m2, 8, 15),
    "e2m3": (T.float6_e2m3fn, ml_dtypes.float6_e2m3fn, 6, 2),
    "e3m2": (T.float6_e3m2fn, ml_dtypes.float6_e3m2fn, 6, 4),
    "e2m1": (T.float4_e2m1fn, ml_dtypes.float4_e2m1fn, 4, 2),
}


def quantize(values, name):
    """(elements, scales): elements of the format, one a byte, and the bytes of the scales. `values`: rows × K."""
    _, element, _, most = FORMATS[name]
    blocks = values.reshape(len(values), values.shape[1] // BLOCK, BLOCK)
    largest = np.abs(blocks).max(axis=2, keepdims=True)
    exponent = np.floor(np.log2(np.maximum(largest, 2.0**-100))) - most
    limit = float(ml_dtypes.finfo(element).max)
    codes = np.clip(blocks / 2.0**exponent, -limit, limit).astype(element).reshape(values.shape)
    return codes, (exponent[..., 0] + 127).astype(np.uint8)


def quantize_nvfp4(values):
    """The same in blocks of 16, for scales of e4m3: the block's largest element becomes 6, the format's largest."""
    blocks = values.reshape(len(values), values.shape[1] // 16, 16)
    scales = (np.abs(blocks).max(axis=2) / 6).astype(ml_dtypes.float8_e4m3fn)
    divisors = np.maximum(scales.astype(np.float64), 2.0**-9)[..., None]
    return np.clip(blocks / divisors, -6, 6).astype(ml_dtypes.float4_e2m1fn).reshape(values.shape), scales


def pack(codes, name):
    """The elements as a kernel takes them: fp8 as they are, others packed along K, the first one lowest."""
    bits = FORMATS[name][2]
    if bits == 8:
        return codes
    each = np.unpackbits(codes.view(np.uint8)[..., None], axis=-1, bitorder="little", count=bits)
    return np.packbits(each.reshape(len(codes), codes.shape[1] * bits), axis=-1, bitorder="little")


def pack_scales(scales):
    """Scales in packs of 128 rows and four blocks, filled up with zeros: rows / 128 × blocks / 4 × 32 × 16."""
    rows, blocks = (-(-n // each) for n, each in zip(scales.shape, (128, 4), strict=True))
    filled = np.zeros((rows * 128, blocks * 4), scales.dtype)
    filled[: scales.shape[0], : scales.shape[1]] = scales
    by_pack = filled.reshape(rows, 4, 32, blocks, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(by_pack).reshape(rows, blocks, 32, 16)


def exact(codes, scales):
    """What they stand for, in float64."""
    factors = 2.0 ** (scales.astype(np.float64) - 127) if scales.dtype == np.uint8 else scales.astype(np.float64)
    return codes.astype(np.float64) * np.repeat(factors, codes.shape[1] // max(1, scales.shape[1]), axis=1)


@lru_cache
def gemm_mx(a_name, b_name, block=BLOCK):
    """The kernel for elements of these formats, in blocks of 32, or 16 (scales are numbers, then)."""
    scale = T.uint8 if block == BLOCK else T.float8_e4m3fn
    (a_format, _, a_bits, _), (b_format, _, b_bits, _) = FORMATS[a_name], FORMATS[b_name]

    @mt.kernel
    def gemm(
        A: T.Tensor(("M", "KA"), a_format if a_bits == 8 else T.uint8),
        B: T.Tensor(("N", "KB"), b_format if b_bits == 8 else T.uint8),
        SFA: T.Tensor(("M", "KS"), scale),
        SFB: T.Tensor(("N", "KS"), scale),
        C: T.Tensor(("M", "N"), T.float32),
        block_M=128,
        block_N=128,
        block_K=128,
        num_stages=2,
        threads=256,
    ):
        M, N = C.shape
        K = SFA.shape[1] * block
        a_bytes, b_bytes, scales = block_K * a_bits // 8, block_K * b_bits // 8, block_K // block
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, a_bytes), A.dtype)
            B_shared = T.alloc_shared((block_N, b_bytes), B.dtype)
            SFA_shared = T.alloc_shared((block_M, scales), scale)
            SFB_shared = T.alloc_shared((block_N, scales), scale)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * a_bytes], A_shared)
                T.copy(B[bx * block_N, k * b_bytes], B_shared)
                T.copy(SFA[by * block_M, k * scales], SFA_shared)
                T.copy(SFB[bx * block_N, k * scales], SFB_shared)
                T.gemm_blockscaled(
                    *(A_shared, B_shared, C_local, SFA_shared, SFB_shared),
                    transpose_B=True,
                    a_format=a_format,
                    b_format=b_format,
                    sf_a_granularity_k=block,
                    sf_b_granularity_k=block,
                )
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


@lru_cache
def gemm_mx_packed(a_name, b_name, block=BLOCK):
    """The persistent kernel for elements of these formats; scales in packs."""
    scale = T.uint8 if block == BLOCK else T.float8_e4m3fn
    (a_format, _, a_bits, _), (b_format, _, b_bits, _) = FORMATS[a_name], FORMATS[b_name]

    @mt.kernel
    def gemm(
        A: T.Tensor(("M", "KA"), a_format if a_bits == 8 else T.uint8),
        B: T.Tensor(("N", "KB"), b_format if b_bits == 8 else T.uint8),
        SFA: T.Tensor(("MP", "KP", 32, 16), scale),
        SFB: T.Tensor(("NP", "KP", 32, 16), scale),
        C: T.Tensor(("M", "N"), T.float32),
        blocks=148,
        block_M=128,
        block_N=128,
        block_K=128,
        num_stages=3,
        threads=128,
        cluster=1,
    ):
        M, N = C.shape
        K = A.shape[1] * 8 // a_bits
        a_bytes, b_bytes, words = block_K * a_bits // 8, block_K * b_bits // 8, block_K // block // 4
        with T.Kernel(blocks, threads=threads, cluster=cluster) as this:
            A_shared = T.alloc_shared((block_M, a_bytes), A.dtype)
            B_shared = T.alloc_shared((block_N, b_bytes), B.dtype)
            SFA_shared = T.alloc_shared((block_M // 128, words, 32, 16), scale)
            SFB_shared = T.alloc_shared((block_N // 128, words, 32, 16), scale)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            for by, bx in T.Persistent([T.ceildiv(M, block_M), T.ceildiv(N, block_N)], blocks, this):
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                    T.copy(A[by * block_M, k * a_bytes], A_shared)
                    T.copy(B[bx * block_N, k * b_bytes], B_shared)
                    T.copy(SFA[by * (block_M // 128), k * words, 0, 0], SFA_shared)
                    T.copy(SFB[bx * (block_N // 128), k * words, 0, 0], SFB_shared)
                    T.gemm_blockscaled(
                        *(A_shared, B_shared, C_local, SFA_shared, SFB_shared),
                        transpose_B=True,
                        a_format=a_format,
                        b_format=b_format,
                        sf_a_granularity_k=block,
                        sf_b_granularity_k=block,
                    )
                T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def operands(m, n, k, a_name, b_name, seed=0):
    """Codes and scales of random A and B, of rows and blocks that differ much in size."""
    rng = np.random.default_rng(seed)
    made = []
    for rows, name in ((m, a_name), (n, b_name)):
        sizes = np.repeat(2.0 ** rng.integers(-9, 10, (rows, k // BLOCK)), BLOCK, axis=1)
        made.append(quantize(rng.standard_normal((rows, k)) * sizes, name))
    return made


def launch(kernel, arrays, c, target, options):
    """On the GPU, or in the simulator of a target."""
    if USE_GPU:
        kernel(*arrays, c, **options)
    else:
        kernel.compile(*arrays, c, target=target, **options).simulate(*arrays, c)


def run(m=100, n=70, k=320, a_name="e4m3", b_name="e4m3", target="gfx950", **options):
    (a, sa), (b, sb) = operands(m, n, k, a_name, b_name)
    c = on_device(poisoned((m, n)))
    arrays = [on_device(x) for x in (pack(a, a_name), pack(b, b_name), sa, sb)]
    options = {"block_M": 64, "block_N": 64, "threads": 128, **options}
    launch(gemm_mx(a_name, b_name), arrays, c, target, options)
    report(f"gemm_mx {a_name} x {b_name} {m}x{n}x{k}", error(c, exact(a, sa) @ exact(b, sb).T), 1e-6)


def run_packed(m=300, n=136, k=320, a_name="e4m3", b_name="e4m3", target="sm_100a", **options):
    (a, sa), (b, sb) = operands(m, n, k, a_name, b_name)
    c = on_device(poisoned((m, n)))
    arrays = [on_device(x) for x in (pack(a, a_name), pack(b, b_name), pack_scales(sa), pack_scales(sb))]
    launch(gemm_mx_packed(a_name, b_name), arrays, c, target, {"blocks": 2, **options})
    report(f"gemm_mx_packed {a_name} x {b_name} {m}x{n}x{k}", error(c, exact(a, sa) @ exact(b, sb).T), 1e-6)


BY_MFMA = (("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e2m1", "e2m1"), ("e4m3", "e2m1"), ("e2m3", "e3m2"))
BY_TCGEN05 = (("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e2m1", "e2m1"))


def main():
    target = parse_target("auto") if USE_GPU else None
    if target is None or target.has("mfma_scale"):
        for a_name, b_name in BY_MFMA:
            run(a_name=a_name, b_name=b_name)
        run_packed(target="gfx950")
    if target is None or target.has("tcgen05"):
        for a_name, b_name in BY_TCGEN05:
            run(a_name=a_name, b_name=b_name, target="sm_100a", block_M=128)
            run_packed(a_name=a_name, b_name=b_name)
        run_packed(cluster=2)
    elif not target.has("mfma_scale"):
        print(f"no form for {target}: it has no products with scales of blocks")


if __name__ == "__main__":
    main()
