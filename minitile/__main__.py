"""`python -m minitile`: the command line."""

import sys

from minitile.cli import main

sys.exit(main())
