"""The check itself: passes what is right, finds what is wrong, and says why its process ended.

That it passes what `check.py` computes from real modules is shown where they are exported.
"""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import make_encoder
from cpc_tf.export import check, verify
from cpc_tf.export import encoder as exporting
from cpc_tf.export.verify import NotVerified, Reference
from tests.export.conftest import GEOMETRY, IMAGES
from tests.modules import GEOMETRY as OURS

NAMES = np.array(["ant", "bee", "wésp"])
CODED = np.array([name.encode() for name in NAMES])


def encoder():
    """What an encoder gives, and its reference, made up; so are the others."""
    draw = np.random.default_rng(0)
    features, stack, latents = (
        draw.normal(size=shape) for shape in ([2, 4], [2, 3, 3, 5], [1, 2, 3, 4])
    )
    norms, by = (
        np.array([1.0, 2.0]),
        {"call": slice(None), "signature": slice(None), "no image": slice(0)},
    )
    got = {f"whole0/{way}/features": features[part] for way, part in by.items()}
    got |= {"whole0/endpoints/features": features, "whole0/endpoints/stack1": stack}
    got |= {"patched/call/latents": latents, "patched/no image/latents": latents[:0]}
    got |= {"gradient/norms": norms, "gradient/variables": np.array(["kernel", "bias"])}
    got |= {"step/before": np.zeros([2, 4]), "step/after": np.ones([2, 4])}
    wanted = {
        "whole0/features": features,
        "whole0/stack1": stack,
        "patched/latents": latents,
        "gradient/norms": norms,
    }
    return got, Reference({}, wanted)


def classifier():
    logits = np.random.default_rng(0).normal(size=[2, 3])
    odds = np.exp(logits / 2.5)
    said = {"logits": logits, "probabilities": odds / odds.sum(1, keepdims=True)}
    said |= {"label": logits.argmax(1), "name": CODED[logits.argmax(1)]}
    got = {f"case0/{way}/{name}": x for way in ("call", "signature") for name, x in said.items()}
    got |= {f"case0/no image/{name}": x[:0] for name, x in said.items()} | {"names/classes": CODED}
    wanted = {"case0/logits": logits, "names/classes": NAMES, "temperature": np.float32(2.5)}
    return got, Reference({}, {**wanted, "multi_label": np.array(False)})


def detector():
    found = {"boxes": np.arange(12.0).reshape([1, 3, 4]), "scores": np.array([[0.9, 0.5, 0.0]])}
    found |= {"labels": np.array([[2, 0, -1]]), "count": np.array([2])}
    got = {
        f"case0/{way}/{name}": x
        for way in ("any", "call", "signature")
        for name, x in found.items()
    }
    got |= {
        f"case0/{way}/names": np.array([[*CODED[[2, 0]], b""]])
        for way in ("any", "call", "signature")
    }
    got |= {f"case0/no image/{name}": got[f"case0/call/{name}"][:0] for name in (*found, "names")}
    wanted = {f"case0/{name}": x for name, x in found.items()} | {"names/classes": NAMES}
    images = {"case0": np.zeros([1, 20, 30, 3], np.uint8)}
    return {**got, "names/classes": CODED}, Reference(
        images, {**wanted, "least_score": np.float32(0.2)}
    )


@pytest.mark.parametrize(
    ("made", "measured"),
    [
        (encoder, {"difference": 0, "variables": 2}),
        (classifier, {"difference": pytest.approx(0, abs=1e-7)}),
        (detector, {"detections": 2, "same": 1}),
    ],
)
def test_passes_what_is_the_same(made, measured):
    assert getattr(verify, f"compare_{made.__name__}")(*made()) == measured


