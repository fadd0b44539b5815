"""Files written from a session: published sessions, exports, reports, and pages that replay it."""
