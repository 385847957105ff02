"""The hub without a network: a cache filled by hand, and a local server that takes what is pushed."""

import base64
import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import torch

from nutime import NuTime, NuTimeConfig

pytest.importorskip("huggingface_hub")

TINY = NuTimeConfig(window=4, length=32, dim=16, depth=1, heads=2, head_dim=8, mlp_dim=16, scalar_dim=4)
SERIES = [np.sin(np.linspace(0, 9, 50))]


def tiny(seed):
    torch.manual_seed(seed)
    return NuTime(TINY)


def refusal(call, *arguments, **options):
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the message is what the tests look at
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def in_new_process(code, **environment):
    """Return what code prints; the library reads its environment only once, when it is imported."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Return a cache that holds two versions of ``me/waves``."""
    folder = tmp_path_factory.mktemp("cache")
    repository = folder / "models--me--waves"
    (repository / "refs").mkdir(parents=True)
    for seed, revision in enumerate(["main", "v1"]):
        commit = str(seed) * 40
        tiny(seed).save(repository / "snapshots" / commit)
        (repository / "refs" / revision).write_text(commit)
    return str(folder)


# ---- from the hub ----------------------------------------------------------------------------------------


def test_a_cached_hub_id_loads(cache):
    encoder = NuTime.from_pretrained("me/waves", cache_dir=cache, local_files_only=True)
    np.testing.assert_array_equal(encoder.embed(SERIES), tiny(0).embed(SERIES))


def test_a_revision_can_be_named(cache):
    encoder = NuTime.from_pretrained("me/waves", cache_dir=cache, local_files_only=True, revision="v1")
    np.testing.assert_array_equal(encoder.embed(SERIES), tiny(1).embed(SERIES))


@pytest.fixture(scope="module")
def offline(cache):
    """Return what a process prints that may not use the network: a cached config, then why a push failed."""
    code = """
import json, nutime
encoder = nutime.NuTime.from_pretrained("me/waves")
print(json.dumps(json.loads(encoder.config.to_json())))
try:
    encoder.push_to_hub("me/waves")
except ValueError as error:
    print(error)
"""
    return in_new_process(code, HF_HUB_OFFLINE="1", HF_HUB_CACHE=cache).splitlines()


def test_the_environment_of_the_library_is_honoured(offline):
    assert NuTimeConfig.from_json(offline[0]) == TINY


def test_what_is_not_cached_is_refused_without_a_network(cache):
    message = refusal(NuTime.from_pretrained, "me/other", cache_dir=cache, local_files_only=True)
    assert message.startswith("there is no folder 'me/other', and it cannot be loaded from the hub: ")


def test_damaged_weights_from_the_hub_are_refused(cache, tmp_path):
    snapshot = tmp_path / "models--me--broken" / "snapshots" / ("0" * 40)
    tiny(0).save(snapshot)
    (snapshot / "model.safetensors").write_bytes(b"nothing")
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text(snapshot.name)
    message = refusal(NuTime.from_pretrained, "me/broken", cache_dir=str(tmp_path), local_files_only=True)
    assert "model.safetensors: not " in message


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert "pip install 'nutime[hub]'" in refusal(NuTime.from_pretrained, "me/waves")


# ---- not from the hub ------------------------------------------------------------------------------------


def test_shipped_weights_and_folders_do_not_need_the_library(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    NuTime.from_pretrained()
    folder = tiny(0).save(tmp_path / "me" / "waves")
    monkeypatch.chdir(tmp_path)
    assert NuTime.from_pretrained("me/waves").config == NuTime.from_pretrained(folder).config == TINY


@pytest.mark.parametrize(
    "name", ["waves", "a/b/c", "./waves", "../waves", "/waves", "me/", Path("me/waves")], ids=str
)
def test_what_does_not_read_owner_and_name_is_no_hub_id(name, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.chdir(tmp_path)
    assert refusal(NuTime.from_pretrained, name).startswith("no weights ")


def test_options_of_a_download_are_refused_where_nothing_is_downloaded():
    assert "revision: only for a hub id" in refusal(NuTime.from_pretrained, "nutime-base", revision="v1")


# ---- to the hub ------------------------------------------------------------------------------------------


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as a push needs: it agrees to everything, and keeps the files of a commit."""

    files: dict[str, bytes]

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        here = f"http://{self.headers['Host']}/me/waves"
        if "/preupload/" in self.path:
            plain = {"uploadMode": "regular", "shouldIgnore": False}
            self.reply(files=[{"path": file["path"], **plain} for file in json.loads(body)["files"]])
        elif "/commit/" in self.path:
            entries = [json.loads(line) for line in body.splitlines()]
            files = [entry["value"] for entry in entries if entry["key"] == "file"]
            Hub.files = {file["path"]: base64.b64decode(file["content"]) for file in files}
            self.reply(commitUrl=f"{here}/commit/{'0' * 40}", commitOid="0" * 40)
        else:
            self.reply(url=here, errors=[], warnings=[])

    def do_GET(self):
        self.reply()

    def reply(self, **document):
        data = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def pushed(tmp_path_factory):
    """Return the folder with the files a push uploads."""
    folder = tmp_path_factory.mktemp("pushed")
    tiny(0).save(folder / "source")
    with HTTPServer(("127.0.0.1", 0), Hub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        code = f"""
import nutime
print(nutime.NuTime.from_pretrained({str(folder / "source")!r}).push_to_hub("me/waves", token="none"))
"""
        endpoint = f"http://127.0.0.1:{server.server_port}"
        address = in_new_process(code, HF_ENDPOINT=endpoint, HF_HOME=str(folder / "home"))
        server.shutdown()
    assert address == f"{endpoint}/me/waves/commit/{'0' * 40}"
    (folder / "pushed").mkdir()
    for name, content in Hub.files.items():
        (folder / "pushed" / name).write_bytes(content)
    return folder / "pushed"


def test_a_push_uploads_the_encoder_and_a_card(pushed):
    assert sorted(path.name for path in pushed.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    np.testing.assert_array_equal(NuTime.from_pretrained(pushed).embed(SERIES), tiny(0).embed(SERIES))


def test_the_card_says_how_to_load_what_was_pushed(pushed):
    card = (pushed / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: nutime\n")
    assert 'nutime.NuTime.from_pretrained("me/waves")' in card


def test_a_push_without_a_network_is_refused_in_one_line(offline):
    assert len(offline) == 2
    assert offline[1].startswith("'me/waves' cannot be pushed to the hub: ")


def test_a_push_needs_an_owner():
    assert "expected owner/name" in refusal(tiny(0).push_to_hub, "waves")