WRONG = [  # what gives it, which output, its change (None: it is missing), and what is said
    (
        encoder,
        "whole0/signature/features",
        lambda x: x + 0.01,
        "features of whole0 by signature differs from the ",
    ),
    (encoder, "whole0/call/features", lambda x: x * np.nan, "features of whole0 by call differs"),
    (
        encoder,
        "whole0/no image/features",
        lambda x: np.zeros([1, 4]),
        r"by no image has shape \(1, 4\), not \(0, 4\)",
    ),
    (
        encoder,
        "whole0/endpoints/stack1",
        lambda x: x[:1],
        "stack1 of whole0 by endpoints has shape",
    ),
    (encoder, "whole0/endpoints/stack1", None, "whole0/stack1 is missing"),
    (encoder, "patched/call/latents", lambda x: x[:, ::-1], "latents of patched by call differs"),
    (encoder, "gradient/norms", lambda x: x[:1], "1 variables can be trained, not 2"),
    (
        encoder,
        "gradient/norms",
        lambda x: x * [1, 1.01],
        "the gradient of bias has norm 2.02, not 2",
    ),
    (
        encoder,
        "gradient/norms",
        lambda x: x * [np.nan, 1],
        "the gradient of kernel has norm nan, not 1",
    ),
    (
        encoder,
        "step/after",
        lambda x: x - 1,
        "a step of gradient descent does not change the output",
    ),
    (
        classifier,
        "case0/signature/logits",
        lambda x: x * 1.001,
        "logits of case0 by signature differs",
    ),
    (
        classifier,
        "case0/call/probabilities",
        lambda x: x**2,
        "probabilities of case0 by call differs",
    ),
    (classifier, "case0/call/label", lambda x: x + 1, "the labels of case0 by call differ"),
    (
        classifier,
        "case0/call/name",
        lambda x: np.full_like(x, b"bat"),
        "the names of case0 by call are not those",
    ),
    (classifier, "names/classes", lambda x: x[::-1], "the classes differ"),
    (detector, "names/classes", lambda x: x[::-1], "the classes are wésp, bee, ant"),
    (
        detector,
        "case0/call/count",
        lambda x: x - 1,
        "the signature and the call give different outputs",
    ),
    (detector, "case0/any/scores", lambda x: x / 3, "the call has another threshold"),
    (detector, "case0/any/boxes", lambda x: x + 1, "0 of 2 detections are the checkpoint's"),
    (detector, "case0/any/boxes", lambda x: x[:, :2], "boxes has shape"),
    (detector, "case0/any/labels", lambda x: (x + 1) % 3, "the names are not those of the labels"),
    (detector, "case0/signature/boxes", lambda x: x + 1, "boxes of the signature differs"),
    (
        detector,
        "case0/no image/boxes",
        lambda x: x[:, :2],
        "the output for no image has the wrong shape",
    ),
]


@pytest.mark.parametrize(("made", "name", "change", "message"), WRONG)
def test_finds_what_is_different(made, name, change, message):
    got, reference = made()
    values = got.pop(name)
    with pytest.raises(NotVerified, match=message):
        getattr(verify, f"compare_{made.__name__}")(
            {**got, **({name: change(values)} if change else {})}, reference
        )


def test_non_finite_checkpoint_fails_verification():
    with pytest.raises(NotVerified, match="^x is not finite in the checkpoint"):
        verify.difference("x", np.ones([2]), np.array([1, np.nan]))
    with pytest.raises(NotVerified, match=r"^x has shape none, not \(2,\)"):
        verify.difference("x", None, np.ones([2]))
    # int8 has no tolerance, but this
    with pytest.raises(NotVerified, match="^x differs from the SavedModel's by inf"):
        verify.difference("x", np.array([1, np.inf]), np.ones([2]), np.inf, "SavedModel")


@pytest.mark.slow
def test_passes_batch_norm(ours):
    """run_test.py has layer norm, in a fresh process."""
    before = [variable.numpy() for variable in ours.encoder.variables]
    reference = exporting.encoder_reference(ours.encoder, OURS)
    for variable, value in zip(ours.encoder.variables, before):  # its statistics were moved
        variable.assign(value)
    measured = verify.compare_encoder(check.encoder(ours.path, reference.inputs), reference)
    assert measured["difference"] < 1e-5
    assert measured["variables"] == len(ours.encoder.trainable_variables)


@pytest.mark.slow
def test_finds_missing_gradients(tmp_path, monkeypatch, forked):
    """In another process: here the gradients of layer norm are registered."""
    encoder = make_encoder(EncoderConfig(encoder="small", output_stack=1))
    encoder(IMAGES)
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    monkeypatch.setattr(tf.saved_model, "SaveOptions", lambda **arguments: options)
    exporting.save(exporting.HubEncoder(encoder, GEOMETRY), str(tmp_path))
    with pytest.raises(NotVerified, match="[Gg]radient"):
        verify.verify("encoder", str(tmp_path), exporting.encoder_reference(encoder, GEOMETRY))


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
        ("raise SystemExit('two\\nlines')", "^lines$"),
        ("raise SystemExit(1)", "without a message"),
    ],
)
def test_says_why_the_process_ended(tmp_path, script, message):
    (tmp_path / "script.py").write_text(script)
    with pytest.raises(NotVerified, match=message):
        verify.computed("encoder", "", {}, str(tmp_path / "script.py"))


def test_the_script_cannot_import_us():
    for name in ("cpc_tf", "cpc_tf.encoders.layers", "cpc_tf.export.encoder"):
        with pytest.raises(ImportError):
            check.Blocker().find_spec(name)
    assert check.Blocker().find_spec("cpc_tfx") is None
