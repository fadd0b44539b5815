"""Convert docs/python.md to the notebook docs/python.ipynb: python -m docs.make_notebook"""

import json
import re
from pathlib import Path

HERE = Path(__file__).parent


def notebook():
    """Return the notebook as JSON: a code cell for each block of Python, and Markdown cells for the text between
    them."""
    parts = re.split(r"```python\n(.*?)```\n", (HERE / "python.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    code = {"cell_type": "code", "execution_count": None, "outputs": []}
    cells = [
        {**(code if k % 2 else {"cell_type": "markdown"}), "id": f"cell-{k}", "metadata": {}, "source": part.strip()}
        for k, part in enumerate(parts)
        if part.strip()
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (HERE / "python.ipynb").write_text(notebook(), encoding="utf-8")
