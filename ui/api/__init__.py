"""The routes under api/, with which programs use a session: the acts, the permissions, and their description."""
