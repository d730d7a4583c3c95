"""`python -m duly` is the command `duly`."""

import sys

from duly.cli import main

sys.exit(main())
