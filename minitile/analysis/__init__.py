"""What passes and lowering ask of the IR, without changing it.

integers            affine (the entrance), polynomial, proof, counterexamples
sizes               launch_bounds: what a launch lets 32 bits hold; trips: whether a loop has a turn
threads             divergence: what is the same in all of them, or in the blocks of a cluster;
                    conditions: what holds with a condition
tensors             strides: how they lie, and what of it vectors and TMA need
memory              memory_dependence, access_set, disjoint: which accesses conflict, of which threads;
                    global_sharing: whether threads meet in global memory
traced names        variables
products            tf32_rounding: what rounds f32 factors on their way to shared memory
program             op_places: where operations stand, and who uses each value
masks               masks: which elements a bound cuts off
registers           register_budget: what the warps of a specialised kernel have; register_pressure: what tiles take;
                    occupancy: how many blocks a multiprocessor has
answers             iterative: those that follow from the operands' answers, without deep recursion
"""
