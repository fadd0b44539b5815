"""Docs: one page of the documentation, to which texts of the app link."""

import re
from pathlib import Path

import streamlit as st

from ui.page import complain, open_page

FOLDER = Path(__file__).parents[1] / "docs"
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)#]*)([^)]*)\)")


def show(text: str) -> None:
    """Show Markdown; of its links to other files, those to pages of the documentation stay links."""

    def follow(link: re.Match[str]) -> str:
        is_image, words, file, place = link.groups()
        here = (FOLDER / file).parent == FOLDER and file.endswith(".md")
        return f"[{words}](Docs?page={Path(file).stem}{place})" if here else words * (not is_image)

    with st.container(width=860):
        st.markdown(LINK.sub(follow, text))


open_page("Docs")
name = st.query_params.get("page", "README")
pages = {path.stem: path for path in FOLDER.glob("*.md")}
if name in pages:
    show(pages[name].read_text(encoding="utf-8"))
else:
    complain(f"The documentation has no page {name}.")
