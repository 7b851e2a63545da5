"""The problems of tilelang_cases.py: inputs of TileLang's examples, what their results have to be, and how their
kernels are made. Nothing here is TileLang's text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

Tensors = tuple[Any, ...]


def call(kernel: Any, inputs: Tensors) -> Any:
    """The kernel on the inputs: what most cases do."""
    return kernel(*inputs)


@dataclass(frozen=True)
class Case:
    """kernel: of the file's module, what is compiled. inputs: one set, on the GPU, after torch's seed. launch: one run;
    gives a tensor or several. expected: of module and inputs, in float64 where nothing else is said; it may be of a
    part of the result, which `part` takes. adds: results (by number) that a launch adds to, in place of writing them.
    bound: of ‖result − expected‖ / ‖expected‖."""

    name: str
    file: str
    kernel: Callable[[Any], Any]
    inputs: Callable[[Any], Tensors]
    expected: Callable[[Any, Tensors], Tensors]
    launch: Callable[[Any, Tensors], Any] = call
    part: Callable[[Tensors], Tensors] = lambda results: results
    adds: tuple[int, ...] = ()
    bound: float = 1e-2


def half(*shape: int, scale: float = 1.0, dtype: str = "float16") -> Any:
    import torch

    return torch.randn(*shape, device="cuda", dtype=getattr(torch, dtype)) * scale


def into(*which: int) -> Callable[[Any, Tensors], Any]:
    """A launch of a kernel that writes to some of its arguments, which are the results."""

    def launch(kernel: Any, inputs: Tensors) -> Any:
        kernel(*inputs)
        return tuple(inputs[i] for i in which)

    return launch


# Products -----------------------------------------------------------------------------------------------------------


def two_matrices(m: int, n: int, k: int, transposed: bool, _: Any) -> Tensors:
    return half(m, k), half(n, k) if transposed else half(k, n)


def product(transposed: bool, _: Any, inputs: Tensors) -> Tensors:
    a, b = inputs[0].double(), inputs[1].double()
    return (a @ (b.t() if transposed else b),)


def with_zeros(m: int, n: int, k: int, _: Any) -> Tensors:
    import torch

    return half(m, k), half(k, n), torch.zeros(m, n, device="cuda")


def gemm(name: str, file: str, kernel: Callable[[Any], Any], m: int, n: int, k: int, transposed: bool = False) -> Case:
    return Case(
        name,
        file,
        kernel,
        partial(two_matrices, m, n, k, transposed),
        partial(product, transposed),
    )


def split_k(name: str, file: str) -> Case:
    def kernel(m: Any) -> Any:
        return m.matmul.compile(M=4096, N=4096, K=4096, block_M=128, block_N=128, block_K=32, split_k=4)

    inputs = partial(with_zeros, 4096, 4096, 4096)
    return Case(name, file, kernel, inputs, partial(product, False), into(2), adds=(0,), bound=1e-3)


def dynamic(m: Any) -> Any:
    def run(a: Any, b: Any) -> Any:
        T = m.T
        how = False, False, T.float16, T.float16, T.float32, 3, 128
        return m.matmul_dynamic_mnk(a, b, 128, 128, 32, *how)

    return run


def heuristic_gemm(m: Any) -> Any:
    return m.matmul(
        4096, 4096, 4096, block_M=128, block_N=256, block_K=64, num_stages=3, thread_num=256, enable_rasteration=True
    )


def large_gemm(kind: str, m: Any) -> Any:
    tiles = {"block_M": 128, "block_N": 256, "block_K": 64, "threads": 256, "num_stages": 3}
    return getattr(m, kind).compile(M=8192, N=8192, K=8192, **tiles)


def gemv(name: str, kernel: Callable[[Any], Any], matrix_first: bool = False) -> Case:
    def inputs(_: Any) -> Tensors:
        both = half(4096), half(4096, 4096)
        return both[::-1] if matrix_first else both

    def expected(_: Any, given: Tensors) -> Tensors:
        vector, matrix = given[::-1] if matrix_first else given
        return (matrix.double() @ vector.double(),)

    return Case(name, "gemv/example_gemv.py", kernel, inputs, expected)


def blocksparse_inputs(_: Any) -> Tensors:
    import torch

    return half(1024, 1024), half(1024, 1024), torch.rand(8, 8, 32, device="cuda") > 0.5


def blocksparse_expected(_: Any, inputs: Tensors) -> Tensors:
    a, b, mask = inputs
    rows = []
    for i in range(8):
        kept = mask[i].double().repeat_interleave(128, 0).repeat_interleave(32, 1)  # of each column: which k
        rows.append(a.double()[i * 128 : (i + 1) * 128] @ (b.double() * kept.t()))
    import torch

    return (torch.cat(rows),)


def blocksparse_kernel(m: Any) -> Any:
    how = {"num_stages": 2, "thread_num": 128, "enable_rasteration": True}
    return m.blocksparse_matmul.compile(M=1024, N=1024, K=1024, block_M=128, block_N=128, block_K=32, **how)


def convolution_kernel(m: Any) -> Any:
    shape = {"N": 128, "C": 128, "H": 64, "W": 64, "F": 128, "K": 3, "S": 1, "D": 1, "P": 1}
    return m.convolution.compile(**shape, block_M=64, block_N=128, block_K=32, num_stages=3, threads=256)


def convolution_expected(_: Any, inputs: Tensors) -> Tensors:
    """Of the first two images."""
    import torch

    data, weights = inputs[0][:2].double().permute(0, 3, 1, 2), inputs[1].double().permute(3, 2, 0, 1)
    return (torch.nn.functional.conv2d(data, weights, padding=1).permute(0, 2, 3, 1),)


def fp8_gemm(name: str, file: str, m: int, n: int, k: int, uniform: bool, narrow: bool) -> Case:
    """narrow: the result is fp8 as well."""

    def kernel(module: Any) -> Any:
        return module.matmul.compile(M=m, N=n, K=k, block_M=128, block_N=128, block_K=64, dtype="float8_e4m3fn")

    def one(*shape: int) -> Any:
        import torch

        numbers = (100 * (2 * torch.rand(*shape, device="cuda") - 1)) if uniform else torch.randn(*shape, device="cuda")
        return numbers.to(torch.float8_e4m3fn)

    def expected(_: Any, inputs: Tensors) -> Tensors:
        import torch

        exact = inputs[0].double() @ inputs[1].double().t()
        return (exact.clamp(-448, 448).to(torch.float8_e4m3fn) if narrow else exact,)

    return Case(name, file, kernel, lambda _: (one(m, k), one(n, k)), expected)


def dequantized_kernel(m: Any) -> Any:
    how = {"block_M": 128, "block_N": 128, "block_K": 128, "num_stages": 2, "threads": 256, "split": 1}
    return m.matmul(4096, 4096, 4096, "float16", "float16", "float32", num_bits=4, **how)


def dequantized_inputs(_: Any) -> Tensors:
    import torch

    packed = torch.randint(0, 256, (4096, 2048), device="cuda", dtype=torch.int32).to(torch.uint8)
    return half(4096, 4096, scale=0.1), packed


def dequantized_expected(m: Any, inputs: Tensors) -> Tensors:
    return (m.torch_convert(inputs[1]).double() @ inputs[0].double().t(),)


# Attention ----------------------------------------------------------------------------------------------------------


def one_head(q: Any, k: Any, v: Any, keep: Any = None) -> Any:
    """softmax(q kᵀ / √d) v of [rows, d] arrays; keep: of which scores."""
    scores = q.double() @ k.double().t() * q.shape[-1] ** -0.5
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    return scores.softmax(-1) @ v.double()


def causal_mask(rows: int) -> Any:
    import torch

    return torch.ones(rows, rows, device="cuda", dtype=torch.bool).tril()


def attention(
    name: str, file: str, kernel: Callable[[Any], Any], b: int, s: int, h: int, d: int, groups: int, causal: bool
) -> Case:
    """[batch, rows, heads, d] arrays, checked on the first and the last head."""
    heads = 0, h - 1

    def expected(_: Any, inputs: Tensors) -> Tensors:
        q, k, v = inputs
        keep = causal_mask(s) if causal else None
        return tuple(one_head(q[-1, :, i], k[-1, :, i // groups], v[-1, :, i // groups], keep) for i in heads)

    return Case(
        name,
        file,
        kernel,
        lambda _: (half(b, s, h, d), half(b, s, h // groups, d), half(b, s, h // groups, d)),
        expected,
        part=lambda results: tuple(results[0][-1, :, i] for i in heads),
    )


LENGTHS_Q = (2048, 2031, 2040, 2029, 2044, 2036, 2048, 2030)  # up to 20 below the longest, as the example's are
LENGTHS_K = (2037, 2048, 2033, 2045, 2028, 2048, 2039, 2042)


def varlen_kernel(m: Any) -> Any:
    return m.flashattn(
        8, sum(LENGTHS_Q), sum(LENGTHS_K), 64, 128, False, block_M=64, block_N=64, num_stages=1, threads=128
    )


def starts(lengths: Sequence[int]) -> Any:
    import torch

    return torch.tensor([0, *lengths], device="cuda").cumsum(0).to(torch.int32)


def varlen_inputs(_: Any) -> Tensors:
    q, k, v = half(sum(LENGTHS_Q), 64, 128), half(sum(LENGTHS_K), 64, 128), half(sum(LENGTHS_K), 64, 128)
    return q, k, v, starts(LENGTHS_Q), starts(LENGTHS_K), max(LENGTHS_Q)


def varlen_expected(_: Any, inputs: Tensors) -> Tensors:
    """Of the last sequence's first head."""
    q, k, v = inputs[:3]
    rows = slice(-LENGTHS_K[-1], None)
    return (one_head(q[-LENGTHS_Q[-1] :, 0], k[rows, 0], v[rows, 0]),)


