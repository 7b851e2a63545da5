"""The lowering rules of sm_90a: TMA, mbarrier pipelines, wgmma."""
