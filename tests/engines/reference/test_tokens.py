"""Bytes of tokens from a tokenizer's definition, and text that is certain whatever the split."""

from hypothesis import given
from hypothesis import strategies as st

from engines.reference.tokens import TextStream, TokenTable, byte_alphabet, table_from_definition

BYTE_LEVEL = {
    "model": {"type": "BPE", "vocab": {"Hello": 0, "Ġworld": 1, "ðŁ": 2, "İ": 3, "ī": 4, "Ċ": 5}},
    "decoder": {"type": "ByteLevel"},
    "added_tokens": [
        {"id": 6, "content": "<|im_end|>", "special": True},
        {"id": 7, "content": "<think>", "special": False},
    ],
}
SENTENCEPIECE = {
    "model": {"type": "BPE", "vocab": {"▁Paris": 0, "<0xF0>": 1, "<0x9F>": 2, "é": 3, "<s>": 4}},
    "decoder": {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
        ],
    },
    "added_tokens": [{"id": 4, "content": "<s>", "special": True}],
}


def test_the_byte_alphabet_is_a_bijection_of_all_bytes():
    letters = byte_alphabet()
    assert sorted(letters.values()) == list(range(256))
    assert (letters["Ġ"], letters["Ċ"], letters["!"], letters["ÿ"], letters["Ń"]) == (0x20, 0x0A, 0x21, 0xFF, 0xAD)


def test_byte_level_pieces_are_exact_bytes_even_for_parts_of_a_character():
    table = table_from_definition(BYTE_LEVEL, 10)
    assert [table.data(number) for number in range(8)] == [
        b"Hello",
        b" world",
        b"\xf0\x9f",
        b"\x8e",
        b"\x89",
        b"\n",
        b"<|im_end|>",
        b"<think>",
    ]
    assert (table.data(9), table.data(10), table.data(-1)) == (b"", b"", b"")
    assert b"".join(table.data(number) for number in (2, 3, 4)).decode() == "🎉"


def test_special_tokens_are_rows_with_a_text_and_no_part_of_visible_text():
    table = table_from_definition(BYTE_LEVEL, 8)
    assert table.text(6) == "<|im_end|>"
    assert (table.visible(6, skip_special=True), table.visible(6, skip_special=False)) == (b"", b"<|im_end|>")
    assert table.visible(7, skip_special=True) == b"<think>"


def test_a_part_of_a_character_has_a_text_of_its_own():
    table = table_from_definition(BYTE_LEVEL, 8)
    assert table.text(2) == "bytes:\\xf0\\x9f"
    assert len({table.text(number) for number in range(8)}) == 8


def test_sentencepiece_pieces():
    table = table_from_definition(SENTENCEPIECE, 5)
    assert [table.data(number) for number in range(5)] == [b" Paris", b"\xf0", b"\x9f", "é".encode(), b"<s>"]


def test_a_unigram_vocabulary_is_a_list():
    definition = {
        "model": {"type": "Unigram", "vocab": [["<unk>", 0.0], ["▁a", -1.0]]},
        "decoder": {"type": "Metaspace"},
    }
    assert table_from_definition(definition, 2).pieces == (b"<unk>", b" a")


@given(st.text(), st.integers(1, 4))
def test_text_is_the_same_for_every_split_of_its_bytes(text, size):
    data = text.encode()
    stream = TextStream()
    given_out = [stream.push(data[at : at + size]) for at in range(0, len(data), size)]
    assert "".join(given_out) + stream.finish() == text
    assert stream.length == len(text)


def test_an_incomplete_character_is_held_back_and_in_the_end_left_out():
    stream = TextStream()
    assert [stream.push(part) for part in (b" \xf0\x9f", b"\x8e", b"\x89", b"\xf0\x9f")] == [" ", "", "🎉", ""]
    assert stream.finish() == ""


def test_bytes_that_are_no_utf8_become_replacement_characters():
    stream = TextStream()
    assert stream.push(b"a\xffb") == "a\ufffdb"


@given(st.text(alphabet="abEND ", max_size=30), st.integers(1, 3), st.booleans())
def test_a_stop_string_is_found_across_every_split(text, size, include):
    stop = "END"
    stream = TextStream([stop], include_stop=include)
    out = "".join(stream.push(text[at : at + size].encode()) for at in range(0, len(text), size)) + stream.finish()
    before, found, _ = text.partition(stop)
    assert out == before + (found if include else "")
    assert stream.stopped == (stop if found else None)


def test_the_beginning_of_a_stop_string_is_held_back_until_it_is_none():
    stream = TextStream(["\n\n", "###"])
    assert [stream.push(part) for part in (b"a\n", b"b#", b"#", b"c")] == ["a", "\nb", "", "##c"]
    assert stream.push(b"\n") == ""
    assert (stream.push(b"\nrest"), stream.stopped, stream.push(b"more"), stream.finish()) == ("", "\n\n", "", "")


def test_text_before_the_minimum_length_is_not_searched():
    stream = TextStream(["stop"])
    assert stream.push(b"a stop ", watch=False) == "a stop "
    assert stream.stopped is None
    assert (stream.push(b"now stop"), stream.stopped) == ("now ", "stop")


def test_a_table_is_plain_values():
    assert TokenTable((b"a",), frozenset()) == TokenTable((b"a",), frozenset())
