"""`python -m stowplan` is the `stowplan` command."""

import sys

from stowplan.cli.main import main

sys.exit(main())
