"""The passes of each target, in order: the compiler's table of contents.

`compile_ir` takes traced IR to assembly text. Every pass is a function (kernel, context) in a file of its name; the
order below is the only order there is, and what is optional can be switched off by name (`compile(...,
passes={"licm": False})`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minitile.backends.registry import backend_of
from minitile.driver.sizes import check_sizes
from minitile.hardware import Target
from minitile.ir.core import Kernel, Op
from minitile.ir.depth import room
from minitile.ir.diagnostics import ResourceError
from minitile.ir.host_expression import host_expression
from minitile.ir.ops import cluster, control, fences, hopper, tile
from minitile.ir.origin import Origin, by_program, places
from minitile.ir.printer import print_kernel
from minitile.lowering.lower import lower
from minitile.transforms.canonicalize.check_bounds import check_bounds
from minitile.transforms.canonicalize.cse import cse
from minitile.transforms.canonicalize.dead_code import dead_code
from minitile.transforms.canonicalize.hoist_storage import hoist_storage
from minitile.transforms.canonicalize.index_widths import index_widths
from minitile.transforms.canonicalize.invariant_divisors import invariant_divisors
from minitile.transforms.canonicalize.licm import licm
from minitile.transforms.canonicalize.pack_scalars import pack_scalars
from minitile.transforms.canonicalize.simplify import simplify
from minitile.transforms.canonicalize.skip_rows import skip_rows
from minitile.transforms.canonicalize.strength_reduction import strength_reduction
from minitile.transforms.canonicalize.unroll import unroll
from minitile.transforms.canonicalize.version_masks import version_masks
from minitile.transforms.layout.align_rows import align_rows
from minitile.transforms.layout.infer_layouts import infer_layouts
from minitile.transforms.manager import After, Pass, PassContext, run_passes
from minitile.transforms.pipeline.accumulator_init import accumulator_init
from minitile.transforms.pipeline.cdna4_interleave import cdna4_half_tiles, cdna4_interleave
from minitile.transforms.pipeline.cdna4_modulo import cdna4_modulo
from minitile.transforms.pipeline.choose_stages import choose_stages, deepen_stages
from minitile.transforms.pipeline.double_buffer import double_buffer
from minitile.transforms.pipeline.hoist_copies import hoist_copies
from minitile.transforms.pipeline.keep_operands import keep_operands
from minitile.transforms.pipeline.lower_manual_wgmma import lower_manual_wgmma
from minitile.transforms.pipeline.pdl_prefetch import pdl_prefetch
from minitile.transforms.pipeline.pin_waits import pin_waits
from minitile.transforms.pipeline.prefetch_fragments import prefetch_fragments
from minitile.transforms.pipeline.sink_wgmma_waits import sink_wgmma_waits
from minitile.transforms.pipeline.skew import skew
from minitile.transforms.pipeline.software_pipeline import software_pipeline
from minitile.transforms.pipeline.spread_copies import spread_copies
from minitile.transforms.schedule.cost import Turn, with_instructions
from minitile.transforms.schedule.record import record_turns
from minitile.transforms.schedule.verify import check_schedule
from minitile.transforms.sync.allocate_shared_memory import allocate_shared_memory
from minitile.transforms.sync.complete_origins import complete_origins
from minitile.transforms.sync.drop_access_ranges import drop_access_ranges
from minitile.transforms.sync.elide_order_barriers import elide_order_barriers
from minitile.transforms.sync.insert_bulk_store_waits import insert_bulk_store_waits
from minitile.transforms.sync.insert_vmcnt_waits import insert_vmcnt_waits
from minitile.transforms.sync.join_waits import join_waits
from minitile.transforms.sync.proxy_fence import proxy_fence
from minitile.transforms.sync.resolve_wait_counts import resolve_wait_counts
from minitile.transforms.sync.sink_bulk_store_waits import sink_bulk_store_waits
from minitile.transforms.sync.thread_barriers import thread_barriers
from minitile.transforms.sync.warp_barriers import warp_barriers
from minitile.transforms.tile.chunk_epilogue import chunk_epilogue
from minitile.transforms.tile.combine_atomics import combine_atomics
from minitile.transforms.tile.detect_multibuffers import detect_multibuffers
from minitile.transforms.tile.dynamic_tiles import dynamic_tiles
from minitile.transforms.tile.enough_threads import enough_threads
from minitile.transforms.tile.expand_reducers import expand_reducers
from minitile.transforms.tile.hoist_loads import hoist_loads
from minitile.transforms.tile.interleave_accesses import interleave_accesses
from minitile.transforms.tile.join_accesses import join_accesses
from minitile.transforms.tile.keep_in_registers import keep_in_registers
from minitile.transforms.tile.mem2reg import mem2reg
from minitile.transforms.tile.peel_remainder import peel_remainder
from minitile.transforms.tile.reload_elements import reload_elements
from minitile.transforms.tile.reuse_loads import reuse_loads
from minitile.transforms.tile.tile_vectorize import tile_vectorize
from minitile.transforms.tile.unroll_loads import unroll_loads
from minitile.transforms.tile.unroll_local_arrays import unroll_local_arrays
from minitile.transforms.tile.unroll_rows import unroll_rows
from minitile.transforms.warp_specialize.partition_warpgroups import partition_warpgroups
from minitile.transforms.warp_specialize.tma_multistage import tma_multistage
from minitile.transforms.warp_specialize.warp_specialize import warp_specialize


def legalize(kernel: Kernel, context: PassContext) -> None:
    """The backend's own: operations that the target lacks become ones that it has."""
    backend_of(context.target).legalize(kernel, context.target)


