"""`python -m subgraft`."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the current directory, where anybody's files may lie: `-m` looks for code there first

from subgraft.interfaces.cli import main

sys.exit(main())
