"""PTX programs by hand, as authors of kernels write them: short, synchronised as they should be.

Each is the body of an entry with the parameters `in`, `out` (global pointers), `n` (a size, or a number of tiles) and
two tensor maps. `threads` of the block, `boxes`: bytes that a copy by each map moves, `shared`: bytes of smem.
"""

from __future__ import annotations

from dataclasses import dataclass, field

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry kernel(
    .param .u64 in, .param .u64 out, .param .u32 n,
    .param .align 64 .b8 ma[128], .param .align 64 .b8 mb[128])
.maxntid {threads}, 1, 1
{{
    .reg .pred %p<20>;
    .reg .b16 %h<20>;
    .reg .b32 %r<80>;
    .reg .f32 %f<80>;
    .reg .b64 %rd<40>;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, smem;
    and.b32 %r2, %r0, 31;              // lane
    shr.u32 %r3, %r0, 5;               // warp
    shl.b32 %r4, %r0, 2;
    add.u32 %r5, %r1, %r4;             // &smem[tid]
    ld.param.u32 %r9, [n];
    ld.param.u64 %rd0, [in];
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd0, %rd0;
    cvta.to.global.u64 %rd1, %rd1;
    mul.wide.u32 %rd2, %r0, 4;
    add.s64 %rd3, %rd0, %rd2;          // &in[tid]
    add.s64 %rd4, %rd1, %rd2;          // &out[tid]
    mul.wide.u32 %rd8, %r0, 16;
    add.s64 %rd9, %rd1, %rd8;          // four of each thread
    add.s64 %rd8, %rd0, %rd8;
    mov.f32 %f1, 0f00000000;
    mov.f32 %f2, 0f00000000;
    mov.f32 %f4, 0f00000000;
    mov.f32 %f8, 0f00000000;
"""


@dataclass(frozen=True)
class Text:
    body: str
    threads: int = 128
    shared: int = 4096
    boxes: dict[str, int] = field(default_factory=dict)

    @property
    def ptx(self) -> str:
        return HEAD.format(threads=self.threads) + self.body.rstrip() + "\n    ret;\n}\n"


SOUND: dict[str, Text] = {}


def add(name: str, body: str, **facts: object) -> None:
    assert name not in SOUND
    SOUND[name] = Text(body, **facts)  # type: ignore[arg-type]


# -- barriers of the block, plain accesses

add(
    "neighbour",
    """
    ld.global.f32 %f0, [%rd3];
    st.shared.f32 [%r5], %f0;
    bar.sync 0;
    xor.b32 %r6, %r4, 508;
    add.u32 %r6, %r6, %r1;
    ld.shared.f32 %f1, [%r6];
    st.global.f32 [%rd4], %f1;
""",
)

add(
    "transpose",
    """
    mad.lo.u32 %r6, %r3, 132, %r1;
    mad.lo.u32 %r6, %r2, 4, %r6;       // &tile[warp][lane], rows of 33
    mov.u32 %r7, 0;
LOAD:
    mul.wide.u32 %rd5, %r7, 4;
    add.s64 %rd5, %rd5, %rd3;
    ld.global.f32 %f0, [%rd5];
    st.shared.f32 [%r6], %f0;
    add.u32 %r6, %r6, 1056;
    add.u32 %r7, %r7, 8;
    setp.lt.u32 %p0, %r7, 32;
    @%p0 bra LOAD;
    bar.sync 0;
    mad.lo.u32 %r8, %r2, 132, %r1;
    mad.lo.u32 %r8, %r3, 4, %r8;
    ld.shared.f32 %f0, [%r8];
    ld.shared.f32 %f1, [%r8+32];
    ld.shared.f32 %f2, [%r8+64];
    ld.shared.f32 %f3, [%r8+96];
    st.global.v4.f32 [%rd9], {%f0, %f1, %f2, %f3};
""",
    threads=256,
    shared=4224,
)

add(
    "tree_reduction",
    """
    ld.global.f32 %f0, [%rd3];
    st.shared.f32 [%r5], %f0;
    bar.sync 0;
    mov.u32 %r6, 128;
HALVE:
    setp.ge.u32 %p0, %r0, %r6;
    @%p0 bra SKIP;
    shl.b32 %r7, %r6, 2;
    add.u32 %r7, %r7, %r5;
    ld.shared.f32 %f1, [%r5];
    ld.shared.f32 %f2, [%r7];
    add.f32 %f1, %f1, %f2;
    st.shared.f32 [%r5], %f1;
SKIP:
    bar.sync 0;
    shr.u32 %r6, %r6, 1;
    setp.ne.u32 %p1, %r6, 0;
    @%p1 bra HALVE;
    setp.ne.u32 %p2, %r0, 0;
    @%p2 bra DONE;
    ld.shared.f32 %f3, [smem];
    st.global.f32 [%rd1], %f3;
DONE:
""",
    threads=256,
)

_SHUFFLE = """
    shfl.sync.down.b32 %f1|%p9, %f0, 16, 31, 0xffffffff;
    add.f32 %f0, %f0, %f1;
    shfl.sync.down.b32 %f1|%p9, %f0, 8, 31, 0xffffffff;
    add.f32 %f0, %f0, %f1;
    shfl.sync.down.b32 %f1|%p9, %f0, 4, 31, 0xffffffff;
    add.f32 %f0, %f0, %f1;
    shfl.sync.down.b32 %f1|%p9, %f0, 2, 31, 0xffffffff;
    add.f32 %f0, %f0, %f1;
    shfl.sync.down.b32 %f1|%p9, %f0, 1, 31, 0xffffffff;
    add.f32 %f0, %f0, %f1;
"""

add(
    "warp_sums",
    f"""
    ld.global.f32 %f0, [%rd3];
{_SHUFFLE}
    setp.eq.u32 %p0, %r2, 0;
    shl.b32 %r6, %r3, 2;
    add.u32 %r6, %r6, %r1;
    @%p0 st.shared.f32 [%r6], %f0;
    bar.sync 0;
    setp.ge.u32 %p1, %r0, 32;
    @%p1 bra DONE;
    mov.f32 %f0, 0f00000000;
    setp.lt.u32 %p2, %r0, 4;
    @%p2 ld.shared.f32 %f0, [%r5];
{_SHUFFLE}
    setp.eq.u32 %p3, %r0, 0;
    @%p3 st.global.f32 [%rd1], %f0;
DONE:
""",
)

add(
    "softmax_row",
    """
    ld.global.f32 %f0, [%rd3];
    redux.sync.max.s32 %r6, %r0, 0xffffffff;
    mov.b32 %f1, %r6;
    shl.b32 %r7, %r3, 2;
    add.u32 %r7, %r7, %r1;
    setp.eq.u32 %p0, %r2, 0;
    @%p0 st.shared.f32 [%r7], %f1;
    bar.sync 0;
    ld.shared.v4.f32 {%f2, %f3, %f4, %f5}, [%r1];
    max.f32 %f2, %f2, %f3;
    max.f32 %f4, %f4, %f5;
    max.f32 %f2, %f2, %f4;
    sub.f32 %f0, %f0, %f2;
    ex2.approx.f32 %f0, %f0;
    bar.sync 0;                         // all have read the maxima
    @%p0 st.shared.f32 [%r7], %f0;
    bar.sync 0;
    ld.shared.v4.f32 {%f2, %f3, %f4, %f5}, [%r1];
    add.f32 %f2, %f2, %f3;
    add.f32 %f4, %f4, %f5;
    add.f32 %f2, %f2, %f4;
    div.rn.f32 %f0, %f0, %f2;
    st.global.f32 [%rd4], %f0;
""",
)

add(
    "softmax_two_arrays",
    """
    ld.global.f32 %f0, [%rd3];
    shl.b32 %r7, %r3, 2;
    add.u32 %r7, %r7, %r1;
    setp.eq.u32 %p0, %r2, 0;
    @%p0 st.shared.f32 [%r7], %f0;
    bar.sync 0;
    ld.shared.f32 %f2, [%r1+12];
    @%p0 st.shared.f32 [%r7+512], %f2;  // sums have an array of their own: no barrier between
    bar.sync 0;
    ld.shared.f32 %f3, [%r1+512];
    st.global.f32 [%rd4], %f3;
""",
)

add(
    "scan_in_place",
    """
    ld.global.u32 %r6, [%rd3];
    st.shared.u32 [%r5], %r6;
    mov.u32 %r7, 1;
    bar.sync 0;
DOUBLE:
    setp.lt.u32 %p0, %r0, %r7;
    shl.b32 %r8, %r7, 2;
    sub.u32 %r10, %r5, %r8;
    mov.u32 %r11, 0;
    @!%p0 ld.shared.u32 %r11, [%r10];
    bar.sync 0;
    ld.shared.u32 %r12, [%r5];
    add.u32 %r12, %r12, %r11;
    st.shared.u32 [%r5], %r12;
    bar.sync 0;
    shl.b32 %r7, %r7, 1;
    setp.lt.u32 %p1, %r7, 128;
    @%p1 bra DOUBLE;
    ld.shared.u32 %r13, [%r5];
    st.global.u32 [%rd4], %r13;
""",
)

add(
    "scan_two_buffers",
    """
    ld.global.u32 %r6, [%rd3];
    st.shared.u32 [%r5], %r6;
    mov.u32 %r20, %r5;                  // from
    add.u32 %r21, %r5, 512;             // to
    mov.u32 %r7, 1;
    bar.sync 0;
DOUBLE:
    ld.shared.u32 %r12, [%r20];
    setp.ge.u32 %p0, %r0, %r7;
    shl.b32 %r8, %r7, 2;
    sub.u32 %r10, %r20, %r8;
    @%p0 ld.shared.u32 %r11, [%r10];
    @%p0 add.u32 %r12, %r12, %r11;
    st.shared.u32 [%r21], %r12;
    bar.sync 0;
    mov.u32 %r22, %r20;
    mov.u32 %r20, %r21;
    mov.u32 %r21, %r22;
    shl.b32 %r7, %r7, 1;
    setp.lt.u32 %p1, %r7, 128;
    @%p1 bra DOUBLE;
    ld.shared.u32 %r13, [%r20];
    st.global.u32 [%rd4], %r13;
""",
)

add(
    "histogram",
    """
    mov.u32 %r6, 0;
    st.shared.u32 [%r5], %r6;
    st.shared.u32 [%r5+512], %r6;
    bar.sync 0;
    ld.global.u32 %r7, [%rd3];
    and.b32 %r7, %r7, 255;
    shl.b32 %r7, %r7, 2;
    add.u32 %r7, %r7, %r1;
    atom.shared.add.u32 %r8, [%r7], 1;
    bar.sync 0;
    ld.shared.u32 %r10, [%r5];
    ld.shared.u32 %r11, [%r5+512];
    red.global.add.u32 [%rd4], %r10;
    red.global.add.u32 [%rd4+512], %r11;
""",
)

add(
    "histogram_loop",
    """
    mov.u32 %r6, 0;
    st.shared.u32 [%r5], %r6;
    bar.sync 0;
    mov.u32 %r10, 0;
    setp.eq.u32 %p0, %r9, 0;
    @%p0 bra DONE;
EACH:
    mad.lo.u32 %r11, %r10, 128, %r0;
    mul.wide.u32 %rd5, %r11, 4;
    add.s64 %rd5, %rd5, %rd0;
    ld.global.u32 %r7, [%rd5];
    bfe.u32 %r7, %r7, 3, 7;
    mad.lo.u32 %r7, %r7, 4, %r1;
    red.shared.add.u32 [%r7], 1;
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p1, %r10, %r9;
    @%p1 bra EACH;
DONE:
    bar.sync 0;
    ld.shared.u32 %r12, [%r5];
    red.global.add.u32 [%rd4], %r12;
""",
)

add(
    "lookup_table",
    """
    ld.global.f32 %f0, [%rd3];
    st.shared.f32 [%r5], %f0;
    bar.sync 0;
    ld.global.u32 %r6, [%rd3+512];
    and.b32 %r6, %r6, 127;
    shl.b32 %r6, %r6, 2;
    add.u32 %r6, %r6, %r1;
    ld.shared.f32 %f1, [%r6];
    st.global.f32 [%rd4], %f1;
""",
)

add(
    "double_buffer_loop",
    """
    mov.u32 %r6, 0;
    mov.u32 %r7, %r5;
    add.u32 %r8, %r5, 512;
    setp.eq.u32 %p0, %r9, 0;
    @%p0 bra DONE;
TILE:
    ld.global.f32 %f0, [%rd3];
    st.shared.f32 [%r7], %f0;
    bar.sync 0;                         // one barrier for each tile: the slot before is read by all
    xor.b32 %r10, %r7, 64;
    ld.shared.f32 %f1, [%r10];
    add.f32 %f2, %f2, %f1;
    mov.u32 %r11, %r7;
    mov.u32 %r7, %r8;
    mov.u32 %r8, %r11;
    add.s64 %rd3, %rd3, 512;
    add.u32 %r6, %r6, 1;
    setp.ne.u32 %p1, %r6, %r9;
    @%p1 bra TILE;
DONE:
    st.global.f32 [%rd4], %f2;
""",
)

add(
    "one_buffer_loop",
    """
    mov.u32 %r6, %r9;
TILE:
    setp.eq.u32 %p0, %r6, 0;
    @%p0 bra DONE;
    ld.global.f32 %f0, [%rd3];
    st.shared.f32 [%r5], %f0;
    bar.sync 0;
    xor.b32 %r10, %r5, 64;
    ld.shared.f32 %f1, [%r10];
    add.f32 %f2, %f2, %f1;
    bar.sync 0;
    add.s64 %rd3, %rd3, 512;
    sub.u32 %r6, %r6, 1;
    bra TILE;
DONE:
    st.global.f32 [%rd4], %f2;
""",
)

add(
    "register_prefetch",
    """
    ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%rd8];
    shl.b32 %r6, %r0, 4;
    add.u32 %r6, %r6, %r1;
    xor.b32 %r7, %r6, 512;
    mov.u32 %r8, 0;
    setp.lt.s32 %p0, %r9, 1;
    @%p0 bra DONE;
TILE:
    st.shared.v4.f32 [%r6], {%f0, %f1, %f2, %f3};
    bar.sync 0;
    add.s64 %rd8, %rd8, 2048;
    ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%rd8];
    ld.shared.v4.f32 {%f4, %f5, %f6, %f7}, [%r7];
    fma.rn.f32 %f8, %f4, %f5, %f8;
    fma.rn.f32 %f8, %f6, %f7, %f8;
    bar.sync 0;
    add.s32 %r8, %r8, 1;
    setp.lt.s32 %p1, %r8, %r9;
    @%p1 bra TILE;
