"""For the Pythons of a Connect server: that of a foreachBatch connects before it imports.

Spark waits for its connection for ten seconds. On a busy machine the imports alone take longer, and
each try leaves a process behind that goes on importing.
"""

import os
import socket
import sys
from typing import Any

_path = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH")
if _path and sys.orig_argv[-1].endswith(".foreach_batch_worker"):
    _early, _connect = socket.socket(socket.AF_UNIX), socket.socket.connect
    _early.connect(_path)

    def _connected(self: socket.socket, address: Any) -> None:
        if address == _path:
            os.dup2(_early.fileno(), self.fileno(), inheritable=False)
            _early.close()
        else:
            _connect(self, address)

    socket.socket.connect = _connected  # type: ignore[method-assign]
