"""`python -m minitile`: the command line."""

import sys

from minitile.tools.cli import main

sys.exit(main())
