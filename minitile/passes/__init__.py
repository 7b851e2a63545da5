"""The passes: one a file, each a function (kernel, context) on the IR; `minitile.pipeline` says in which order."""
