"""The service in a real process on a free port. Tests share processes, which take seconds to start."""

import json
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from running import TINY, serving, stream_of, walks

from nutime import NuTime, NuTimeClassifier, NuTimeClusterer, NuTimeDetector, NuTimeRegressor
from nutime.data.series import SeriesSet

ARROW = "application/vnd.apache.arrow.stream"
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "serve_load.py"


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    return NuTime(TINY)


@pytest.fixture(scope="module")
def embedding(encoder, tmp_path_factory):
    """Return a client of a service that embeds, with small limits."""
    folder = encoder.save(tmp_path_factory.mktemp("encoder"))
    with serving(folder, "--max-body", 200_000, "--max-series", 50, "--max-length", 1000) as (client, _):
        yield client


@pytest.fixture(scope="module")
def fitted(encoder):
    """Return one model of each kind, by name; the channels of "wear" have names."""
    X, y = walks(20), ["a", "b"] * 10
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nutime.finetune.train.MIN_STEPS", 5)
        finetuned = NuTimeClassifier("finetune", encoder, random_state=0, epochs=5).fit(X, y)
    named = SeriesSet(list(two_channels()), channel_names=["vibration", "temperature [C]"])
    return {
        "probe": NuTimeClassifier(encoder=encoder).fit(X, y),
        "finetune": finetuned,
        "detector": NuTimeDetector(encoder=encoder).fit(X),
        "regressor": NuTimeRegressor(encoder=encoder).fit(X, X.mean(axis=1)),
        "clusterer": NuTimeClusterer(2, encoder, random_state=0).fit(X),
        "wear": NuTimeClassifier(encoder=encoder).fit(named, ["ok", "worn"] * 8),
        "table": NuTimeClassifier(encoder=encoder).fit(pd.DataFrame(X).add_prefix("t"), y),
        "vectors": encoder,
    }


@pytest.fixture(scope="module")
def models(fitted, tmp_path_factory):
    """Return a client of one service with all fitted models."""
    folder = tmp_path_factory.mktemp("models")
    with serving(*(f"{name}={model.save(folder / name)}" for name, model in fitted.items())) as (client, _):
        yield client


def two_channels():
    return np.stack([walks(16, seed=0), walks(16, seed=1) * 30], axis=1)


def post_arrow(client, body, path="/embed"):
    return client.post(path, content=body, headers={"content-type": ARROW})


def assert_refused(response, status, words=""):
    assert response.status_code == status, response.text
    detail = response.json()["detail"]
    assert "\n" not in detail
    assert words in detail


# ---- responses ----------------------------------------------------------------------------------------


def test_json_series_are_embedded_as_the_encoder_does(embedding, encoder):
    X = walks()
    result = embedding.post("/embed", json={"series": X.tolist()}).json()
    np.testing.assert_array_equal(np.array(result["e"], np.float32), encoder.embed(X))


def test_series_may_differ_in_length_and_miss_values(embedding, encoder):
    given = [[1.0, None, 3.0, 2.0], [4, 5], [None, 1.5, 2.5]]
    result = embedding.post("/embed", json={"series": given}).json()
    expected = encoder.embed([np.array(values, dtype=float) for values in given])
    np.testing.assert_array_equal(np.array(result["e"], np.float32), expected)


def test_the_response_to_an_arrow_stream_is_one_and_keeps_its_ids(embedding, encoder):
    X = walks().astype(np.float32)
    table = pa.table({"id": [f"s{i}" for i in range(12)], "values": list(X)})
    response = post_arrow(embedding, stream_of(table))
    assert response.headers["content-type"] == ARROW
    result = pa.ipc.open_stream(response.content).read_all()
    assert result["id"].to_pylist() == table["id"].to_pylist()
    np.testing.assert_array_equal(np.array(result["e"].to_pylist(), np.float32), encoder.embed(X))


@pytest.mark.parametrize(
    ("name", "endpoint", "columns"),
    [("probe", "predict", {"predicted", "p_a", "p_b"}), ("detector", "detect", {"score", "is_anomaly"})],
)
def test_every_estimator_has_its_own_endpoint(models, name, endpoint, columns):
    path, body = f"/models/{name}/{endpoint}", {"series": walks(20).tolist()}
    assert models.get("/health").json()["models"][name]["answers"] == path
    result = models.post(path, json=body).json()
    assert result.keys() == columns
    assert {len(column) for column in result.values()} == {20}
    assert_refused(models.post(path, json={"series": [[[1, 2], [3, 4]]]}), 422, "2 channel(s)")
    assert models.post(f"/models/{name}/embed", json=body).status_code == 404


def test_a_regressor_predicts_numbers(models, fitted):
    X = walks(20)
    result = models.post("/models/regressor/predict", json={"series": X.tolist()}).json()
    np.testing.assert_allclose(result["predicted"], fitted["regressor"].predict(X))


