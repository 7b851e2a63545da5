"""TileLang's own examples with small inputs: their kernels in the simulator beside their own references.

    python tests/tilelang/agreement.py DIRECTORY [--only TEXT] [--target sm_90a] [--out agreement.json]

DIRECTORY is a checkout as of corpus.py. Needs torch (its CPU) and einops; some files triton. A file is loaded as it is,
with torch's CPU in place of "cuda"; then the calls of `SMALL` are made among its names. What a file itself asserts of
its results (`torch.testing.assert_close`, `assert_allclose`) decides; a call that asserts nothing compares as written
here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

SECONDS = 240  # of one file

# File: what is run among its names.
SMALL: dict[str, list[str]] = {
    "amd/example_amd_flash_attn_bwd.py": ["main(1, 1, 128, 64, False, 1)"],
    "amd/example_amd_flash_attn_fwd.py": ["main(1, 1, 128, 64, False, 1)"],
    "attention_sink/example_gqa_sink_bwd_bhsd.py": ["main(1, 64, 64, 64, 32)"],
    "attention_sink/example_gqa_sink_bwd_varlen.py": ["main(1, 2, 128, 128, 64, 2)"],
    "attention_sink/example_gqa_sink_fwd_varlen.py": ["main(1, 2, 128, 128, 64, 2)"],
    "attention_sink/example_mha_sink_bwd_bhsd.py": ["main(1, 64, 64, 64)"],
    "attention_sink/example_mha_sink_fwd_bhsd.py": ["main(1, 1, 128, 128, 64)"],
    "block_causal_attention/block_causal_attention.py": ["_run_fixed_case(1, 128, 1, 64, 16)"],
    "block_causal_attention/block_causal_attention_varlen.py": ["_run_varlen_case([128], 1, 64, 16)"],
    "blocksparse_attention/example_tilelang_block_sparse_attn.py": ["test_topk_sparse_attention()"],
    "blocksparse_attention/example_tilelang_sparse_gqa_decode_varlen_indice.py": [
        "q, k, v = (torch.randn(*s).half() for s in ((2, 8, 64), (2, 256, 2, 64), (2, 256, 2, 64)))",
        "at = torch.tensor([[4, 2, 0, -1], [7, 6, 3, 1]], dtype=torch.int32)[:, None].expand(2, 2, 4).contiguous()",
        "n = torch.tensor([130, 250], dtype=torch.int32)",
        "have = SparseFlashAttn(2, 8, 2, 64, 64, 32)(q, k, v, at, n)",
        "close(have, ref_program_torch(q, k, v, at, n, 256, 8, 32))",
    ],
    "blocksparse_attention/example_tilelang_sparse_gqa_decode_varlen_mask.py": [
        "q, k, v = (torch.randn(*s).half() for s in ((2, 8, 64), (2, 256, 2, 64), (2, 256, 2, 64)))",
        "n, kept = torch.tensor([130, 250], dtype=torch.int32), torch.rand(2, 2, 8) > 0.4",
        "kept[:, :, 0], kept[0, :, 5:] = True, False",
        "have = SparseFlashAttn(2, 8, 2, 64, 64, 32)(q, k, v, kept, n)",
        "close(have, ref_program_torch(q, k, v, kept, n, 256, 8, 32))",
    ],
    "blocksparse_gemm/example_blocksparse_gemm.py": [
        "a, b, mask = torch.randn(128, 128).half(), torch.randn(128, 128).half(), torch.rand(2, 2, 4) > 0.5",
        "f = blocksparse_matmul.compile(M=128, N=128, K=128, block_M=64, block_N=64, block_K=32, num_stages=2, "
        "thread_num=128, enable_rasteration=True)",
        "close(f(a, b, mask), ref_program(a, b, mask, 64, 64, 32))",
    ],
    "cast/example_group_per_split_token_cast_to_fp8.py": ["main(64, 256, 2, 8, [24, 40])"],
    "cast/example_per_token_cast_to_fp8.py": ["main(64, 256, 8)"],
    "convolution/example_convolution.py": ["main('--n 1 --c 32 --h 8 --w 8 --f 32'.split())"],
    "convolution/example_convolution_autotune.py": ["main(1, 32, 8, 8, 32, 3)"],
    "deepseek_deepgemm/example_deepgemm_fp8_2xAcc.py": [
        "assert_tl_gemm_correctness(128, 128, 256, 128, T.float8_e4m3fn, T.bfloat16, T.float32)",
    ],
    "deepseek_mhc/example_mhc_post.py": ["test(4, 512)"],
    "deepseek_mla/example_mla_decode.py": [
        "x = [torch.randn(1, *s).half() for s in ((64, 128), (64, 64), (256, 1, 128), (256, 1, 64))]",
        "one, two = (flashattn(1, 64, 1, 256, 128, 64, 64, 64, parts, 192**-0.5)(*x) for parts in (1, 2))",
        "nearer(one, ref_program, x)",
        "close(one, ref_program(*(t.double() for t in x)), 1e-3, 2e-4)",
        "close(two, ref_program(*(t.double() for t in x)), 4e-3, 4e-4)  # whose exponents of parts are f16",
    ],
    "deepseek_mla/example_mla_decode_paged.py": [
        "q, k = torch.randn(2, 1, 64, 192).half(), torch.randn(8, 64, 1, 192).half()",
        "n, table = torch.tensor([250, 252], dtype=torch.int32), torch.arange(8, dtype=torch.int32).view(2, 4)",
        "run_tilelang_mla(q, table, k, 256, 64, 2, 1, n, 64, 1, 192, 128, True, torch.float16)",
    ],
    "deepseek_mla/experimental/example_mla_decode_kv_fp8.py": [
        "q, p, k, e = (torch.randn(1, *s).half() for s in ((64, 128), (64, 64), (128, 1, 128), (128, 1, 64)))",
        "k8 = k.to(torch.float8_e4m3fn)",
        "f = flashattn(1, 64, 1, 128, 128, 64, 64, 64)",
        "close(f(q, p, k8, e), ref_program(q, p, k8.half(), e))",
    ],
    "deepseek_nsa/example_tilelang_nsa_decode.py": ["main()"],
    "deepseek_nsa/example_tilelang_nsa_fwd.py": ["main()"],
    "deepseek_v32/fp8_lighting_indexer.py": [
        "q, w = torch.randn(16, 32, 64).to(torch.float8_e4m3fn), torch.randn(16, 32)",
        "start, end = torch.arange(16, dtype=torch.int32) // 2, torch.arange(16, dtype=torch.int32) + 100",
        "k, scales = per_custom_dims_cast_to_fp8(torch.randn(256, 64).bfloat16(), (0,), False)",
        "want, _ = ref_fp8_mqa_logits(q.float(), k.float() * scales[:, None], w, start, end)",
        "have = mqa_attn_return_logits_interface(q, k, scales, w, start, end)",
        "assert (have.isfinite() == want.isfinite()).all()",
        "close(have.nan_to_num(0, 0, 0), want.nan_to_num(0, 0, 0))",
    ],
    "deepseek_v32/sparse_mla_fwd.py": [
        "q, kv = torch.randn(1, 4, 16, 576).bfloat16(), torch.randn(1, 64, 1, 576).bfloat16()",
        "at = torch.stack([torch.randperm(64) for _ in range(4)]).int().view(1, 4, 1, 64)",
        "have, _ = sparse_mla_fwd_interface(q, kv, at, block_I=32, threads=128)",
        "close(have, ref_sparse_mla_fwd_interface(q, kv, at), 2e-2, 2e-2)",
    ],
    "deepseek_v32/topk_selector.py": [
        "x = torch.randn(2, 512)",
        "found = tl_topk(x, torch.zeros(2, dtype=torch.int32), torch.full((2,), 512, dtype=torch.int32), 64)",
        "close(found.sort(-1)[0], x.topk(64)[1].sort(-1)[0], 0, 0)",
    ],
    "deepseek_v4/sparse_attn_fwd_sm90.py": ["test_correctness(1, 8, 16, 128, 64, 64)"],
    "dequantize_gemm/example_dequant_gemm_fine_grained.py": [
        "run_gemm(64, 64, 64, 'float16', 'float16', 'float32', 64, 64, 32, 2)"
    ],
    "dequantize_gemm/example_dequant_gemm_fp4_hopper.py": ["test_fp4_fp16_convert_close()", "main(64, 128, 128)"],
    "dequantize_gemm/example_dequant_gemm_w4a8.py": ["main(64, 128, 128)"],
    "dsa_hisa/block_sparse_mqa_fp8.py": ["test_fp8_block_sparse_mqa(32, 64, 128, 128, 2)"],
    "dsa_hisa/clean_and_maintain_logits.py": ["test_clean_and_maintain_logits(64, 128)"],
    "dsa_hisa/fp8_block_mean_pooling.py": ["test_fp8_block_mean_pooling(512, 128, 128)"],
    "dsa_hisa/pool_mqa_fp8.py": ["test_pool_mqa_fp8(512, 64, 64, 16, 32)"],
    "dsa_sparse_finetune/indexer_topk_reducesum.py": ["test_kernel(1, 128, 16, 64, 32)"],
    "dsa_sparse_finetune/sparse_mla_fwd.py": [
        "q, kv = torch.randn(12, 16, 576).bfloat16(), torch.randn(12, 1, 576).bfloat16()",
        "ends, at = torch.tensor([0, 5, 12], dtype=torch.int32), torch.full((12, 1, 32), 12, dtype=torch.int32)",
        "at[:, 0, :5] = torch.stack([torch.randperm(5) for _ in range(12)]).int()",
        "have, _ = sparse_mla_fwd_interface(q, kv, at, ends)",
        "close(have, ref_sparse_mla_fwd_interface(q, kv, at, ends), 2e-2, 2e-2)",
    ],
    "dsa_sparse_finetune/sparse_mla_topk_reducesum.py": [
        "q, kv = torch.randn(32, 16, 576).bfloat16(), torch.randn(32, 576).bfloat16()",
        "ends, at = torch.tensor([0, 32], dtype=torch.int32), torch.arange(32, dtype=torch.int32)",
        "at = at.expand(32, 32).contiguous()",
        "lse, want = ref_mla_topk_softmax(q, kv, at, ends)",
        "have = sparse_mla_topk_reducesum_interface(q, kv[:, None], at[:, None], lse, ends, dim_v=512)",
        "close(have.squeeze(-2), want)",
    ],
    "dynamic_shape/example_dynamic.py": ["main(128, 128, 128)"],
    "elementwise/example_elementwise_add.py": ["main(64, 96)"],
    "flash_attention/example_gqa_bwd.py": ["main(1, 2, 128, 64, 64, 2)"],
    "flash_attention/example_gqa_bwd_tma_reduce.py": ["main(1, 2, 128, 64, 64, 2)"],
    "flash_attention/example_gqa_bwd_tma_reduce_varlen.py": ["main(1, 2, 128, 64, 64, 2, True, True)"],
    "flash_attention/example_gqa_fwd_bshd.py": ["main(1, 2, 128, 64, False, 2)"],
    "flash_attention/example_gqa_fwd_varlen.py": [
        "q, k, v = (torch.randn(190, h, 64).half() for h in (2, 1, 1))",
        "ends = torch.tensor([0, 70, 190], dtype=torch.int32)",
        "how = dict(block_M=64, block_N=64, num_stages=1, threads=128)",
        "have = flashattn(2, 2, 190, 190, 2, 64, False, **how)(q, k, v, ends, ends, 120)",
        "close(have, attended(q, k.expand(190, 2, 64), v.expand(190, 2, 64), ends))",
    ],
    "flash_attention/example_mha_bwd_bhsd.py": ["main(1, 1, 128, 64)"],
    "flash_attention/example_mha_bwd_bshd.py": ["main(1, 1, 128, 64)"],
    "flash_attention/example_mha_fwd_bhsd.py": ["main(1, 1, 128, 128, 64, True)"],
    "flash_attention/example_mha_fwd_bshd.py": ["main(1, 1, 128, 64, True)"],
    "flash_attention/example_mha_fwd_varlen.py": [
        "q, k, v = (torch.randn(190, 2, 64).half() for _ in range(3))",
        "ends = torch.tensor([0, 70, 190], dtype=torch.int32)",
        "how = dict(block_M=64, block_N=64, num_stages=1, threads=128)",
        "have = flashattn(2, 190, 190, 2, 64, False, **how)(q, k, v, ends, ends, 120)",
        "close(have, attended(q, k, v, ends))",
    ],
    "flash_decoding/example_gqa_decode.py": ["main(1, 8, 2, 1024, 64)"],
    "flash_decoding/example_gqa_decode_varlen_logits.py": [
        "from types import SimpleNamespace as Of",  # its seed makes sequences of 142 and 147, of as many blocks as 192
        "test_varlen_decode_main(Of(batch_size=2, q_heads=8, kv_heads=2, k_seqlen=192, head_size=64, block_size=128, "
        "dtype=T.float16, test_sink=True))",
    ],
    "flash_decoding/example_mha_inference.py": ["main(1, 1, 128, 256, 64)"],
    "fusedmoe/example_fusedmoe_tilelang.py": ["main(128, 128, 2, 1, 1, 1, 64)"],
    "gemm/example_gemm.py": [
        "a, b = torch.randn(128, 64).half(), torch.randn(64, 128).half()",
        "close(matmul(a, b, 64, 64, 32), a @ b)",
    ],
    "gemm/example_gemm_advanced_autotune.py": [
        "f = matmul(128, 256, 64, **{**get_heuristic_config(), 'block_N': 128})",
        "f.get_profiler().assert_allclose(ref_program, atol=1e-2, rtol=1e-2)",
    ],
    "gemm/example_gemm_autotune.py": ["main(128, 256, 64)"],
    "gemm/example_gemm_autotune_early_stop.py": [
        "a, b = torch.randn(64, 64).half(), torch.randn(64, 64).half()",
        "close(matmul_early_stop(64, 64, 64, block_M=64, block_N=32)(a, b), a @ b.t())",
    ],
    "gemm/example_gemm_autotune_pass_configs.py": ["main(128, 128, 64)", "main_decorator(128, 128, 64)"],
    "gemm/example_gemm_persistent.py": ["main(128, 256, 64)"],
    "gemm_fp8/example_tilelang_gemm_amd.py": ["test_gemm_fp8(256, 256, 128)"],
    "gemm_fp8/example_tilelang_gemm_fp8.py": ["test_gemm_fp8(128, 128, 128, T.float8_e4m3fn)"],
    "gemm_fp8/example_tilelang_gemm_fp8_2xAcc.py": ["test_gemm_fp8(128, 128, 256, T.float8_e4m3fn)"],
    "gemm_splitk/example_tilelang_gemm_splitk.py": [
        "a, b, c = torch.randn(64, 128).half(), torch.randn(128, 64).half(), torch.zeros(64, 64)",
        "matmul(a, b, c, 64, 64, 32, 2)",
        "close(c, a.float() @ b.float())",
    ],
    "gemm_splitk/example_tilelang_gemm_splitk_vectorize_atomicadd.py": [
        "a, b, c = torch.randn(64, 128).half(), torch.randn(128, 64).half(), torch.zeros(64, 64)",
        "matmul(a, b, c, 64, 64, 32, 2)",
        "close(c, a.float() @ b.float())",
    ],
    "gemm_streamk/example_tilelang_gemm_streamk.py": ["main()"],
    "gemm_tcgen05/gemm_mma.py": [],
    "gemv/example_gemv.py": [
        "f = naive_gemv.compile(N=128, K=64, BLOCK_N=128, BLOCK_K=32)",
        "check_correctness_and_bench(f, 128, 64, do_bench=False)",
        "f = gemv_alloc_reducer.compile(M=32, N=64, block_M=32, block_N=32, threads=64)",
        "check_correctness_and_bench(f, 32, 64, do_bench=False)",
    ],
    "grouped_gemm/example_grouped_gemm_bwd.py": ["run_tilelang_grouped_gemm([32, 40], 128, 128, 64, 64, 64)"],
    "grouped_gemm/example_grouped_gemm_fwd.py": ["run_tilelang_grouped_gemm([32, 40], 128, 128, 64, 64, 64, False)"],
    "iket/all_features.py": ["main()"],
    "iket/minimal.py": ["main()"],
    "iket/payload_minimal.py": ["main()"],
    "linear_attention/example_mamba_chunk_scan.py": [
        "f = chunk_scan_fwd.compile(batch=1, seqlen=128, chunk_size=64, ngroups=1, nheads=2, headdim=64, dstate=128)",
        "f.get_profiler(tilelang.TensorSupplyType.Normal).assert_allclose(ref_program, rtol=0.01, atol=0.01)",
    ],
    "linear_attention/example_mamba_chunk_state.py": [
        "f = chunk_state_fwd.compile(batch=1, seqlen=256, chunk_size=128, ngroups=1, nheads=2, headdim=64, dstate=64, "
        "block_M=64, block_N=64, block_K=64, num_stages=2, threads=128)",
        "x = [torch.randn(1, *s).half() for s in ((256, 1, 64), (256, 2, 64), (2, 2, 128), (2, 2, 128))]",
        "nearer(f(*x), ref_program, x)",
        "x[3] = x[3].abs().cumsum(-1).div(-16).half()  # falling, as in the model: what it weights with is at most 1",
        "close(f(*x), ref_program(*x))",
    ],
    "linear_attention/example_retention_fwd.py": ["main()"],
    "norm/layernorm.py": [
        "x, g, b = (torch.randn(*n, dtype=torch.bfloat16, requires_grad=True) for n in ((32, 256), (256,), (256,)))",
        "dy = torch.randn(32, 256).bfloat16()",
        "mine, theirs = layer_norm(x, g, b), ref_program(x, g, b, 1e-5)",
        "close(mine, theirs)",
        "close(torch.autograd.grad(mine, x, dy)[0], torch.autograd.grad(theirs, x, dy)[0])",
    ],
    "norm/rms_norm.py": ["test_rms_norm(16, 256, 1)"],
    "seer_attention/block_sparse_attn_tilelang.py": ["test_topk_sparse_attention()"],
    "topk/example_topk.py": ["main('--M 32 --N 32 --topk 4'.split())"],
    "visual_layout_inference/visual_layout_inference.py": ["main()"],
    "warp_specialize/example_warp_specialize_gemm_barrierpipe_stage2.py": ["main(128, 128, 128)"],
    "warp_specialize/example_warp_specialize_gemm_copy_0_gemm_1.py": ["main(128, 128, 128)"],
    "warp_specialize/example_warp_specialize_gemm_copy_1_gemm_0.py": ["main(128, 128, 128)"],
    "warp_specialize/example_warp_specialize_gemm_copy_gemm_0_1.py": ["main()"],
    "warp_specialize/example_warp_specialize_gemm_softpipe_stage2.py": ["main(128, 128, 128)"],
}

# Kernels of these files that are not run, and why.
LEFT_OUT: dict[str, str] = {
    "dequantize_gemm/example_dequant_gemm_fine_grained.py": "one of two kernels: its test needs bitblas",
    "gemv/example_gemv.py": "five of seven kernels: all threads of one row write C of it, the same value, which the "
    "simulator calls a race. Their barriers are right: without the check they agree with float64",
}

# nearer: for files whose own tolerance is below what f16 allows their reference. attended: of sequences between `ends`,
# for files whose reference is flash_attn.
PRELUDE = """
import torch
torch.manual_seed(0)
def close(have, want, rtol=1e-2, atol=1e-2):
    torch.testing.assert_close(have.float(), want.float(), rtol=rtol, atol=atol)