def backward_kernels(m: Any) -> Any:
    b, h, s, d = 8, 32, 1024, 64
    return (
        m.flashattn_bwd_preprocess(b, h, s, d),
        m.flashattn_bwd(b, h, s, d, False, 64, 64),
        m.flashattn_bwd_postprocess(b, h, s, d),
    )


def backward_inputs(_: Any) -> Tensors:
    import torch

    q, k, v, do = (half(8, 1024, 32, 64) for _ in range(4))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k).float() * 64**-0.5
    lse = scores.logsumexp(-1) * 1.44269504
    out = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1).half(), v)
    return q, k, v, out.contiguous(), do, lse.contiguous()


def backward(kernels: Any, inputs: Tensors) -> Any:
    """As the example's autograd function does it: three launches, and zeros for what is added to."""
    import torch

    before, main, after = kernels
    q, k, v, out, do, lse = inputs
    delta = before(out, do)
    dq = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
    dk, dv = torch.empty_like(q), torch.empty_like(q)
    main(q, k, v, do, lse, delta, dq, dk, dv)
    return after(dq), dk, dv


def backward_expected(_: Any, inputs: Tensors) -> Tensors:
    """Of the last batch's first two heads."""
    import torch

    q, k, v, _out, do, _lse = (x[-1:, :, :2].double() if x.dim() == 4 else x for x in inputs)
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * 64**-0.5
    torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).backward(do)
    return q.grad, k.grad, v.grad