def test_a_clusterer_predicts_clusters(models, fitted):
    X = walks(20)
    result = models.post("/models/clusterer/predict", json={"series": X.tolist()}).json()
    assert result == {"cluster": fitted["clusterer"].predict(X).tolist()}


def test_concurrent_clients_share_batches_and_each_gets_its_own_results(embedding, encoder):
    def batches():
        lines = embedding.get("/metrics").text.splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("nutime_batches_total"))

    before = batches()
    series = [walks(1 + seed % 3, 20 + seed, seed) for seed in range(48)]
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda X: embedding.post("/embed", json={"series": X.tolist()}).json(), series))
    for X, result in zip(series, results, strict=True):
        np.testing.assert_array_equal(np.array(result["e"], np.float32), encoder.embed(X))
    assert batches() - before < 48


@pytest.mark.parametrize("strategy", ["probe", "finetune"])
def test_a_classifier_predicts_the_same_for_concurrent_and_serial_requests(models, fitted, strategy):
    series = [walks(1 + seed % 3, 20 + seed, seed) for seed in range(32)]
    bodies = [{"series": values.tolist()} for values in series]
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda body: models.post(f"/models/{strategy}/predict", json=body).json(), bodies))
    for values, result in zip(series, results, strict=True):
        expected = fitted[strategy].predict_proba(list(values))
        np.testing.assert_allclose(np.array([result["p_a"], result["p_b"]]).T, expected, rtol=0, atol=1e-6)


# ---- names of channels --------------------------------------------------------------------------------


def probabilities(result):
    return np.array([result["p_ok"], result["p_worn"]]).T


def test_channels_in_another_order_are_put_in_order(models, fitted):
    X = two_channels()
    body = {"series": X[:, ::-1].tolist(), "channels": ["temperature [C]", "vibration"]}
    result = models.post("/models/wear/predict", json=body).json()
    np.testing.assert_allclose(probabilities(result), fitted["wear"].predict_proba(X), atol=1e-9)
    unnamed = models.post("/models/wear/predict", json={"series": X.tolist()}).json()
    assert unnamed == result


def test_columns_of_an_arrow_stream_are_put_in_order(models, fitted):
    X = two_channels()
    table = pa.table({"temperature [C]": list(X[:, 1]), "vibration": list(X[:, 0])})
    result = pa.ipc.open_stream(post_arrow(models, stream_of(table), "/models/wear/predict").content).read_all()
    np.testing.assert_allclose(probabilities(result.to_pydict()), fitted["wear"].predict_proba(X), atol=1e-9)


def test_points_of_an_arrow_stream_are_put_in_the_order_of_the_model(models, fitted):
    frame = pd.DataFrame(walks(5)).add_prefix("t")
    frame.iloc[0, :3] = np.nan
    turned = pa.Table.from_pandas(frame[frame.columns[::-1]], preserve_index=False)
    answer = post_arrow(models, stream_of(turned), "/models/table/predict").content
    found = pa.ipc.open_stream(answer).read_all().to_pydict()
    expected = fitted["table"].predict_proba(frame)
    np.testing.assert_allclose(np.array([found["p_a"], found["p_b"]]).T, expected, atol=1e-9)
    other = post_arrow(
        models, stream_of(turned.rename_columns(["x", *turned.column_names[1:]])), "/models/table/predict"
    )
    assert (other.status_code, "unexpected 'x'" in other.text) == (422, True)


@pytest.mark.parametrize(
    ("channels", "words"),
    [
        (["vibration", "pressure"], "pressure"),
        (["vibration"], "1 names for 2 channel(s)"),
        (["vibration", "vibration"], "different names"),
        (["vibration", 3], "different names"),
        ("vibration", "different names"),
        (None, "different names"),
    ],
    ids=str,
)
def test_other_names_are_refused_and_the_difference_is_named(models, channels, words):
    body = {"series": two_channels().tolist(), "channels": channels}
    assert_refused(models.post("/models/wear/predict", json=body), 422, words)


def test_a_channel_too_many_is_named(models):
    series = np.concatenate([two_channels(), two_channels()[:, :1]], axis=1).tolist()
    body = {"series": series, "channels": ["vibration", "temperature [C]", "pressure"]}
    assert_refused(models.post("/models/wear/predict", json=body), 422, "unexpected 'pressure'")


def test_text_among_the_values_is_refused_also_beside_names(models):
    body = b'{"series": [[["1"], [2]]], "channels": ["vibration", "temperature [C]"]}'
    response = models.post("/models/wear/predict", content=body, headers={"content-type": "application/json"})
    assert_refused(response, 422, "numbers and null only")


