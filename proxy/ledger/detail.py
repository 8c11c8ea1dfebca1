"""What one record is shown with, beyond its numbers: both arms' tokens, what else they could have said, the bytes that were sent.

House rules. Frozen values, additive changes only (they are stored). A detail says nothing that its record says: gaps, classes and errors are there.
Where the policy keeps no text, ``texts`` is None, and neither bytes nor bodies nor prompts are here. Positions are from 0, logprobs in nats; None means unknown.
"""

from __future__ import annotations

from bisect import bisect_right

import msgspec
import zstandard
from msgspec import Struct
from msgspec.structs import replace

from proxy.compare.token_stream import Alternative, Channel

SCHEMA = 1
#: Tokens of a choice that are kept, of each arm; ``total`` says how many there were.
MOST_TOKENS = 4096
#: Alternatives of a position that are kept: what engines are asked for by default.
MOST_ALTERNATIVES = 20
#: Bytes of one detail before it is packed. Beyond that bodies go, then alternatives, then all texts, then the last choices: a hostile engine may send a megabyte a token.
MOST_BYTES = 8 << 20
_LEVEL = 3  # zstd's own default

_encoder = msgspec.msgpack.Encoder()


class Partial(Struct, frozen=True):
    """The bytes of a token that is not text by itself: a part of a character, or no UTF-8 at all."""

    index: int
    data: bytes


class Run(Struct, frozen=True):
    """From ``start`` on tokens belong to ``channel``, until the next run."""

    start: int
    channel: Channel


class Listed(Struct, frozen=True):
    """What an arm could have said at a position, most likely first; the chosen token among them where the engine lists it."""

    index: int
    top: tuple[Alternative, ...]


class Side(Struct, frozen=True):
    """One arm's tokens of one choice: ``ids``, ``texts`` and ``logprobs`` have one entry a token.

    ``ids`` and ``texts`` are None as a whole where there are none or none may be kept. ``total``: how many tokens there were; more than are here where it was cut. In ``forced`` mode
    the shadow's tokens are the primary's, with the values that the shadow gives them.
    """

    logprobs: tuple[float | None, ...] = ()
    ids: tuple[int | None, ...] | None = None
    texts: tuple[str, ...] | None = None
    partial: tuple[Partial, ...] = ()
    channels: tuple[Run, ...] = ()
    listed: tuple[Listed, ...] = ()
    total: int = 0

    def __len__(self) -> int:
        return len(self.logprobs)

    @property
    def cut(self) -> bool:
        """Whether there were more tokens than are kept."""
        return self.total > len(self.logprobs)

    def channel(self, index: int) -> Channel:
        """Return the part of the reply that a token belongs to."""
        at = bisect_right(self.channels, index, key=lambda run: run.start)
        return self.channels[at - 1].channel if at else Channel.CONTENT

    def top(self, index: int) -> tuple[Alternative, ...]:
        """Return the alternatives that are kept of a position, () for none."""
        at = bisect_right(self.listed, index, key=lambda one: one.index)
        return self.listed[at - 1].top if at and self.listed[at - 1].index == index else ()

    def data(self, index: int) -> bytes | None:
        """Return the bytes of a token that is not text by itself; None for one that is, or where they are not kept."""
        at = bisect_right(self.partial, index, key=lambda one: one.index)
        return self.partial[at - 1].data if at and self.partial[at - 1].index == index else None


class ChoiceDetail(Struct, frozen=True):
    """One choice of both arms; ``index`` as in ``ChoiceComparison``."""

    index: int
    primary: Side
    shadow: Side


class Sent(Struct, frozen=True):
    """One request to an engine: path below its URL, JSON body as text."""

    path: str
    body: str


class Detail(Struct, frozen=True):
    """Everything kept beside one record.

    ``primary``: what asks the primary for the same reply with its values shown (the client's own body is in the record's content). ``shadow``: what the shadow was sent; in
    ``forced`` mode what had it score the position of the first flip. ``prompt_ids``: the prompt as ids, where an arm reported them. These three only
    with ``records.content: text``, and only where something differs. ``redacted``: the redaction hook has changed or withheld something.
    """

    choices: tuple[ChoiceDetail, ...] = ()
    primary: Sent | None = None
    shadow: tuple[Sent, ...] = ()
    prompt_ids: tuple[int, ...] | None = None
    redacted: bool = False
    schema: int = SCHEMA


_decoder = msgspec.msgpack.Decoder(Detail)


def pack(detail: Detail) -> bytes:
    """Return it as stored: msgpack in zstd. Raises UnicodeEncodeError for a text that is none (half of a surrogate pair)."""
    data = _encoder.encode(detail)
    for smaller in (_without_bodies, _without_alternatives, _without_texts):
        if len(data) > MOST_BYTES:
            detail = smaller(detail)
            data = _encoder.encode(detail)
    while len(data) > MOST_BYTES:  # a hundred long choices: the first of them
        detail = replace(detail, choices=detail.choices[: len(detail.choices) // 2])
        data = _encoder.encode(detail)
    return zstandard.compress(data, _LEVEL)


def unpack(data: bytes) -> Detail:
    """Read what ``pack`` made. Raises ValueError for anything else."""
    try:
        if (
            zstandard.frame_content_size(data) > MOST_BYTES
        ):  # a bound that is given is not looked at where the frame says its size
            raise ValueError("not a record's detail: too large")
        return _decoder.decode(zstandard.ZstdDecompressor().decompress(data, max_output_size=MOST_BYTES))
    except (zstandard.ZstdError, msgspec.MsgspecError) as error:
        raise ValueError(f"not a record's detail: {type(error).__name__}") from None


def _without_bodies(detail: Detail) -> Detail:
    return replace(detail, primary=None, shadow=(), prompt_ids=None)


def _without_alternatives(detail: Detail) -> Detail:
    return replace(detail, choices=tuple(_each(one, listed=()) for one in detail.choices))


def _without_texts(detail: Detail) -> Detail:
    return replace(detail, choices=tuple(_each(one, texts=None, partial=()) for one in detail.choices))


def _each(choice: ChoiceDetail, **changes: object) -> ChoiceDetail:
    return replace(choice, primary=replace(choice.primary, **changes), shadow=replace(choice.shadow, **changes))
