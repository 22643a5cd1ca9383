"""Commands in documents have flags that exist, links lead somewhere, and the README's code runs."""

import functools
import re
import shlex

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core import cli
from cpc_tf.core.commands import COMMANDS
from cpc_tf.core.keras import keras
from cpc_tf.core.settings import all_leaves
from cpc_tf.use import classify as classify_command
from cpc_tf.use import embed as embed_run
from tests import fresh, keras_networks, samples
from tests.binaries import ROOT, settings_of
from tests.modules import write_module
from tests.snippets import printed, python_of

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
# Pages of the notebook keep the commands and flags of their day.
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (*DOCUMENTS, ROOT / "flags/README.md")
    if "notebook" not in path.parts
}
NO_FLAGS = {"cpc_tf.augment.build", "cpc_tf.core.devices"}
COMMAND = re.compile(r"(?:cpc-tf (\w+)|python3? -m ((?:cpc_tf\.|export)[\w.]*))([^`\n]*)")


def commands(text):
    """(module, arguments) of each of our commands in a document, joined over continued lines."""
    for command, module, rest in COMMAND.findall(re.sub(r"\\\n\s*", " ", text)):
        if command and command not in COMMANDS:
            continue  # such as `cpc-tf presets`, which has no flags
        lexer = shlex.shlex(rest, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = "#"
        arguments = []
        for word in lexer:
            if word[0] in ";&|<>()":  # the end of this command
                break
            arguments.append(word)
        yield module or f"cpc_tf.{command}", arguments


@pytest.mark.parametrize("page", PAGES)
def test_commands_parse(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    for module, arguments in commands(PAGES[page]):
        if module in NO_FLAGS or arguments == ["--help"]:
            continue
        assert all(argument.startswith("--") for argument in arguments), arguments
        cli.parse(settings_of(module), arguments)


def test_commands_are_found():
    found = {module for text in PAGES.values() for module, _ in commands(text)}
    assert found >= {f"cpc_tf.{name}" for name in COMMANDS}
    text = (
        "until cpc-tf pretrain --workdir=$B/x \\\n   --seed=3; do # no\n `python -m export"
        " --step=1` --x"
    )
    assert list(commands(text)) == [
        ("cpc_tf.pretrain", ["--workdir=$B/x", "--seed=3"]),
        ("export", ["--step=1"]),
    ]


def test_every_flag_named_exists():
    """`--flag` in a text is one of ours, or stands in a line of somebody else's command."""
    fields = [field for command in COMMANDS.values() for _, field in all_leaves(command.config)]
    ours = {f"--{field.name}" for field in fields} | {
        "--flagfile",
        "--preset",
        "--set",
        "--help",
        "--helpfull",
    }
    for page, code_and_text in PAGES.items():
        text = re.sub(r"```.*?```", "", code_and_text, flags=re.DOTALL)
        for span in re.findall(r"`(--[^`]*)`", text):
            for flag in re.findall(r"--\w+", span):
                prefix = span.endswith("*") and any(name.startswith(flag) for name in ours)
                assert {flag, flag.replace("--no", "--", 1)} & ours or prefix, f"{page}: {flag}"


@pytest.mark.parametrize("page", PAGES)
def test_each_line_of_a_paragraph_ends_a_sentence(page):
    """Lines are not wrapped by hand, so that a change of a word changes one line."""
    text = re.sub(r"```.*?```|<!-- results.*?/results -->", "", PAGES[page], flags=re.DOTALL)
    for line, following in re.findall(r"^(.*\w.*)\n(?=(.*))", text, re.MULTILINE):
        goes_on = re.match(r" *(?![-|#>!<]|\d+\.)\S", following)
        assert not goes_on or re.search(r"[.:?!][)*_`]*$", line), line


@functools.cache
def anchors(text):
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere():
    for path in DOCUMENTS:
        text = path.read_text()
        for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
            if "://" not in target:
                name, _, anchor = target.partition("#")
                page = path.parent / name if name else path
                assert page.exists(), f"{path}: {target}"
                assert not anchor or anchor in anchors(page.read_text()), f"{path}: {target}"
        for name in re.findall(r"flags/\w+/\w+\.flags", text):
            assert (ROOT / name).exists(), f"{path}: {name}"


@pytest.mark.parametrize("page", PAGES)
def test_requirement_files_exist_or_are_written_by_commands(page):
    """Of `pip install -r FILE`; and each `sed` that writes one finds the lines that it replaces."""
    blocks = re.findall(r"```bash\n(.*?)```", re.sub(r"\\\n\s*", " ", PAGES[page]), re.DOTALL)
    for block in blocks:
        written = {}
        for found in re.finditer(r"^sed '([^']+)' +(\S+) > (\S+)$", block, re.MULTILINE):
            written[found[3]] = found.start()
            for pattern in re.findall(r"s/(.+?)/.*?/", found[1]):
                assert re.search(pattern, (ROOT / found[2]).read_text(), re.MULTILINE), pattern
        for found in re.finditer(r"pip install -r (\S+)", block):
            assert (ROOT / found[1]).exists() or written.get(
                found[1], len(block)
            ) < found.start(), found[0]


def test_fresh_machine_code_follows_its_installation():
    """tests/fresh.py runs it there, in CI."""
    found = {
        page: [line for line, _ in fresh.blocks((ROOT / page).read_text())] for page in fresh.PAGES
    }
    both = [
        "pip install tensorflow",
        'pip install tensorflow tf-keras tensorflow-hub "setuptools<82"',
    ]
    assert found == {
        "README.md": both[:1],
        "docs/install.md": both,
        "modules/README.md": both[:1],
        "modules/imagenette_128px/README.md": both,
    }


needs_keras_3 = pytest.mark.skipif(
    keras is tf.keras, reason="there is no Keras 3 in the classic environment"
)


@needs_keras_3
@pytest.mark.slow
def test_fine_tuning_of_the_page_learns(tmp_path):
    """In this environment; tests/fresh.py runs it in one made by the page."""
    samples.write_pictures(tmp_path / "my_pictures", {"train": 4}, names=("red", "green"), side=40)
    (tmp_path / "modules").symlink_to(ROOT / "modules")
    code = python_of((ROOT / "modules/README.md").read_text())
    begin = "before = [v.numpy() for v in encoder.variables]\nfor trainable, rate"
    assert code.count("for trainable, rate") == 1
    moved = "sum((v.numpy() != x).any() for v, x in zip(encoder.variables, before))"
    then = f"print({moved}, *model.history.history['accuracy'])"
    moved, *accuracies = printed(code.replace("for trainable, rate", begin), then, tmp_path).split()
    assert int(moved) > 0
    assert (len(accuracies), float(accuracies[-1])) == (5, 1)


@pytest.mark.slow
def test_a_network_of_keras_applications_gives_features(tmp_path, monkeypatch):
    """By the commands of the page; the network is a small one in the place of that whose weights
    Keras would download.
    """
    monkeypatch.chdir(tmp_path)
    samples.write_pictures(tmp_path / "my_pictures", {"train": 2}, side=40)
    by_name = [
        (module, arguments)
        for module, arguments in commands(PAGES["docs/encoders.md"])
        if "--encoder=keras:EfficientNetV2B0" in arguments
    ]

    def small(**arguments):
        network = keras_networks.tiny(**{**arguments, "weights": None})
        keras_networks.draw(network)
        return network

    monkeypatch.setattr(keras.applications, "EfficientNetV2B0", small)
    (module, arguments), (then, command) = by_name
    assert (module, then) == ("cpc_tf.embed", "cpc_tf.classify")
    embed_run.main(
        cli.parse(settings_of(module), [*arguments, "--image_size=64", "--output=features.npz"])
    )
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 7
    assert np.load("features.npz")["features"].shape == (6, 6)
    rows = [
        name.partition(",")[0] for name in (tmp_path / "labels.csv").read_text().splitlines()[1:]
    ]
    filled = "".join(f"{name},{name.split('/')[1]}\n" for name in rows)  # as its reader does
    (tmp_path / "labels.csv").write_text(f"file,label\n{filled}")
    settings = cli.parse(
        settings_of("cpc_tf.classify"), [*command, "--image_size=64", "--workdir=run"]
    )
    assert classify_command.classify(settings)[0]["num_train_labels"] == 6


@pytest.mark.slow
@needs_keras_3
def test_module_is_a_frozen_keras_3_layer(tmp_path):
    encoder = write_module(tmp_path / "runs/mine/small/hub")
    then = """
import numpy as np
draw = np.random.default_rng(0)
x, y = draw.uniform(size=[8, 64, 64, 3]).astype("float32"), np.arange(8) % 2
before = encoder(x)["features"].numpy()
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
losses = model.fit(x, y, epochs=3, verbose=0).history["loss"]
assert (encoder(x)["features"].numpy() == before).all()
np.save("x.npy", x), np.save("features.npy", before)
print(keras.__version__, len(model.trainable_variables), *losses)
"""
    version, variables, *losses = printed(
        python_of(PAGES["docs/install.md"]), then, tmp_path
    ).split()
    assert version.startswith("3.")
    assert int(variables) == 2
    assert float(losses[-1]) < float(losses[0])
    wanted = encoder.endpoints(tf.constant(np.load(tmp_path / "x.npy")))["features"]
    np.testing.assert_allclose(np.load(tmp_path / "features.npy"), wanted, atol=1e-4)
