"""What bin/bench starts; the figures are made in the modules beside it."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # From the checkout's root, so that `bench` is this folder and `marathon` is the one measured.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from bench.main import main

    sys.exit(main())
