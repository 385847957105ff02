"""``nutime embed``, ``fit``, ``predict``, ``cluster`` and ``detect``: from a file of series to answers.

Every command checks where it will write before it works, and prints one page or, with ``--json``, one object.
Results have a row for each series, in the order of the input, with the ids and labels found there.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nutime.cli import everyday
from nutime.cli.everyday import (
    READ,
    SHIPPED,
    AsJson,
    Device,
    Engine,
    IdColumn,
    Input,
    LabelColumn,
    Output,
    Pool,
    Save,
    Weights,
    WhichEngine,
    Workers,
    bar,
    complaints_about,
    in_chunks,
    progress_bars,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nutime import NuTime, NuTimeClassifier
    from nutime.cli import pages
    from nutime.data.results import Results
    from nutime.data.series import SeriesSet

FOLDS = 5
HOLDOUT = 0.2


class Strategy(StrEnum):
    """How a classifier learns."""

    PROBE = "probe"
    FINETUNE = "finetune"


def embed(
    source: Input,
    out: Output,
    pool: Annotated[Pool, typer.Option(help="What to keep of the encoder's tokens.")] = Pool.BOTH,
    weights: Weights = SHIPPED,
    label: LabelColumn = None,
    identity: IdColumn = None,
    engine: WhichEngine = Engine.LOCAL,
    workers: Workers = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Turn every series into a vector: columns e0, e1, … beside its id and label.

    Example: `nutime embed series.csv -o embeddings.parquet`
    """
    from nutime.batch.parquet import DataSet, names_of
    from nutime.cli import batch, pages
    from nutime.data.results import read_table, write_table

    if batch.is_streamed(source, out, engine, workers, device):
        encoder = _encoder(weights, device)
        extent = batch.stream(DataSet(source, label, identity), encoder, out, engine, workers, pool.value)
        dimensions = len(set(names_of(out)) - {"id", "label"})
        document = {"out": out, "series": extent.series, "dimensions": dimensions, "pool": pool.value}
        everyday.show(document, batch.page_of(source, out, extent), as_json, out)
        return
    everyday.check_places(out, as_json, [source])
    series = read_table(source, label_column=label, id_column=identity)
    encoder = _encoder(weights, device)
    with progress_bars() as progress, complaints_about(source):
        columns = embed_table(series, encoder, pool.value, bar(progress, "embedding", len(series.series)))
    write_table(columns, out)
    dimensions = columns["e"].shape[1]
    document = {"out": out, "series": len(series.series), "dimensions": dimensions, "pool": pool.value}
    page = [pages.input_line(source, series), pages.output_line(out, columns)]
    everyday.show(document, page, as_json, out)


def embed_table(series: SeriesSet, encoder: NuTime, pool: str, report: Callable[[int, int], None]) -> Results:
    """Return ids, labels and vectors (``e``) of a table; ``report`` hears of series done and to do."""
    vectors = in_chunks(lambda chunk: {"e": encoder.embed(chunk, pool=pool)}, series.series, report)
    return {**_kept(series), **vectors}


