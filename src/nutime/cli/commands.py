"""``nutime embed``, ``fit``, ``predict``, ``cluster`` and ``detect``: from series to results.

All commands read a stream of chunks (:mod:`nutime.batch.source`) and write results chunk by chunk. Outputs, paths
and columns are checked before the model is loaded. ``fit``, ``cluster`` and ``detect`` without a reference need
all series and collect the stream.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nutime.cli.options import (
    INPUT_HELP,
    SHIPPED,
    AsJson,
    Device,
    Engine,
    EngineOption,
    Force,
    Gpus,
    Input,
    Length,
    Output,
    Pool,
    RayAddress,
    Save,
    Weights,
    Workers,
    reads_series,
)
from nutime.cli.progress import progress_bars
from nutime.cli.shared import check_model, check_outputs, check_target, errors_about, load_encoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nutime import NuTimeClassifier, NuTimeRegressor
    from nutime.batch.results import Results
    from nutime.batch.source import Chunk, Extent, Source, SourceOptions
    from nutime.cli import summaries
    from nutime.data.series import SeriesSet

FOLDS = 5
HOLDOUT = 0.2
AUTO = "auto"  # the encoder that suits the strategy
OWN_LABELS = "label"  # the --target of files whose labels are not a column


class Strategy(StrEnum):
    """How a classifier is trained."""

    PROBE = "probe"
    FINETUNE = "finetune"


class ClassWeight(StrEnum):
    """How classes are weighted."""

    BALANCED = "balanced"


@reads_series
def embed(
    source: Input,
    out: Output,
    read: SourceOptions,
    pool: Annotated[Pool, typer.Option(help="How tokens become a vector.")] = Pool.BOTH,
    length: Length = None,
    weights: Weights = SHIPPED,
    engine: EngineOption = Engine.LOCAL,
    workers: Workers = None,
    gpus: Gpus = None,
    address: RayAddress = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Turn every series into a vector: columns e0, e1, … beside its id and label.

    Example: `nutime embed series.csv -o embeddings.parquet`
    """
    from nutime.batch.source import Source
    from nutime.cli import summaries

    check_outputs(out, as_json, read, source)
    ray = _ray_options(engine, workers, gpus, address, device, source, out)
    series = Source(source, read)
    first, chunks = series.opened()
    encoder = load_encoder(weights, device)

    from nutime import NuTimeEmbedder

    with errors_about(source):
        embedder = NuTimeEmbedder(encoder, pool=pool.value, length=length or "auto").fit(first.named_series)
    document, page = _apply(embedder, series, chunks, out, ray)
    summaries.show({**document, "pool": embedder.reading_.name}, page, as_json, out)


