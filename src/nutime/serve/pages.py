"""The documentation page of a service: one HTML file without scripts or links to other hosts."""

from __future__ import annotations

import json
from html import escape
from typing import Any

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>nutime {version}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }}
pre {{ padding: .8rem; overflow-x: auto; background: #8882; border-radius: 6px }}
td, th {{ padding: .2rem 1rem .2rem 0; text-align: left; vertical-align: top }}
</style>
<h1>nutime {version}</h1>
<p>{models} over HTTP. The same in machine-readable form: <a href="openapi.json">openapi.json</a>.</p>
<h2>Endpoints</h2>
<table>{endpoints}</table>
<h2>Request</h2>
<p>One list of numbers per series, or one list per channel of a series; <code>null</code> is a missing value.
<code>"channels"</code> may name the channels: they are put in the model's order, and other names are refused.
An Arrow IPC stream (<code>{arrow}</code>) with the columns of a Parquet file works too.</p>
<pre>curl {address} -H 'content-type: application/json' \\
  -d '{example}'</pre>
<pre>import json, urllib.request

request = urllib.request.Request("{address}", json.dumps({example_python}).encode(),
                                 {{"content-type": "application/json"}})
print(json.load(urllib.request.urlopen(request)))</pre>
<p>With a token, add the header <code>Authorization: Bearer TOKEN</code>.</p>
<h2>Responses</h2>
<table>{statuses}</table>
<h2>Limits</h2>
<table>{limits}</table>
</html>
"""


def documentation(
    openapi: dict[str, Any], models: list[dict[str, Any]], limits: dict[str, Any], address: str
) -> str:
    """Return the page of a service from its OpenAPI document, its models, limits and address."""
    endpoints = [
        (f"{method.upper()} {path}", call["summary"])
        for path, calls in openapi["paths"].items()
        for method, call in calls.items()
    ]
    posted = next(calls["post"] for calls in openapi["paths"].values() if "post" in calls)
    content = posted["requestBody"]["content"]
    example = content["application/json"]["schema"]["example"]
    return _PAGE.format(
        version=escape(openapi["info"]["version"]),
        models=escape(", ".join(model["model"] for model in models)),
        endpoints=_rows(endpoints),
        arrow=escape(next(name for name in content if "arrow" in name)),
        address=escape(address + models[0]["answers"]),
        example=escape(json.dumps(example)),
        example_python=escape(repr(example)),
        statuses=_rows([(status, answer["description"]) for status, answer in posted["responses"].items()]),
        limits=_rows(limits.items()),
    )


def _rows(pairs: Any) -> str:
    return "".join(f"<tr><td>{escape(str(name))}</td><td>{escape(str(text))}</td></tr>" for name, text in pairs)
