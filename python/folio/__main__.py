"""``python -m folio`` is the program."""

from __future__ import annotations

import signal
import sys

from . import _core


def main() -> int:
    """Runs the program with the arguments of this process."""
    # Ctrl-C and broken pipes are the program's to deal with.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.stdout.flush()
    return _core.program(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