def fit(
    source: Annotated[str, typer.Argument(metavar="TRAIN", show_default=False, help=f"Labelled series: {READ}.")],
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="MODEL_DIR", show_default=False, help="Folder of the model.")
    ],
    strategy: Annotated[
        Strategy, typer.Option(help="Learn a linear model on the frozen encoder, or the whole network.")
    ] = Strategy.PROBE,
    epochs: Annotated[
        int | None, typer.Option(min=1, show_default=False, help="For finetune: passes over the series (100).")
    ] = None,
    n_models: Annotated[
        int | None, typer.Option(min=1, show_default=False, help="For finetune: models to average (1).")
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(metavar="SHARE", show_default=False, help="Measure on this share of every class."),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(min=2, metavar="K", show_default=False, help="Measure by cross-validation.")
    ] = None,
    weights: Weights = SHIPPED,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same model and measurement.")] = 0,
    label: LabelColumn = None,
    identity: IdColumn = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Learn to classify, and measure how well: by 5-fold cross-validation, or for finetune on 20 % held out.

    The model that is saved has learned from all series. Of a set with a training and a test part, only the
    training part is read.

    Example: `nutime fit train.csv -o model`
    """
    _check_fit_options(strategy, epochs, n_models, holdout, folds)
    import rich

    from nutime import NuTimeClassifier
    from nutime.cli import pages
    from nutime.data.results import check_folder, read_table
    from nutime.estimators.base import EmbeddedSeries
    from nutime.evaluate import validate

    check_folder(out)
    training = read_table(source, "train", label_column=label, id_column=identity)
    if training.labels is None:
        raise ValueError(f"{source}: has no labels; name their column with --label")
    rich.reconfigure(stderr=True)  # fine-tuning shows its bar on rich's own console
    finetunes = strategy == Strategy.FINETUNE
    given: dict[str, Any] = {
        name: value for name, value in (("epochs", epochs), ("n_estimators", n_models)) if value
    }
    if finetunes and folds is None and holdout is None:
        holdout = HOLDOUT
    parts, method = _parts(training.labels, holdout, folds or FOLDS, seed)
    with progress_bars(shown=not finetunes) as progress:
        encoder = _encoder(weights, device)
        embedding, fitting = bar(progress, "embedding"), bar(progress, "fitting")
        shown = finetunes and rich.get_console().is_terminal

        def make() -> NuTimeClassifier:
            return NuTimeClassifier(strategy.value, encoder, random_state=seed, verbose=shown, **given)

        def report(done: int, rounds: int) -> None:
            fitting(done, rounds + 1)  # the last one is on all series

        with complaints_about(source):
            series = EmbeddedSeries.embed(training.series, encoder, make().pool, verbose=embedding)
            measured = validate(make, series, training.labels, parts, report)
            classifier = make().fit(series, training.labels).set_params(verbose=False)
    everyday.save_model(classifier, out)
    document, page = pages.summary_of_validation(measured, method)
    classes = classifier.classes_.tolist()
    document = {"model": out, "series": len(training.series), "classes": classes, **document}
    heading = f"{pages.input_line(source, training)}, {len(classes)} classes"
    everyday.show(document, [heading, *page, *pages.model_line(out)], as_json, out)


def _check_fit_options(
    strategy: Strategy, epochs: int | None, n_models: int | None, holdout: float | None, folds: int | None
) -> None:
    if strategy == Strategy.PROBE and (epochs or n_models):
        raise typer.BadParameter("only --strategy finetune has them", param_hint="--epochs, --n-models")
    if holdout is not None and folds is not None:
        raise typer.BadParameter("choose one of them", param_hint="--holdout, --folds")
    if holdout is not None and not 0 < holdout < 1:
        raise typer.BadParameter("must lie between 0 and 1", param_hint="--holdout")


def _parts(
    labels: NDArray[Any], holdout: float | None, folds: int, seed: int
) -> tuple[NDArray[Any], dict[str, float]]:
    """Return the part of each series in the measurement, and the number of folds or the share held out."""
    from nutime.evaluate import deal_folds, hold_out

    if holdout is not None:
        return hold_out(labels, holdout, seed), {"holdout": holdout}
    parts = deal_folds(labels, folds, seed)
    return parts, {"folds": int(parts.max()) + 1}


def predict(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL_DIR", show_default=False, help="Folder saved by fit, cluster or detect."),
    ],
    source: Input,
    out: Output,
    label: LabelColumn = None,
    identity: IdColumn = None,
    engine: WhichEngine = Engine.LOCAL,
    workers: Workers = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Ask a model about series: class and probabilities, or cluster, or how anomalous they are.

    Of a set with a training and a test part, only the test part is read. Where the series have labels, the
    accuracy of a classifier is told.

    Example: `nutime predict model new.csv -o predictions.csv`
    """
    from nutime.batch.answers import answers
    from nutime.batch.parquet import DataSet, read_answers
    from nutime.cli import batch, pages
    from nutime.data.results import read_table, write_table

    if batch.is_streamed(source, out, engine, workers, device):
        estimator = _load(model, device)
        extent = batch.stream(DataSet(source, label, identity), estimator, out, engine, workers)
        document, page = _summary(estimator, read_answers(out))
        document = {"out": out, "model": model, "series": extent.series, **document}
        read, written = batch.page_of(source, out, extent)
        everyday.show(document, [read, *page, written], as_json, out)
        return
    everyday.check_places(out, as_json, [source])
    estimator = _load(model, device)
    series = read_table(source, "test", label_column=label, id_column=identity)
    with progress_bars() as progress, complaints_about(source):
        report = bar(progress, "predicting", len(series.series))
        columns = {
            **_kept(series),
            **in_chunks(lambda chunk: answers(estimator, chunk), series.series, report),
        }
    write_table(columns, out)
    document, page = _summary(estimator, columns)
    document = {"out": out, "model": model, "series": len(series.series), **document}
    page = [pages.input_line(source, series), *page, pages.output_line(out, columns)]
    everyday.show(document, page, as_json, out)