@reads_series
def fit(
    source: Annotated[str, typer.Argument(metavar="TRAIN", help=f"Labelled series: {INPUT_HELP}.")],
    out: Annotated[str, typer.Option("--out", "-o", metavar="MODEL_DIR", help="Folder of the model.")],
    read: SourceOptions,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Predict numbers: name or position of their column; label for the labels of other files.",
        ),
    ] = None,
    strategy: Annotated[
        Strategy, typer.Option(help="Train a linear model on the frozen encoder, or the whole network.")
    ] = Strategy.PROBE,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="For finetune: passes over the series (60; fewer if many).")
    ] = None,
    n_estimators: Annotated[
        int | None, typer.Option(min=1, help="For finetune: models to average (1; 5 with --target).")
    ] = None,
    class_weight: Annotated[ClassWeight | None, typer.Option(help="balanced: every class counts alike.")] = None,
    holdout: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Validate on this share of every class.")
    ] = None,
    folds: Annotated[int | None, typer.Option(min=2, metavar="K", help="Validate by cross-validation.")] = None,
    length: Length = None,
    weights: Annotated[
        str,
        typer.Option(
            metavar="NAME|FOLDER",
            help="Encoder: a shipped one, or a folder; auto: nutime-small for probe, nutime-base for finetune.",
        ),
    ] = AUTO,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same model and validation.")] = 0,
    force: Force = False,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Train a classifier or, with --target, a regressor, and validate it: by 5-fold cross-validation, or for
    finetune on 20 % held out.

    The model that is saved is trained on all labelled series. Of a set with a training and a test part, only the
    training part is read.

    Example: `nutime fit train.csv -o model`
    """
    if strategy == Strategy.PROBE and (epochs or n_estimators):
        raise typer.BadParameter("only --strategy finetune has them", param_hint="--epochs, --n-estimators")
    if holdout is not None and folds is not None:
        raise typer.BadParameter("choose one of them", param_hint="--holdout, --folds")
    if holdout is not None and not 0 < holdout < 1:
        raise typer.BadParameter("must be between 0 and 1", param_hint="--holdout")
    if target is not None and read.get("label_column") is not None:
        raise typer.BadParameter("choose one of them", param_hint="--label, --target")
    if target is not None and class_weight is not None:
        raise typer.BadParameter("numbers have no classes", param_hint="--class-weight, --target")
    if target not in (None, OWN_LABELS):
        read = {**read, "label_column": target}

    from nutime.batch.results import check_folder
    from nutime.batch.source import Extent, Source
    from nutime.data.names import odd_points, quoted

    check_folder(out, force)
    first, chunks = Source(source, read, "train").opened()
    if "label" not in first.columns:
        raise ValueError(f"{source}: has no labels; name their column with --label, or with --target for numbers")
    if odd := odd_points(first.data.feature_names or []):
        logging.getLogger("nutime").warning(
            f"{source}: {quoted(odd)} read as values of the series, like the numbered columns; "
            "remove the columns that are not"
        )
    from nutime.estimators.supervised import default_weights

    encoder = load_encoder(default_weights(strategy.value) if weights == AUTO else weights, device)
    labels: NDArray[Any]
    training_set, labels, unlabelled = _labelled(chunks)
    series = training_set.series

    import numpy as np

    from nutime import NuTimeClassifier, NuTimeRegressor
    from nutime.cli import summaries
    from nutime.estimators.base import EmbeddedSeries
    from nutime.evaluate import deal_folds, hold_out, validate

    if strategy == Strategy.FINETUNE and folds is None and holdout is None:
        holdout = HOLDOUT
    if target is not None:
        with errors_about(source):
            labels = summaries.as_numbers(labels)
    strata: NDArray[Any] = labels if target is None else np.zeros(len(labels))
    if holdout is not None:
        parts, method = hold_out(strata, holdout, seed), {"holdout": holdout}
    else:
        parts = deal_folds(strata, folds or FOLDS, seed)
        method = {"folds": int(parts.max()) + 1}
    options = {"length": length, "epochs": epochs, "n_estimators": n_estimators, "class_weight": class_weight}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    with progress_bars() as new_bar, errors_about(source):
        embedding, training, fitting = new_bar("embedding", len(series)), new_bar("training"), new_bar("fitting")

        def make() -> NuTimeClassifier | NuTimeRegressor:
            kind = NuTimeClassifier if target is None else NuTimeRegressor
            return kind(strategy.value, encoder, random_state=seed, verbose=training, **given)  # type: ignore[arg-type]

        pool = make().pool
        embedded = EmbeddedSeries.embed(training_set, encoder, pool, length=length or "auto", verbose=embedding)
        # The last fit, on all series, comes after the folds.
        measured = validate(make, embedded, labels, parts, lambda done, total: fitting(done, total + 1))
        model = make().fit(embedded, labels).set_params(verbose=False)
    if isinstance(model, NuTimeRegressor):
        if target and target != OWN_LABELS:
            model.target_name_ = target
        document, page = summaries.number_pages(measured, method)
        heading = f"targets from {labels.min():.4g} to {labels.max():.4g}"
    else:
        document, page = summaries.validation_pages(measured, method)
        document["classes"] = model.classes_.tolist()
        heading = f"{len(model.classes_)} classes"
    model.save(out)
    document = {"model": out, "series": len(series), "unlabelled": unlabelled, **document}
    heading = f"{summaries.input_line(source, Extent.of(series))}, {heading}"
    if unlabelled:
        heading += f"; {unlabelled:,} series without a label left out"
    summaries.show(document, [heading, *page, *summaries.model_steps(out, source)], as_json, out)


@reads_series
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL_DIR", help="Folder saved by fit, cluster or detect.")],
    source: Input,
    out: Output,
    read: SourceOptions,
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="COVERAGE",
            help="For numbers: add bounds that contain the true number with this probability (0.9).",
        ),
    ] = None,
    reject_below: Annotated[
        float | None, typer.Option(metavar="P", help="For a classifier: no class if its probability is below P.")
    ] = None,
    engine: EngineOption = Engine.LOCAL,
    workers: Workers = None,
    gpus: Gpus = None,
    address: RayAddress = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Apply a model to series: class and probabilities, or number, or cluster, or anomaly score.

    Of a set with a training and a test part, only the test part is read. Where the series have labels, the
    accuracy of a classifier or the error of a regressor is printed. With --reject-below, the class of an uncertain
    series is left empty, and the accuracy is that of the others.

    Example: `nutime predict model new.csv -o predictions.csv`
    """
    from nutime.batch.source import Source
    from nutime.cli import summaries

    check_outputs(out, as_json, read, source)
    ray = _ray_options(engine, workers, gpus, address, device, source, out)
    if reject_below is not None and not 0 <= reject_below <= 1:
        raise typer.BadParameter("must be between 0 and 1", param_hint="--reject-below")
    check_model(model)
    series = Source(source, read, "test")
    first, chunks = series.opened()

    from nutime import NuTimeClassifier, NuTimeRegressor
    from nutime.devices import usable_device
    from nutime.estimators import storage

    estimator = storage.load(model, usable_device(device))
    if reject_below is not None and not isinstance(estimator, NuTimeClassifier):
        raise ValueError(f"{model}: holds a {type(estimator).__name__}; only a classifier can --reject-below")
    if interval is not None:
        if not isinstance(estimator, NuTimeRegressor):
            raise typer.BadParameter(f"{model} predicts no numbers", param_hint="--interval")
        estimator.interval_half_width(interval)  # raises if there are too few series for it
    check_target(estimator, source, first.data)
    options = {"interval": interval, "reject_below": reject_below or 0}
    document, page = _apply(estimator, series, chunks, out, ray, **options)
    summaries.show({**document, "model": model}, page, as_json, out)


