"""Insights into a session: estimates, guarantees, drift, agreement, curves and outcome."""