TILE_PASSES: list[tuple[str, Pass]] = [
    ("hoist_storage", hoist_storage),
    ("index_widths", index_widths),
    ("partition_warpgroups", partition_warpgroups),
    ("unroll", unroll),
    # While an access still stands under its condition.
    ("check_bounds", check_bounds),
    ("unroll_local_arrays", unroll_local_arrays),
    ("keep_in_registers", keep_in_registers),
    ("expand_reducers", expand_reducers),
    ("tile_vectorize", tile_vectorize),
    ("mem2reg", mem2reg),
    ("simplify", simplify),
    ("reload_elements", reload_elements),
    ("detect_multibuffers", detect_multibuffers),
    # While a copy is still one operation.
    ("check_schedule", check_schedule),
    ("choose_stages", choose_stages),
    ("deepen_stages", deepen_stages),
    ("warp_specialize", warp_specialize),
    # For kernels that leave it out.
    ("tma_multistage", tma_multistage),
    ("pdl_prefetch", pdl_prefetch),
    ("skew", skew),
    ("software_pipeline", software_pipeline),
    ("lower_manual_wgmma", lower_manual_wgmma),
    ("sink_wgmma_waits", sink_wgmma_waits),
    ("unroll_rows", unroll_rows),
    ("hoist_copies", hoist_copies),
    ("double_buffer", double_buffer),
    ("hoist_loads", hoist_loads),
    ("combine_atomics", combine_atomics),
    ("version_masks", version_masks),
    ("skip_rows", skip_rows),
    ("pin_waits", pin_waits),
    ("simplify", simplify),
    ("accumulator_init", accumulator_init),
    ("interleave_accesses", interleave_accesses),
    ("align_rows", align_rows),
    ("infer_layouts", infer_layouts),
    ("reuse_loads", reuse_loads),
    ("join_accesses", join_accesses),
    ("peel_remainder", peel_remainder),
    ("unroll_loads", unroll_loads),
]

