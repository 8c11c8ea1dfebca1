"""Orders: the pipe may cut them anywhere, and the first read takes the assignment alone."""

from __future__ import annotations

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.app.orders import Assignment, Order, Orders, encode, read_assignment
from proxy.config import Config, Primary, Shadow
from proxy.switch import Switch

CONFIG = Config(primary=Primary(url="http://p", api_key="k"), shadows=(Shadow("a", "http://a"),))
ASSIGNMENT = Assignment(CONFIG, "judge", "judge0-1", Switch(enabled=False, off=("a",)))


@given(st.lists(st.integers(0, 2**40), max_size=5), st.data())
def test_orders_come_whole_and_in_order_however_they_are_cut(numbers: list[int], data: st.DataObject) -> None:
    stream = b"".join(encode(Order(number, CONFIG, Switch())) for number in numbers)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    seen: list[Order] = []
    orders = Orders(seen.append)
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        orders.data_received(stream[start:end])
    assert [order.number for order in seen] == numbers
    assert all(order.config == CONFIG for order in seen)


def test_the_assignment_is_read_to_its_last_byte_and_no_further() -> None:
    reading, writing = os.pipe()
    sent = encode(ASSIGNMENT)
    later = encode(Order(1, CONFIG, Switch()))

    def send() -> None:
        for number in range(0, len(sent), 7):
            os.write(writing, sent[number : number + 7])
        os.write(writing, later)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        assert read_assignment(reading) == ASSIGNMENT
        thread.join(10)
        assert os.read(reading, 1 << 20) == later
    finally:
        os.close(reading)
        os.close(writing)


def test_a_supervisor_that_is_gone_is_the_end() -> None:
    reading, writing = os.pipe()
    os.write(writing, encode(ASSIGNMENT)[:-1])
    os.close(writing)
    with pytest.raises(EOFError):
        read_assignment(reading)
    os.close(reading)
