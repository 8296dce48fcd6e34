"""The channel believes nothing it receives, and is never stuck on it."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotriton.judge.channel import MAX_MESSAGE, Channel, ChannelError, Late


@pytest.fixture
def pair() -> Iterator[tuple[Channel, socket.socket]]:
    """A channel, and the raw other end."""
    ours, theirs = socket.socketpair()
    yield Channel(ours), theirs
    ours.close()
    theirs.close()


def packed(body: bytes, descriptors: int = 0) -> bytes:
    return struct.pack("!II", len(body), descriptors) + body


def test_messages_arrive_as_sent_and_in_order(pair: tuple[Channel, socket.socket]) -> None:
    channel, raw = pair
    other = Channel(raw)
    other.send({"number": 1, "text": "ä\n"})
    other.send({})
    assert channel.receive(1) == ({"number": 1, "text": "ä\n"}, [])
    assert channel.receive(1) == ({}, [])


def test_ask_returns_the_answer(pair: tuple[Channel, socket.socket]) -> None:
    channel, raw = pair
    Channel(raw).send({"answer": 42})
    assert channel.ask({"question": "6 * 7"}, 1) == {"answer": 42}
    assert Channel(raw).receive(1)[0] == {"question": "6 * 7"}


def test_a_message_in_single_bytes_is_put_together(pair: tuple[Channel, socket.socket]) -> None:
    channel, raw = pair
    data = packed(json.dumps({"a": [1, 2, 3]}).encode())

    def dribble() -> None:
        for byte in data:
            raw.sendall(bytes([byte]))
            time.sleep(0.001)

    sender = threading.Thread(target=dribble)
    sender.start()
    assert channel.receive(5)[0] == {"a": [1, 2, 3]}
    sender.join()


def test_a_message_larger_than_any_socket_buffer_arrives(pair: tuple[Channel, socket.socket]) -> None:
    channel, raw = pair
    text = "x" * (4 << 20)
    sender = threading.Thread(target=Channel(raw).send, args=({"text": text},))
    sender.start()
    assert channel.receive(10)[0]["text"] == text
    sender.join()


def test_descriptors_travel_beside_a_message_of_any_size(pair: tuple[Channel, socket.socket]) -> None:
    channel, raw = pair
    read, write = os.pipe()
    sender = threading.Thread(target=Channel(raw).send, args=({"text": "x" * (1 << 20)}, (read, write)))
    sender.start()
    message, descriptors = channel.receive(10)
    sender.join()
    assert len(message["text"]) == 1 << 20
    os.write(descriptors[1], b"through")
    assert os.read(descriptors[0], 16) == b"through"
    for descriptor in (read, write, *descriptors):
        os.close(descriptor)


@pytest.mark.parametrize(
    "data",
    [
        packed(b"not json"),
        packed(b"[1, 2]"),
        packed(b'"text"'),
        packed(b"\xff\xfe"),
        packed(b""),
        packed(b"{}", descriptors=1),
        packed(b"{}", descriptors=17),
        struct.pack("!II", MAX_MESSAGE + 1, 0),
        struct.pack("!II", 0xFFFFFFFF, 0xFFFFFFFF),
    ],
    ids=["text", "list", "string", "bytes", "empty", "promised descriptor", "descriptors", "oversize", "huge"],
)
def test_malformed_messages_are_a_channel_error(pair: tuple[Channel, socket.socket], data: bytes) -> None:
    channel, raw = pair
    raw.sendall(data)
    with pytest.raises(ChannelError) as caught:
        channel.receive(1)
    assert not isinstance(caught.value, Late)


def test_a_descriptor_nobody_announced_is_a_channel_error(pair: tuple[Channel, socket.socket]) -> None:
    channel, raw = pair
    with open(os.devnull) as file:
        socket.send_fds(raw, [packed(b"{}")], [file.fileno()])
    with pytest.raises(ChannelError):
        channel.receive(1)


def test_descriptors_of_a_refused_message_are_closed(pair: tuple[Channel, socket.socket]) -> None:
    channel, raw = pair
    before = len(os.listdir("/proc/self/fd"))
    with open(os.devnull) as file:
        socket.send_fds(raw, [packed(b"not json", 1)], [file.fileno()])
    with pytest.raises(ChannelError):
        channel.receive(1)
    assert len(os.listdir("/proc/self/fd")) == before


def test_deeply_nested_json_is_a_channel_error(pair: tuple[Channel, socket.socket]) -> None:
    channel, raw = pair
    raw.sendall(packed(b'{"a":' + b"[" * 50_000))
    with pytest.raises(ChannelError):
        channel.receive(1)


@pytest.mark.parametrize(
    "data", [b"", b"\0\0", packed(b'{"a": 1}')[:-1]], ids=["nothing", "half a header", "half a body"]
)
def test_an_answer_that_does_not_come_is_late(pair: tuple[Channel, socket.socket], data: bytes) -> None:
    channel, raw = pair
    raw.sendall(data)
    begin = time.monotonic()
    with pytest.raises(Late):
        channel.receive(0.1)
    assert 0.1 <= time.monotonic() - begin < 2


def test_dribbling_does_not_extend_the_deadline(pair: tuple[Channel, socket.socket]) -> None:
    channel, raw = pair
    raw.sendall(struct.pack("!II", 10_000, 0))
    stop = threading.Event()

    def dribble() -> None:
        while not stop.wait(0.01):
            raw.sendall(b" ")

    sender = threading.Thread(target=dribble)
    sender.start()
    with pytest.raises(Late):
        channel.receive(0.2)
    stop.set()
    sender.join()


@pytest.mark.parametrize("data", [b"", b"\0\0\0", packed(b"{}")[:-1]], ids=["nothing", "half a header", "half a body"])
def test_a_closed_other_side_is_a_channel_error_and_not_late(pair: tuple[Channel, socket.socket], data: bytes) -> None:
    channel, raw = pair
    raw.sendall(data)
    raw.close()
    with pytest.raises(ChannelError) as caught:
        channel.receive(1)
    assert not isinstance(caught.value, Late)


def test_sending_to_a_closed_side_is_a_channel_error(pair: tuple[Channel, socket.socket]) -> None:
    channel, raw = pair
    raw.close()
    with pytest.raises(ChannelError):
        channel.send({"a": 1})
    with open(Path(os.devnull)) as file, pytest.raises(ChannelError):
        channel.send({"a": 1}, (file.fileno(),))
