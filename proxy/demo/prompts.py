"""What the demo asks: prompts of many kinds, streamed and not, greedy and sampled, with and without logprobs.

House rules. Deterministic: the same number of requests is always the same traffic. Half of the requests ask for no logprobs, as most clients
do; one in six samples; every eighth is a plain completion; the rest are chats.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

_QUESTIONS = (
    "Name three things a lighthouse keeper does on a foggy night.",
    "Explain in two sentences why ice floats on water.",
    "Write a Python function that counts the vowels in a word.",
    "Give me a short recipe for lentil soup.",
    "What is the difference between weather and climate?",
    "Continue this story: The train stopped where there was no station.",
    "List five words that rhyme with 'light'.",
    "How do I boil an egg so that the yolk stays soft?",
    "Translate into French: Where is the library?",
    "What is 14 times 12? Show each step.",
    "Write a haiku about a slow computer.",
    "Why do cats purr?",
    "Summarise the story of the tortoise and the hare.",
    "Give two reasons for and two against working at night.",
    "What does the word 'parhelion' mean?",
    "Write an email that declines a meeting politely.",
    "Name the planets in order from the sun.",
    "Explain what a hash table is to a ten-year-old.",
    "Which months have 30 days?",
    "Write a limerick about a baker in Kiel.",
    "How does a bicycle stay upright?",
    "Turn this into a bullet list: bread, milk, eggs, salt.",
    "What should I pack for a week in Iceland?",
    "Describe the taste of an orange without naming any fruit.",
    "Write one line of SQL that counts the rows of a table named logs.",
    "Correct the grammar: 'Me and him was going to the store yesterday.'",
    "What are the primary colours, and what do you get by mixing them?",
    "Tell me a fact about the deep sea.",
    "Repeat exactly: 🌞🌤️ naïve café Ω 日本語",
    "How many seconds are in a day?",
    "Who wrote 'Faust', and what is it about?",
    "Give a one-line definition of entropy.",
    "Plan a three-day walk along a river.",
    "What is the opposite of 'generous'? Use it in a sentence.",
    "Describe a sunrise to someone who has never seen one.",
    "Explain why the sky is red in the evening.",
    "Name a chess opening and its first three moves.",
    "Write a shell command that finds files larger than one megabyte.",
    "What does a conductor of an orchestra do?",
    "Compare tea and coffee in one sentence.",
    "How would you explain money to a visitor from another planet?",
    "Give me a riddle and its answer.",
)
_SYSTEMS = (None, "You are a careful assistant.", None, "Answer in plain words.", None)
#: As many as the shadows are asked for: llama.cpp adds its softmax up in the order of its partial sort, so another number moves values by 1e-5.
TOP = 20
_TOKENS = (32, 40, 32, 48, 32, 64, 40)


class Ask(Struct, frozen=True):
    """One request of the demo: the OpenAI method it goes to and its arguments."""

    kind: str  # "chat" or "completion"
    arguments: dict[str, Any]
    stream: bool
    logprobs: bool
    sampled: bool


def traffic(requests: int, model: str, extra: dict[str, Any] | None = None) -> list[Ask]:
    """The first ``requests`` of the demo's endless, always equal traffic. ``extra``: body fields for requests that ask for logprobs."""
    return [_ask(number, model, extra or {}) for number in range(requests)]


def _ask(number: int, model: str, extra: dict[str, Any]) -> Ask:
    question = _QUESTIONS[number % len(_QUESTIONS)]
    if number >= len(_QUESTIONS):  # ask anew in other words, so that no prompt comes twice
        question = f"({number // len(_QUESTIONS) + 1}) {question}"
    chat = number % 8 != 5
    stream, logprobs, sampled = number % 3 == 1, number % 2 == 0, number % 6 == 3
    arguments: dict[str, Any] = {
        "model": model,
        "max_tokens": _TOKENS[number % len(_TOKENS)],
        "temperature": 0.8 if sampled else 0.0,
    }
    if sampled:
        arguments |= {"seed": 1000 + number, "top_p": 0.95}
    if stream:
        arguments["stream"] = True
    if chat:
        system = _SYSTEMS[number % len(_SYSTEMS)]
        arguments["messages"] = ([{"role": "system", "content": system}] if system else []) + [
            {"role": "user", "content": question}
        ]
    else:
        arguments["prompt"] = f"Question: {question}\nAnswer:"
    if logprobs:
        arguments |= {"logprobs": True, "top_logprobs": TOP} if chat else {"logprobs": TOP}
        if extra:
            arguments["extra_body"] = extra
    return Ask("chat" if chat else "completion", arguments, stream, logprobs, sampled)
