"""`python -m autotriton`, the same as the `autotriton` command."""

from __future__ import annotations

import sys

from autotriton.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
