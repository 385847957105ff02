"""Many concurrent clients of ``nutime serve`` on loopback: errors, latency and relative throughput.

    pip install -e '.[serve]' httpx
    python benchmarks/serve_load.py --seconds 60

Every client posts its next request (8 random walks of length 128, as JSON) when it has received the last
response. Direct embedding of the same series in batches is measured before and after, in this process, while the
service idles. The last line is JSON; the exit code is 1 if a request ended with anything but 200 or 429.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections import Counter

import httpx
import numpy as np

SERIES, LENGTH, DIRECT = 8, 128, 1000
PROGRAM = "import typer; from nutime.cli.serve import serve; typer.run(serve)"
BUSY = 429


def walks(n: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, LENGTH)).cumsum(axis=1)


def direct_rate() -> float:
    from nutime import NuTime

    encoder, X = NuTime.from_pretrained(), walks(DIRECT)
    encoder.embed(X[:100])
    start = time.perf_counter()
    encoder.embed(X)
    return DIRECT / (time.perf_counter() - start)


async def client(address: str, end: float, statuses: Counter[int], latencies: list[float]) -> None:
    body = json.dumps({"series": walks(SERIES).round(6).tolist()})
    async with httpx.AsyncClient(timeout=60) as http:
        while (start := time.perf_counter()) < end:
            try:
                response = await http.post(address, content=body, headers={"content-type": "application/json"})
                statuses[response.status_code] += 1
            except httpx.TransportError:
                statuses[0] += 1
                continue
            if response.status_code == BUSY:
                await asyncio.sleep(float(response.headers["retry-after"]))
            else:
                latencies.append(time.perf_counter() - start)


async def load(address: str, clients: int, seconds: float) -> tuple[Counter[int], list[float]]:
    statuses: Counter[int] = Counter()
    latencies: list[float] = []
    end = time.perf_counter() + seconds
    await asyncio.gather(*(client(address, end, statuses, latencies) for _ in range(clients)))
    return statuses, latencies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=64)
    args = parser.parse_args()
    command = [sys.executable, "-c", PROGRAM, "nutime-base", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout
        address = service.stdout.readline().split()[0]
        before = direct_rate()
        asyncio.run(load(address, 1, 1.0))  # warm up
        start = time.perf_counter()
        statuses, latencies = asyncio.run(load(address, args.clients, args.seconds))
        rate = SERIES * statuses[200] / (time.perf_counter() - start)
        direct = (before + direct_rate()) / 2
        service.terminate()
    errors = sum(count for status, count in statuses.items() if status not in (200, BUSY))
    p50, p99 = (1000 * np.quantile(latencies, [0.5, 0.99])).round(1).tolist()
    figures = {
        "clients": args.clients,
        "statuses": dict(statuses),
        "errors": errors,
        "p50_ms": p50,
        "p99_ms": p99,
        "series_per_s": round(rate, 1),
        "direct_per_s": round(direct, 1),
        "ratio": round(rate / direct, 3),
    }
    print(json.dumps(figures))
    sys.exit(errors > 0)


if __name__ == "__main__":
    main()
