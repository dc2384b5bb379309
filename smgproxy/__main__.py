"""``python -m smgproxy``: the same as the command ``smg``."""

import sys

from smgproxy.cli import main

if __name__ == "__main__":
    sys.exit(main())
