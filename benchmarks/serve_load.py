"""Many concurrent clients of ``nutime serve`` on loopback: errors, latency and relative throughput.

    pip install -e '.[serve]' httpx
    python benchmarks/serve_load.py --seconds 60
    python benchmarks/serve_load.py --seconds 60 --finetuned

Every client posts its next request (8 of 512 random walks of length 128, as JSON) when it has received the last
response. Each answer is compared with that of the same model in this process, without a service and without
concurrency. The model is the shipped encoder, or a classifier fine-tuned on the walks. Its direct rate, for the
same series in batches, is measured before and after, while the service idles. The last line is JSON; the exit code
is 1 if a request ended with anything but 200 or 429, or an answer differs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import numpy as np

SERIES, LENGTH, DIRECT = 8, 128, 512
TOLERANCE = 1e-5  # relative; batches of other sizes round otherwise
PROGRAM = "import typer; from nutime.cli.serve import serve; typer.run(serve)"
BUSY = 429
Answer: TypeAlias = dict[str, Any]


def walks(n: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, LENGTH)).cumsum(axis=1).round(6)


def make_model(finetuned: bool) -> Any:
    from nutime import NuTime, NuTimeClassifier
    from nutime.finetune import train

    if not finetuned:
        return NuTime.from_pretrained()
    train.MIN_STEPS = 5  # the service does the same work for few steps as for the usual 300, which need minutes
    X = walks(8)
    return NuTimeClassifier("finetune", epochs=1, random_state=0).fit(X, np.where(X[:, -1] > 0, "up", "down"))


def serial_answers(model: Any) -> tuple[list[Answer], float]:
    """Return the answer to every request, and the direct rate in series per second."""
    from nutime.batch.apply import result_columns

    X = list(walks(DIRECT)[:, None])
    result_columns(model, X[:64])
    start = time.perf_counter()
    columns = result_columns(model, X)
    rate = DIRECT / (time.perf_counter() - start)
    starts = range(0, DIRECT, SERIES)
    return [{name: column[at : at + SERIES] for name, column in columns.items()} for at in starts], rate


def differs(answer: Answer, expected: Answer) -> bool:
    if answer.keys() != expected.keys():
        return True
    numbers = [name for name, column in expected.items() if column.dtype.kind == "f"]
    scale = max(float(np.abs(expected[name]).max()) for name in numbers)
    return any(
        not np.allclose(answer[name], column, rtol=0, atol=TOLERANCE * scale)
        if name in numbers
        else answer[name] != column.tolist()
        for name, column in expected.items()
    )


class Load:
    """Clients of a service, and what they have seen."""

    def __init__(self, address: str, expected: list[Answer]) -> None:
        self.address, self.expected = address, expected
        X = walks(DIRECT)
        self.bodies = [json.dumps({"series": X[at : at + SERIES].tolist()}) for at in range(0, DIRECT, SERIES)]
        self.statuses: Counter[int] = Counter()
        self.latencies: list[float] = []
        self.different = 0

    async def run(self, clients: int, seconds: float) -> None:
        end = time.perf_counter() + seconds
        await asyncio.gather(*(self.client(number, end) for number in range(clients)))

    async def client(self, number: int, end: float) -> None:
        headers = {"content-type": "application/json"}
        async with httpx.AsyncClient(timeout=60) as http:
            while (start := time.perf_counter()) < end:
                number = (number + 1) % len(self.bodies)
                try:
                    response = await http.post(self.address, content=self.bodies[number], headers=headers)
                    self.statuses[response.status_code] += 1
                except httpx.TransportError:
                    self.statuses[0] += 1
                    continue
                if response.status_code == BUSY:
                    await asyncio.sleep(float(response.headers["retry-after"]))
                    continue
                self.latencies.append(time.perf_counter() - start)
                if response.status_code == 200:
                    self.different += differs(response.json(), self.expected[number])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--finetuned", action="store_true", help="serve a fine-tuned classifier")
    args = parser.parse_args()
    model = make_model(args.finetuned)
    expected, before = serial_answers(model)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", PROGRAM, str(model.save(Path(folder, "model"))), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
            assert service.stdout
            address = service.stdout.readline().split()[0]
            asyncio.run(Load(address, expected).run(1, 1.0))  # warm up
            load = Load(address, expected)
            start = time.perf_counter()
            asyncio.run(load.run(args.clients, args.seconds))
            rate = SERIES * load.statuses[200] / (time.perf_counter() - start)
            direct = (before + serial_answers(model)[1]) / 2
            service.terminate()
    errors = sum(count for status, count in load.statuses.items() if status not in (200, BUSY))
    p50, p99 = (1000 * np.quantile(load.latencies, [0.5, 0.99])).round(1).tolist()
    figures = {
        "clients": args.clients,
        "statuses": dict(load.statuses),
        "errors": errors,
        "different": load.different,
        "p50_ms": p50,
        "p99_ms": p99,
        "series_per_s": round(rate, 1),
        "direct_per_s": round(direct, 1),
        "ratio": round(rate / direct, 3),
    }
    print(json.dumps(figures))
    sys.exit(errors + load.different > 0)


if __name__ == "__main__":
    main()
