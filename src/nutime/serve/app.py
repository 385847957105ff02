"""The service: one model, one question (``/embed``, ``/predict`` or ``/detect``), and what operators ask.

Unusual here: bodies are read by hand, not by the framework, so that a request is refused before it is held in
memory. Too many at a time are told 429 and when to come back; nothing waits without bounds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.requests import ClientDisconnect

from nutime.batch.apply import result_columns
from nutime.batch.results import Results
from nutime.data.series import Array
from nutime.encoder import NuTime
from nutime.serve.batching import Batcher
from nutime.serve.limits import Limits
from nutime.serve.metrics import Metrics
from nutime.serve.wire import ARROW, JSON, MalformedError, decode, encode
from nutime.version import own_version

#: What a model answers; all others embed.
_QUESTIONS = {"NuTimeClassifier": "predict", "NuTimeClusterer": "predict", "NuTimeDetector": "detect"}
_COME_BACK = {"Retry-After": "1"}
_CLIENT_LEFT = 499  # nobody reads it; the counters do


class Service:
    """A model with its limits and counters."""

    def __init__(self, model: Any, limits: Limits) -> None:
        self.model = model
        self.limits = limits
        self.metrics = Metrics()
        self.batcher = Batcher(self._batch, limits.batch_series, limits.batch_seconds)
        self.requests = 0

    @property
    def question(self) -> str:
        """What the model can be asked: ``embed``, ``predict`` or ``detect``."""
        return _QUESTIONS.get(type(self.model).__name__, "embed")

    async def counted(self, request: Request) -> Response:
        """Answer a request if there is room for it, and count how that ends."""
        started = time.perf_counter()
        status = 500
        self.requests += 1
        try:
            response = await self._answer(request)
            status = response.status_code
        except HTTPException as refusal:
            status = refusal.status_code
            raise
        finally:
            self.requests -= 1
            self.metrics.count(status, time.perf_counter() - started)
        return response

    async def _answer(self, request: Request) -> Response:
        if self.requests > self.limits.requests:
            raise HTTPException(429, f"{self.limits.requests} requests are in work; try again", _COME_BACK)
        form = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if form not in (JSON, ARROW):
            raise HTTPException(415, f"content type {form[:80]!r}; expected {JSON} or {ARROW}")
        deadline = asyncio.get_running_loop().time() + self.limits.seconds
        try:
            async with asyncio.timeout_at(deadline):
                body = await self._body(request)
        except TimeoutError:
            raise HTTPException(408, f"the body did not arrive within {self.limits.seconds:g} s") from None
        except ClientDisconnect:
            return Response(status_code=_CLIENT_LEFT)
        try:
            async with asyncio.timeout_at(deadline):
                return Response(await self._ask(body, form), media_type=form)
        except TimeoutError:
            text = f"no answer within {self.limits.seconds:g} s; try again, or with fewer series"
            raise HTTPException(503, text, _COME_BACK) from None

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

    async def _ask(self, body: bytes, form: str) -> bytes:
        try:
            question = await asyncio.to_thread(decode, body, form, self.limits)
            self._check_channels(len(question.series[0]))
        except MalformedError as error:
            raise HTTPException(400, _one_line(error)) from None
        except ValueError as error:
            raise HTTPException(422, _one_line(error)) from None
        results = await self.batcher.ask(question.series)
        self.metrics.series += len(question.series)
        return await asyncio.to_thread(encode, {**question.kept, **results}, form)

    def _batch(self, series: list[Array]) -> Results:
        self.metrics.batches += 1
        return result_columns(self.model, series)

    def _check_channels(self, channels: int) -> None:
        if isinstance(self.model, NuTime):
            expected = {1: channels}.get(self.model.config.channels, self.model.config.channels)
        else:
            expected = self.model.n_channels_in_
        if channels != expected:
            raise ValueError(f"the series have {channels} channel(s), the model takes {expected}")


def create_app(model: Any, limits: Limits | None = None) -> FastAPI:
    """Return the service of a model as an ASGI application.

    Args:
        model: an encoder or a fitted estimator.
        limits: what it takes on.
    """
    service = Service(model, limits or Limits())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.batcher.start()
        yield
        await service.batcher.close()

    # The interactive pages would load scripts from elsewhere; /openapi.json says the same.
    app = FastAPI(title="nutime", version=own_version(), lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.service = service

    @app.get("/health", summary="Whether the service lives, and what it answers")
    async def health() -> dict[str, str]:
        return {"status": "ok", "model": type(model).__name__, "answers": f"/{service.question}"}

    @app.get("/metrics", summary="Counters for Prometheus", response_class=PlainTextResponse)
    async def metrics() -> Response:
        text = service.metrics.text(requests=service.requests, waiting_series=service.batcher.waiting_series)
        return Response(text, media_type="text/plain; version=0.0.4")

    app.post(
        f"/{service.question}",
        summary=f"{service.question.capitalize()} series",
        response_class=Response,
        responses=_responses(),
        openapi_extra={"requestBody": {"required": True, "content": _request_content(service.limits)}},
    )(service.counted)
    return app


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
                "description": "A list of numbers a series, or of lists, one a channel; null is missing.",
            }
        },
        "example": {"series": [[1.0, 2.5, None, 4.0, 3.5], [0.5, 0.25]]},
    }
    return {JSON: {"schema": schema}, ARROW: {"schema": {"type": "string", "format": "binary"}}}


def _responses() -> dict[int | str, dict[str, Any]]:
    column = {"type": "object", "additionalProperties": {"type": "array"}}
    answer = {JSON: {"schema": column}, ARROW: {"schema": {"type": "string", "format": "binary"}}}
    refusal = {"type": "object", "required": ["detail"], "properties": {"detail": {"type": "string"}}}
    refusals = {
        400: "The body is neither JSON nor an Arrow stream.",
        408: "The body came too slowly.",
        413: "The body is too large.",
        415: "Neither JSON nor an Arrow stream was announced.",
        422: "The series cannot be used.",
        429: "Too many requests at a time; come back after Retry-After seconds.",
        503: "The answer would have come too late; come back after Retry-After seconds.",
    }
    return {
        200: {"description": "A row a series, by column; in the form of the question.", "content": answer},
        **{
            status: {"description": text, "content": {JSON: {"schema": refusal}}}
            for status, text in refusals.items()
        },
    }


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