THREAD_PASSES: list[tuple[str, Pass]] = [
    ("simplify", simplify),
    ("cse", cse),
    ("pack_scalars", pack_scalars),
    ("legalize", legalize),
    ("simplify", simplify),
    ("cse", cse),
    ("licm", licm),
    ("chunk_epilogue", chunk_epilogue),
    ("spread_copies", spread_copies),
    ("prefetch_fragments", prefetch_fragments),
    # The first that fits a loop takes it.
    ("cdna4_half_tiles", cdna4_half_tiles),
    ("cdna4_interleave", cdna4_interleave),
    ("cdna4_modulo", cdna4_modulo),
    ("join_waits", join_waits),
    # Synchronisation last: placement decides which bytes two buffers share, barriers which accesses those are, fences
    # stand in front of barriers, and only then is it known which asynchronous groups are outstanding at a wait.
    ("insert_bulk_store_waits", insert_bulk_store_waits),
    ("allocate_shared_memory", allocate_shared_memory),
    ("sink_bulk_store_waits", sink_bulk_store_waits),
    ("thread_barriers", thread_barriers),
    ("insert_vmcnt_waits", insert_vmcnt_waits),
    ("elide_order_barriers", elide_order_barriers),
    ("proxy_fence", proxy_fence),
    ("drop_access_ranges", drop_access_ranges),
    ("resolve_wait_counts", resolve_wait_counts),
    ("strength_reduction", strength_reduction),
    ("invariant_divisors", invariant_divisors),
    # What induction has replaced would keep registers busy through its loop.
    ("dead_code", dead_code),
    ("keep_operands", keep_operands),
    # Behind all that moves code, and makes threads meet.
    ("record_turns", record_turns),
    ("warp_barriers", warp_barriers),
    ("complete_origins", complete_origins),
]

OPTIONAL = frozenset(
    {
        "align_rows",
        "interleave_accesses",
        "simplify",
        "cdna4_half_tiles",
        "cdna4_interleave",
        "cdna4_modulo",
        "combine_atomics",
        "cse",
        "dead_code",
        "hoist_copies",
        "double_buffer",
        "hoist_loads",
        "accumulator_init",
        "invariant_divisors",
        "lower_manual_wgmma",
        "sink_bulk_store_waits",
        "licm",
        "keep_in_registers",
        "choose_stages",
        "deepen_stages",
        "tma_multistage",
        "prefetch_fragments",
        "software_pipeline",
        "warp_specialize",
        "spread_copies",
        "chunk_epilogue",
        "unroll",
        "unroll_local_arrays",
        "unroll_loads",
        "unroll_rows",
        "reload_elements",
        "reuse_loads",
        "join_accesses",
        "peel_remainder",
        "pack_scalars",
        "strength_reduction",
        "version_masks",
        "skip_rows",
        "pin_waits",
        "skew",
    }
)

PASSES: dict[str, Pass] = {**dict(TILE_PASSES), "lower": lower, **dict(THREAD_PASSES)}


@dataclass
class Result:
    """Assembly and how to launch it. `assembly` has the texts that the backend wrote, by name: "ptx", or "llvm" and
    "gcn"; the last one is what is assembled and simulated. `grid` holds expressions of runtime.launch over the run-time
    dimensions; `params` (name, kind, dtype) in the entry's order; `tensor_maps` (parameter, tensor, box, swizzle,
    tf32); `cluster` in blocks; `early`: it may start before the primary grid has ended;
    `window`: a tensor that is to stay in L2, and the share of its accesses; `written`: the tensors that it writes;
    `cooperative`: all blocks run at the same time;
    `fits`: what holds where 32 bits do for all indices, as expressions of runtime.launch; `texts` the IR by stage;
    `timings` milliseconds by pass; `notes` what was not done, and why; `asserts` the texts of the program's own checks,
    by "file:line"."""

    assembly: dict[str, str]
    entry: str
    grid: tuple[Any, Any, Any]
    block: tuple[int, int, int]
    shared_bytes: int
    params: tuple[tuple[str, str, str], ...]
    texts: dict[str, str] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    tensor_maps: tuple[tuple[str, str, tuple[int, ...], int, bool], ...] = ()
    notes: tuple[str, ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)
    early: bool = False
    cooperative: bool = False
    window: tuple[str, float] | None = None
    fits: tuple[Any, ...] = ()
    written: tuple[str, ...] = ()
    asserts: tuple[tuple[str, str], ...] = ()


