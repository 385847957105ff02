"""The protocols ``impute`` and ``forecast`` on validation data, or with the models of statsforecast beside them.

    pip install -e '.[compare]'
    python benchmarks/values.py path/to/data [--validation] [--only M4_Weekly] [--count 20] [--rivals]

``path/to/data`` has the folder ``values``. ``--validation`` reads the parts before the test parts only, for
choosing anything. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json

import numpy as np

from nutime import NuTime
from nutime.bench import values
from nutime.bench.methods import SingleRun


def auto_theta(past: np.ndarray, horizon: int, period: int) -> np.ndarray:
    from statsforecast.models import AutoTheta

    return AutoTheta(season_length=period).forecast(y=past, h=horizon)["mean"]


def auto_ets(past: np.ndarray, horizon: int, period: int) -> np.ndarray:
    from statsforecast.models import AutoETS

    return AutoETS(season_length=period).forecast(y=past, h=horizon)["mean"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--encoder", default="nutime-base")
    parser.add_argument("--validation", action="store_true")
    parser.add_argument("--only", default="", help="the set, such as M4_Weekly")
    parser.add_argument("--count", type=int, help="about as many series of every M4 set")
    parser.add_argument("--rivals", action="store_true")
    arguments = parser.parse_args()
    where = {"data_dir": arguments.folder, "validation": arguments.validation}
    encoders = [("nutime", NuTime.from_pretrained(arguments.encoder))]
    rivals = [values.ClassicalForecast(f.__name__, f) for f in (auto_theta, auto_ets) if arguments.rivals]
    result: dict[str, dict[str, dict[str, float]]] = {}

    def evaluate(name: str, methods: list[SingleRun], data: object) -> None:
        for method in methods:
            for _, scores, seconds, _ in method.evaluate(data):
                rounded = {key: round(score, 4) for key, score in scores.items()}
                result.setdefault(name, {})[method.method] = rounded
                print(f"{name:24} {method.method:24} {rounded}  {seconds:.1f} s", flush=True)

    for name in (name for name in values.IMPUTATION_SETS if name.endswith(arguments.only)):
        evaluate(f"impute {name}", values.imputations(encoders), values.load_imputation(name, **where))
    for name in (name for name in values.FORECAST_SETS if name.endswith(arguments.only)):
        data = values.load_futures(name, **where, count=arguments.count)
        evaluate(f"forecast {name}", [*values.forecasts(encoders), *rivals], data)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