def decode_kernel(m: Any) -> Any:
    return m.flashattn(1, 32, 8, 8192, 128, block_N=128, block_H=64, num_split=8, num_stages=2, threads=128)


def decode_inputs(_: Any) -> Tensors:
    import torch

    mask = torch.randint(0, 2, (1, 8192, 8), device="cuda", dtype=torch.int32).to(torch.uint8)
    return half(1, 32, 128), half(1, 8192, 8, 128), half(1, 8192, 8, 128), mask


def decode_expected(m: Any, inputs: Tensors) -> Tensors:
    q, k, v, mask = inputs
    return (m.ref_program(q.double(), k.double(), v.double(), mask),)


def latent_kernel(m: Any) -> Any:
    return m.flashattn(132, 128, 1, 8192, 512, 64, 64, 64, 1, 576**-0.5)


def latent_inputs(_: Any) -> Tensors:
    return half(132, 128, 512), half(132, 128, 64), half(132, 8192, 1, 512), half(132, 8192, 1, 64)


def sparse_attention_inputs(m: Any) -> Tensors:
    import torch

    x = torch.randn(1, 32, 4, 4, device="cuda", dtype=torch.bfloat16)
    x[:, :, :, 0] = 100
    mask = m.get_sparse_attn_mask_from_topk(x, topk=2)
    return half(1, 32, 256, 64), half(1, 32, 256, 64), half(1, 32, 256, 64), mask


