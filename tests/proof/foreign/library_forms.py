"""What programs in the forms of kernel libraries are written with: abbreviations; a program and its broken variant.

`WAIT`, `TMA` and the like are abbreviations for one instruction or inline assembly of several; see `MACROS`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tests.proof.foreign.sound import Text

MACROS = {
    # a wait as ClusterBarrier writes it: barrier, parity
    "WAIT": "{ .reg .pred P1; LAB_WAIT: mbarrier.try_wait.parity.shared::cta.b64 P1, [#1], #2; @P1 bra DONE; "
    "bra LAB_WAIT; DONE: }",
    "ARRIVE": "mbarrier.arrive.shared::cta.b64 _, [#1];",
    "EXPECT": "mbarrier.arrive.expect_tx.shared::cta.b64 _, [#1], #2;",
    "INIT": "mbarrier.init.shared::cta.b64 [#1], #2;",
    # to, map, x, y, barrier
    "TMA": "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [#1], [#2, {#3, #4}], [#5];",
    # from, map, x, y
    "TMASTORE": "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [#2, {#3, #4}], [#1];",
    # a descriptor: register, address; core matrices 128 bytes apart along K, 256 along M and N
    "DESC": "shr.u32 %r70, #2, 4; and.b32 %r70, %r70, 16383; cvt.u64.u32 #1, %r70; or.b64 #1, #1, 68720001024;",
    # descriptors of A and B
    "WGMMA": "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f10, %f11, %f12, %f13}, #1, #2, 1, 1, 1, 0, 0;",
    "GFENCE": "wgmma.fence.sync.aligned;",
    "GCOMMIT": "wgmma.commit_group.sync.aligned;",
    "GWAIT": "wgmma.wait_group.sync.aligned #1;",
    # destination, source
    "CPASYNC": "cp.async.cg.shared.global [#1], [#2], 16;",
    "MMA": "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f10, %f11, %f12, %f13}, "
    "{%r60, %r61, %r62, %r63}, {%r64, %r65}, {%f10, %f11, %f12, %f13};",
    "LDMX4": "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r60, %r61, %r62, %r63}, [#1];",
    "LDMX2T": "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r64, %r65}, [#1];",
    # index, phase, stages: what comes behind a pipeline's state
    "ADVANCE": "add.s32 #1, #1, 1; setp.eq.s32 %p19, #1, #3; selp.u32 %r71, 1, 0, %p19; xor.b32 #2, #2, %r71; "
    "selp.b32 #1, 0, #1, %p19;",
    "MAPS": "mov.b64 %rd10, ma; cvta.param.u64 %rd10, %rd10; mov.b64 %rd11, mb; cvta.param.u64 %rd11, %rd11;",
    "SHFLMAX": "shfl.sync.bfly.b32 %f60, #1, #2, 31, -1; max.f32 #1, #1, %f60;",
    "SHFLADD": "shfl.sync.bfly.b32 %f60, #1, #2, 31, -1; add.f32 #1, #1, %f60;",
}
_CALL = re.compile(r"^(\s*(?:@!?%p\d+\s+)?)([A-Z]+[0-9]?[A-Z]?)\b([^;:]*);", re.MULTILINE)


def expanded(body: str) -> str:
    def put(found: re.Match[str]) -> str:
        text = MACROS.get(found[2])
        if text is None:
            return found[0]
        for at, value in enumerate(re.split(r",\s*", found[3].strip()), 1):
            text = text.replace(f"#{at}", value)
        return found[1] + text

    return _CALL.sub(put, body)


@dataclass(frozen=True)
class Program:
    body: str
    threads: int
    shared: int
    old: str  # what the broken variant has otherwise
    new: str
    boxes: dict[str, int] = field(default_factory=dict)

    @property
    def sound(self) -> Text:
        return Text(expanded(self.body), self.threads, self.shared, self.boxes)

    @property
    def broken(self) -> Text:
        assert self.body.count(self.old) == 1, self.body.count(self.old)
        return Text(expanded(self.body.replace(self.old, self.new)), self.threads, self.shared, self.boxes)
