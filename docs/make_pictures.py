"""Write the pictures of the README and of docs/, or some of them: python -m docs.make_pictures [NAME ...]

Each picture has the digest of the data that it shows, which a test computes again. Needs Chromium and the packages of
the tests.
"""

import io
import json
import re
import sys
from contextlib import chdir
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image, PngImagePlugin

from docs.make_pages import FOLDER, labeled_demo
from oal_engine import experiments
from oal_engine.datasets import demo
from oal_engine.experiments import figures, specifications
from oal_engine.store import Store

ANSWERS = 150
FRAMES, FRAME_MILLISECONDS, FRAME_SIZE, COLORS = 16, 900, (900, 560), 64
DIGEST = "Description"  # the field of a picture that has the digest


def comparison(folder):
    """Return the comparison of docs/comparison.toml, and its results."""
    values = specifications.contents(FOLDER / "comparison.toml")
    done = experiments.compare(experiments.specification(values), Store(folder / "comparison.db"))
    return done, done.as_json()["results"]


def label(folder):
    """Return a session of the demo after some questions, answered by the labels of the data, and its answers."""
    session = labeled_demo(Store(folder / "studio.db"), ANSWERS)
    return session, [(entry.item, entry.label) for entry in session.log]


def story(folder):
    """Run the Python of docs/tutorial.md, and return its session, and the ids of its list."""
    (folder / "data").symlink_to(demo.FOLDER)
    (code,) = re.findall(r"```python\n(.*?)```", (FOLDER / "tutorial.md").read_text(encoding="utf-8"), re.DOTALL)
    with chdir(folder):
        exec(code, names := {})
    return names["session"], names["listed"]["id"].tolist()


def file(path):
    """Return a source: a function that returns the path of a file, and its content."""
    return lambda folder: (path, path.read_text(encoding="utf-8"))


def draw_comparison(done, folder):
    """Draw F1 over the items, without bands: the large marks of a figure over labels would hide each other."""
    picture = figures.figure("png", done, figures.view(done, axis="rounds", bands=False))
    return [Image.open(io.BytesIO(picture))]


def draw_session(session, folder):
    """Take a picture of the page on which a person labels the session, or of its end."""
    (database,) = folder.glob("*.db")

    def wait(page):
        page.locator(".js-plotly-plot").first.wait_for()
        page.get_by_text("Stopping here").or_(page.get_by_text("You can stop here")).wait_for()

    return photograph(folder, f"/Label?session={session.id}", wait, OAL_DB=str(database))


def draw_import(path, folder):
    """Take a picture of Home after a file was dropped, and no labels were chosen."""
    from tests.harness.browser import upload

    def drop(page):
        upload(page, path)
        page.get_by_text("no labels", exact=True).click()
        page.get_by_text("no labels; ids in id").wait_for()

    return photograph(folder, "/", drop)


def photograph(folder, address, act, **environment):
    """Take a picture of a page of the app. act: acts on the page, and waits until all of it is painted."""
    from tests.harness.browser import DESKTOP, PATIENCE, chromium, running

    with running(folder, **environment) as server, chromium() as browser:
        page = browser.new_page(viewport=DESKTOP)
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(server.url(address))
        act(page)
        page.wait_for_timeout(1000)  # until fonts and shadows are painted
        return [Image.open(io.BytesIO(page.screenshot()))]


def draw_race(path, folder):
    """Take pictures of the race at equal steps."""
    from tests.harness.browser import chromium

    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1366, "height": 850}, reduced_motion="reduce")
        page.goto(path.as_uri())
        scrub = page.locator("[part=scrub]")
        rounds = int(scrub.get_attribute("max"))
        pictures = []
        for frame in range(1, FRAMES + 1):
            scrub.evaluate("(input, t) => { input.value = t; input.oninput(); }", rounds * frame // FRAMES)
            page.wait_for_timeout(200)  # until the canvases are drawn
            pictures.append(Image.open(io.BytesIO(page.screenshot())).resize(FRAME_SIZE))
    return pictures


PICTURES = {
    "comparison.png": (comparison, draw_comparison),
    "label.png": (label, draw_session),
    "race.gif": (file(FOLDER / "race.html"), draw_race),
    "tutorial-import.png": (file(demo.FOLDER / demo.TWEETS.file), draw_import),
    "tutorial-end.png": (story, draw_session),
}


def digest(name):
    """Compute the digest of the data that a picture shows."""
    with TemporaryDirectory() as folder:
        return _digest(PICTURES[name][0](Path(folder))[1])


def _digest(shown):
    return sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


def stored_digest(name):
    """Return the digest that a picture in docs/ has."""
    with Image.open(FOLDER / name) as picture:
        return picture.info.get(DIGEST) or picture.info["comment"].decode()


def write(name):
    """Draw a picture and write it to docs/."""
    source, draw = PICTURES[name]
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data, shown = source(folder)
        first, *others = (each.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE) for each in draw(data, folder))
    if others:
        more = {"save_all": True, "append_images": others, "duration": FRAME_MILLISECONDS, "loop": 0}
        first.save(FOLDER / name, comment=_digest(shown), **more)
    else:
        text = PngImagePlugin.PngInfo()
        text.add_text(DIGEST, _digest(shown))
        first.save(FOLDER / name, pnginfo=text, optimize=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        write(name)
