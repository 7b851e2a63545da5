"""Numbers of machine.py for few rows by a large matrix, by GPU, as `benchmarks/fit_matmul.py --few --fit --write` left
them. Without the H200's here, matmul chooses for few rows as for other problems."""

FEW: dict[str, dict[str, float]] = {}
