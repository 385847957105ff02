"""Who may call the service, and the limits on slow and many connections."""

import socket
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import TINY, serving

from nutime import NuTime
from nutime.access import LOOPBACK, Access

TOKEN = "correct-horse"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = NuTime(TINY).save(tmp_path_factory.mktemp("encoder"))
    limits = ("--max-connections", 20, "--header-timeout", 1, "--allow-host", "models.example")
    with serving(folder, *limits) as (client, _):
        yield client


# ---- rules ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]", "[::1]:8000"])
def test_loopback_names_are_accepted(host):
    assert Access.to("127.0.0.1").refusal({"host": host}) is None


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "localhost.evil.example", "localhost@evil.example", "127.0.0.1.evil.example", "[", ":"],
)
def test_other_hosts_are_refused(host):
    assert Access.to("127.0.0.1").refusal({"host": host}).status == 400


@given(st.text())
def test_a_host_outside_the_list_is_never_accepted(host):
    accepted = Access.to("127.0.0.1").refusal({"host": host}) is None
    name = host.lower().rpartition(":")[0] if host.rpartition(":")[2].isdecimal() and ":" in host else host.lower()
    assert not accepted or name.strip("[]") in LOOPBACK


@pytest.mark.parametrize("given", [None, "", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer corré"])
def test_a_missing_or_wrong_token_is_refused(given):
    headers = {"host": "localhost"} | ({} if given is None else {"authorization": given})
    assert Access.to("127.0.0.1", token=TOKEN).refusal(headers).status == 401


def test_the_token_is_accepted():
    headers = {"host": "anything.example", "authorization": f"Bearer {TOKEN}"}
    assert Access.to("0.0.0.0", token=TOKEN).refusal(headers) is None


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.0.7"])
def test_an_address_beyond_loopback_needs_a_token(address):
    with pytest.raises(ValueError, match="a token is required"):
        Access.to(address)


# ---- the service ----------------------------------------------------------------------------------------


def test_a_rebound_host_name_is_refused(client):
    response = client.get("/health", headers={"host": "evil.example"})
    assert (response.status_code, "--allow-host" in response.json()["detail"]) == (400, True)


def test_an_allowed_host_name_is_served(client):
    assert client.get("/health", headers={"host": "models.example"}).status_code == 200


def test_a_page_of_another_origin_is_refused_and_may_not_read(client):
    response = client.get("/health", headers={"origin": "http://evil.example"})
    assert response.status_code == 403
    preflight = {"origin": "http://evil.example", "access-control-request-method": "POST"}
    assert client.options("/embed", headers=preflight).status_code == 403
    allowed = client.get("/health", headers={"origin": str(client.base_url)})
    assert allowed.status_code == 200
    assert allowed.headers["cross-origin-resource-policy"] == "same-origin"
    assert not any(name.startswith("access-control") for name in allowed.headers)


def test_the_command_refuses_a_public_address_without_a_token(nutime):
    done = nutime("serve", "model", "--host", "0.0.0.0")
    assert done.code == 1
    assert "a token is required" in done.err


def test_the_service_describes_itself_and_its_documentation_needs_no_other_host(client):
    assert client.get("/").json()["documentation"] == "/docs"
    page = client.get("/docs").text
    assert f"{client.base_url}/embed".replace("//embed", "/embed") in page
    assert "<script" not in page
    assert page.count("http") == page.count(str(client.base_url).rstrip("/")) > 0


# ---- slow and many connections --------------------------------------------------------------------------


def connect(client):
    return socket.create_connection((client.base_url.host, client.base_url.port), timeout=20)


@pytest.mark.parametrize(
    "half",
    [b"", b"GET /health HTT", b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: "],
    ids=["none", "line", "header"],
)
def test_half_sent_headers_are_closed(client, half):
    with connect(client) as slow:
        slow.sendall(half)
        assert slow.recv(100) == b""


def test_half_sent_headers_after_a_first_request_are_closed(client):
    with connect(client) as slow:
        slow.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b" 200 " in slow.recv(2000)
        slow.sendall(b"GET /health HTT")
        while slow.recv(2000):  # the rest of the first response, then the end
            pass


def test_connections_beyond_the_limit_are_refused_and_free_ones_return(client):
    held = [connect(client) for _ in range(19)]
    try:
        time.sleep(0.2)
        with connect(client) as extra, connect(client) as more:
            replies = []
            for connection in (extra, more):
                connection.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                replies.append(connection.recv(2000))
        assert any(b" 503 " in reply and b"too many connections" in reply for reply in replies)
    finally:
        for connection in held:
            connection.close()
    for _ in range(100):
        if client.get("/health").status_code == 200:
            return
        time.sleep(0.1)
    pytest.fail("the service did not accept connections again")
