"""Messages between the judge's processes: a length, JSON text, and descriptors beside it.

The candidate's process speaks this too, so nothing received here is trusted: sizes are bounded, only JSON is parsed,
and anything odd is a `ChannelError` the caller turns into a verdict. Pickle is used in one direction only, from
trusted to untrusted.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from typing import Any

MAX_MESSAGE = 32 << 20
_HEADER = struct.Struct("!II")


class ChannelError(Exception):
    """The other side closed, was late, or sent something malformed."""


class Late(ChannelError):
    """No answer in time."""


class Channel:
    """One end of a socket pair."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock

    def send(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        body = json.dumps(message).encode()
        data = _HEADER.pack(len(body), len(descriptors)) + body
        try:
            sent = socket.send_fds(self.socket, [data], list(descriptors)) if descriptors else self.socket.send(data)
            if sent < len(data):
                self.socket.sendall(data[sent:])
        except OSError as error:
            raise ChannelError(f"could not send: {error}") from error

    def receive(self, timeout_s: float | None = None) -> tuple[dict[str, Any], list[int]]:
        """The next message and the descriptors beside it; a refused message leaves none open."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        descriptors: list[int] = []
        try:
            size, count = _HEADER.unpack(self._read(_HEADER.size, deadline, descriptors))
            if size > MAX_MESSAGE or count > 16:
                raise ChannelError(f"message of {size} bytes refused")
            message = _parsed(self._read(size, deadline, None))
            if len(descriptors) != count:
                raise ChannelError("malformed message")
        except ChannelError:
            _close_all(descriptors)
            raise
        return message, descriptors

    def ask(self, message: dict[str, Any], timeout_s: float | None = None) -> dict[str, Any]:
        self.send(message)
        answer, descriptors = self.receive(timeout_s)
        _close_all(descriptors)
        return answer

    def _read(self, size: int, deadline: float | None, descriptors: list[int] | None) -> bytes:
        """Exactly `size` bytes; descriptors that come with the first of them are added to the list."""
        data = bytearray()
        while len(data) < size:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise Late("no answer in time")
            self.socket.settimeout(left)
            try:
                if descriptors is not None and not data:
                    chunk, received, _, _ = socket.recv_fds(self.socket, size, 16)
                    descriptors += received
                else:
                    chunk = self.socket.recv(min(size - len(data), 1 << 20))
            except TimeoutError as error:
                raise Late("no answer in time") from error
            except OSError as error:
                raise ChannelError(f"could not receive: {error}") from error
            if not chunk:
                raise ChannelError("the other side closed")
            data += chunk
        return bytes(data)

    def close(self) -> None:
        self.socket.close()


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ChannelError("message is not JSON") from error
    if not isinstance(message, dict):
        raise ChannelError("malformed message")
    return message


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
