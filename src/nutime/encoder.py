"""``NuTime``: the network with the input contract around it and its weights on disk.

A saved encoder is a folder with ``model.safetensors`` and ``config.json``; loading executes nothing from it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from nutime import hub, values
from nutime.atomic import replace_folder
from nutime.checks import check_number
from nutime.data.series import Array, SeriesLike, as_series, read_input, resample
from nutime.documents import checksums, has_part, one_line, part_of, read_document
from nutime.model.config import NuTimeConfig
from nutime.model.convolutions import convolve, random_kernels
from nutime.model.decoder import Decoder
from nutime.model.network import NuTimeNetwork, count_parameters
from nutime.model.reading import PIECES_FROM, Length, Reading, unit_for
from nutime.model.windows import SHAPE_EPSILON
from nutime.progress import Report, progress
from nutime.threads import map_chunks

#: Version of the saved files; increased when older versions can no longer read them.
FORMAT = 1
DEFAULT_WEIGHTS = "nutime-base"
#: A distilled encoder with a fifth of the parameters, for linear models on a CPU.
SMALL_WEIGHTS = "nutime-small"
_MIN_TOKENS = 32  # per batch: smaller matrix products take another code path and differ in the last digits
_MAX_SIZE = 2**14  # limit of config values that the shapes of the weights do not confirm
_WEIGHTS, _CONFIG, _DECODER = "model.safetensors", "config.json", "decoder.safetensors"
_initialisation = RLock()
#: Points convolved at a time: few on a CPU, so that the responses of all kernels stay in the cache.
_CONVOLVED_CPU, _CONVOLVED_GPU = 2**12, 2**14
_log = logging.getLogger("nutime")


class NuTime(NuTimeNetwork):
    """A pretrained encoder: one vector per series of any length, scale and number of channels.

    With a decoder, which ``nutime-base`` has, it also imputes and forecasts.
    """

    _decoder_weights: dict[str, torch.Tensor] | None = None

    def embed(
        self,
        X: SeriesLike,
        *,
        pool: str = "cls+mean",
        length: Length = None,
        reading: Reading | None = None,
        batch_size: int = 64,
        verbose: bool | Report = False,
    ) -> NDArray[np.float32]:
        """Return one vector per series, ``(n, d)`` float32.

        Args:
            X: series in any form of :mod:`nutime.data.series`. A univariate encoder embeds the channels of a
                multivariate series one by one and concatenates the vectors.
            pool: how tokens become a vector.

                * ``cls``, ``mean`` (of the window tokens) or ``cls+mean``;
                * ``upper``: ``[CLS]`` and the mean and standard deviation of the window tokens, of each layer in
                  the upper half; longer, and better for a linear model. ``layers``: the same of all layers;
                * ``resolutions``: ``upper`` of the series read at a quarter, once and four times the usual number
                  of points; five times the work, and better for a linear model on long series;
                * ``upper+conv`` and ``resolutions+conv``: with features of random convolutions beside and, of
                  several channels, the means of segments (:mod:`nutime.model.convolutions`), for a linear model;
                * ``auto``: ``upper+conv`` for series of up to 0.4 times the encoder's length, ``resolutions+conv``
                  for longer ones; always ``upper+conv`` for a distilled encoder (``nutime-small``).
            length: points every series is resized to, a multiple of the window (of 16 windows for
                ``resolutions``); by default the encoder's own length. With ``auto``, series longer than 16 times
                that are also read in pieces, so that short events stay visible; vectors are then three times as
                long. Where ``pool`` or ``length`` is ``auto``, the median length of ``X`` decides.
            reading: a reading chosen earlier, in place of ``pool`` and ``length``.
            batch_size: series per forward pass; affects speed and memory, not the result.
            verbose: True shows a progress bar; a callable receives (series done, series in total).
        """
        series = as_series(X)
        channels = len(series[0])
        if self.config.channels not in (1, channels):
            raise ValueError(f"the encoder reads {self.config.channels} channels, the series have {channels}")
        if reading is None:
            reading = Reading.choose(self.config, pool, length, series)
        _warn_of_lost_detail(series, reading)
        size = max(1, batch_size // max(1, reading.pieces))

        def embed_chunk(chunk: Sequence[Array]) -> NDArray[np.float32]:
            batch = torch.from_numpy(resample(chunk, reading.points))
            if self.config.channels == 1:
                batch = batch.flatten(0, 1).unsqueeze(1)
            vectors = torch.cat([self._vectors(part, reading) for part in torch.split(batch, len(chunk))])
            found = [vectors.reshape(len(chunk), -1).numpy()]
            if reading.convolved:
                found.append(self.convolutions(chunk, reading))
            return np.concatenate(found, axis=1)

        parts, done = [], 0
        with progress("embedding", verbose) as report:
            for part in map_chunks(embed_chunk, series, size, self.device):
                parts.append(part)
                done += len(part)
                report(done, len(series))
        return np.concatenate(parts)

    @torch.inference_mode()
    def convolutions(self, series: Sequence[Array], reading: Reading) -> NDArray[np.float32]:
        """Return the features of random convolutions and segments, ``(n, features)`` float32."""
        points, kernels = reading.convolved, random_kernels(len(series[0]), reading.groups)
        scales = torch.tensor(reading.scales, dtype=torch.float64, device=self.device) if reading.scales else None
        chunks = -(-len(series) * points // (_CONVOLVED_CPU if self.device.type == "cpu" else _CONVOLVED_GPU))
        parts, size = [], -(-len(series) // chunks)
        for start in range(0, len(series), size):
            batch = torch.from_numpy(resample(series[start : start + size], points))
            features = convolve(batch.to(self.device), kernels, scales, reading.segments)
            parts.append(features.cpu().numpy())
        return np.concatenate(parts)

    def _vectors(self, batch: torch.Tensor, reading: Reading) -> torch.Tensor:
        min_size = -(-_MIN_TOKENS // (1 + batch.shape[-1] // unit_for(self.config, reading.pool)))
        padded = torch.cat([batch, batch[:1].expand(max(0, min_size - len(batch)), -1, -1)])
        return self.vectors(padded.to(self.device), reading)[: len(batch)].float().cpu()

    def impute(self, X: SeriesLike, *, quantiles: Sequence[float] | None = None) -> list[Array]:
        """Return the series with every NaN replaced by its predicted median, in the original units.

        Other channels observed at a missing point are used where they explain the channel.

        Args:
            X: series in any form of :mod:`nutime.data.series`; NaN is missing, at the ends too.
            quantiles: levels to predict in place of the median; arrays are then ``(channels, length, quantiles)``,
                and observed points have their value at every level.
        """
        levels = values.check_quantiles((0.5,) if quantiles is None else quantiles)
        series = [np.asarray(one, np.float64) for one in read_input(X, keep_missing=True).series]
        filled = values.impute(self, self._decoder(), series)
        results: list[Array] = [values.at_levels(predicted, levels) for predicted in filled]
        return [result[..., 0] for result in results] if quantiles is None else results

    def forecast(self, X: SeriesLike, horizon: int, *, quantiles: Sequence[float] | None = None) -> values.Float64:
        """Return the predicted medians of the next ``horizon`` points, ``(n, channels, horizon)``.

        Args:
            X: series in any form of :mod:`nutime.data.series`; NaN is missing. The forecast begins after the last
                point observed in any channel.
            horizon: points to predict. Beyond :data:`nutime.values.MAX_HORIZON` the forecast is rolled: medians
                are taken as observed.
            quantiles: levels to predict in place of the median; the result is ``(n, channels, horizon,
                quantiles)``.
        """
        check_number("horizon", horizon, "[1, inf)", integer=True)
        levels = values.check_quantiles((0.5,) if quantiles is None else quantiles)
        series = read_input(X, keep_missing=True).series
        channels = [
            np.asarray(row[np.isfinite(row).argmax() : values.observed_end(one)], np.float64)
            for one in series
            for row in one
        ]
        predict = values.forecast if quantiles is None else values.forecast_intervals
        predicted = predict(self, self._decoder(), channels, horizon)
        result = values.at_levels(predicted, levels).reshape(len(series), -1, horizon, len(levels))
        return result[..., 0] if quantiles is None else result

    @property
    def device(self) -> torch.device:
        """The device the encoder computes on."""
        return self.norm.weight.device

    def __repr__(self) -> str:
        millions = count_parameters(self) / 1e6
        length, dim, depth = self.config.length, self.config.dim, self.config.depth
        return f"NuTime(length={length}, dim={dim}, depth={depth}, {millions:.1f}M parameters)"

    def _decoder(self) -> Decoder:
        if self._decoder_weights is None:
            raise ValueError(
                f"these weights have no decoder ({_DECODER}); {DEFAULT_WEIGHTS} has one, "
                "and `nutime decoder` trains one for an encoder of your own"
            )
        with seeded(0):
            decoder = Decoder(self.config).to(self.device)
        decoder.load_state_dict(self._decoder_weights)
        return decoder

    def set_decoder(self, decoder: Decoder) -> None:
        """Use this decoder for imputation and forecasts; :meth:`save` writes it beside the encoder."""
        self._decoder_weights = {name: tensor.cpu() for name, tensor in decoder.state_dict().items()}

    def save(self, folder: str | Path, *, decoder: bool = True) -> Path:
        """Write ``model.safetensors`` and ``config.json`` to ``folder``, both or neither.

        Args:
            folder: created, or replaced as a whole.
            decoder: whether to include the decoder, if there is one.
        """
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in self.state_dict().items()}
        with replace_folder(folder) as fresh:
            if decoder and self._decoder_weights is not None:
                (fresh / _DECODER).write_bytes(save(self._decoder_weights))
            (fresh / _WEIGHTS).write_bytes(save(weights))
            document = {"format": FORMAT, "network": json.loads(self.config.to_json())}
            document |= checksums(fresh, sorted(path.name for path in fresh.iterdir()))
            (fresh / _CONFIG).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        return Path(folder)

    #: Hugging Face's name for :meth:`save`.
    save_pretrained = save

    @classmethod
    def from_pretrained(cls, name: str | Path = DEFAULT_WEIGHTS, **download: Any) -> NuTime:
        """Load an encoder; only a Hub id causes network access.

        Args:
            name: the name of shipped weights (``nutime-base``, ``nutime-large``, ``nutime-small``,
                ``nutime-paper``), a folder written by :meth:`save`, or a Hub id ``owner/name``.
            download: for a Hub id, options of huggingface_hub: ``revision``, ``token``, ``cache_dir``,
                ``local_files_only``, ``force_download``.
        """
        folder = _find(name)
        if folder is None:
            return hub.load(cls.from_pretrained, str(name), **download)
        if download:
            raise ValueError(f"{', '.join(download)}: only for a hub id, and {str(name)!r} is not downloaded")
        path = part_of(folder, _CONFIG)
        document = read_document(path, "config", FORMAT)
        try:
            config = NuTimeConfig.from_dict(document.get("network"))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: {one_line(error)}") from None
        weights = _read_weights(part_of(folder, _WEIGHTS, document))
        _check_size(folder, config, weights)
        with seeded(0):
            model = cls(config)
        expected = {key: value.shape for key, value in model.state_dict().items()}
        found = {key: value.shape for key, value in weights.items()}
        if expected != found:
            odd = sorted(key for key in expected | found if expected.get(key) != found.get(key))
            raise ValueError(f"{folder / _WEIGHTS}: does not fit its config.json, first at {odd[0]!r}")
        model.load_state_dict(weights)
        if has_part(folder, _DECODER, document):
            model._decoder_weights = _read_weights(part_of(folder, _DECODER, document))
        return model

    def push_to_hub(self, hub_id: str, **options: Any) -> str:
        """Upload the encoder to the Hugging Face Hub, with a model card; return the URL of the commit.

        Args:
            hub_id: ``owner/name``; the repository is created if it does not exist.
            options: those of huggingface_hub's ``ModelHubMixin.push_to_hub``: ``private``, ``token``,
                ``branch``, ``commit_message`` … An existing card is replaced;
                ``ignore_patterns="README.md"`` keeps it.
        """
        return hub.push(self, self.save, hub_id, **options)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Initialise modules from a seed, leaving torch's global generator unchanged.

    Only one thread does so at a time, because initialisation draws from the global generator.
    """
    with _initialisation, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _warn_of_lost_detail(series: list[Array], reading: Reading) -> None:
    """Log a warning if series are too long or vary too little for the network to see their detail."""
    longest = max(values.shape[1] for values in series)
    if longest > PIECES_FROM * reading.points:
        _log.warning(
            f"series of up to {longest:,} points are averaged to {reading.points:,}: short events may be lost"
        )
    if reading.convolved:  # convolutions see any scale
        return
    with np.errstate(over="ignore"):
        reach = max(float(np.ptp(values, axis=1).max()) for values in series)
    if 0 < reach < SHAPE_EPSILON:
        _log.warning(
            f"series vary by {reach:.0e} at most, which the network reads as nearly constant: "
            f"multiply them, for instance by {1 / reach:.0e}"
        )


