import re

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core import native

RANDOM = np.random.default_rng(0)
# products [2, 3, 5]
A, B, UPSTREAM = (
    tf.constant(RANDOM.normal(size=shape), tf.float32)
    for shape in ([2, 3, 8], [2, 5, 8], [2, 3, 5])
)


def with_gradients(a, b):
    with tf.GradientTape() as tape:
        tape.watch([a, b])
        product = native.matmul(a, b)
    return product, *tape.gradient(product, [a, b], UPSTREAM)


@pytest.mark.parametrize("where", ["plain", "compiled", "on a GPU without XLA"])
def test_product_and_gradients_are_numpys(where, monkeypatch):
    function = native.jit(with_gradients) if where == "compiled" else with_gradients
    if where == "on a GPU without XLA":
        monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [kind])
    a, b, upstream = (x.numpy().astype(np.float64) for x in (A, B, UPSTREAM))
    wanted = [a @ b.transpose(0, 2, 1), upstream @ b, upstream.transpose(0, 2, 1) @ a]
    for found, product in zip(function(A, B), wanted):
        assert found.dtype == tf.float32
        np.testing.assert_allclose(found, product, rtol=1e-5, atol=1e-5)


def test_the_compiled_program_asks_for_full_precision():
    """In each product: TPUs and GPUs with TF32 compute less precisely by default."""
    program = native.jit(with_gradients).experimental_get_compiler_ir(A, B)(stage="hlo")
    products = [line for line in program.splitlines() if re.search(r"= f32\S* dot\(", line)]
    assert len(products) == 3
    assert all("operand_precision={highest,highest}" in line for line in products)


def test_native_operations_are_not_compiled():
    seen = []
    with native.allowed():
        native.jit(lambda x: seen.append(native.is_allowed()) or x)(A)
        assert native.is_allowed()
    assert seen == [False]
