"""The service: models behind ``/embed``, ``/predict`` or ``/detect``, with health, metrics and documentation.

Several models have names, and paths like ``/models/NAME/predict``.

Bodies are read here and not by the framework, so that a request over a limit is refused before it is in memory.
Beyond the limit of requests in progress, clients are answered 429 with ``Retry-After``; no queue is unbounded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nutime.access import LOOPBACK, Access, Refusal
from nutime.batch.apply import result_columns
from nutime.batch.results import Results
from nutime.data.series import Array, SeriesSet, read_input
from nutime.documents import message_of
from nutime.encoder import NuTime
from nutime.serve.batching import Batcher
from nutime.serve.limits import Limits
from nutime.serve.metrics import Metrics
from nutime.serve.pages import documentation
from nutime.serve.wire import ARROW, JSON, Inputs, MalformedError, decode, encode
from nutime.version import own_version

#: Endpoints by class of the model; all other models embed.
_ENDPOINTS = {
    "NuTimeClassifier": "predict",
    "NuTimeClusterer": "predict",
    "NuTimeDetector": "detect",
    "NuTimeRegressor": "predict",
}
_RETRY = {"Retry-After": "1"}
_CLIENT_CLOSED = 499  # only for the metrics: the client does not read it
_DECODER_THREADS = 2  # bodies converted at the same time: each may take a few hundred megabytes
_SECURITY_HEADERS = {"x-content-type-options": "nosniff", "cross-origin-resource-policy": "same-origin"}


class ServedModel:
    """A model, its path and its queue.

    Attributes:
        endpoint: ``embed``, ``predict`` or ``detect``.
        path: of the requests.
        channels: number of channels of the series; None if any number is accepted.
        channel_names, feature_names: of channels and of the columns of a table, in the order of the model; None if
            it was fitted without such names.
    """

    def __init__(self, model: Any, name: str, limits: Limits, metrics: Metrics) -> None:
        self._model, self._metrics = model, metrics
        self.batcher = Batcher(self._predict, limits.batch_series, limits.batch_seconds)
        self.endpoint = _ENDPOINTS.get(type(model).__name__, "embed")
        self.path = f"/models/{name}/{self.endpoint}" if name else f"/{self.endpoint}"
        self.channel_names, self.feature_names = (
            None if names is None else [str(name) for name in names]
            for names in (getattr(model, f"{kind}_names_in_", None) for kind in ("channel", "feature"))
        )
        if not isinstance(model, NuTime):
            self.channels: int | None = int(model.n_channels_in_)
        else:
            self.channels = None if model.config.channels == 1 else model.config.channels

    def about(self) -> dict[str, Any]:
        """Describe the model."""
        classes = getattr(self._model, "classes_", None)
        return {
            "model": type(self._model).__name__,
            "answers": self.path,
            "channels": self.channels or "any",
            **({} if self.channel_names is None else {"channel_names": self.channel_names}),
            **({} if classes is None else {"classes": classes.tolist()}),
        }

    def align(self, inputs: Inputs) -> list[Array]:
        """Return the series of a request, finite, with channels or columns in the order of the model."""
        named = SeriesSet(inputs.series, channel_names=inputs.channel_names, feature_names=inputs.feature_names)
        series = read_input(named, channel_names=self.channel_names, feature_names=self.feature_names).series
        if self.channels not in (None, len(series[0])):
            raise ValueError(f"the series have {len(series[0])} channel(s), the model expects {self.channels}")
        return series

    def _predict(self, series: list[Array]) -> Results:
        self._metrics.batches.inc()
        return result_columns(self._model, series)


class Service:
    """Models with common limits and metrics."""

    def __init__(self, models: Mapping[str, Any], limits: Limits) -> None:
        self.limits = limits
        self.requests = 0
        self.metrics = Metrics(
            lambda: self.requests, lambda: sum(model.batcher.waiting_series for model in self.models.values())
        )
        self.models = {name: ServedModel(model, name, limits, self.metrics) for name, model in models.items()}
        self._decoders = ThreadPoolExecutor(_DECODER_THREADS, "decode")

    def about(self) -> dict[str, Any]:
        """Describe the models."""
        version = {"version": own_version()}
        if list(self.models) == [""]:
            return version | self.models[""].about()
        return version | {"models": {name: model.about() for name, model in self.models.items()}}

    async def respond(self, model: ServedModel, request: Request) -> Response:
        """Process a request and count it."""
        started = time.perf_counter()
        status = 500
        self.requests += 1
        try:
            response = await self._respond(model, request)
            status = response.status_code
        except HTTPException as refusal:
            status = refusal.status_code
            raise
        finally:
            self.requests -= 1
            self.metrics.count(status, time.perf_counter() - started)
        return response

    async def _respond(self, model: ServedModel, request: Request) -> Response:
        if self.requests > self.limits.requests:
            raise HTTPException(429, f"{self.limits.requests} requests are in progress; try again", _RETRY)
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type not in (JSON, ARROW):
            raise HTTPException(415, f"content type {content_type[:80]!r}; expected {JSON} or {ARROW}")
        if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise HTTPException(415, "compressed bodies are not accepted; send the body uncompressed")
        deadline = asyncio.get_running_loop().time() + self.limits.seconds
        try:
            async with asyncio.timeout_at(deadline):
                body = await self._body(request)
        except TimeoutError:
            raise HTTPException(408, f"the body did not arrive within {self.limits.seconds:g} s") from None
        except ClientDisconnect:
            return Response(status_code=_CLIENT_CLOSED)
        try:
            async with asyncio.timeout_at(deadline):
                return Response(await self._results(model, body, content_type), media_type=content_type)
        except TimeoutError:
            text = f"no response within {self.limits.seconds:g} s; try again, or with fewer series"
            raise HTTPException(503, text, _RETRY) from None

    async def _body(self, request: Request) -> bytes:
        too_large = HTTPException(413, f"the body is larger than {self.limits.body_bytes} bytes")
        if int(request.headers.get("content-length", 0)) > self.limits.body_bytes:
            raise too_large
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > self.limits.body_bytes:
                raise too_large
        return bytes(body)

    async def _results(self, model: ServedModel, body: bytes, content_type: str) -> bytes:
        loop = asyncio.get_running_loop()

        def read() -> tuple[list[Array], Results]:
            inputs = decode(body, content_type, self.limits)
            return model.align(inputs), inputs.kept

        try:
            series, kept = await loop.run_in_executor(self._decoders, read)
        except MalformedError as error:
            raise HTTPException(400, message_of(error)) from None
        except ValueError as error:
            raise HTTPException(422, message_of(error)) from None
        results = await model.batcher.predict(series)
        self.metrics.series.inc(len(series))
        return await loop.run_in_executor(self._decoders, encode, {**kept, **results}, content_type)


class _Guard:
    """ASGI middleware: refuses requests by the access rules, adds headers and limits the time of each send."""

    def __init__(self, app: ASGIApp, access: Access, seconds: float) -> None:
        self._app = app
        self._access = access
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def bounded_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.encode(), value.encode()) for name, value in _SECURITY_HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *extra]}
            async with asyncio.timeout(self._seconds):
                await send(message)

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._access.refusal(headers)
        if refusal is None and "content-length" in headers and "transfer-encoding" in headers:
            # A proxy might take the other one, and see other requests than this server.
            refusal = Refusal(400, "give either content-length or transfer-encoding")
        if refusal is None:
            await self._app(scope, receive, bounded_send)
            return
        extra = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {}
        await JSONResponse({"detail": refusal.reason}, refusal.status, extra)(scope, receive, bounded_send)


def create_app(model: Any, limits: Limits | None = None, access: Access | None = None) -> FastAPI:
    """Return the service of one or several models as an ASGI application.

    Args:
        model: an encoder or a fitted estimator; or several by name, at ``/models/NAME/…``.
        limits: the limits on requests, for all models together.
        access: the access rules; by default the host names of loopback, without a token.
    """
    service = Service(model if isinstance(model, Mapping) else {"": model}, limits or Limits())
    models = service.models.values()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for served in models:
            served.batcher.start()
        yield
        await asyncio.gather(*(served.batcher.close() for served in models))

    # FastAPI's own documentation pages load scripts from a CDN.
    app = FastAPI(title="nutime", version=own_version(), lifespan=lifespan, docs_url=None, redoc_url=None)
    app.add_middleware(_Guard, access=access or Access(frozenset(LOOPBACK)), seconds=service.limits.seconds)
    app.state.service = service

    @app.get("/", summary="What this service is")
    async def root() -> dict[str, Any]:
        return {"nutime": "a model of time series over HTTP", **service.about(), "documentation": "/docs"}

    @app.get("/docs", summary="This documentation", response_class=HTMLResponse)
    async def docs(request: Request) -> str:
        address = str(request.base_url).rstrip("/")
        return documentation(app.openapi(), [served.about() for served in models], asdict(service.limits), address)

    @app.get("/health", summary="Whether the process responds, and its models")
    async def health() -> dict[str, Any]:
        return {"status": "ok", **service.about()}

    @app.get("/ready", summary="Whether requests are accepted, and the models", responses={503: _REFUSAL})
    async def ready() -> Response:
        is_open = all(served.batcher.is_open for served in models)
        status = "ready" if is_open else "stopping"
        return JSONResponse({"status": status, **service.about()}, 200 if is_open else 503)

    @app.get("/metrics", summary="Metrics for Prometheus", response_class=Response)
    async def metrics() -> Response:
        return Response(generate_latest(service.metrics.registry), headers={"content-type": CONTENT_TYPE_LATEST})

    for served in models:
        _add_route(app, service, served)
    return app


def _add_route(app: FastAPI, service: Service, model: ServedModel) -> None:
    @app.post(
        model.path,
        summary=f"{model.endpoint.capitalize()} series",
        response_class=Response,
        responses=_responses(),
        openapi_extra={"requestBody": {"required": True, "content": _request_content(service.limits)}},
    )
    async def respond(request: Request) -> Response:
        return await service.respond(model, request)


def _request_content(limits: Limits) -> dict[str, Any]:
    values = {"type": "array", "minItems": 1, "maxItems": limits.length, "items": {"type": ["number", "null"]}}
    series = {"anyOf": [values, {"type": "array", "minItems": 1, "items": values}]}
    schema = {
        "type": "object",
        "required": ["series"],
        "additionalProperties": False,
        "properties": {
            "series": {
                "type": "array",
                "minItems": 1,
                "maxItems": limits.series,
                "items": series,
                "description": "One list of numbers per series, or one list per channel; null is missing.",
            },
            "channels": {
                "type": "array",
                "minItems": 1,
                "maxItems": limits.series,
                "items": {"type": "string"},
                "description": "Names of the channels, in their order in the series; a model that knows the names "
                "reorders them, or refuses others.",
            },
        },
        "example": {"series": [[1.0, 2.5, None, 4.0, 3.5], [0.5, 0.25]]},
    }
    return {JSON: {"schema": schema}, ARROW: {"schema": {"type": "string", "format": "binary"}}}


_REFUSAL: dict[str, Any] = {"description": "The service is stopping."}


def _responses() -> dict[int | str, dict[str, Any]]:
    columns = {"type": "object", "additionalProperties": {"type": "array"}}
    content = {JSON: {"schema": columns}, ARROW: {"schema": {"type": "string", "format": "binary"}}}
    refusal = {"type": "object", "required": ["detail"], "properties": {"detail": {"type": "string"}}}
    refusals = {
        400: "The body is neither JSON nor an Arrow stream, or the host name is not accepted.",
        401: "The bearer token is missing or wrong.",
        403: "The request comes from a page of another origin.",
        408: "The body arrived too slowly.",
        413: "The body is too large.",
        415: "The content type is neither JSON nor an Arrow stream.",
        422: "The series are unusable, too many or too long.",
        429: "Too many requests in progress; try again after Retry-After seconds.",
        503: "The response took too long; try again after Retry-After seconds.",
    }
    return {
        200: {"description": "Columns with one row per series, in the format of the request.", "content": content},
        **{
            status: {"description": text, "content": {JSON: {"schema": refusal}}}
            for status, text in refusals.items()
        },
    }
