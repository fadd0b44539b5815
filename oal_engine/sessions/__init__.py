"""A person's run over a stream: its log, and everything that is made of it."""
