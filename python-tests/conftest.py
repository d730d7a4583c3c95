from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import duly
import pytest
from support import Program, Server, programs

numbers = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """For tests that kill it."""
    server = Server()
    yield server
    server.close()


@pytest.fixture
def prefix() -> str:
    return f"t{next(numbers)}:"


@pytest.fixture
def client(server: Server, prefix: str) -> duly.Client:
    return duly.Client(server.url, prefix=prefix)


@pytest.fixture
def queue(client: duly.Client) -> duly.Queue:
    return client.queue("q")


@pytest.fixture
def program(server: Server, prefix: str) -> Iterator[Callable[[str], Program]]:
    with programs(server, prefix) as start:
        yield start


@pytest.fixture
def own_program(own_server: Server) -> Iterator[Callable[[str], Program]]:
    """Start programs on a server that may be taken away from them."""
    with programs(own_server, "duly:") as start:
        yield start