def sparse_attention_expected(_: Any, inputs: Tensors) -> Tensors:
    import torch

    q, k, v, mask = inputs
    heads = []
    for h in range(32):
        keep = mask[0, h].repeat_interleave(64, 0).repeat_interleave(64, 1) & causal_mask(256)
        heads.append(one_head(q[0, h], k[0, h], v[0, h], keep))
    return (torch.stack(heads)[None],)


def native_sparse_kernel(m: Any) -> Any:
    sizes = {"batch": 2, "heads": 16, "seq_len": 64, "dim": 32}
    return m.native_sparse_attention.compile(
        **sizes, is_causal=True, block_size=32, groups=16, selected_blocks=1, scale=0.1
    )


def native_sparse_inputs(_: Any) -> Tensors:
    import torch

    # As the example: one block for each row, among those that are whole in front of it, or the first.
    blocks = torch.zeros(2, 64, 1, 1, device="cuda", dtype=torch.int32)
    return half(2, 64, 16, 32), half(2, 64, 1, 32), half(2, 64, 1, 32), blocks


def native_sparse_expected(_: Any, inputs: Tensors) -> Tensors:
    import torch

    q, k, v, _blocks = inputs
    scores = torch.einsum("bthd,bsd->bths", q.double(), k[:, :32, 0].double()) * 0.1
    rows, columns = torch.arange(64, device="cuda")[:, None], torch.arange(32, device="cuda")[None]
    scores = scores.masked_fill((rows < columns)[None, :, None], float("-inf"))
    return (torch.einsum("bths,bsd->bthd", scores.softmax(-1), v[:, :32, 0].double()),)


# Recurrences --------------------------------------------------------------------------------------------------------


def falling(*shape: int) -> Any:
    """Sums of steps down along the last dimension, as the model's are: what is weighted by their exponentials is at
    most 1."""
    return -half(*shape, scale=1 / 16).abs().float().cumsum(-1).half()


def scan_kernel(m: Any) -> Any:
    sizes = {"batch": 8, "seqlen": 4096, "chunk_size": 256, "ngroups": 1, "nheads": 80, "headdim": 64, "dstate": 128}
    how = {"block_M": 64, "block_N": 64, "block_K": 64, "block_Dstate": 128, "num_stages": 2, "threads": 128}
    return m.chunk_scan_fwd.compile(**sizes, **how)


def scan_inputs(_: Any) -> Tensors:
    return (
        half(8, 16, 1, 256, 256),
        half(8, 4096, 80, 64),
        half(8, 80, 16, 256).abs(),
        falling(8, 80, 16, 256),
        half(8, 4096, 1, 128),
        half(8, 16, 80, 64, 128),
        half(80),
    )


def scan_expected(_: Any, inputs: Tensors) -> Tensors:
    """Of the last batch's last chunk, of each head."""
    import torch

    cb, x, dt, da, c, states, d = (t.double() for t in inputs)
    cb, x, dt, da, c, states = (
        cb[-1, -1, 0],
        x[-1, -256:],
        dt[-1, :, -1],
        da[-1, :, -1],
        c[-1, -256:, 0],
        states[-1, -1],
    )
    weights = (da[:, :, None] - da[:, None, :]).exp() * cb.tril()  # where it is above the diagonal, cb is 0
    weights = torch.where(causal_mask(256), weights, torch.zeros_like(weights)) * dt[:, None, :]
    inner = torch.einsum("hls,shp->lhp", weights, x)
    outer = torch.einsum("ln,hpn->lhp", c, states) * da.exp().t()[:, :, None]
    return (inner + outer + x * d[None, :, None],)


def state_kernel(m: Any) -> Any:
    sizes = {"batch": 8, "seqlen": 4096, "chunk_size": 256, "ngroups": 1, "nheads": 80, "headdim": 64, "dstate": 128}
    return m.chunk_state_fwd.compile(**sizes, block_M=64, block_N=128, block_K=64, num_stages=4, threads=128)


def state_inputs(_: Any) -> Tensors:
    return half(8, 4096, 1, 128), half(8, 4096, 80, 64), half(8, 80, 16, 256).abs(), falling(8, 80, 16, 256)


