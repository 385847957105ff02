"""Attacks on a running service: each is refused clearly and soon, and leaves no memory behind.

The names of classes and channels of its model contain markup. Bodies that expand are in ``tests/hostile``.
"""

import gzip
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest
from running import TINY, httpx, serving, walks

from nutime import NuTime, NuTimeClassifier
from nutime.data.series import SeriesSet

TOKEN = "correct-horse"
MARKUP = "<script>alert(1)</script>"
SECONDS = 30
HEADERS = {"host": "localhost", "content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
BODY = json.dumps({"series": [[[1, 2, 3], [3, 2, 1]]]}).encode()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Return a client and the process of a service with a token and short times."""
    data = SeriesSet(list(walks(24).reshape(12, 2, 40)), channel_names=[MARKUP, "b"])
    classifier = NuTimeClassifier(encoder=NuTime(TINY)).fit(data, [MARKUP, "ok"] * 6)
    limits = ("--token", TOKEN, "--timeout", 3, "--header-timeout", 1, "--max-body", 1_000_000)
    with serving(classifier.save(tmp_path_factory.mktemp("model")), *limits) as (client, process):
        client.headers["authorization"] = f"Bearer {TOKEN}"
        yield client, psutil.Process(process.pid)


def message(headers, body=b"", line=b"POST /predict HTTP/1.1"):
    fields = b"".join(f"{name}: {value}\r\n".encode() for name, value in headers.items() if value is not None)
    return line + b"\r\n" + fields + b"\r\n" + body


def with_length(body, **changes):
    return message({**HEADERS, "content-length": len(body), "connection": "close", **changes}, body)


def chunked(*parts, **changes):
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b""))
    return message({**HEADERS, "transfer-encoding": "chunked", "connection": "close", **changes}, body)


def path(name):
    return message({**HEADERS, "connection": "close"}, line=b"GET " + name + b" HTTP/1.1")


ATTACKS = {
    "a rebound host": (with_length(BODY, host="evil.example"), b"400"),
    "a host that begins like ours": (with_length(BODY, host="localhost.evil.example"), b"400"),
    "no host": (with_length(BODY, host=None), b"400"),
    "another origin": (with_length(BODY, origin="http://evil.example"), b"403"),
    "the origin null": (with_length(BODY, origin="null"), b"403"),
    "no token": (with_length(BODY, authorization=None), b"401"),
    "a wrong token": (with_length(BODY, authorization="Bearer wrong"), b"401"),
    "a token that begins like ours": (with_length(BODY, authorization=f"Bearer {TOKEN[:-1]}"), b"401"),
    "an announced body too large": (message({**HEADERS, "content-length": 10**12, "connection": "close"}), b"413"),
    "a body too large": (with_length(b" " * 2_000_000), b"413"),
    "chunks that grow too large": (chunked(*[b" " * 100_000] * 20), b"413"),
    "a negative length": (with_length(BODY, **{"content-length": "-1"}), b"400"),
    "two kinds of length": (chunked(BODY, **{"content-length": "5"}), b"400"),
    "a chunk of endless size": (message({**HEADERS, "transfer-encoding": "chunked"}, b"f" * 70_000), b"400"),
    "a gzip body": (with_length(gzip.compress(b" " * 10**7), **{"content-encoding": "gzip"}), b"415"),
    "a gzip transfer": (with_length(BODY, **{"transfer-encoding": "gzip, chunked"}), b"400"),
    "lists without end": (with_length(b"[" * 900_000), b"422"),
    "lists in lists": (with_length(b'{"series": ' + b"[" * 900 + b"]" * 900 + b"}"), b"422"),
    "objects in objects": (with_length(b'{"series": ' * 9000), b"422"),
    "empty lists": (with_length(b'{"series": [' + b"[]," * 300_000 + b"[]]}"), b"422"),
    "a number of a million digits": (with_length(b'{"series": [[' + b"9" * 900_000 + b"]]}"), b"4"),
    "endless headers": (message({**HEADERS, "x": "a" * 200_000}), b"400"),
    "no request": (b"\x16\x03\x01\x02\x00\x01", b"400"),
    "a path out of the service": (path(b"/../../etc/passwd"), b"404"),
    "a path out of a page": (path(b"/docs/../../secret"), b"404"),
    "a path with two slashes": (path(b"//etc/passwd"), b"404"),
    "an encoded path": (path(b"/%2e%2e/%2e%2e/etc/passwd"), b"404"),
    "a path with markup": (path(b"/<script>alert(1)</script>"), b"404"),
    "an absolute address": (path(b"http://evil.example/"), b"4"),
}
SLOW_ATTACKS = {
    "a slow body": (message({**HEADERS, "content-length": 100}, b"{"), b"408"),
    "slow chunks": (message({**HEADERS, "transfer-encoding": "chunked"}, b"5\r\n{"), b"408"),
    "slow headers": (b"POST /predict HTTP/1.1\r\nhost: loc", b""),
}


def attack(client, content):
    """Return the status of the response, empty if the connection was closed without one."""
    with socket.create_connection((client.base_url.host, client.base_url.port), timeout=SECONDS) as connection:
        received = b""
        try:
            connection.sendall(content)
            while part := connection.recv(65536):
                received += part
                if b"\r\n" in received:
                    break
        except (ConnectionResetError, BrokenPipeError):  # refused while it was being sent
            pass
    return received.split(b" ", 2)[1] if received else b""


def assert_refused_soon(client, content, status):
    start = time.monotonic()
    received = attack(client, content)
    assert time.monotonic() - start < SECONDS
    assert received == status or (received.startswith(status) and len(status) < 3)
    assert client.get("/health").status_code == 200


@pytest.mark.parametrize(("content", "status"), ATTACKS.values(), ids=ATTACKS)
def test_an_attack_is_refused_soon(service, content, status):
    assert_refused_soon(service[0], content, status)


def test_slow_attacks_are_ended_by_a_timeout(service):
    with ThreadPoolExecutor(len(SLOW_ATTACKS)) as pool:
        list(pool.map(lambda parts: assert_refused_soon(service[0], *parts), SLOW_ATTACKS.values()))


def test_memory_is_free_again_after_all_attacks(service):
    client, process = service

    def used():
        for _ in range(20):
            assert client.post("/predict", content=BODY, headers={"content-type": "application/json"}).is_success
        return process.memory_info().rss

    before = used()
    for content, _ in ATTACKS.values():
        attack(client, content)
    assert used() < 1.1 * before


def test_a_token_is_required_on_every_path(service):
    client, _ = service
    with httpx.Client(base_url=client.base_url) as without_token:
        for name in ("/", "/docs", "/health", "/ready", "/metrics", "/openapi.json", "/nowhere"):
            refused = without_token.get(name)
            assert refused.status_code == 401, name
            assert refused.headers["www-authenticate"] == "Bearer"
    assert client.get("/docs").status_code == 200


def test_health_and_readiness_name_model_classes_channels_and_version(service):
    client, _ = service
    for name, status in (("/health", "ok"), ("/ready", "ready")):
        about = client.get(name).json()
        assert about.pop("version")
        assert about == {
            "status": status,
            "model": "NuTimeClassifier",
            "answers": "/predict",
            "channels": 2,
            "channel_names": [MARKUP, "b"],
            "classes": [MARKUP, "ok"],
        }


def test_markup_in_names_is_text(service):
    client, _ = service
    about = client.get("/health")
    assert about.headers["content-type"] == "application/json"
    assert about.headers["x-content-type-options"] == "nosniff"
    assert about.json()["classes"] == [MARKUP, "ok"]
    assert "<script" not in client.get("/docs").text
    refused = client.post("/predict", json={"series": [[[1], [2]]], "channels": [MARKUP, "<img src=x>"]})
    assert (refused.status_code, refused.headers["content-type"]) == (422, "application/json")


def test_many_bodies_of_empty_lists_do_not_stop_the_others(service):
    client, _ = service
    body = ATTACKS["empty lists"][0]
    held = []
    for _ in range(6):
        connection = socket.create_connection((client.base_url.host, client.base_url.port), timeout=SECONDS)
        connection.sendall(body)
        held.append(connection)
    start = time.monotonic()
    assert client.get("/health").status_code == 200
    assert time.monotonic() - start < 5
    for connection in held:
        connection.close()
    assert np.isfinite(client.post("/predict", json=json.loads(BODY)).json()["p_ok"]).all()
