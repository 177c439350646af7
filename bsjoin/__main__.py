"""``python -m bsjoin``: stored tables from the command line."""

import io
import sys

from bsjoin.commands import main

for stream in (sys.stdout, sys.stderr):
    if isinstance(stream, io.TextIOWrapper):  # what a terminal has no character for is escaped
        stream.reconfigure(errors="backslashreplace")
raise SystemExit(main())
