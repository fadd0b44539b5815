"""What several test modules use: no test module imports another."""

from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SHARED = ROOT.parent / "shared" / "data"