@reads_series
def cluster(
    source: Input,
    out: Output,
    read: SourceOptions,
    clusters: Annotated[
        int | None,
        typer.Option(
            "--clusters",
            "-k",
            min=1,
            help="Number of clusters; unless given, the number from 2 to 10 with the best silhouette.",
        ),
    ] = None,
    length: Length = None,
    save: Save = None,
    force: Force = False,
    weights: Weights = SHIPPED,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same clusters.")] = 0,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Group similar series.

    Example: `nutime cluster series.csv -o clusters.csv`
    """
    from nutime.batch.source import Chunk, Source

    check_outputs(out, as_json, read, source, save=save, force=force)
    _, chunks = Source(source, read).opened()
    encoder = load_encoder(weights, device)
    data = Chunk.joined(chunks)

    from nutime import NuTimeClusterer
    from nutime.cli import summaries
    from nutime.estimators.base import EmbeddedSeries

    with progress_bars() as new_bar, errors_about(source):
        bar = new_bar("embedding", len(data.series))
        embedded = EmbeddedSeries.embed(data.named_series, encoder, length=length or "auto", verbose=bar)
        new_bar("clustering")
        clusterer = NuTimeClusterer(clusters, encoder, length=length or "auto", random_state=seed).fit(embedded)
    document, page = _write(clusterer, source, data, {"cluster": clusterer.labels_}, out)
    if save:
        clusterer.save(save)
    defined = clusterer.silhouette_ == clusterer.silhouette_  # NaN for one cluster, or one series per cluster
    page.append(f"Silhouette: {f'{clusterer.silhouette_:.2f}, of at most 1' if defined else 'not defined'}")
    document |= {"model": save, "silhouette": clusterer.silhouette_ if defined else None}
    summaries.show(document, [*page, *summaries.model_steps(save, source)], as_json, out)


@reads_series
def detect(
    source: Input,
    out: Output,
    read: SourceOptions,
    reference: Annotated[
        str | None, typer.Option(metavar="FILE", help="Normal series to train on; else IN itself.")
    ] = None,
    contamination: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the training series to count as anomalous.")
    ] = 0.05,
    length: Length = None,
    save: Save = None,
    force: Force = False,
    weights: Weights = SHIPPED,
    engine: EngineOption = Engine.LOCAL,
    workers: Workers = None,
    gpus: Gpus = None,
    address: RayAddress = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Find the series unlike the others: a score from 0 to 1, and whether it is an anomaly.

    Example: `nutime detect new.csv --reference normal.csv -o scores.csv`
    """
    if not 0 < contamination <= 0.5:
        raise typer.BadParameter("must be above 0 and at most 0.5", param_hint="--contamination")
    from nutime.batch.source import Chunk, Source

    check_outputs(out, as_json, read, source, reference, save=save, force=force)
    ray = _ray_options(engine, workers, gpus, address, device, source, out)
    if ray and reference is None:
        raise typer.BadParameter("--engine ray needs normal series to train on", param_hint="--reference")
    series = Source(source, read)
    _, chunks = series.opened()
    normal = Source(reference, read, "train").opened()[1] if reference else chunks
    encoder = load_encoder(weights, device)
    training = Chunk.joined(normal)
    if len(training.series) == 1:
        raise ValueError(
            f"{reference or source}: is a single series, and nutime detect compares several; to find where a "
            f"recording is unlike itself use: nutime scan {shlex.quote(source)} -o intervals.csv"
        )

    from nutime import NuTimeDetector
    from nutime.batch.apply import result_columns
    from nutime.cli import summaries
    from nutime.estimators.base import EmbeddedSeries

    with progress_bars() as new_bar, errors_about(reference or source):
        bar = new_bar("embedding", len(training.series))
        embedded = EmbeddedSeries.embed(training.named_series, encoder, length=length or "auto", verbose=bar)
        detector = NuTimeDetector(contamination, encoder, length=length or "auto").fit(embedded)
    if reference:
        document, page = _apply(detector, series, chunks, out, ray)
    else:
        document, page = _write(detector, source, training, result_columns(detector, embedded), out)
        page.append(f"Trained on the same series, of which {summaries.percent(contamination)} count as anomalous.")
    if save:
        detector.save(save)
    page += summaries.model_steps(save, source)
    summaries.show({**document, "model": save}, page, as_json, out)


def _apply(
    model: Any, source: Source, chunks: Iterable[Chunk], out: str, ray: dict[str, Any] | None, **options: Any
) -> summaries.Pages:
    """Apply a model on this machine, or with the options of Ray, and report on the results."""
    from nutime.batch.apply import apply_model
    from nutime.batch.ray_engine import apply_model_with_ray
    from nutime.cli import summaries

    report = summaries.Report(model, out)
    with progress_bars() as new_bar:
        total = source.count
        bar = new_bar("series", total)

        def observe(extent: Extent, columns: Results) -> None:
            with errors_about(source.address):  # labels that are no numbers, for a regressor
                done = report.add(extent, columns)
            bar(done, total)

        if ray:
            apply_model_with_ray(model, source, out, observe=observe, **ray, **options)
        else:
            apply_model(model, chunks, out, source=source, observe=observe, **options)
    return report.pages(source.address)


def _write(model: Any, source: str, data: Chunk, results: Results, out: str) -> summaries.Pages:
    """Write the results of a model for all series, and report on them."""
    from nutime.batch.results import write_results
    from nutime.batch.source import Extent
    from nutime.cli import summaries

    columns = {**data.columns, **results}
    write_results(out, columns)
    report = summaries.Report(model, out)
    report.add(Extent.of(data.series), columns)
    return report.pages(source)


def _ray_options(
    engine: Engine,
    workers: int | None,
    gpus: float | None,
    address: str | None,
    device: str | None,
    source: str,
    out: str,
) -> dict[str, Any] | None:
    """Return the options of Ray, None for the local engine; refuse options that the engine does not have."""
    from nutime.batch.results import writes_folder
    from nutime.batch.source import is_parquet

    if engine == Engine.LOCAL:
        if workers is not None or gpus is not None:
            raise typer.BadParameter("only --engine ray has them", param_hint="--workers, --gpus")
        return None
    if device is not None:
        raise typer.BadParameter("the workers of --engine ray compute on CPUs, or --gpus", param_hint="--device")
    if not (is_parquet(source) and writes_folder(out)):
        raise typer.BadParameter("reads Parquet and writes a folder of Parquet files only", param_hint="--engine")
    return {"workers": workers, "gpus": gpus or 0, "address": address}


def _labelled(chunks: Iterable[Chunk]) -> tuple[SeriesSet, NDArray[np.str_], int]:
    """Return the labelled series, their labels, and the number of series without a label."""
    from dataclasses import replace

    from nutime.batch.source import Chunk

    data = Chunk.joined(chunks)
    labels = data.columns["label"]
    labelled = labels != ""
    series = [values for values, has_label in zip(data.series, labelled, strict=True) if has_label]
    return replace(data.named_series, series=series), labels[labelled], int((~labelled).sum())
