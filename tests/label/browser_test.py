"""The page of `cpc-tf label` in headless Chromium, used as a person with a keyboard uses it."""

import contextlib
import csv
import shutil
import threading
import time

import numpy as np
import pytest
from PIL import Image

from cpc_tf.label.config import LabelConfig
from cpc_tf.label.gallery import Gallery
from cpc_tf.label.server import Page, serve
from cpc_tf.label.session import Session
from cpc_tf.pictures import Pictures
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
    """60 pictures in three colours, in turn."""
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(60):
        pixels = np.random.default_rng(number).integers(-30, 30, [24, 32, 3]) + COLORS[number % 3]
        Image.fromarray(pixels.astype(np.uint8)).save(folder / (HOSTILE if number == 30 else f"{number:02}.png"))
    return folder


def labels_in(table):
    with open(table, encoding="utf-8", newline="") as file:
        return {row["file"]: row["label"] for row in csv.DictReader(file) if row["label"]}


class Served:
    """The server of these pictures, whose features are their colours."""

    def __init__(self, paths, names, table):
        colors = COLORS[np.arange(len(names)) % 3] / 255 + np.random.default_rng(0).normal(0, 0.05, [len(names), 3])
        features = colors.astype(np.float32)
        directions = features - features.mean(0)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        gallery = Gallery(Pictures(names, paths), features, np.arange(len(names)), directions, {})
        page = Page(Session(LabelConfig(pictures="my_pictures", labels=str(table)), gallery))
        self.server = serve(page, 0)
        self.address, self.table = f"http://127.0.0.1:{self.server.port}/{page.token}/", table
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def labels(self):
        return labels_in(self.table)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def served(folder, tmp_path):
    names = sorted(path.name for path in folder.iterdir())
    with contextlib.closing(Served([bytes(folder / name) for name in names], names, tmp_path / "labels.csv")) as served:
        yield served


class Browser:
    """What a person sees and does."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, address, view="label"):
        self.driver.get("about:blank")  # so that an address that differs in its hash alone is loaded, too
        self.driver.get(f"{address}#{view}")
        self.until(lambda: self.ask("!document.getElementById(arguments[0]).hidden", view), "the view")

    def ask(self, expression, *values):
        return self.driver.execute_script(f"return {expression}", *values)

    def text(self, name):
        return self.ask("document.getElementById(arguments[0]).textContent", name)

    def files(self, grid="pictures"):
        return self.ask("[...document.querySelectorAll(arguments[0])].map((one) => one.title)", f"#{grid} .tile")

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
    assert page.given() == dict(zip(first, ["red", "<b>green</b>", "red", "<b>green</b>", "red"])) == served.labels()
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
    ActionChains(page.driver).key_down(Keys.CONTROL).click(tiles[below]).key_up(Keys.CONTROL).perform()
    assert page.text("why") == "3 selected"
    page.click(".chip")
    page.counted(7)
    assert [*page.given()] == [page.files()[place] for place in (0, 1, 2, 3, 4, 5, below + 1)]


def test_all_like_this_one(page, served):
    page.open(served.address)
    page.new_class("red")
    page.counted(1)
    page.click("#pictures .tile")
    page.keys("s")
    page.until(lambda: page.text("why").endswith(": 23 selected"), "those like it")
    shown = page.files()
    page.click("#pictures .tile", 5)
    page.keys(Keys.ENTER)
    page.counted(23)
    assert {*served.labels()} == {*shown} - {shown[5]}
    page.keys(Keys.ENTER)
    page.until(lambda: page.text("why").startswith("Why these"), "the next pictures")


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


def test_a_second_page_is_refused_until_it_takes_over(page, served):
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
    page.until(lambda: HOSTILE in page.text("large") and "<script>" in page.text("large"), "the picture")
    assert not page.ask("document.querySelectorAll('main script, dialog script, #chips script, [onerror]').length")
    page.driver.current_url  # noqa: B018 raises if there is an alert


def test_check_map_and_finish(page, served):
    page.open(served.address)
    page.new_class("red")
    page.new_class("blue")
    page.keys("121212")
    page.counted(8)
    page.until(lambda: page.text("figures").endswith("."), "figures")  # no others are being computed
    assert "by cross-validation" in page.text("figures")
    page.click("nav a", 2)
    page.until(lambda: page.files("surest"), "guesses")
    shown = page.files("surest")
    page.click("#surest .tile", 1)
    assert page.text("accept") == f"Accept {len(shown) - 1} as red"
    page.click("#accept")
    page.until(lambda: "accepted" in page.text("count"), "accepted guesses")
    accepted = {file for file, label in served.labels().items() if label == "red"}
    assert {*shown} - accepted == {shown[1]}


def test_5000_pictures_scroll(page, folder, tmp_path):
    paths = sorted(bytes(path) for path in folder.iterdir())
    names = [f"{number:04}.png" for number in range(5000)]
    paths = [paths[number % 60] for number in range(5000)]
    with contextlib.closing(Served(paths, names, tmp_path / "labels.csv")) as served:
        page.open(served.address, "all")

        def is_at_the_end():
            page.ask("scrollTo(0, document.body.scrollHeight)")
            return page.ask("document.querySelectorAll('#everything .tile').length") == 5000

        page.until(is_at_the_end, "5,000 pictures", seconds=120)
        assert page.files("everything") == names
        page.click("#everything .tile:last-child")
        page.new_class("red")
        page.counted(1)
        assert served.labels() == {names[-1]: "red"}


def test_killed_and_goes_on(page, folder, tmp_path):
    table = tmp_path / "labels.csv"
    words = [f"--pictures={folder}", f"--labels={table}", "--encoder=pixels", "--nobrowser"]
    given = 0
    for _ in range(2):
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
            process.kill()
            process.communicate()
        labels = labels_in(table)
        assert given + 5 <= len(labels) <= given + 9
        assert {*labels.values()} == {"red"}
        given = len(labels)
    page.keys("1")
    page.until(lambda: "does not answer" in page.text("alert"), "word of the end")
    assert len(page.files()) == 24