def make_context(target: Target) -> PassContext:
    """The context in which a target's passes run."""
    return PassContext(target, backend_of(target).rules(target))


def extended(passes: list[tuple[str, Pass]], more: Mapping[str, Sequence[tuple[str, Pass]]]) -> list[tuple[str, Pass]]:
    """The passes with those of a backend, each behind the one that it names."""
    if not more:
        return passes
    return [each for entry in passes for each in (entry, *more.get(entry[0], ()))]


def compile_ir(
    kernel: Kernel,
    target: Target,
    passes: Mapping[str, bool] | None = None,
    texts: bool = False,
    after: After | None = None,
    turns: list[Turn] | None = None,
) -> Result:
    """Traced IR to assembly, in place. `texts`: keep the text of the IR's stages, under their names. `after` is told
    what comes out of each pass, and at each stage whose text is kept; `turns` learns those of loops that were written
    by a schedule. Raises MinitileError."""
    context, backend = make_context(target), backend_of(target)
    context.turns = turns
    more = backend.passes(target)
    launch = control.find_launch(kernel)
    enough_threads(kernel, launch, target, context.notes)
    check_threads(launch, target)
    check_sizes(launch, target)
    dynamic_tiles(kernel, launch, target, context.notes)
    grid = launch_grid(kernel, launch)
    kernel.attrs["threads"] = launch.threads
    for op in kernel.walk():
        if op.orders:
            op.why = op.why or by_program(op.loc)
    stored = written_tensors(kernel)
    kernel.attrs["cluster"] = clusters(kernel, launch, target)
    early = starts_early(launch, target)
    cooperative = any(isinstance(op, fences.GridSync) for op in kernel.walk())
    asserts = tuple(
        (f"{op.loc.file}:{op.loc.line}", op.text)
        for op in kernel.walk()
        if isinstance(op, tile.DeviceAssert) and op.loc is not None and op.text
    )
    kept: dict[str, str] = {}

    def keep(stage: str) -> list[tuple[str, Pass]]:
        return [(stage, lambda kernel, _: kept.update({stage: print_kernel(kernel)}))] if texts else []

    order = [
        *keep("traced_ir"),
        *extended(TILE_PASSES, more),
        *keep("tile_ir"),
        ("lower", lower),
        *extended(THREAD_PASSES, more),
        *keep("thread_ir"),
    ]
    with room():
        run_passes(kernel, order, context, switches=passes, optional=OPTIONAL, after=after)
        if turns is not None:
            turns[:] = with_instructions(turns, kernel, context.rules.work, target.rates)
        written = backend.write(kernel, target, context.notes)
        context.timings |= {f"write_{name}": spent for name, spent in written.milliseconds.items()}
    return Result(
        dict(written.texts),
        written.entry,
        grid,
        (kernel.threads + kernel.attrs.get("producer_threads", 0), 1, 1),
        kernel.attrs.get("shared_bytes", 0),
        written.params,
        kept,
        context.timings,
        kernel.attrs.get("tensor_maps", ()),
        tuple(context.notes),
        kernel.attrs["cluster"],
        early,
        cooperative,
        kernel.attrs.get("l2_hit_ratio") if target.has("l2_window") else None,
        kernel.attrs.get("fits", ()),
        stored,
        tuple(dict.fromkeys(asserts)),
    )


def written_tensors(kernel: Kernel) -> tuple[str, ...]:
    """The tensors that a traced kernel writes, by name."""
    written = {access.mem for op in kernel.walk() for access in op.accesses() if access.writes}
    return tuple(v.name for v in kernel.params if v in written or v.name == kernel.attrs.get("profile"))