DONE:
    st.global.f32 [%rd4], %f8;
""",
)

add(
    "persistent_tiles",
    """
    mov.u32 %r6, %ctaid.x;
    mov.u32 %r7, %nctaid.x;
TILE:
    setp.ge.u32 %p0, %r6, %r9;
    @%p0 bra DONE;
    mad.lo.u32 %r8, %r6, 128, %r0;
    mul.wide.u32 %rd5, %r8, 4;
    add.s64 %rd6, %rd0, %rd5;
    ld.global.f32 %f0, [%rd6];
    st.shared.f32 [%r5], %f0;
    bar.sync 0;
    xor.b32 %r10, %r5, 128;
    ld.shared.f32 %f1, [%r10];
    add.s64 %rd7, %rd1, %rd5;
    st.global.f32 [%rd7], %f1;
    bar.sync 0;
    add.u32 %r6, %r6, %r7;
    bra TILE;
DONE:
""",
)

add(
    "early_exit_of_the_block",
    """
    mov.u32 %r6, %ctaid.x;
    setp.ge.u32 %p0, %r6, %r9;
    @%p0 ret;
    st.shared.u32 [%r5], %r0;
    bar.sync 0;
    ld.shared.u32 %r7, [%r1+64];
    st.global.u32 [%rd4], %r7;
