"""What runs compiled kernels: thin launchers for GPUs, and the simulators. Knows nothing of the compiler.

The folder stands beside `minitile/` and is installed as `minitile.runtime`; under its bare name every module
in it would exist twice, with two sets of classes, so that name is refused.
"""

if __name__ != "minitile.runtime":
    raise ImportError(f"this package is minitile.runtime: import it by that name, not as {__name__}")
