"""Code that several test modules share, because no test module may import another."""

from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SHARED = ROOT.parent / "shared" / "data"