""",
)

add(
    "two_warps_go_on",
    """
    st.shared.u32 [%r5], %r0;
    bar.sync 0;
    setp.ge.u32 %p0, %r0, 64;
    @%p0 bra DONE;
    ld.shared.u32 %r6, [%r5+256];
    bar.sync 1, 64;
    st.shared.u32 [%r5], %r6;
    bar.sync 1, 64;
    xor.b32 %r7, %r5, 128;
    ld.shared.u32 %r8, [%r7];
    st.global.u32 [%rd4], %r8;
DONE:
""",
)

add(
    "if_else_by_lanes",
    """
    and.b32 %r6, %r0, 1;
    setp.eq.u32 %p0, %r6, 0;
    @%p0 bra EVEN;
    st.shared.u32 [%r5+512], %r0;
    ld.shared.u32 %r7, [%r5+512];
    bra JOIN;
EVEN:
    st.shared.u32 [%r5], %r0;
    ld.shared.u32 %r7, [%r5];
JOIN:
    bar.sync 0;
    setp.lt.u32 %p1, %r0, 64;
    @!%p1 bra OUT;
    shl.b32 %r8, %r0, 3;
    add.u32 %r8, %r8, %r1;
    ld.shared.u32 %r10, [%r8];
    ld.shared.u32 %r11, [%r8+516];
    add.u32 %r10, %r10, %r11;
    st.global.u32 [%rd4], %r10;
