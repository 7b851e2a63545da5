"""Programs by role: a producer warp that copies, consumer warpgroups that compute, mbarrier pipelines between."""