def state_expected(_: Any, inputs: Tensors) -> Tensors:
    """Of the last batch's last chunk."""
    import torch

    b, x, dt, da = (t.double() for t in inputs)
    weights = (da[-1, :, -1, -1:] - da[-1, :, -1]).exp() * dt[-1, :, -1]
    return (torch.einsum("ln,hl,lhp->hpn", b[-1, -256:, 0], weights, x[-1, -256:]),)


def retention_expected(_: Any, inputs: Tensors) -> Tensors:
    """Of the last batch's first and last head."""
    import torch

    found = []
    step = torch.arange(4096, device="cuda")[:, None] - torch.arange(4096, device="cuda")[None]
    for head in (0, 31):
        q, k, v = (x[-1, :, head].double() for x in inputs)
        decay = (1 - 2.0 ** (-5.0 - head)) ** step.clamp(min=0).double()
        found.append(((q @ k.t()) * 128**-0.5 * decay).tril() @ v)
    return tuple(found)


def retention_part(results: Tensors) -> Tensors:
    return tuple(results[0][:, -1, :, head].double().sum(0) for head in (0, 31))


def linear_inputs(_: Any) -> Tensors:
    import torch

    q, k, v = half(8, 1024, 32, 128), half(8, 1024, 32, 128), half(8, 1024, 32, 128)
    normal = [torch.nn.functional.normalize(x.float(), dim=-1).half() for x in (q, k)]
    return *normal, v, torch.zeros(8, 1024, 32, 128, device="cuda")


def linear_launch(kernel: Any, inputs: Tensors) -> Any:
    return inputs[3], kernel(*inputs)


def linear_expected(_: Any, inputs: Tensors) -> Tensors:
    """Of the last batch."""
    import torch

    q, k, v = (x[-1].double() for x in inputs[:3])
    scores = torch.einsum("qhd,khd->hqk", q, k).tril() * 128**-0.5
    return torch.einsum("hqk,khd->qhd", scores, v), torch.einsum("shk,shv->hkv", k, v)


ROWS = 32768


def delta_kernel(m: Any) -> Any:
    T = m.T
    return m.tilelang_chunk_fwd_o(
        1, ROWS, 32, 128, 128, T.bfloat16, T.bfloat16, T.float32, T.float32, 64, 128**-0.5, True, 64, 128, 128, 128, 1
    )