OUT:
""",
)

add(
    "halo",
    """
    ld.global.f32 %f0, [%rd3];
    st.shared.f32 [%r5+8], %f0;
    setp.gt.u32 %p0, %r0, 1;
    @%p0 bra INNER;
    ld.global.f32 %f1, [%rd3+512];
    st.shared.f32 [%r5], %f1;
    st.shared.f32 [%r5+520], %f1;
INNER:
    bar.sync 0;
    ld.shared.f32 %f2, [%r5];
    ld.shared.f32 %f3, [%r5+8];
    ld.shared.f32 %f4, [%r5+16];
    add.f32 %f2, %f2, %f3;
    add.f32 %f2, %f2, %f4;
    st.global.f32 [%rd4], %f2;
""",
)

add(
    "bitonic_sort",
    """
    ld.global.u32 %r6, [%rd3];
    st.shared.u32 [%r5], %r6;
    bar.sync 0;
    mov.u32 %r7, 2;
SIZE:
    shr.u32 %r8, %r7, 1;
STRIDE:
    xor.b32 %r10, %r0, %r8;
    setp.le.u32 %p0, %r10, %r0;
    @%p0 bra NEXT;
    mad.lo.u32 %r11, %r10, 4, %r1;
    ld.shared.u32 %r12, [%r5];
    ld.shared.u32 %r13, [%r11];
    and.b32 %r14, %r0, %r7;
    setp.eq.u32 %p1, %r14, 0;
    min.u32 %r15, %r12, %r13;
    max.u32 %r16, %r12, %r13;
    selp.b32 %r17, %r15, %r16, %p1;
    selp.b32 %r18, %r16, %r15, %p1;
    st.shared.u32 [%r5], %r17;
    st.shared.u32 [%r11], %r18;
