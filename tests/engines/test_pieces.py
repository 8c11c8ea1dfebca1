"""A vocabulary's own spelling back to bytes, and only where the reply bears it out."""

from hypothesis import given
from hypothesis import strategies as st

from engines.pieces import _LETTERS, letters, marks, mend, plainly, spelling

_FROM_BYTES = {byte: letter for letter, byte in _LETTERS.items()}


def test_letters_are_those_of_byte_level_vocabularies():
    assert len(_LETTERS) == 256
    # As GPT-2's vocabulary has them: blank, line feed, tab, the bytes of U+00E9, the byte F0 and the byte AD.
    assert letters("ĠseaĊĉ") == b" sea\n\t"
    assert letters("Ã©").decode() == "é"
    assert letters("ð") == b"\xf0"
    assert letters("Ń") == b"\xad"
    assert letters("<｜end｜>").decode() == "<｜end｜>"  # an added token: its fullwidth bars stand for no byte


@given(st.binary(max_size=20))
def test_every_byte_has_its_letter(data):
    assert letters("".join(_FROM_BYTES[byte] for byte in data)) == data


def test_marks():
    assert marks("▁the▁sea") == b" the sea"
    assert marks("<0xE2>") == b"\xe2"
    assert marks("<0xe2>") == b"<0xe2>"


def test_a_spelling_is_believed_when_it_spells_the_reply():
    assert spelling(["The", "Ġsea"], ["Ġocean"], ["The sea"]) is letters
    assert spelling(["▁The", "▁sea"], ["▁é"], ["The sea"]) is marks
    assert spelling(["The", " sea"], [" é"], ["The sea"]) is plainly
    assert spelling(["Yes"], ["Ġno", "Ċ"], ["Yes"]) is letters  # nothing to tell by but the alternatives
    assert spelling(["The", "Ġsea"], [], ["The lake"]) is None
    assert spelling(["The", "Ġsea"], [], []) is None
    assert spelling(["Ġhm", "Ġso", "The"], [], ["hm", "The"]) is letters  # reasoning and content


def test_rows_get_text_and_bytes_in_place_of_pieces():
    rows = [
        {
            "token": "Ġsea",
            "bytes": list("Ġsea".encode()),
            "logprob": -0.5,
            "top_logprobs": [{"token": "Ġð", "bytes": [1], "logprob": -1.0}],
        },
        {"token": "", "bytes": [], "logprob": 0.0, "top_logprobs": []},
    ]
    mend(rows, ["sea"])
    assert rows == [
        {
            "token": " sea",
            "bytes": list(b" sea"),
            "logprob": -0.5,
            "top_logprobs": [{"token": " ", "bytes": [0x20, 0xF0], "logprob": -1.0}],
        },
        {"token": "", "bytes": [], "logprob": None, "top_logprobs": []},
    ]


def test_pieces_nobody_can_read_are_taken_away():
    rows = [{"token": "Ġsea", "bytes": [1], "logprob": -0.5}]
    mend(rows, ["something else"])
    assert rows == [{"token": "", "bytes": [], "logprob": -0.5}]