def test_true_and_false_are_no_numbers(models):
    response = models.post("/models/wear/predict", json={"series": [[[1.0, True], [2.0, 3.0]]]})
    assert_refused(response, 422, "numbers and null only")


# ---- several models -----------------------------------------------------------------------------------


def test_several_models_in_one_process_have_their_own_paths(models, encoder):
    X = two_channels()
    result = models.post("/models/vectors/embed", json={"series": X[:, 0].tolist()}).json()
    np.testing.assert_array_equal(np.array(result["e"], np.float32), encoder.embed(X[:, 0]))
    assert models.post("/predict", json={"series": X.tolist()}).status_code == 404
    assert models.post("/models/other/predict", json={"series": X.tolist()}).status_code == 404
    about = models.get("/health").json()["models"]
    assert about["wear"]["answers"] == "/models/wear/predict"
    assert about["wear"]["channel_names"] == ["vibration", "temperature [C]"]
    assert about["vectors"]["model"] == "NuTime"
    assert models.get("/ready").json()["status"] == "ready"
    assert "/models/wear/predict" in models.get("/docs").text


@pytest.mark.parametrize("models", [["a", "b"], ["a=x", "a=y"], ["a=x", "../b=y"], ["a="]], ids=" ".join)
def test_several_models_need_different_names(nutime, models):
    done = nutime("serve", *models)
    assert done.code == 2
    assert "different names" in done.err


# ---- refusals -----------------------------------------------------------------------------------------

BAD_JSON = {
    "no JSON": (b"{", 400),
    "no UTF-8": (b"\xff\xfe\xfa", 400),
    "nested without end": (b"[" * 50_000, 422),
    "nested deeply": (b'{"series": ' + b"[" * 90 + b"]" * 90 + b"}", 422),
    "a list": (b"[[1, 2]]", 422),
    "an unknown name": (b'{"series": [[1]], "pool": "cls"}', 422),
    "no series": (b'{"series": []}', 422),
    "an empty series": (b'{"series": [[]]}', 422),
    "only missing values": (b'{"series": [[NaN, null]]}', 422),
    "infinity": (b'{"series": [[1, Infinity]]}', 422),
    "text": (b'{"series": [["1", "2"]]}', 422),
    "text among numbers": (b'{"series": [[1, null, "2"]]}', 422),
    "a number beyond all": (b'{"series": [[' + b"9" * 400 + b"]]}", 422),
    "channels of unequal length": (b'{"series": [[[1, 2], [3]]]}', 422),
    "unequal channels": (b'{"series": [[1, 2], [[1], [2]]]}', 422),
    "an object for a series": (b'{"series": [{}]}', 422),
    "too many series": (json.dumps({"series": [[1]] * 51}).encode(), 422),
    "too many channels": (json.dumps({"series": [[[1]] * 51]}).encode(), 422),
    "too long a series": (json.dumps({"series": [[1] * 1001]}).encode(), 422),
}


@pytest.mark.parametrize(("body", "status"), BAD_JSON.values(), ids=BAD_JSON)
def test_a_bad_json_body_is_refused_in_one_line(embedding, body, status):
    assert_refused(embedding.post("/embed", content=body, headers={"content-type": "application/json"}), status)


BAD_ARROW = {
    "no Arrow": (b"not arrow", 400),
    "nothing": (b"", 400),
    "a stream cut short": (stream_of(pa.table({"values": [[1.0, 2.0]] * 30}))[:-200], 400),
    "compressed": (stream_of(pa.table({"values": [[0.0] * 900] * 40}), compression="zstd"), 400),
    "a compressed dictionary": (
        stream_of(pa.table({"id": pa.array(["a" * 900] * 9).dictionary_encode()}), compression="lz4"),
        400,
    ),
    "text for values": (stream_of(pa.table({"values": ["a"]})), 422),
    "no rows": (stream_of(pa.table({"values": pa.array([], pa.list_(pa.float32()))})), 422),
    "infinity": (stream_of(pa.table({"values": [[1.0, float("inf")]]})), 422),
    "too many series": (stream_of(pa.table({"values": [[1.0]] * 51})), 422),
    "dictionaries": (stream_of(pa.table({"label": pa.array(["a"]).dictionary_encode(), "x": [1.0]})), 400),
    "rows without bytes": (stream_of(pa.table({"label": pa.nulls(10**9), "y": pa.nulls(10**9)})), 422),
}


@pytest.mark.parametrize(("body", "status"), BAD_ARROW.values(), ids=BAD_ARROW)
def test_a_bad_arrow_body_is_refused_in_one_line(embedding, body, status):
    assert_refused(post_arrow(embedding, body), status)