NEXT:
    bar.sync 0;
    shr.u32 %r8, %r8, 1;
    setp.ne.u32 %p2, %r8, 0;
    @%p2 bra STRIDE;
    shl.b32 %r7, %r7, 1;
    setp.le.u32 %p3, %r7, 128;
    @%p3 bra SIZE;
    ld.shared.u32 %r19, [%r5];
    st.global.u32 [%rd4], %r19;
""",
)

add(
    "warp_transpose",
    """
    mad.lo.u32 %r6, %r3, 1024, %r1;
    mad.lo.u32 %r7, %r2, 32, %r6;
    st.shared.v4.u32 [%r7], {%r0, %r1, %r2, %r3};
    st.shared.v4.u32 [%r7+16], {%r0, %r1, %r2, %r3};
    bar.warp.sync 0xffffffff;
    mad.lo.u32 %r8, %r2, 4, %r6;
    ld.shared.u32 %r10, [%r8];
    ld.shared.u32 %r11, [%r8+512];
    add.u32 %r10, %r10, %r11;
    st.global.u32 [%rd4], %r10;
""",
)

add(
    "leader_tells",
    """
    mov.u32 %r6, 0;
    setp.eq.u32 %p0, %r9, 0;
    @%p0 bra DONE;
ROUND:
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra WAIT;
    ld.global.u32 %r7, [%rd0];
    st.shared.u32 [smem], %r7;
