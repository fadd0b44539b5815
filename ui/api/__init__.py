"""The HTTP API under api/, with which programs use a session: its routes, permissions and OpenAPI description."""
