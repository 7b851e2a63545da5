"""The passes and their analyses. A pass is a function (kernel, context) in the file of its name;
`minitile.driver.pipeline` says in which order they run, `manager.py` runs them. A file that no list of passes names is
what one of them asks:

    integers            affine (the entrance), long_chains, polynomial, proof, counterexamples, divergence
    index widths        launch_bounds
    memory, threads     hazards, touch_set, disjoint, conditions
    proxies             for proxy_fence: fence_marks, fence_parts, fence_places, proxy_order
    asynchronous loops  ahead, register_pipeline; for a loop with its own schedule: schedule
    roles of warps      rings, multicast, teams; check_channels verifies what has been made of them
    asynchronous gemms  async_gemms, accumulators
    traced names        variables, fragment_indices
    layouts             masks, rules (what a backend demands), choose_shared
    lowering            lower_memory, lower_exchange, lower_gemm; legalizer, expand_math, expand_fp8
    CDNA's schedules    mfma_loop
    diagnosis           count_masked (for minitile.driver.masked); reasons, the words of origins (ir/origin.py)

Who has put into the assembly what synchronises (a comment behind its line says so, and why; MINITILE_DUMP=PASS prints
the IR after a pass):

    fence.proxy.async                     proxy_fence; where exactly: fence_places
    bar.sync, s_barrier                   thread_barriers; between the stages of CDNA's schedules: cdna4_interleave
    mbarrier.*, and who waits for whom    specialise or one_role, as channels; late_waits and skew move their ends;
                                          lowered by backends/nvidia/hopper/channels.py
    s_barrier, behind vmcnt(0)            global_waits, where waves meet in global memory
    cp.async.wait_group, vmcnt(N)         software_pipeline, as waits for tokens; N is count_tokens'
    wgmma.wait_group                      specialise or flights, as the gemm's `await`; late_waits moves it; N is
                                          count_tokens'
    cp.async.bulk.wait_group              complete_stores, moved by delay_waits; N is count_tokens'
    griddepcontrol                        the program (T.pdl_sync); ahead_of_grid moves it
"""
