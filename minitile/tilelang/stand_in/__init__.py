"""Stand-ins for compile-only mode: packages that a script needs for its inputs and references, whose tensors have
shapes and dtypes and no content. torch is always one; others where they are not installed."""

from __future__ import annotations

import importlib.machinery
from types import ModuleType

_REFERENCES = frozenset(
    {
        "triton",
        "einops",
        "fla",
        "flash_attn",
        "flash_attn_interface",
        "flash_mla",
        "flashinfer",
        "mamba_ssm",
        "deep_gemm",
        "tqdm",
        "matplotlib",
        "pandas",
        "torchvision",
        "transformers",
        "cuda",
        "native_sparse_attention",
        "vllm",
        "bitblas",
        "pytest",
        "cutlass",
        "scipy",
        "tabulate",
        "fast_hadamard_transform",
        "deep_ep",
        "z3",
    }
)


def module_named(name: str) -> ModuleType | None:
    """The stand-in for a module, if it is one of these packages and torch, or not installed."""
    top = name.split(".")[0]
    if top == "torch":
        from minitile.tilelang.stand_in.torch_module import torch_module

        return torch_module(name)
    if name == "einops":
        from minitile.tilelang.stand_in.einops_module import einops_module

        return einops_module()
    if top not in _REFERENCES or importlib.machinery.PathFinder.find_spec(top) is not None:
        return None
    from minitile.tilelang.stand_in.anything import AnyModule

    return AnyModule(name)
