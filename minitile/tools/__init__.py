"""For people: the command line, `opt`, `explain`, `doctor`, and the autotuner."""
