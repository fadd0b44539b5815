"""The ASGI app that `streamlit run app.py` serves: the pages and routes, behind a gate that every request passes."""

import streamlit as st
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from ui.api import server as api
from ui.background import lifespan
from ui.components import card, pulse
from ui.gate import Gate

ROUTES = card.route(), card.pictures(), pulse.route(), api.route()

app = st.App(
    "home.py",
    lifespan=lifespan,
    routes=ROUTES,
    middleware=[
        Middleware(TrustedHostMiddleware, allowed_hosts=st.get_option("server.allowedHosts"), www_redirect=False),
        Middleware(Gate, routes=ROUTES),
    ],
)
