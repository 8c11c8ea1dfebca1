"""What of the content may be kept: the setting ``records.content`` as two pure functions.

House rules. This is applied before a record leaves the judge's memory; nothing downstream ever has to hide anything. Token ids,
positions, logprobs, gaps and classes are kept under every policy: the comparison cannot be recounted without them. (Whoever has the
tokenizer can turn ids back into text: README says so, and ``sampling`` is the way not to keep an exchange at all.)
"""

from __future__ import annotations

import hmac
from functools import lru_cache

from msgspec.structs import replace

from proxy.compare.comparison import ChoiceComparison, Comparison, Flip
from proxy.ledger.record import Content


def keeps_content(policy: str) -> bool:
    """Whether a policy keeps anything that ``content`` would be given: what it does not keep need not be made."""
    return policy != "none"


def content(
    policy: str, salt: bytes, request: str, primary: tuple[str, ...], shadow: tuple[str, ...]
) -> Content | None:
    """Return the request and both outputs as the policy lets them be kept.

    ``hash``: HMAC-SHA-256 in hex keyed with ``salt``: equal texts can be found, a text cannot be guessed without the salt.
    Raises ValueError for ``hash`` without a salt, because an unkeyed hash of a short answer can be guessed.
    """
    match policy:
        case "none":
            return None
        case "text":
            return Content(request, primary, shadow)
        case "hash":
            if not salt:
                raise ValueError("records.content: hash needs a salt: set sampling.salt")
            return Content(_keyed(salt, request), _all_keyed(salt, primary), _all_keyed(salt, shadow))
        case _:
            raise ValueError(f"records.content: {policy!r} is none of none, hash, text")


def redact(policy: str, comparison: Comparison) -> Comparison:
    """Take the texts of its tokens out of a comparison, unless the policy is ``text``. Ids and numbers stay."""
    if policy == "text" or not any(choice.first is not None or choice.flips for choice in comparison.choices):
        return comparison
    return replace(comparison, choices=tuple(_choice(choice) for choice in comparison.choices))


def _choice(choice: ChoiceComparison) -> ChoiceComparison:
    first = None if choice.first is None else _flip(choice.first)
    return replace(choice, first=first, flips=tuple(_flip(flip) for flip in choice.flips))


def _flip(flip: Flip) -> Flip:
    return replace(flip, primary=replace(flip.primary, text=None), shadow=replace(flip.shadow, text=None))


def _keyed(salt: bytes, text: str) -> str:
    keyed = _begun(salt).copy()
    keyed.update(text.encode("utf-8", "surrogatepass"))
    return keyed.hexdigest()


@lru_cache(1)
def _begun(salt: bytes) -> hmac.HMAC:
    """Setting the key up costs five times as much as hashing a text."""
    return hmac.new(salt, digestmod="sha256")


def _all_keyed(salt: bytes, texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_keyed(salt, text) for text in texts)
