"""``nutime export``: a model as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="Shipped weights, or a folder of an encoder or a fitted estimator."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write, .onnx.")],
    pool: Annotated[
        str | None,
        typer.Option(
            help="For an encoder: cls, mean, cls+mean, upper, layers or resolutions.", show_default="cls+mean"
        ),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(
            min=1, help="For an encoder: resize series to this length.", show_default="the encoder's own"
        ),
    ] = None,
    quantize: Annotated[
        bool,
        typer.Option(
            "--quantize",
            help="8-bit weights: a third of the size, up to 1.7 times as fast, for onnxruntime alone.",
        ),
    ] = False,
) -> None:
    """Write a model as an ONNX file that takes raw series, for programs without Python or torch.

    Example: `nutime export nutime-base -o encoder.onnx`
    """
    from rich.console import Console

    from nutime.export import export_onnx

    with Console(stderr=True).status("tracing the network"):
        about = export_onnx(model, out, pool=pool, length=length, quantize=quantize)
    print(f"{out}: series (batch, {about['channels']} channels, length) → {', '.join(about['outputs'])}")
