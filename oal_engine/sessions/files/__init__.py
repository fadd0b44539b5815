"""Files that a session leaves: published sessions, exports, reports, pages that play it."""
