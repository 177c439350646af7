"""``python -m bsjoin``: stored tables from the command line."""

from bsjoin.commands import main

raise SystemExit(main())
