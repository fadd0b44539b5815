"""The routes under api/, with which programs use a session: what they do, who may call them, and their description."""
