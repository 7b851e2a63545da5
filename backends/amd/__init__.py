"""AMD: thread IR to LLVM IR text, and that to GCN assembly by LLVM (llvmlite), for gfx942 and gfx950.

    lowering    tile operations to thread IR: mfma, copies
    legalize    operations and dtypes that LLVM has nothing right for, as ones that it has
    writer      thread IR to LLVM IR text: parameters, control flow, attributes; each operation through emit_*.py
    table       the intrinsics that may be asked for, by target: LLVM aborts the process on others
    codegen     LLVM IR to assembly text, in a process of its own, kept on disk
    check       what came back: registers, spills, no calls, waits before barriers

How thread IR is said in LLVM IR:

Values      A thread's registers are SSA values of the element's type, or vectors of a few elements: 4 or 16 for an
            accumulator of mfma, as many as one load brings, pairs of 16-bit floats. The emitter makes one form from the
            other where it is needed, once in each scope. Elements of 8 bits are in i32 words.
Control     Structured. `for` is a guard and a loop with its test at the end; what it carries are phis, in the vectors
            that an accumulator wants. `if` is a branch and phis; whether it diverges is LLVM's to find out (it makes
            exec masks of what does). Nothing is unrolled by LLVM: what should be, is so in the IR already.
Addresses   A byte offset within an object: of a tensor i64, of shared memory i32, and each access adds it to its
            object's pointer. So LLVM knows what cannot alias, which is what keeps it from waiting too much.
Shared      One internal LDS global for each buffer. Those whose bytes overlap (allocate_shared_memory lets them share
what is not
            needed at the same time) are one object, unless a barrier parts their phases (lds_globals.py).
Guards      A load under a predicate is a branch around the loads that share it, with zeros on the other way in.
Barriers    s.waitcnt lgkmcnt(0) and s.barrier, which by itself waits for nothing, between two fences. Those are of the
            thread alone, for LLVM's order of accesses, unless the kernel hands data on through global memory as well:
            then they are of the workgroup, and barriers that stand between two accesses to it wait for
            vmcnt(0), too (insert_vmcnt_waits).
Copies      LDS-DMA on gfx950 (dma.py), in an alias scope of its own that reads of its buffers are not in: else LLVM
            would wait for all of it before each read. What is read has been waited for: s.waitcnt vmcnt(N), N the
            number of copy instructions issued since (resolve_wait_counts).
Shuffles    DPP for what stays in rows of 16 lanes, ds_swizzle within 32, else ds_bpermute.

Sources: LLVM 22, "User Guide for AMDGPU Backend" (address spaces, attributes, memory model, metadata) and
IntrinsicsAMDGPU.td; AMD Instinct MI300 and MI350 ("CDNA 3", "CDNA 4") Instruction Set Architecture.
"""
