"""The description of the API in OpenAPI 3.1, generated from the table of routes and their messages."""

from typing import Any

from pydantic import TypeAdapter

from oal_engine import __version__
from oal_engine.store import Row

from .routes import ROUTES, Call, Route, route

REFERENCE = "#/components/schemas/{model}"
JSON, LINES = "application/json", "application/jsonl"
ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
ANY = {"type": "object"}


@route("GET", "openapi.json", "reader")
def openapi(call: Call) -> Row:
    """Return this OpenAPI description of all routes."""
    schemas: dict[str, Any] = {"Error": ERROR}
    paths = {
        f"/{path}": {method.lower(): _operation(path, route, schemas) for method, route in methods.items()}
        for path, methods in ROUTES.items()
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "OAL Studio", "version": __version__},
        "servers": [{"url": "."}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}, "schemas": schemas},
    }


def _operation(path: str, route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    """Describe a route as an OpenAPI operation, and add the schemas of its message to `schemas`."""
    words = " ".join((route.act.__doc__ or "").split())
    summary, _, more = words.partition(". ")
    operation: dict[str, Any] = {
        "operationId": route.act.__name__, "summary": summary.removesuffix("."),
        "description": f"{more} For every {route.lowest}.".strip(),
        "responses": {
            "200": {"description": "Done", "content": {JSON: {"schema": ANY}}},
            "default": {
                "description": "Refused, in one sentence",
                "content": {JSON: {"schema": {"$ref": REFERENCE.format(model="Error")}}},
            },
        },
    }  # fmt: skip
    if route.kind is bytes:
        return operation | {"requestBody": _body(LINES, {"type": "string"})}
    schema = TypeAdapter(route.kind).json_schema(ref_template=REFERENCE)
    schemas |= schema.pop("$defs", {})
    if route.most_bytes:
        return operation | {"requestBody": _body(JSON, schema)}
    fields = schema.get("properties", {})
    return operation | {"parameters": [{"name": name, "in": "query", "schema": fields[name]} for name in fields]}


def _body(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {kind: {"schema": schema}}}
