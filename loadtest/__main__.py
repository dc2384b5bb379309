"""Entry of `python -m loadtest`."""

import sys

from loadtest.bench import main

sys.exit(main(sys.argv[1:]))
