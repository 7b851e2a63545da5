"""The passes, in folders by stage. A pass is a function (kernel, context); `minitile.driver.pipeline` says in which
order they run, `manager.py` runs them. What they ask of the IR stands in minitile/analysis. A file here that holds no
pass is a part of one:

    canonicalize        count_masked (for minitile.driver.masked)
    tile                enough_threads and dynamic_tiles, before all passes; fragment_indices: the names that
                        fragments have in traced programs
    schedule            schedule (a loop's schedule as data), graph (what must come before what), steady (a turn,
                        operation by operation), expand (writes the loop, with stages behind and ahead of it), cost
                        and issue (what --explain draws); side_by_side, a policy; modulo, a search (for
                        cdna4_modulo); verify and record have passes
    pipeline            ahead; for asynchronous gemms: async_gemms, accumulators; for CDNA's schedules: mfma_loop
                        (what a loop consists of) and mfma_pieces (it in single instructions)
    warp_specialize     producer_partition (who copies what, through which pipeline), second_slots, multicast,
                        ping_pong; verify_pipelines checks what has been made of them
    layout              select_shared_layout
    sync                for proxy_fence: fence_dataflow, fence_parts, fence_placement, async_happens_before; reasons,
                        the words of origins (ir/origin.py)

Who has put into the assembly what synchronises, by file (a comment behind its line says so, and why; MINITILE_DUMP=PASS
prints the IR after a pass):

    fence.proxy.async                     proxy_fence; where exactly: fence_placement
    bar.sync, s_barrier                   thread_barriers; between the stages of CDNA's schedules: cdna4_interleave
    mbarrier.*, and who waits for whom    warp_specialize or tma_multistage, as pipelines; sink_wgmma_waits and skew
                                          move their ends; lowered by backends/nvidia/hopper/pipelines.py
    s_barrier, behind vmcnt(0)            insert_vmcnt_waits, where waves meet in global memory
    cp.async.wait_group, vmcnt(N)         software_pipeline, as waits for tokens; N is resolve_wait_counts'. A lowering
                                          rule, for a copy that is not pipelined; join_waits makes one of several
    wgmma.wait_group                      warp_specialize or lower_manual_wgmma, as the gemm's `await`;
                                          sink_wgmma_waits moves it; N is resolve_wait_counts'
    cp.async.bulk.wait_group              insert_bulk_store_waits, moved by sink_bulk_store_waits; N is
                                          resolve_wait_counts'
    griddepcontrol                        the program (T.pdl_sync); pdl_prefetch moves it
"""
