"""Compare: watch strategies race over one stream."""

from ui.page import guarded_store, open_page
from ui.race import race

open_page("Compare")
race(guarded_store())
