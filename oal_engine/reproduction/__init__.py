"""Reproduction of the tables in the published papers."""
