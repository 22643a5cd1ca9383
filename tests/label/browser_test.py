"""The page of `cpc-tf label` in headless Chromium, used as a person with a keyboard uses it."""

import contextlib
import csv
import shutil
import signal
import threading
import time

import numpy as np
import pytest
from PIL import Image

from cpc_tf.classify import logistic
from cpc_tf.data.pictures import Pictures
from cpc_tf.label import guesses
from cpc_tf.label.config import LabelConfig
from cpc_tf.label.gallery import Gallery
from cpc_tf.label.server import Page, serve
from cpc_tf.label.session import Session
from tests import processes

if not (shutil.which("chromium") and shutil.which("chromedriver")):
    pytest.skip("there is no chromium or chromedriver", allow_module_level=True)
webdriver = pytest.importorskip("selenium.webdriver")

from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402 after the test for it
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

HOSTILE = "<img src=x onerror=alert(1)>.png"
COLORS = np.array([[200, 40, 40], [40, 160, 60], [40, 60, 200]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """60 images in three colours, in turn."""
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(60):
        pixels = np.random.default_rng(number).integers(-30, 30, [24, 32, 3]) + COLORS[number % 3]
        Image.fromarray(pixels.astype(np.uint8)).save(
            folder / (HOSTILE if number == 30 else f"{number:02}.png")
        )
    return folder


def labels_in(table):
    with open(table, encoding="utf-8", newline="") as file:
        return {row["file"]: row["label"] for row in csv.DictReader(file) if row["label"]}


class Served:
    """The server of these images, whose features are their colours."""

    def __init__(self, paths, names, table):
        colors = COLORS[np.arange(len(names)) % 3] / 255 + np.random.default_rng(0).normal(
            0, 0.05, [len(names), 3]
        )
        features = colors.astype(np.float32)
        directions = features - features.mean(0)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        gallery = Gallery(Pictures(names, paths), features, np.arange(len(names)), directions, {})
        page = Page(Session(LabelConfig(pictures="my_pictures", labels=str(table)), gallery))
        self.server = serve(page, 0)
        self.address, self.table, self.names = (
            f"http://127.0.0.1:{self.server.port}/{page.token}/",
            table,
            names,
        )
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def labels(self):
        return labels_in(self.table)

    def color(self, file):
        return ("red", "green", "blue")[self.names.index(file) % 3]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def served(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(guesses, "ENOUGH", 20)  # fewer than the labels of a screen
    monkeypatch.setattr(logistic, "STRENGTHS", (logistic.USUAL,))
    names = sorted(path.name for path in folder.iterdir())
    with contextlib.closing(
        Served([bytes(folder / name) for name in names], names, tmp_path / "labels.csv")
    ) as served:
        yield served


class Browser:
    """What a person sees and does."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, address, view="label"):
        # so that an address that differs in its hash alone is loaded, too
        self.driver.get("about:blank")
        self.driver.get(f"{address}#{view}")
        self.until(
            lambda: self.ask("!document.getElementById(arguments[0]).hidden", view), "the view"
        )

    def ask(self, expression, *values):
        return self.driver.execute_script(f"return {expression}", *values)

    def text(self, name):
        return self.ask("document.getElementById(arguments[0]).textContent", name)

    def files(self, grid="pictures"):
        return self.ask(
            "[...document.querySelectorAll(arguments[0])].map((one) => one.title)", f"#{grid} .tile"
        )

    def labels(self, grid="pictures"):
        script = "[...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
        return dict(zip(self.files(grid), self.ask(script, f"#{grid} .label")))

    def given(self, grid="pictures"):
        return {file: label for file, label in self.labels(grid).items() if label}

    def click(self, selector, place=0):
        self.driver.find_elements(By.CSS_SELECTOR, selector)[place].click()

    def keys(self, *keys, hold=()):
        actions = ActionChains(self.driver)
        for key in hold:
            actions.key_down(key)
        actions.send_keys(*keys)
        for key in hold:
            actions.key_up(key)
        actions.perform()

    def new_class(self, name):
        self.keys("n")
        self.keys(name, Keys.ENTER)

    def until(self, holds, what, seconds=20):
        end = time.time() + seconds
        while not holds():
            assert time.time() < end, f"not {what}: {self.text('count')}; {self.text('alert')}"
            time.sleep(0.05)

    def label_screen(self, served):
        """Gives each image its colour, the first three of which are new classes."""
        for file in self.files():
            assert self.ask("document.activeElement.title") == file
            classes = self.ask(
                "[...document.querySelectorAll('#chips li')].map((one) => one.dataset.name)"
            )
            if served.color(file) in classes:
                self.keys(str(1 + classes.index(served.color(file))))
            else:
                self.new_class(served.color(file))
        self.counted(24)
        # no others are being computed
        self.until(lambda: self.text("figures").endswith("."), "figures")

    def is_in_sight(self, name):
        return self.ask(
            """((box) => document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)
            ?.closest("button") === document.getElementById(arguments[0]))
            (document.getElementById(arguments[0]).getBoundingClientRect())""",
            name,
        )

    def counted(self, count):
        self.until(lambda: self.text("count").startswith(f"{count} of"), f"{count} labels")


@pytest.fixture(scope="module")
def page():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for word in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "window-size=1280,1000"):
        options.add_argument(f"--{word}")
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    yield Browser(driver)
    driver.quit()


def test_labels_by_keys_undo_and_reload(page, served):
    page.open(served.address)
    first = page.files()
    page.new_class("red")
    page.new_class("<b>green</b>")
    page.keys("1", "2", "1")
    page.counted(5)
    assert (
        page.given()
        == dict(zip(first, ["red", "<b>green</b>", "red", "<b>green</b>", "red"]))
        == served.labels()
    )
    page.keys("z", hold=[Keys.CONTROL])
    page.counted(4)
    page.until(lambda: [*page.given()] == first[:4] == [*served.labels()], "one label less")
    page.keys("z", hold=[Keys.CONTROL, Keys.SHIFT])
    page.counted(5)

    page.driver.refresh()
    page.until(page.files, "pictures")
    page.counted(5)
    assert not set(page.files()) & set(first[:5])
    page.keys("1")
    page.counted(6)  # the server takes it for the same page
    assert len(served.labels()) == 6


def test_selections(page, served):
    page.open(served.address)
    page.new_class("red")
    page.keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, hold=[Keys.SHIFT])
    page.keys("1")
    page.counted(4)
    tiles = page.driver.find_elements(By.CSS_SELECTOR, "#pictures .tile")
    below = 4 + sum(tile.location["y"] == tiles[0].location["y"] for tile in tiles)
    drag = ActionChains(page.driver).move_to_element(tiles[4]).click_and_hold()
    drag.move_to_element(tiles[below + 1]).release().perform()
    assert page.text("why") == "4 selected"
    ActionChains(page.driver).key_down(Keys.CONTROL).click(tiles[below]).key_up(
        Keys.CONTROL
    ).perform()
    assert page.text("why") == "3 selected"
    page.click(".chip")
    page.counted(7)
    assert [*page.given()] == [page.files()[place] for place in (0, 1, 2, 3, 4, 5, below + 1)]


def test_select_similar_covers_only_confident_guesses(page, served):
    page.open(served.address)
    page.new_class("red")
    page.counted(1)
    page.keys("s")
    page.until(
        lambda: page.text("why").endswith(": 1 selected"),
        "those like it, of which nothing is known",
    )
    page.keys(Keys.ESCAPE, Keys.ENTER)
    page.until(lambda: page.text("why").startswith("Why these"), "the same images again")
    page.keys("z", hold=[Keys.CONTROL])
    page.counted(0)
    page.open(served.address)
    page.label_screen(served)
    page.until(lambda: not page.given(), "the next images")
    first, left = (
        page.files()[0],
        20 - sum(label == served.color(page.files()[0]) for label in served.labels().values()),
    )
    page.keys("s")
    page.until(lambda: "should be" in page.text("why"), "those like it")
    hope = f"about {left - 1} of {left - 1} should be {served.color(first)}"
    assert page.text("why") == f"Like {first}: {left} selected, {hope}"
    page.click("#pictures .tile", 1)
    shown = page.files()
    page.click(".chip", ("red", "green", "blue").index(served.color(first)))
    page.counted(24 + left - 1)
    assert served.labels()[first] == served.color(first)
    assert shown[1] not in served.labels()


def test_first_screen_has_instructions_and_keys_give_feedback(page, served):
    page.open(served.address)
    page.until(page.files, "pictures")
    assert page.text("why").startswith("Press n, type what is on the framed image")
    page.keys("1")
    assert "No class has the key 1 yet" in page.text("said")
    for number in range(10):
        page.new_class(f"class {number}")
    top = page.ask("document.getElementById('pictures').getBoundingClientRect().top")
    page.keys("0")
    page.counted(11)
    assert [*page.given().values()][9:] == ["class 9"] * 2
    assert page.text("why").startswith("Why these")
    page.keys("?")
    page.click("#keys button")
    assert not page.ask("document.getElementById('keys').open")
    page.click("#pictures .tile", 3)
    assert page.text("why") == "1 selected"
    assert page.ask("document.getElementById('pictures').getBoundingClientRect().top") == top


@pytest.mark.parametrize("width", [1280, 390])
def test_next_is_visible_and_extra_enters_skip_nothing(page, served, width):
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.open(served.address)
        for number in range(12):
            page.new_class(f"a class with a long name {number}")
        first = page.files()
        page.ask("scrollTo(0, document.body.scrollHeight)")
        assert page.is_in_sight("next")
        assert page.ask("document.documentElement.scrollWidth") <= width
        page.keys("1" * 12, Keys.ENTER, Keys.ENTER)  # some of them before the next images are there
        page.counted(24)
        page.until(lambda: page.files() and not {*page.files()} & {*first}, "the next images")
        second = page.files()
        page.keys(Keys.ENTER)
        page.until(
            lambda: "Enter again" in page.text("said") or page.files() != second, "word of Enter"
        )
        assert page.files() == second
        page.keys(Keys.ENTER)
        page.until(lambda: {*page.files()} - {*second}, "the images after these")
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_deleted_picture_leaves_the_page(page, served, folder):
    page.open(served.address)
    page.until(page.files, "pictures")
    shown = page.files()
    content = (folder / shown[1]).read_bytes()
    (folder / shown[1]).unlink()
    try:
        page.new_class("red")
        page.keys("1")
        page.until(lambda: shown[1] not in page.files(), "leave")
        assert f"{shown[1]}: deleted from the folder" in page.text("said")
        page.driver.refresh()
        page.until(page.files, "pictures")
        page.until(lambda: "1 image is no longer in" in page.text("remarks"), "a remark")
        assert "of 59 labelled" in page.text("count")
        page.open(served.address, "all")
        page.until(lambda: len(page.files("everything")) == 59, "the others")
    finally:
        (folder / shown[1]).write_bytes(content)


def test_class_name_ignores_letter_case(page, served):
    page.open(served.address)
    page.new_class("red")
    page.new_class("RED")
    page.counted(2)
    page.until(lambda: [*page.given().values()] == ["red", "red"], "one class")
    assert {*served.labels().values()} == {"red"}


def test_an_error_takes_the_label_back(page, served):
    page.open(served.address)
    page.new_class("red")
    page.counted(1)
    page.new_class("red;green")
    page.until(lambda: "semicolon" in page.text("alert"), "an error")
    assert [*page.given()] == page.files()[:1]
    page.keys("1")
    page.counted(2)
    assert page.ask("document.getElementById('alert').hidden")


def test_second_page_is_refused_until_it_takes_over(page, served):
    page.open(served.address)
    page.new_class("red")
    page.counted(1)
    first = page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    try:
        page.open(served.address)
        page.keys("1")
        page.until(lambda: page.ask("!document.getElementById('claim').hidden"), "a refusal")
        page.until(lambda: not page.given(), "the label taken back")
        page.click("#claim")
        page.until(lambda: page.ask("document.getElementById('alert').hidden"), "leave")
        page.keys("1")
        page.counted(2)
    finally:
        page.driver.close()
        page.driver.switch_to.window(first)
    page.keys("1")
    page.until(lambda: page.ask("!document.getElementById('claim').hidden"), "a refusal")
    assert len(served.labels()) == 2


def test_names_are_text(page, served):
    page.open(served.address, "all")
    assert HOSTILE in page.files("everything")
    page.click("#everything .tile", page.files("everything").index(HOSTILE))
    page.new_class("<script>alert(2)</script>")
    page.counted(1)
    page.keys(" ")
    page.until(
        lambda: HOSTILE in page.text("large") and "<script>" in page.text("large"), "the image"
    )
    assert not page.ask(
        "document.querySelectorAll('main script, dialog script, #chips script, [onerror]').length"
    )
    page.driver.current_url  # noqa: B018 raises if there is an alert


def test_accepts_the_surest_guesses(page, served):
    page.open(served.address)
    page.label_screen(served)
    assert "drawn at random" in page.text("figures")
    page.click("nav a", 2)
    page.until(lambda: page.files("surest"), "guesses")
    shown, name = page.files("surest"), page.ask("document.getElementById('sure-class').value")
    assert page.text("hope") == f"about {len(shown)} of {len(shown)} should be {name}"
    page.click("#surest .tile", 1)
    assert page.text("accept") == f"Accept {len(shown) - 1} as {name}"
    page.click("#accept")
    page.until(lambda: "accepted" in page.text("count"), "accepted guesses")
    assert {*shown} - {*served.labels()} == {shown[1]}


def test_5000_pictures_scroll(page, folder, tmp_path):
    paths = sorted(bytes(path) for path in folder.iterdir())
    names = [f"{number:04}.png" for number in range(5000)]
    paths = [paths[number % 60] for number in range(5000)]
    with contextlib.closing(Served(paths, names, tmp_path / "labels.csv")) as served:
        page.open(served.address, "all")

        def is_at_the_end():
            page.ask("scrollTo(0, document.body.scrollHeight)")
            return page.ask("document.querySelectorAll('#everything .tile').length") == 5000

        page.until(is_at_the_end, "5,000 images", seconds=90)
        assert page.files("everything") == names
        page.click("#everything .tile:last-child")
        page.new_class("red")
        page.counted(1)
        assert served.labels() == {names[-1]: "red"}


def test_killed_and_goes_on(page, folder, tmp_path):
    table = tmp_path / "labels.csv"
    words = [f"--pictures={folder}", f"--labels={table}", "--encoder=pixels", "--nobrowser"]
    given = 0
    for end in (signal.SIGKILL, signal.SIGTERM):
        process = processes.start("cpc_tf.label", *words)
        try:
            page.open(processes.wait_for(process, "http://").split()[-1])
            page.until(page.files, "pictures")
            assert page.text("count").startswith(f"{given} of 60")
            page.new_class("red")
            page.keys("1111")
            page.counted(given + 5)
            page.keys("1111")  # some of which are under way
        finally:
            process.send_signal(end)
            process.communicate()
        assert process.returncode == (-9 if end == signal.SIGKILL else 143)
        labels = labels_in(table)
        assert given + 5 <= len(labels) <= given + 9
        assert {*labels.values()} == {"red"}
        given = len(labels)
    page.keys("1")
    page.until(lambda: "does not answer" in page.text("alert"), "word of the end")
    assert len(page.files()) == 24
