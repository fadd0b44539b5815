"""The panels of the Label page."""