def shipped_weights() -> list[str]:
    """Return the names of the weights that come with the package."""
    root = resources.files("nutime") / "weights"
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else []


def _find(name: str | Path) -> Path | None:
    """Return the folder with the weights, or None if they may be on the Hub."""
    if str(name) in shipped_weights():
        return Path(str(resources.files("nutime") / "weights" / str(name)))
    if Path(name).is_dir():
        return Path(name)
    if hub.is_hub_id(name):
        return None
    shipped = ", ".join(shipped_weights()) or "none"
    raise ValueError(
        f"no weights {str(name)!r}: expected a folder or a shipped name ({shipped}), or a hub id owner/name"
    )


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    try:
        weights = dict(load_file(path))
    except (OSError, SafetensorError, RuntimeError, KeyError, ValueError, TypeError) as error:
        raise ValueError(f"{path}: not readable as safetensors ({one_line(error)})") from None
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise ValueError(f"{path}: {name!r} has values that are not finite")
    return weights


def _check_size(folder: Path, config: NuTimeConfig, weights: dict[str, torch.Tensor]) -> None:
    """Refuse a config larger than the weights before a network of that size is allocated."""
    layer = 4 * config.heads * config.head_dim + 2 * config.mlp_dim
    others = config.window + (config.channels - 1) * config.dim
    required, found = config.dim * (config.depth * layer + others), sum(map(torch.numel, weights.values()))
    if required > found:
        raise ValueError(f"{folder / _WEIGHTS}: has {found} weights, its config.json requires over {required}")
    if max(config.length // config.window, config.scalar_dim) > _MAX_SIZE:
        raise ValueError(f"{folder / _CONFIG}: more than {_MAX_SIZE} windows or values per scalar; is it damaged?")