def delta_inputs(_: Any) -> Tensors:
    import torch

    q, k, v = (half(1, ROWS, 32, 128, dtype="bfloat16") for _ in range(3))
    return q, k, v, half(1, ROWS // 64, 32, 128, 128, dtype="bfloat16"), torch.randn(1, ROWS, 32, device="cuda")


def gates(g: Any) -> Any:
    """exp(g_i - g_j) where that is at most 1, else 0, of [heads, rows]."""
    import torch

    steps = g[:, :, None] - g[:, None, :]
    return torch.where(steps <= 0, steps.clamp(max=0).exp(), torch.zeros_like(steps))


def delta_expected(_: Any, inputs: Tensors) -> Tensors:
    """Of the last chunk."""
    import torch

    q, k, v, g = (inputs[i][0, -64:].double() for i in (0, 1, 2, 4))
    states = inputs[3][0, -1].double()
    scores = torch.einsum("ihd,jhd->hij", q, k) * gates(g.t())
    outer = torch.einsum("ihd,hdv->ihv", q, states) * g.exp()[:, :, None]
    return ((outer + torch.einsum("hij,jhv->ihv", scores.tril(), v)) * 128**-0.5,)


def kkt_kernel(m: Any) -> Any:
    T = m.T
    dtypes = T.bfloat16, T.bfloat16, T.float32
    return m.tilelang_chunk_scaled_dot_kkt_fwd(1, ROWS, 32, 128, 64, *dtypes, True, 64, 64, 128, 2)


def kkt_inputs(_: Any) -> Tensors:
    import torch

    k, beta = half(1, ROWS, 32, 128, dtype="bfloat16"), half(1, ROWS, 32, dtype="bfloat16")
    return k, beta, torch.randn(1, ROWS, 32, device="cuda")


def kkt_expected(_: Any, inputs: Tensors) -> Tensors:
    """Of the last chunk."""
    import torch

    k, beta, g = (x[0, -64:].double() for x in inputs)
    scores = torch.einsum("ihd,jhd->hij", k * beta[:, :, None], k) * gates(g.t())
    return (scores.tril(-1).transpose(0, 1),)


# Experts ------------------------------------------------------------------------------------------------------------

TOKENS, HIDDEN, EXPERT = 8192, 7168, 2048
COUNTS = (4211, 3987, 4102, 4064, 4190, 3911, 4080, 4223)  # rows of each expert, 4 for each token in all


def expert(x: Any, gate: Any, up: Any, down: Any) -> Any:
    gated = x.double() @ gate.double().t()
    return (gated * gated.sigmoid() * (x.double() @ up.double().t())) @ down.double().t()


def shared_expert_kernel(m: Any) -> Any:
    return m.moe_forward_tilelang_shared.compile(dhidden=HIDDEN, dexpert=EXPERT, num_tokens=TOKENS, dtype="float16")


def shared_expert_inputs(_: Any) -> Tensors:
    import torch

    def empty(*shape: int) -> Any:
        return torch.empty(*shape, device="cuda", dtype=torch.float16)

    weights = half(EXPERT, HIDDEN, scale=HIDDEN**-0.5), half(EXPERT, HIDDEN, scale=HIDDEN**-0.5)
    down = half(HIDDEN, EXPERT, scale=EXPERT**-0.5)
    return half(TOKENS, HIDDEN), *weights, down, empty(TOKENS, EXPERT), empty(TOKENS, HIDDEN)


def routed_expert_kernel(m: Any) -> Any:
    tiles = {"block_token": 128, "block_dhidden": 128, "block_dexpert": 128, "threads": 256, "num_stages": 1}
    sizes = {"dhidden": HIDDEN, "dexpert": EXPERT, "n_routed_experts": len(COUNTS)}
    return m.moe_forward_tilelang_routed.compile(
        **sizes, dtype="float16", group_sum=sum(COUNTS), group_count=len(COUNTS), **tiles
    )


def routed_expert_inputs(_: Any) -> Tensors:
    import torch

    rows, experts = sum(COUNTS), len(COUNTS)
    padded = [0]
    for count in COUNTS[:-1]:
        padded.append(padded[-1] + -(-(count + 1) // 128) * 128)
    blocks = -(-rows // 128) + experts
    of = [max(i for i in range(experts) if 128 * block >= padded[i]) for block in range(blocks)]
    offsets = [sum(COUNTS[:i]) for i in range(experts)]
    numbers = [torch.tensor(x, device="cuda", dtype=torch.int32) for x in (COUNTS, offsets, padded, of)]
    gate, up = (half(experts, EXPERT, HIDDEN, scale=HIDDEN**-0.5) for _ in range(2))
    down = half(experts, HIDDEN, EXPERT, scale=EXPERT**-0.5)
    logits = torch.empty(rows, EXPERT, device="cuda", dtype=torch.float16)
    weights = torch.rand(rows, device="cuda").half()
    return half(rows, HIDDEN), gate, up, down, weights, *numbers, logits, torch.empty_like(half(rows, HIDDEN))


def routed_expert_expected(_: Any, inputs: Tensors) -> Tensors:
    """Of some rows of the first and the last expert, the last one's last among them."""
    x, gate, up, down, weights = inputs[:5]
    found = []
    for rows, i in ((slice(0, 128), 0), (slice(-200, None), -1)):
        found.append(expert(x[rows], gate[i], up[i], down[i]) * weights[rows, None].double())
    return tuple(found)


# Rows and elements --------------------------------------------------------------------------------------------------


def single(*shape: int, **_: Any) -> Any:
    import torch

    return torch.randn(*shape, device="cuda")


def normed(_: Any, inputs: Tensors) -> Tensors:
    x = inputs[0].double()
    return (x * (x.pow(2).mean(-1, keepdim=True) + 1e-12).rsqrt(),)


def add_kernel(m: Any) -> Any:
    return m.elementwise_add.compile(
        M=4096, N=4096, block_M=32, block_N=32, in_dtype="float32", out_dtype="float32", threads=128
    )


def topk_inputs(_: Any) -> Tensors:
    import torch

    return (torch.stack([torch.randperm(128, device="cuda").float() / 128 for _ in range(320)]),)


def cast_expected(m: Any, inputs: Tensors) -> Tensors:
    return tuple(m.ref_program(inputs[0]))
