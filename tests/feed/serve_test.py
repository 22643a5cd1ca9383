import ipaddress
import os
import socket
import sys
import threading

import pytest

from cpc_tf.core.settings import ConfigError
from cpc_tf.feed import serve

ELSEWHERE = {
    socket.AF_INET: "192.0.2.1",
    socket.AF_INET6: "2001:db8::1",
}  # addresses of documentation


@pytest.fixture(params=[socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
def own_address(request):
    """An address of this machine that others reach, too: packets to it have it as their sender."""
    with socket.socket(request.param, socket.SOCK_DGRAM) as one:
        try:
            one.connect((ELSEWHERE[request.param], 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no such network")
        return one.getsockname()[0]


def reached(address, port):
    try:
        socket.create_connection((address, port), timeout=0.3).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the filters are Linux's")
def test_a_port_takes_packets_from_named_addresses_alone(own_address):
    own = serve.addresses_of([own_address])
    others = [ipaddress.ip_address(text) for text in ("10.0.0.1", "fd00::ffff", "fd01::1")]
    both = {"family": socket.AF_INET6, "dualstack_ipv6": True}
    with socket.create_server(("", 0), **both) as server:  # as TensorFlow listens
        port = server.getsockname()[1]
        assert reached(own_address, port)
        loopbacks = [each for each in ("127.0.0.1", "::1") if reached(each, port)]
        descriptors = os.listdir("/proc/self/fd")
        for allowed in ([], others, [*others, *own], [*own, *others]):
            assert serve.take_only_from(port, allowed)
            assert reached(own_address, port) is (own[0] in allowed)
            assert [each for each in loopbacks if reached(each, port)] == loopbacks
        assert len(os.listdir("/proc/self/fd")) == len(descriptors)
    assert not serve.take_only_from(port, own)  # nobody listens


def test_one_training_is_served_at_a_time_at_ports_that_nobody_has(monkeypatch):
    monkeypatch.setattr(serve, "_REQUEST", 0.2)
    in_use = threading.Lock()
    with socket.create_server(("", 0)) as server:  # another program's
        taken = server.getsockname()[1]
        with (
            pytest.raises(OSError, match=f"another program has port {taken - 1} or {taken}"),
            serve._alone(in_use, taken - 2),
        ):
            pass
    monkeypatch.setattr(serve, "_is_free", lambda port: True)  # whoever else is on this machine
    with (
        serve._alone(in_use, taken),
        pytest.raises(OSError, match="it serves another"),
        serve._alone(in_use, taken),
    ):
        pass
    with serve._alone(in_use, taken):
        pass


def test_a_port_that_is_chosen_has_two_free_ones_after_it(monkeypatch):
    asked = []
    monkeypatch.setattr(serve, "_is_free", lambda port: asked.append(port) or len(asked) > 1)
    with serve.listen("localhost", 0, b"") as server:
        port = server.getsockname()[1]
    assert asked[1:] == [port + 1, port + 2]
    monkeypatch.setattr(serve, "_is_free", lambda port: False)
    with pytest.raises(ConfigError, match="--port=0: cannot be listened at .of 20 free ports none"):
        serve.listen("localhost", 0, b"")


def test_an_address_of_ipv4_within_ipv6_is_one():
    assert serve.addresses_of(["::ffff:10.0.0.1", "fe80::1%lo"]) == [
        ipaddress.ip_address("10.0.0.1"),
        ipaddress.ip_address("fe80::1"),
    ]
