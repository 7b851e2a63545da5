"""The vendors' halves of the compiler, one package each: `nvidia` writes PTX, `amd` LLVM IR. `base` says what
a backend is, `registry` which one a target has.

The folder stands beside `minitile/` and is installed as `minitile.backends`; under its bare name every module
in it would exist twice, with two sets of classes, so that name is refused.
"""

if __name__ != "minitile.backends":
    raise ImportError(f"this package is minitile.backends: import it by that name, not as {__name__}")
