"""A TCP proxy that delays, stalls and resets what passes."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time


class Proxy:
    """Forwards connections to a port of this machine."""

    def __init__(self, target: int):
        self.target = target
        self.delay_s = 0.0
        self.stalled = False
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target), 5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            with self._lock:
                self._open |= {near, far}
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=(one, other), daemon=True).start()

    def _forward(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                if self.delay_s:
                    time.sleep(self.delay_s)
                while self.stalled:
                    time.sleep(0.02)
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
            with self._lock:
                self._open.discard(end)

    def reset(self) -> None:
        """Reset all connections: their peers get an error, not an end."""
        with self._lock:
            ends = list(self._open)
        for end in ends:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End."""
        self.stalled = False
        self._listener.close()
        self.reset()
