"""`python -m minitile`: the command line."""

import sys

from minitile.tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