def check_threads(launch: control.Launch, target: Target) -> None:
    """Raises ResourceError for a number of threads that is not one of whole warps."""
    if launch.threads % target.lanes:
        more = -(-launch.threads // target.lanes) * target.lanes
        raise ResourceError(
            f"threads={launch.threads}: on {target} a block has a multiple of {target.lanes} threads",
            launch.loc,
            hint=f"use threads={more}",
        )


def clusters(kernel: Kernel, launch: control.Launch, target: Target) -> tuple[int, int, int]:
    """The cluster of the launch: one block where the target has none. Blocks that access each other's memory meet
    before: a block that has not begun has none. Raises ResourceError where the target has no clusters and blocks of one
    meet, or access each other's memory."""
    remote = next((op for op in kernel.walk() if any(access.ctas == "cluster" for access in op.accesses())), None)
    if not target.has("cluster"):
        for op in kernel.walk():
            if any(sync.on == "cluster" for sync in op.syncs()):
                raise ResourceError(f"{target} has no clusters, at whose barrier the kernel waits", op.loc)
        if remote is not None:
            raise ResourceError(
                f"{target} has no clusters, whose other blocks' memory the kernel accesses",
                remote.loc,
                "clusters of one block work on every target",
            )
        launch.cluster = (1, 1, 1)
    elif remote is not None:
        _meet_at_start(launch, remote)
    x, y, z = launch.cluster
    return x, y, z


def _meet_at_start(launch: control.Launch, remote: Op) -> None:
    """All blocks of the cluster have begun, and initialised their mbarriers, before others access their memory. What
    stands in front of a first asynchronous store does not wait for that: the barrier comes in two halves."""
    ops = launch.body.ops
    storage = (tile.Alloc, cluster.AllReduceBuffer)
    first = next(n for n, op in enumerate(ops) if not isinstance(op, storage))
    reason = "all blocks of the cluster run before their shared memory is accessed"
    why = Origin("clusters", reason, after=places([remote.loc]))
    then = first
    if all(access.pipeline is not None for access in remote.accesses() if access.ctas == "cluster"):
        then = next(n for n, op in enumerate(ops) if n >= first and not _apart_from_others(op))
    if then == first:
        ops.insert(first, hopper.ClusterBarrier())
        ops[first].why = why
        return
    ops.insert(then, hopper.ClusterWait())
    ops.insert(first, hopper.ClusterArrive())
    ops[first].why = ops[then + 1].why = why


def _apart_from_others(op: Op) -> bool:
    """Whether an operation is the block's alone, and no loop or branch in which others may meet."""
    within = [op, *(inner for region in op.regions for inner in region.walk())]
    if op.terminator or any(sync.on == "cluster" for each in within for sync in each.syncs()):
        return False
    if op.regions and not isinstance(op, control.Parallel):
        return False
    return all(access.ctas == "own" for each in within for access in each.accesses())


def starts_early(launch: control.Launch, target: Target) -> bool:
    """Whether the kernel waits by itself for the primary grid. Where the target knows no such launches, the wait and
    its counterpart are nothing, and go."""
    if not target.has("pdl"):
        for block in (launch.body, *(region for op in launch.body.walk() for region in op.regions)):
            block.ops = [op for op in block.ops if not isinstance(op, fences.PdlSync | fences.PdlTrigger)]
    return any(isinstance(op, fences.PdlSync) for op in launch.body.ops)


def launch_grid(kernel: Kernel, launch: control.Launch) -> tuple[Any, Any, Any]:
    """The launch's grid as expressions of runtime.launch. Raises LanguageError where the host could not compute it."""
    dims = {value: ("dim", name) for name, value in kernel.dims.items()}
    scalars = {value: ("scalar", value.name) for value in kernel.params}
    rule = "the grid is computed by the host: + - * // % min max of dimensions and scalars"
    x, y, z = (host_expression(value, {**scalars, **dims}, rule, launch.loc) for value in launch.grid)
    return x, y, z
