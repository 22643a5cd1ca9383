"""The page of `cpc-tf label` in headless Chromium, used as a person with a keyboard uses it."""

import os
import shutil
import signal
import time

import pytest

from tests import processes

if not (shutil.which("chromium") and shutil.which("chromedriver")):
    pytest.skip("there is no chromium or chromedriver", allow_module_level=True)
webdriver = pytest.importorskip("selenium.webdriver")

from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402 after the test for it
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

HOSTILE = "<img src=x onerror=alert(1)>.png"


class Page:
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
            assert time.time() < end, f"{what}; the page says {self.text('alert')!r}"
            time.sleep(0.05)

    def counted(self, count):
        self.until(lambda: self.text("count").startswith(f"{count} of"), f"{count} labels, not {self.text('count')}")


@pytest.fixture(scope="module")
def page():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for word in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "window-size=1280,1000"):
        options.add_argument(f"--{word}")
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    yield Page(driver)
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
    assert page.labels()[page.files()[1]] == "" and len(served.labels()) == 1
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
        assert not page.given() and len(served.labels()) == 1
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
    for name in ("red", "blue"):
        page.keys(Keys.ESCAPE)
        page.new_class(name)
    page.counted(2)
    page.keys("121212")
    page.counted(8)
