"""Encoders on the Hugging Face Hub, through the mixin of ``huggingface_hub``.

``NuTime`` does not inherit the mixin, because importing it would then need the library; an adapter class is
created when a hub id is loaded or pushed. The cache and offline mode (``HF_HUB_OFFLINE``) are
those of the library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from nutime.documents import message_of
from nutime.model.network import NuTimeNetwork, count_parameters

Encoder = TypeVar("Encoder", bound=NuTimeNetwork)

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_PAPER = "https://openreview.net/forum?id=TwiSBZ0p9u"
_CARD = """---
{{ card_data }}
---

# {{ repo_id }}

A [NuTime]({{ paper_url }}) encoder of time series: {{ parameters }} parameters, {{ config.channels }}
channel(s), windows of {{ config.window }} points, series of any length resized to {{ config.length }}.

```
pip install 'nutime[hub]'
```

```python
import nutime

model = nutime.NuTime.from_pretrained("{{ repo_id }}")
Z = model.embed(X)  # X: arrays, lists of unequal length, data frames; NaN is fine
```

`model.safetensors` holds the weights, `config.json` the network; loading them executes nothing.
"""


def is_hub_id(name: str | Path) -> bool:
    """Return whether a name has the form ``owner/name``. A ``Path`` is always a folder."""
    return isinstance(name, str) and _HUB_ID.fullmatch(name) is not None


def load(read: Callable[[Path], Encoder], hub_id: str, **options: Any) -> Encoder:
    """Return what ``read`` makes of the downloaded or cached folder; ``options`` are those of the mixin."""
    with _refused_as(f"there is no folder {hub_id!r}, and it cannot be loaded from the hub"):
        encoder: Encoder = _adapter().from_pretrained(hub_id, read=read, **options).content
    return encoder


def push(encoder: NuTimeNetwork, save: Callable[[Path], object], hub_id: str, **options: Any) -> str:
    """Upload an encoder with a model card and return the URL of the commit.

    Args:
        encoder: described by the card.
        save: writes its folder.
        hub_id: ``owner/name``.
        options: those of the mixin.
    """
    if not is_hub_id(hub_id):
        raise ValueError(f"{hub_id!r} is not a hub id; expected owner/name")
    about = {"repo_id": hub_id, "config": encoder.config, "parameters": f"{count_parameters(encoder):,}"}
    about |= options.pop("model_card_kwargs", None) or {}
    with _refused_as(f"{hub_id!r} cannot be pushed to the hub"):
        return str(_adapter()(save).push_to_hub(hub_id, model_card_kwargs=about, **options))


def _adapter() -> Any:
    """Return a class that saves and loads an encoder through the mixin."""
    try:
        from huggingface_hub import ModelHubMixin, snapshot_download
    except ImportError:
        raise ValueError("huggingface_hub is missing; install it with: pip install 'nutime[hub]'") from None

    class HubEncoder(
        ModelHubMixin,
        library_name="nutime",
        tags=["time-series", "embeddings"],
        paper_url=_PAPER,
        model_card_template=_CARD,
    ):
        def __init__(self, content: Any) -> None:
            self.content = content  # what was loaded, or the function that saves

        def _save_pretrained(self, save_directory: Path) -> None:
            self.content(save_directory)

        @classmethod
        def _from_pretrained(cls, *, model_id: str, **options: Any) -> HubEncoder:
            read = options.pop("read")
            files = ["config.json", "model.safetensors", "decoder.safetensors"]
            folder = snapshot_download(model_id, allow_patterns=files, **options)
            return cls(read(Path(folder)))

    return HubEncoder


@contextmanager
def _refused_as(failure: str) -> Iterator[None]:
    """Raise a ValueError of one line; errors of networks and their libraries have no common type."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{failure}: {message_of(error)}") from error
