"""Every protocol runs on a CPU with a tiny network, and records its data and schedule."""

import json

import numpy as np
import pytest
import torch
from bench_data import QUICK, TINY, tiny_encoder, waves, write_set

from nutime.bench import published
from nutime.bench.ablations import VARIANTS, Ablated, Pretraining, ablation_methods
from nutime.bench.methods import ANOMALOUS, AnomalyDetection, Clustering, FewShot, Finetune, Repeated
from nutime.bench.protocols import PROTOCOLS, Request, as_anomalies, load_anomalies, load_trials
from nutime.bench.recordings import load_recording, recording_names
from nutime.bench.report import build_report
from nutime.bench.results import ResultFile, filed_as
from nutime.bench.run import run
from nutime.bench.values import FORECAST_SETS
from nutime.data.archives import Dataset, find_set
from nutime.data.corpus.build import synthesize_corpus
from nutime.data.corpus.store import Corpus
from nutime.encoder import NuTime
from nutime.finetune import train as trainer
from nutime.pretrain.fitting import fit_to_corpus


@pytest.fixture(autouse=True)
def _quick_and_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "MIN_STEPS", 1)
    monkeypatch.delenv("NUTIME_DATA", raising=False)
    monkeypatch.setenv("NUTIME_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def encoder():
    return tiny_encoder()


@pytest.fixture
def dataset():
    return Dataset(*waves(24, 40, seed=0), *waves(60, 40, seed=1))


@pytest.fixture
def easy_folder(folder):
    write_set(folder, "Chinatown")
    return folder


def single(method, data):
    (answer,) = method.evaluate(data)
    assert answer.key in method.run_keys()
    json.dumps(answer.config)
    return answer


# ---- the list -------------------------------------------------------------------------------------------


def test_the_report_covers_every_protocol():
    assert {filed_as(name) for name in PROTOCOLS} == set(published.PROTOCOLS)


def test_every_list_names_known_sets():
    for protocol in PROTOCOLS.values():
        for names in protocol.lists.values():
            assert names or protocol.recordings
            known = [name if name in FORECAST_SETS else find_set(name).key for name in names]
            assert known == list(names)


@pytest.mark.parametrize("protocol", ["fewshot", "clustering", "anomaly", "impute", "forecast"])
@pytest.mark.parametrize("change", [{"selection": "paper"}, {"peers": ("MiniRocket",)}])
def test_what_a_protocol_cannot_do_is_refused(protocol, change):
    with pytest.raises(ValueError, match=r"no epoch is chosen|peers are classifiers"):
        PROTOCOLS[protocol].methods(Request(**change))


def test_a_frozen_encoder_has_no_epochs_to_choose():
    with pytest.raises(ValueError, match="probe: no epoch is chosen"):
        PROTOCOLS["probe"].methods(Request(selection="paper"))


def test_uea_has_frozen_encoders_beside_unless_epochs_are_chosen():
    for selection in ("honest", "paper"):
        methods = PROTOCOLS["uea"].methods(Request(weights=("nutime-small",), selection=selection, models=1))
        names = [key.method for method in methods for key in method.run_keys()]
        assert "nutime-small" in names
        assert ("nutime-small, not fine-tuned" in names) == (selection == "honest")


@pytest.mark.parametrize(
    ("protocol", "sets", "scores"),
    [
        ("clustering", "Chinatown", {"silhouette", "ari", "nmi"}),
        ("anomaly", "Chinatown", {"precision", "recall", "f1", "auroc", "balanced_accuracy"}),
        ("tfc", "Chinatown", {"accuracy", "macro_f1"}),
        ("uea", "Chinatown", {"accuracy", "macro_f1"}),
    ],
)
def test_a_protocol_runs_as_the_command_runs_it(protocol, sets, scores, easy_folder, encoder, tmp_path):
    weights = str(encoder.save(tmp_path / "nutime-tiny"))
    chosen = PROTOCOLS[protocol]
    file = ResultFile(tmp_path / "results.jsonl")
    methods = chosen.methods(Request(weights=(weights,), models=1))
    state = run(protocol, methods, [sets], file, data_dir=str(easy_folder), load=chosen.load)
    assert state.complete == (sets,)
    assert {result.key[2:] for result in file} == {tuple(name) for method in methods for name in method.run_keys()}
    assert all(result.scores.keys() == scores for result in file)


# ---- recordings -----------------------------------------------------------------------------------------


@pytest.fixture
def recordings(folder):
    """Write four recordings of either kind: a wave that becomes faster, a wave that stops for a while."""
    points = np.arange(1200)
    noise = 0.1 * np.random.default_rng(0).normal(size=points.shape)
    changed = np.sin(points * 2 * np.pi / np.where(points < 600, 50, 20)) + noise
    stopped = np.where((points >= 700) & (points < 760), 0, np.sin(points * 2 * np.pi / 50)) + noise
    for kind in ("segmentation", "anomaly"):
        (folder / "recordings" / kind).mkdir(parents=True)
    for name in "abcd":
        np.savez(folder / f"recordings/segmentation/{name}.npz", value=changed, change_points=[600])
        label = (points >= 700) & (points < 760)
        np.savez(folder / f"recordings/anomaly/{name}.npz", value=stopped, label=label.astype(int))
    rows = "".join(f"{name},0.5,0.25\n" for name in "abcd")
    for known in ("known", "unknown"):
        path = folder / f"recordings/segmentation/published_covering_{known}.csv"
        path.write_text(f"dataset,PELT,ClaSP\n{rows}")
    rows = "".join(f"{name}.csv,0.5,1200\n" for name in "abcd")
    (folder / "recordings/anomaly/published_vus_pr.csv").write_text(f"file,POLY,ts_len\n{rows}")
    return folder


@pytest.mark.parametrize(
    ("protocol", "best", "rival"), [("segmentation", "covering", "ClaSP"), ("localisation", "vus_pr", "POLY")]
)
def test_recordings_are_run_and_reported_beside_published_results(
    protocol, best, rival, recordings, encoder, tmp_path
):
    chosen = PROTOCOLS[protocol]
    file = ResultFile(tmp_path / "results.jsonl")
    methods = chosen.methods(Request(weights=(str(encoder.save(tmp_path / "nutime-tiny")),)))
    names = chosen.sets("all", str(recordings))
    assert len(names) == 4
    state = run(protocol, methods, names[1:3], file, data_dir=str(recordings), load=chosen.load)
    assert (state.complete, state.missing) == (names[1:3], {})
    assert [result.config["half"] for result in file if result.method == "raw windows"] == ["first", "second"]
    raw = [result.scores[best] for result in file if result.method == "raw windows"]
    assert min(raw) > 0.5
    page = build_report(list(file)).markdown()
    assert f"| {rival} (published) |" in page
    assert "chosen on the first half" in page
    assert "| all 2 | first half, 1 | second half, 1 |" in page


def test_a_recording_that_is_not_there_is_missing_and_so_is_a_folder(recordings, folder, tmp_path):
    with pytest.raises(ValueError, match="recordings/anomaly/z: no such recording"):
        load_recording("recordings/anomaly/z", data_dir=str(folder))
    with pytest.raises(ValueError, match="no recordings/anomaly"):
        recording_names("anomaly", str(tmp_path))


# ---- TF-C -----------------------------------------------------------------------------------------------


def test_every_seed_draws_a_stratified_split_of_emg(folder):
    X, y = waves(204, 1500, classes=3)
    write_set(folder, "EMG", X=X, y=y)
    trials = load_trials("EMG", data_dir=str(folder))
    one, again, other = (trials.split(seed) for seed in (0, 0, 1))
    assert (len(one.X_train), len(one.X_test)) == (122, 41)
    np.testing.assert_array_equal(one.X_test, again.X_test)
    assert not np.array_equal(one.X_test, other.X_test)
    assert not {row.tobytes() for row in one.X_train} & {row.tobytes() for row in one.X_test}
    assert trials.about == {"split": "122/41/41 drawn by seed, official order unknown"}


def test_epilepsy_without_its_official_test_uses_another_less_the_repeats_and_says_so(folder):
    rng = np.random.default_rng(0)
    train, test = (rng.normal(size=(n, 178)).cumsum(1).astype(np.float32) for n in (60, 30))
    test[3], test[7] = train[5], 2 * train[9] + 1
    labels = {"y_train": np.arange(60) % 2, "y_tstcc_test": np.arange(30) % 2}
    write_set(folder, "tfc/Epilepsy", X_train=train, X_tstcc_test=test, **labels)
    trials = load_trials("tfc/Epilepsy", data_dir=str(folder))
    data = trials.split(0)
    np.testing.assert_array_equal(data.X_test, np.delete(test, [3, 7], axis=0))
    assert trials.about["test"].startswith("28 series of TS-TCC's, 2 repeats of training series dropped")


def test_epilepsy_without_any_test_is_missing(folder, tmp_path):
    train, y = waves(60, 178)
    write_set(folder, "tfc/Epilepsy", X_train=train, y_train=y)
    unused = Repeated(Finetune("nutime-tiny", None, n_estimators=1), 1)
    file = ResultFile(tmp_path / "results.jsonl")
    state = run("tfc", [unused], ["tfc/Epilepsy", "FD-B"], file, data_dir=str(folder), load=load_trials)
    assert state.complete == ()
    assert "no test split" in state.missing["tfc/Epilepsy"]
    assert "not found" in state.missing["FD-B"]


def test_the_official_test_is_used_where_it_is(folder):
    write_set(folder, "Gesture")
    trials = load_trials("Gesture", data_dir=str(folder))
    assert trials.about == {}
    assert trials.split(0).X_test.shape[:2] == (120, 3)


def test_repeated_runs_have_a_seed_each_and_record_their_split(folder, encoder):
    X, y = waves(204, 1500, classes=3)
    write_set(folder, "EMG", X=X, y=y)

    method = Repeated(Finetune("nutime-tiny", encoder, n_estimators=1, params={**QUICK, "epochs": 2}), 2)
    answers = list(method.evaluate(load_trials("EMG", data_dir=str(folder))))
    assert [answer.key for answer in answers] == method.run_keys()
    assert [answer.key.seed for answer in answers] == [0, 1]
    assert all("official order unknown" in answer.config["split"] for answer in answers)


# ---- few shots ------------------------------------------------------------------------------------------


def test_few_shot_returns_the_mean_over_its_episodes(encoder, dataset):
    answer = single(FewShot("nutime-tiny", encoder, episodes=3, params={**QUICK, "epochs": 20}), dataset)
    assert answer.scores["accuracy"] > 0.9
    assert answer.scores["accuracy_deviation"] >= 0
    assert (answer.config["shots"], answer.config["episodes"]) == (5, 3)


# ---- clusters and anomalies -----------------------------------------------------------------------------


def test_fine_tuning_makes_clusters_of_classes(encoder, dataset):
    frozen = single(Clustering("nutime-tiny", encoder, finetuned=False), dataset)
    tuned = single(Clustering("nutime-tiny", encoder, params={**QUICK, "epochs": 30}), dataset)
    assert frozen.key.method == "nutime-tiny, not fine-tuned"
    assert tuned.key.method == "nutime-tiny"
    assert tuned.scores["ari"] > 0.9
    assert tuned.scores["ari"] >= frozen.scores["ari"]


def test_clustering_leaves_the_encoder_as_it_was(encoder, dataset):
    before = encoder.embed(dataset.X_test)
    single(Clustering("nutime-tiny", encoder, params=QUICK), dataset)
    np.testing.assert_array_equal(encoder.embed(dataset.X_test), before)


def test_several_channels_can_be_clustered_after_fine_tuning(encoder):
    data = Dataset(*waves(24, 40, channels=3), *waves(40, 40, channels=3, seed=1))
    assert single(Clustering("nutime-tiny", encoder, params={**QUICK, "epochs": 30}), data).scores["ari"] > 0.8


def test_ten_percent_of_the_test_series_are_anomalous(easy_folder):
    trials = load_anomalies("Chinatown", data_dir=str(easy_folder))
    one, other = trials.split(0), trials.split(1)
    for data in (one, other):
        assert len(data.y_test) == 190  # of 343 series, 172 are normal: 171 of them and 19 others
        assert (data.y_test == ANOMALOUS).sum() == 19
    assert not np.array_equal(one.X_test, other.X_test)
    assert trials.about == {"normal": "0", "test": "171 normal and 19 other series, drawn by seed"}


def two_to_one(n):
    return np.where(np.arange(n) % 3 == 0, "0", "1")


@pytest.mark.parametrize(("key", "normal"), [("Chinatown", "1"), ("FD-B", "0")])
def test_the_most_frequent_class_is_normal_but_on_fdb_the_undamaged_bearings_are(key, normal):
    X = waves(60, 24)[0]
    trials = as_anomalies(key, Dataset(X, two_to_one(60), X, two_to_one(60)))
    assert trials.about["normal"] == normal


def test_a_set_with_too_few_normal_series_is_missing(folder):
    splits = {"X_train": waves(20, 24)[0], "X_test": waves(343, 24)[0]}
    labels = {"y_train": np.repeat(["0", "1"], [15, 5]), "y_test": np.repeat(["0", "1"], [5, 338])}
    write_set(folder, "Chinatown", **splits, **labels)
    with pytest.raises(
        ValueError, match="Chinatown: 5 normal and 338 other test series; expected at least 9 and 1"
    ):
        load_anomalies("Chinatown", data_dir=str(folder))


def test_series_not_labelled_normal_or_anomalous_are_refused(encoder, dataset):
    with pytest.raises(ValueError, match="expected normal and anomalous series"):
        single(AnomalyDetection("nutime-tiny", encoder, finetuned=False), dataset)


def test_anomalies_are_found_after_fine_tuning(encoder, easy_folder):
    data = load_anomalies("Chinatown", data_dir=str(easy_folder)).split(0)
    answer = single(AnomalyDetection("nutime-tiny", encoder, params={**QUICK, "epochs": 30}), data)
    assert answer.scores["auroc"] > 0.9
    assert 0.5 <= answer.scores["balanced_accuracy"] <= 1


# ---- ablations ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return synthesize_corpus(120, tmp_path_factory.mktemp("corpus") / "synthetic", length=64).path


@pytest.fixture
def pretraining(corpus, tmp_path):
    return Pretraining(tmp_path / "encoders", corpus, steps=3, batch=8, device="cpu")


def test_variants_have_the_names_of_the_published_tables():
    for protocol, tables in published.ABLATIONS.items():
        for table in tables:
            for variants in published.scores(table).values():
                assert set(variants) <= set(VARIANTS[protocol])


def test_an_ablation_without_a_corpus_is_refused():
    with pytest.raises(ValueError, match="ablation-window: pretrains its variants; name a corpus folder"):
        PROTOCOLS["ablation-window"].methods(Request())


@pytest.mark.parametrize("variant", VARIANTS["ablation-encoding"])
def test_every_encoding_is_pretrained_and_fine_tuned_and_trained_from_scratch(variant, pretraining, dataset):
    network = TINY.replace(**VARIANTS["ablation-encoding"][variant])
    for scratch, label in ((False, variant), (True, f"{variant}, from scratch")):
        method = Ablated(variant, network, pretraining, scratch, runs=1 + scratch, params={**QUICK, "epochs": 1})
        answers = list(method.evaluate(dataset))
        assert [answer.key for answer in answers] == method.run_keys()
        assert {answer.key.method for answer in answers} == {label}
        assert all(answer.scores.keys() == {"accuracy", "macro_f1"} for answer in answers)
        stated = json.loads(json.dumps(answers[0].config))
        assert stated["network"]["scalar_embedding"] == network.scalar_embedding
        assert ("pretraining" in stated) != scratch
    assert not list(pretraining.folder.glob("*/checkpoints"))


def test_a_result_states_the_reduced_schedule(pretraining, dataset):
    method = Ablated("NME", TINY, pretraining, runs=1, params={**QUICK, "epochs": 1})
    stated = single(method, dataset).config["pretraining"]
    assert stated == {"steps": 3, "batch": 8, "learning_rate": 2e-3 * 8 / 2048, "series": 120}


def test_a_variant_is_pretrained_once_for_all_sets_and_all_tables(pretraining):
    first = pretraining.encoder(TINY, pretraining.corpus)
    (run_folder,) = pretraining.folder.glob("encoder-*")
    written = (run_folder / "model" / "model.safetensors").stat().st_mtime_ns
    again = pretraining.encoder(TINY.replace(), pretraining.corpus)
    assert (run_folder / "model" / "model.safetensors").stat().st_mtime_ns == written
    assert all((a == b).all() for a, b in zip(first.parameters(), again.parameters(), strict=True))


def test_another_schedule_or_network_is_another_encoder(pretraining, corpus, tmp_path):
    longer = Pretraining(tmp_path / "encoders", corpus, steps=4, batch=8, device="cpu")
    pretraining.encoder(TINY, corpus)
    longer.encoder(TINY, corpus)
    pretraining.encoder(TINY.replace(scales=1), corpus)
    assert len(list(pretraining.folder.glob("encoder-*"))) == 3


def test_each_set_alone_is_pretrained_on_its_own_training_series(pretraining, dataset):
    method = Ablated("each set alone", TINY, pretraining, runs=1, params={**QUICK, "epochs": 1})
    other = dataset._replace(X_train=dataset.X_train + 1)
    configs = [single(method, data).config["pretraining"]["series"] for data in (dataset, other, dataset)]
    assert configs == ["training series of the set"] * 3
    assert len(list(pretraining.folder.glob("encoder-*"))) == 2


def test_bins_fitted_to_the_corpus_stay_in_the_pretrained_encoder(pretraining, corpus):
    network = TINY.replace(scalar_embedding="ple-q")
    expected = NuTime(network)
    fit_to_corpus(expected, Corpus.open(corpus))
    pretrained = pretraining.encoder(network, corpus)
    for ours, theirs in zip(pretrained.tokens.scalar_embeddings, expected.tokens.scalar_embeddings, strict=True):
        torch.testing.assert_close(ours.edges, theirs.edges)


def test_paper_ablations_from_scratch_are_run_and_no_others(pretraining):
    count = {
        name: len(ablation_methods(name, TINY.replace(length=128), pretraining, "honest", 1)) for name in VARIANTS
    }
    assert count == {
        "ablation-encoding": 16,
        "ablation-scales": 12,
        "ablation-window": 6,
        "ablation-dim": 6,
        "ablation-weighting": 20,
        "ablation-corpus": 2,
    }
