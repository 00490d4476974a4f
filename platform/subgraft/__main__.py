"""`python -m subgraft`."""

import sys

from subgraft.cli import main

sys.exit(main())
