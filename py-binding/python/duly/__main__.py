"""`python -m duly` is the command `duly`."""

import sys

from duly.cli import main

if __name__ == "__main__":
    sys.exit(main())
