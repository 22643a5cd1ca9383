"""Commands in documents have flags that exist, links lead somewhere, and the README's code runs."""

import re
import shlex

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import cli
from cpc_tf.encoders.card import read_card
from cpc_tf.encoders.config import make_encoder
from cpc_tf.export.module import HubEncoder, save
from cpc_tf.keras import keras
from cpc_tf.launch.training import read
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import leaves
from tests import samples
from tests.binaries import OWN_SETTINGS, ROOT, SETTINGS, settings_of
from tests.snippets import printed, python_of

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
# Pages of the notebook keep the commands and flags of their day.
PAGES = [*(path for path in DOCUMENTS if "notebook" not in path.parts), ROOT / "flags/README.md"]
CURRENT = [pytest.param(path, id=str(path.relative_to(ROOT))) for path in PAGES]
PARAMETERS = [pytest.param(path, id=str(path.relative_to(ROOT))) for path in DOCUMENTS]
NO_FLAGS = {"cpc_tf.augment.build", "cpc_tf.devices"}
COMMAND = re.compile(r"python3? -m (?:cpc_tf\.restart -- python3? -m )?((?:cpc_tf\.|export)[\w.]*)([^`\n]*)")


def commands(text):
    """(module, arguments) of each of our commands in a document, joined over continued lines."""
    for module, rest in COMMAND.findall(re.sub(r"\\\n\s*", " ", text)):
        lexer = shlex.shlex(rest, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = "#"
        arguments = []
        for word in lexer:
            if word[0] in ";&|<>()":  # the end of this command
                break
            arguments.append(word)
        yield module, arguments


@pytest.mark.parametrize("path", CURRENT)
def test_commands_parse(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    for module, arguments in commands(path.read_text()):
        if module in NO_FLAGS or arguments == ["--help"]:
            continue
        if module == "cpc_tf.launch":  # its flags, `--`, and a command with its own
            place = arguments.index("--")
            read(cli.parse(settings_of(module), arguments[:place]), arguments[place + 1 :])
            continue
        assert all(argument.startswith("--") for argument in arguments), arguments
        cli.parse(settings_of(module), arguments)


@pytest.mark.parametrize("path", CURRENT)
def test_runs_are_named_by_data_and_encoder(path):
    for _, arguments in commands(path.read_text()):
        for argument in arguments:
            found = re.match(r"--(?:workdir|encoder|initial_encoder|model|module)=\S*runs/(.*)", argument)
            assert not found or re.fullmatch(r"\w+/\w+/[\w.]+", found[1]), argument


def test_commands_are_found():
    found = {module for path in PAGES for module, _ in commands(path.read_text())}
    assert found >= set(SETTINGS)
    text = "until python3 -m cpc_tf.pretrain --workdir=$B/x \\\n   --seed=3; do # no\n `python -m export --step=1` --x"
    assert list(commands(text)) == [("cpc_tf.pretrain", ["--workdir=$B/x", "--seed=3"]), ("export", ["--step=1"])]


@pytest.mark.parametrize("path", CURRENT)
def test_every_flag_named_exists(path):
    """`--flag` in a text is one of ours, or stands in a line of somebody else's command."""
    fields = [field for module in (*SETTINGS, *OWN_SETTINGS) for _, field in leaves(settings_of(module))]
    ours = {f"--{field.name}" for field in fields if field.metadata["flag"]} | {"--flagfile", "--preset", "--help"}
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    for span in re.findall(r"`(--[^`]*)`", text):
        for flag in re.findall(r"--\w+", span):
            plain = flag.replace("--no", "--", 1)
            prefix = span.endswith("*") and any(name.startswith(flag) for name in ours)
            assert flag in ours or plain in ours or prefix, flag


def anchors(text):
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PARAMETERS)
def test_links_lead_somewhere(path):
    text = path.read_text()
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
        if "://" not in target:
            name, _, anchor = target.partition("#")
            page = path.parent / name if name else path
            assert page.exists(), target
            assert not anchor or anchor in anchors(page.read_text()), target
    for name in re.findall(r"flags/\w+/\w+\.flags", text):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("path", CURRENT)
def test_requirements_are_there_or_written_by_the_same_commands(path):
    """Of `pip install -r FILE`; and each `sed` that writes one finds the lines that it replaces."""
    blocks = re.findall(r"```bash\n(.*?)```", re.sub(r"\\\n\s*", " ", path.read_text()), re.DOTALL)
    for block in blocks:
        written = {}
        for found in re.finditer(r"^sed '([^']+)' +(\S+) > (\S+)$", block, re.MULTILINE):
            written[found[3]] = found.start()
            patterns = re.findall(r"s/(.+?)/.*?/", found[1])
            assert patterns, found[0]
            for pattern in patterns:
                assert re.search(pattern, (ROOT / found[2]).read_text(), re.MULTILINE), pattern
        for found in re.finditer(r"pip install -r (\S+)", block):
            assert (ROOT / found[1]).exists() or written.get(found[1], len(block)) < found.start(), found[0]


def test_the_readme_is_short_enough_to_finish():
    assert len((ROOT / "README.md").read_text().split()) <= 1300


def test_the_pages_together_are_short_enough_to_read():
    """But for the tables that python -m studies.results writes: they are data, and grow with the studies."""
    texts = [path.read_text() for path in (ROOT / "docs").glob("*.md")]
    prose = [re.sub(r"<!-- results:\w+ -->.*?<!-- /results -->", "", text, flags=re.DOTALL) for text in texts]
    assert sum(len(text.split()) for text in prose) <= 13_000


@pytest.fixture
def room(tmp_path):
    """A folder with a module at runs/mine/small/hub and labelled images; and the module's network."""
    samples.write_pictures(tmp_path / "my_pictures", {"train": 4}, names=("red", "green"), side=40)
    config = cli.parse(PretrainConfig, ["--flagfile=" + str(ROOT / "flags/imagenette/pretrain.flags")])
    encoder = make_encoder(config.encoder)
    encoder(tf.zeros([1, 16, 16, 3]))
    save(HubEncoder(encoder, config.geometry), str(tmp_path / "runs/mine/small/hub"))
    return tmp_path, encoder


@pytest.mark.slow
def test_the_readmes_fine_tuning_runs(room):
    folder, _ = room
    (folder / "modules").symlink_to(ROOT / "modules")
    code = python_of((ROOT / "README.md").read_text())
    then = "print(len(encoder.trainable_variables), *model.history.history['loss'])"
    variables, *losses = printed(code, then, folder).split()
    assert len([line for line in code.splitlines() if line]) <= 10
    network = make_encoder(read_card(str(ROOT / "modules/imagenette_128px"), "").encoder)
    network(tf.zeros([1, 32, 32, 3]))
    assert int(variables) == len(network.trainable_variables)
    assert len(losses) == 5
    assert float(losses[-1]) < float(losses[0])


@pytest.mark.slow
@pytest.mark.skipif(keras is tf.keras, reason="there is no Keras 3 in the classic environment")
def test_the_module_is_a_frozen_layer_of_keras_3(room):
    folder, encoder = room
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
    version, variables, *losses = printed(python_of((ROOT / "docs/install.md").read_text()), then, folder).split()
    assert version.startswith("3.")
    assert int(variables) == 2
    assert float(losses[-1]) < float(losses[0])
    wanted = encoder.endpoints(tf.constant(np.load(folder / "x.npy")))["features"]
    np.testing.assert_allclose(np.load(folder / "features.npy"), wanted, atol=1e-4)