WAIT:
    bar.sync 0;
    ld.shared.u32 %r8, [smem];
    mul.wide.u32 %rd5, %r8, 4;
    add.s64 %rd5, %rd5, %rd4;
    st.global.u32 [%rd5], %r6;
    bar.sync 0;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p2, %r6, %r9;
    @%p2 bra ROUND;
DONE:
""",
)

add(
    "dynamic_tiles",
    """
TILE:
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra GIVEN;
    atom.global.add.u32 %r6, [%rd0], 1;
    st.shared.u32 [smem], %r6;
GIVEN:
    bar.sync 0;
    ld.shared.u32 %r7, [smem];
    bar.sync 0;
    setp.ge.u32 %p1, %r7, %r9;
    @%p1 bra DONE;
    mad.lo.u32 %r8, %r7, 128, %r0;
    mul.wide.u32 %rd5, %r8, 4;
    add.s64 %rd5, %rd5, %rd1;
    st.global.u32 [%rd5], %r7;
    bra TILE;
DONE:
""",
)

add(
    "count_by_bar_red",
    """
    ld.global.u32 %r6, [%rd3];
    setp.gt.u32 %p0, %r6, %r9;
    st.shared.u32 [%r5], %r6;
    bar.red.popc.u32 %r7, 0, %p0;
    xor.b32 %r8, %r5, 256;
    ld.shared.u32 %r10, [%r8];
    add.u32 %r7, %r7, %r10;
    st.global.u32 [%rd4], %r7;
""",
)

add(
    "relax_until_still",
    """
    ld.global.u32 %r6, [%rd3];
    st.shared.u32 [%r5], %r6;
    bar.sync 0;
AGAIN:
    xor.b32 %r7, %r5, 4;
    ld.shared.u32 %r8, [%r7];
    ld.shared.u32 %r10, [%r5];
    min.u32 %r11, %r8, %r10;
    setp.ne.u32 %p0, %r11, %r10;
    bar.sync 0;
    st.shared.u32 [%r5], %r11;
    bar.red.or.pred %p1, 0, %p0;
    @%p1 bra AGAIN;
    st.global.u32 [%rd4], %r11;
""",
)

add(
    "generic_addresses",
    """
    cvt.u64.u32 %rd5, %r5;
    cvta.shared.u64 %rd6, %rd5;
    ld.global.u32 %r6, [%rd3];
    st.u32 [%rd6], %r6;
    bar.sync 0;
    xor.b32 %r7, %r5, 256;
    cvt.u64.u32 %rd7, %r7;
    cvta.shared.u64 %rd7, %rd7;
    ld.u32 %r8, [%rd7];
    st.global.u32 [%rd4], %r8;
""",
)

add(
    "volatile_and_warps",
    """
    ld.global.f32 %f0, [%rd3];
    st.volatile.shared.f32 [%r5], %f0;
    bar.warp.sync -1;
    xor.b32 %r6, %r5, 4;
    ld.volatile.shared.f32 %f1, [%r6];
    st.global.f32 [%rd4], %f1;
""",
)
