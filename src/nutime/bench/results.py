"""Results as lines of JSON that are only ever appended.

One line is one method on one data set with one seed, and carries all that is needed to believe it: the protocol,
who chose the model (``honest``: nothing on test data; ``paper``: the best epoch on the test set), configuration,
versions, device and time. A run that was stopped goes on after the last whole line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from nutime.version import versions

SELECTIONS = ("honest", "paper")
_SAME_QUESTION = {"ucr": "finetune"}


@dataclass(frozen=True)
class Result:
    """What one method scored on one data set.

    Attributes:
        protocol: name of the protocol, as in ``nutime bench run PROTOCOL``.
        dataset: name of the set, with its archive: ``ucr/GunPoint``.
        method: what was run, for example ``nutime-base ×5`` or ``MiniRocket``.
        selection: ``honest`` or ``paper``.
        seed: of all that is random in the method.
        scores: by name, for example ``accuracy`` and ``macro_f1``, in [0, 1] where they are shares.
        seconds: wall time of fitting and predicting.
        config: what the method was given.
        device: where it ran.
        versions: of the libraries it ran with.
    """

    protocol: str
    dataset: str
    method: str
    selection: str
    seed: int
    scores: dict[str, float]
    seconds: float
    config: dict[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    versions: dict[str, str] = field(default_factory=versions)

    def __post_init__(self) -> None:
        if self.selection not in SELECTIONS:
            raise ValueError(f"selection must be one of {', '.join(SELECTIONS)}; got {self.selection!r}")

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What makes a result the same result: it is computed once."""
        return self.protocol, self.dataset, self.method, self.selection, self.seed


def filed_as(protocol: str) -> str:
    """Return what results of a protocol are filed under: one name for those that ask the same of other sets."""
    return _SAME_QUESTION.get(protocol, protocol)


class ResultFile:
    """The results of a file, in the order they came."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        data = self.path.read_bytes() if self.path.exists() else b""
        # A process killed while it wrote leaves half a line, which never was a result; appending cuts it off.
        self._whole = data.rfind(b"\n") + 1
        self._results = [_parse(line, self.path, n) for n, line in enumerate(data[: self._whole].splitlines(), 1)]
        self._keys = {result.key for result in self._results}

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def append(self, result: Result) -> None:
        """Write one line and wait until it is on disk; a second result with the same key is refused."""
        if result.key in self._keys:
            raise ValueError(f"{self.path}: already holds {' / '.join(map(str, result.key))}")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab") as file:
            file.truncate(self._whole)
            file.write(json.dumps(asdict(result), ensure_ascii=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
            self._whole = file.tell()
        self._results.append(result)
        self._keys.add(result.key)


def _parse(line: bytes, path: Path, number: int) -> Result:
    try:
        document = json.loads(line)
        document["protocol"] = filed_as(document["protocol"])
        return Result(**{field.name: document[field.name] for field in fields(Result)})
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}, line {number}: not a result ({error})") from None