def nearer(have, reference, inputs):
    exact = reference(*(t.double() for t in inputs))
    ours, theirs = ((found.double() - exact).abs().mean() for found in (have, reference(*inputs)))
    assert ours < theirs, f"{ours} off float64, the reference {theirs}"
def attended(q, k, v, ends):
    parts = [[x[a:b].double().transpose(0, 1) for x in (q, k, v)] for a, b in zip(ends, ends[1:])]
    scores = [q @ k.transpose(1, 2) * q.shape[-1] ** -0.5 for q, k, _ in parts]
    return torch.cat([(s.softmax(-1) @ v).transpose(0, 1) for s, (_, _, v) in zip(scores, parts)])
"""


@dataclass
class Agreement:
    """What became of a file: "" if all agrees, else the error; seconds: of the calls."""

    file: str
    error: str
    seconds: float


def one(path: Path, calls: list[str], target: str) -> Agreement:
    """In this process."""
    from minitile.tilelang import hook
    from minitile.tilelang.stand_in.cpu import on_cpu

    os.environ["MINITILE_TARGET"] = target
    os.chdir(path.parent)
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    began = time.perf_counter()
    error = ""
    with hook.in_place(), on_cpu():
        names: dict[str, object] = {"__name__": "example", "__file__": str(path)}
        try:
            exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), names)
            exec(PRELUDE, names)
            for call in calls:
                exec(call, names)
        except (Exception, SystemExit) as raised:
            error = f"{type(raised).__name__}: {raised}"[:400]
    return Agreement(path.name, error, round(time.perf_counter() - began, 1))


def run(root: Path, name: str, target: str) -> Agreement:
    """In a process of its own."""
    command = [sys.executable, __file__, str(root), "--one", name, "--target", target]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment)
    except subprocess.TimeoutExpired:
        return Agreement(name, f"more than {SECONDS} s", float(SECONDS))
    try:
        found = Agreement(**json.loads(done.stdout.strip().splitlines()[-1]))
    except (ValueError, IndexError, TypeError):
        return Agreement(name, (done.stderr.strip().splitlines() or ["?"])[-1], 0.0)
    return Agreement(name, found.error, found.seconds)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    root = args.directory.resolve()
    if args.one:
        print("\n" + json.dumps(asdict(one(root / "examples" / args.one, SMALL[args.one], args.target))))
        return 0
    found = []
    for name in SMALL:
        if args.only in name:
            found.append(run(root, name, args.target))
            last = found[-1]
            print(
                f"{'differs' if last.error else 'agrees':8} {last.seconds:6.1f} s  {name}  {last.error[:200]!r}",
                flush=True,
            )
    print(f"{sum(not f.error for f in found)} of {len(found)} files agree with their references")
    if args.out:
        args.out.write_text(json.dumps([asdict(f) for f in found], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
