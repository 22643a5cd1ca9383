"""Takes docs/images/label.png: the page of `cpc-tf label` in headless Chromium, with some crops
labelled.

PYTHONPATH=$PWD python docs/images/label.py
"""

import io
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from skimage import data
from sklearn.datasets import load_sample_image

PHOTOGRAPHS = {
    "cat": data.chelsea(),
    "coffee": data.coffee(),
    "rocket": data.rocket(),
    "astronaut": data.astronaut(),
    "temple": load_sample_image("china.jpg"),
    "flower": load_sample_image("flower.jpg"),
}
CROPS, LABELS = (
    50,
    60,
)  # crops of each photograph, and labels that are given before the image is taken


def cut(folder):
    """Writes crops of all photographs, and returns {name of the file: class}."""
    stream, names = np.random.default_rng(0), [*PHOTOGRAPHS] * CROPS
    stream.shuffle(names)
    classes = {f"IMG_{1000 + number}.jpg": name for number, name in enumerate(names)}
    for file, name in classes.items():
        photograph = PHOTOGRAPHS[name]
        side = stream.integers(120, 260)
        top, left = (stream.integers(length - side) for length in photograph.shape[:2])
        crop = Image.fromarray(photograph[top : top + side, left : left + side])
        crop.resize((224, 224)).save(folder / file, quality=90)
    return classes


def label(driver, classes):
    """Gives labels as a person would, by keys."""

    def keys(*words):
        ActionChains(driver).send_keys(*words).perform()

    known, done = [], {""}
    end = time.time() + 120
    while len(done) <= LABELS and time.time() < end:
        file = driver.execute_script("return document.activeElement.title")
        if file in done:  # until the page has gone on
            time.sleep(0.1)
            continue
        done.add(file)
        if classes[file] in known:
            keys(str(1 + known.index(classes[file])))
        else:
            known.append(classes[file])
            keys("n")
            keys(classes[file], Keys.ENTER)


def main():
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "my_pictures"
        folder.mkdir()
        classes = cut(folder)
        words = [
            "-m",
            "cpc_tf.label",
            "--pictures=my_pictures",
            "--labels=labels.csv",
            "--nobrowser",
        ]
        process = subprocess.Popen(
            [sys.executable, *words], cwd=scratch, stdout=subprocess.PIPE, text=True
        )
        address = next(line for line in process.stdout if "http://" in line).split()[-1]
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for word in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "hide-scrollbars"):
            options.add_argument(f"--{word}")
        driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            size = {"width": 1280, "height": 880, "deviceScaleFactor": 1, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            driver.get(address)
            label(driver, classes)
            ActionChains(driver).key_down(Keys.SHIFT).send_keys(Keys.ARROW_RIGHT * 2).key_up(
                Keys.SHIFT
            ).perform()
            figures = "return document.getElementById('figures').textContent"
            while "Computing" in driver.execute_script(figures):
                time.sleep(1)
            time.sleep(5)  # until what it said last is gone
            driver.execute_script("scrollTo(0, 0)")
            picture = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
            # In fewer bytes: 5 bits of each colour, so that grey stays grey.
            picture = picture.point([value & 0xF8 | value >> 5 for value in range(256)] * 3)
            picture.save(pathlib.Path(__file__).with_suffix(".png"), optimize=True)
        finally:
            driver.quit()
            process.kill()


if __name__ == "__main__":
    main()