def _summary(estimator: Any, columns: Results) -> pages.Summary:
    """Tell what an estimator said, from its answers beside the ids and labels there are."""
    from nutime import NuTimeClassifier, NuTimeClusterer, NuTimeDetector
    from nutime.cli import pages

    match estimator:
        case NuTimeClassifier():
            return pages.summary_of_classes(columns, columns.get("label"))
        case NuTimeClusterer():
            return pages.summary_of_clusters(columns["cluster"], len(estimator.cluster_centers_))
        case NuTimeDetector():
            ids = columns["id"].tolist() if "id" in columns else None
            return pages.summary_of_anomalies(columns, ids)
        case _:
            return {"dimensions": estimator._n_features_out}, []


def cluster(
    source: Input,
    out: Output,
    clusters: Annotated[
        int | None,
        typer.Option(
            "--clusters",
            "-k",
            min=1,
            show_default=False,
            help="How many; unless given, the number from 2 to 10 with the best silhouette.",
        ),
    ] = None,
    save: Save = None,
    weights: Weights = SHIPPED,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same clusters.")] = 0,
    label: LabelColumn = None,
    identity: IdColumn = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Group series that are alike.

    Example: `nutime cluster series.csv -o clusters.csv`
    """
    from nutime import NuTimeClusterer
    from nutime.cli import pages
    from nutime.data.results import read_table, write_table
    from nutime.estimators.base import EmbeddedSeries

    everyday.check_places(out, as_json, [source], save)
    series = read_table(source, label_column=label, id_column=identity)
    with progress_bars() as progress:
        embedding, _ = bar(progress, "embedding", len(series.series)), bar(progress, "clustering")
        encoder = _encoder(weights, device)
        with complaints_about(source):
            embedded = EmbeddedSeries.embed(series.series, encoder, verbose=embedding)
            clusterer = NuTimeClusterer(clusters, encoder, random_state=seed).fit(embedded)
    columns = {**_kept(series), "cluster": clusterer.labels_}
    everyday.save_model(clusterer, save)
    write_table(columns, out)
    document, page = pages.summary_of_clusters(clusterer.labels_, len(clusterer.cluster_centers_))
    defined = clusterer.silhouette_ == clusterer.silhouette_  # it is NaN for one cluster, or one series each
    document = {"out": out, "model": save, "series": len(series.series), **document}
    document["silhouette"] = clusterer.silhouette_ if defined else None
    page.append(f"Silhouette: {f'{clusterer.silhouette_:.2f}, of at most 1' if defined else 'not defined'}")
    page = [pages.input_line(source, series), *page, pages.output_line(out, columns), *pages.model_line(save)]
    everyday.show(document, page, as_json, out)


def detect(
    source: Input,
    out: Output,
    reference: Annotated[
        str | None,
        typer.Option(metavar="FILE", show_default=False, help="Normal series to learn from; else IN itself."),
    ] = None,
    contamination: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the series learned from to hold for anomalous.")
    ] = 0.05,
    save: Save = None,
    weights: Weights = SHIPPED,
    label: LabelColumn = None,
    identity: IdColumn = None,
    engine: WhichEngine = Engine.LOCAL,
    workers: Workers = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Find the series unlike the others: a score from 0 to 1, and whether it makes an anomaly.

    Example: `nutime detect new.csv --reference normal.csv -o scores.csv`
    """
    if not 0 < contamination <= 0.5:
        raise typer.BadParameter("must be above 0 and at most 0.5", param_hint="--contamination")
    from nutime import NuTimeDetector
    from nutime.batch.answers import answers
    from nutime.batch.parquet import DataSet, check_output, read_answers
    from nutime.cli import batch, pages
    from nutime.data.results import check_folder, read_table, write_table
    from nutime.estimators.base import EmbeddedSeries

    streamed = batch.is_streamed(source, out, engine, workers, device)
    if streamed and reference is None and (engine == Engine.RAY or not Path(source).is_file()):
        raise typer.BadParameter("a data set needs normal series to learn from", param_hint="--reference")
    if streamed and reference is not None:
        check_output(out, source)
        if save:
            check_folder(save)
        normal = read_table(reference, "train", label_column=label, id_column=identity)
        with complaints_about(reference):
            detector = NuTimeDetector(contamination, _encoder(weights, device)).fit(normal.series)
        extent = batch.stream(DataSet(source, label, identity), detector, out, engine, workers)
        everyday.save_model(detector, save)
        document, page = _summary(detector, read_answers(out))
        document = {"out": out, "model": save, "series": extent.series, **document}
        read, written = batch.page_of(source, out, extent)
        everyday.show(document, [read, *page, written, *pages.model_line(save)], as_json, out)
        return
    everyday.check_places(out, as_json, [source, reference], save)
    series = read_table(source, label_column=label, id_column=identity)
    normal = series
    if reference:
        normal = read_table(reference, "train", label_column=label, id_column=identity)
    with progress_bars() as progress:
        encoder, embedding = _encoder(weights, device), bar(progress, "embedding")
        with complaints_about(reference or source):
            embedded = EmbeddedSeries.embed(normal.series, encoder, verbose=embedding)
            detector = NuTimeDetector(contamination, encoder).fit(embedded)
        with complaints_about(source):
            if reference:
                embedded = EmbeddedSeries.embed(series.series, encoder, verbose=embedding)
            columns = {**_kept(series), **answers(detector, embedded)}
    everyday.save_model(detector, save)
    write_table(columns, out)
    document, page = _summary(detector, columns)
    if not reference:
        page.append(f"Learned from the same series, of which {pages.percent(contamination)} count as anomalous.")
    document = {"out": out, "model": save, "series": len(series.series), **document}
    page = [pages.input_line(source, series), *page, pages.output_line(out, columns), *pages.model_line(save)]
    everyday.show(document, page, as_json, out)


def _encoder(weights: str, device: str | None) -> NuTime:
    from nutime.devices import usable_device
    from nutime.encoder import NuTime

    return NuTime.from_pretrained(weights).to(usable_device(device))


def _load(model: str, device: str | None) -> Any:
    from nutime.devices import usable_device
    from nutime.estimators import storage

    return storage.load(model, usable_device(device))


def _kept(series: SeriesSet) -> Results:
    """Return the columns of the input that results keep."""
    import numpy as np

    kept = {"id": None if series.ids is None else np.array(series.ids), "label": series.labels}
    return {name: column for name, column in kept.items() if column is not None}