def test_randomly_changed_arrow_bytes_never_end_the_service(embedding):
    body = stream_of(pa.table({"id": ["a", "b"], "values": [[1.0, 2.0, 3.0], [4.0]]}))
    rng = np.random.default_rng(0)
    for _ in range(60):
        changed = bytearray(body)
        for place in rng.integers(0, len(body), 3):
            changed[place] = rng.integers(0, 256)
        assert post_arrow(embedding, bytes(changed)).status_code in (200, 400, 422)
    assert embedding.get("/health").status_code == 200


def test_another_content_type_is_refused(embedding):
    assert_refused(embedding.post("/embed", content=b"1,2", headers={"content-type": "text/csv"}), 415)


@pytest.mark.parametrize("announced", [True, False])
def test_too_large_a_body_is_refused(embedding, announced):
    body = b" " * 300_000
    content = body if announced else (body[start : start + 10_000] for start in range(0, len(body), 10_000))
    response = embedding.post("/embed", content=content, headers={"content-type": "application/json"})
    assert_refused(response, 413)


# ---- pressure, time and the end -----------------------------------------------------------------------


def test_time_is_limited_for_bodies_and_for_responses(encoder, tmp_path):
    with serving(encoder.save(tmp_path / "e"), "--timeout", 0.4, "--batch-wait", 2) as (client, _):
        assert_refused(client.post("/embed", json={"series": [[1, 2]]}), 503, "no response")
        with socket.create_connection((client.base_url.host, client.base_url.port)) as slow:
            slow.sendall(b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n")
            slow.sendall(b"content-length: 9\r\n\r\n{")
            assert b" 408 " in slow.recv(200)
        assert client.get("/health").status_code == 200


def test_a_request_beyond_the_limit_gets_retry_after_and_sigterm_lets_waiting_ones_finish(encoder, tmp_path):
    body = {"series": [[1, 2, 3]]}
    limits = ("--max-requests", 2, "--batch-wait", 1)
    with serving(encoder.save(tmp_path / "e"), *limits) as (client, process), ThreadPoolExecutor(2) as pool:

        def two_waiting():
            requests = [pool.submit(client.post, "/embed", json=body) for _ in range(2)]
            while "nutime_waiting_series 2" not in client.get("/metrics").text:
                time.sleep(0.02)
            return requests

        first = two_waiting()
        refused = client.post("/embed", json=body)
        assert_refused(refused, 429)
        assert int(refused.headers["retry-after"]) >= 1
        assert [request.result().status_code for request in first] == [200, 200]
        second = two_waiting()
        process.send_signal(signal.SIGTERM)
        assert [request.result().status_code for request in second] == [200, 200]
        assert process.wait(10) == 0


def test_a_port_that_is_taken_is_named(nutime, encoder, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = nutime("serve", encoder.save(tmp_path / "e"), "--port", port)
    assert done.code == 1
    assert f"127.0.0.1 port {port}: Address already in use" in done.err


def test_a_body_is_sent_without_waiting_for_the_acknowledgement_of_its_headers(
    nutime, encoder, tmp_path, monkeypatch
):
    def accept_one(self, sockets):
        (listener,) = sockets
        with listener, socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    monkeypatch.setattr("uvicorn.Server.run", accept_one)
    assert nutime("serve", encoder.save(tmp_path / "e"), "--port", 0).code == 0


# ---- operators ----------------------------------------------------------------------------------------


def test_the_interface_describes_itself(embedding):
    document = embedding.get("/openapi.json").json()
    assert set(document["paths"]) == {"/", "/docs", "/embed", "/health", "/metrics", "/ready"}
    assert set(document["paths"]["/embed"]["post"]["requestBody"]["content"]) == {"application/json", ARROW}


def test_metrics_are_lines_of_names_and_numbers_and_count_requests(embedding):
    def requests():
        lines = embedding.get("/metrics").text.splitlines()
        values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        assert float(values['nutime_request_seconds_bucket{le="+Inf"}']) == float(
            values["nutime_request_seconds_count"]
        )
        return float(values["nutime_request_seconds_count"])

    before = requests()
    embedding.post("/embed", json={"series": [[1, 2]]})
    embedding.post("/embed", content=b"")
    assert requests() == before + 2


@pytest.mark.slow
def test_no_generated_request_is_a_server_error(embedding):
    schemathesis = pytest.importorskip("schemathesis")
    document = embedding.base_url.join("/openapi.json")
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", str(document)]
    command += ["--checks", "not_a_server_error,response_schema_conformance", "--max-examples", "100"]
    assert schemathesis.__version__
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
def test_the_load_benchmark_prints_its_figures():
    command = [sys.executable, BENCHMARK, "--seconds", "3", "--clients", "8"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert (figures["errors"], figures["different"]) == (0, 0)
    assert figures["p99_ms"] > 0
