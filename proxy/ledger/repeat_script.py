"""The program that a record's commands end with: it shows the token at which two saved replies part. It runs under any Python 3, alone.

House rules. Text, run by ``python3 -c`` and never here. It imports nothing beyond the standard library, and holds no quote character of a shell (') so that it can be read where it is
pasted. Arguments: the mode, the choice, the position (in ``forced`` mode counted from the end), the position to say, both files.
"""

SCRIPT = r"""
import json, sys
mode, choice, place, said, files = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]

def events(file):
    text = open(file, encoding="utf-8", errors="replace").read()
    try:
        return [json.loads(text)]
    except ValueError:
        lines = [line[5:] if line.startswith("data:") else line for line in text.split("\n")]
        return [json.loads(line) for line in lines if line.strip()[:1] == "{"]

def rows(file):
    found = []
    for event in events(file):
        if isinstance(event.get("logprobs"), list):
            found += event["logprobs"]
        for one in event.get("choices") or []:
            listed = one.get("logprobs") or {}
            if one.get("index", 0) == choice:
                found += listed.get("content") or []
                found += [{"token": a, "logprob": b} for a, b in zip(listed.get("tokens") or [], listed.get("token_logprobs") or [])]
    return spelled(found)

def spelled(found):
    # LMDeploy names tokens as its vocabulary has them, each byte a letter: a blank is U+0120
    if not any("\u0120" in (row.get("token") or "") for row in found):
        return found
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(byte): byte for byte in plain} | {chr(256 + n): byte for n, byte in enumerate(byte for byte in range(256) if byte not in plain)}
    text = lambda token: bytes(letters[one] for one in token).decode("utf-8", "replace") if set(token) <= letters.keys() else token
    return [{"token": text(row["token"]), "logprob": row.get("logprob"), "id": row.get("id")} for row in found]

def best(file):
    whole = events(file)[0]
    if "completion_probabilities" in whole:
        row = whole["completion_probabilities"][0]
        return max(row.get("top_logprobs") or [row], key=lambda one: one["logprob"])
    if "meta_info" in whole:
        top = whole["meta_info"]["input_top_logprobs"][place]
        value, id, text = (*max(top, key=lambda one: one[0]), None)[:3]
        return {"token": text, "id": id, "logprob": value}
    listed = whole["choices"][0].get("prompt_logprobs") or whole["prompt_logprobs"]
    id, row = max(listed[place].items(), key=lambda one: one[1]["logprob"])
    return {"token": row.get("decoded_token"), "id": int(id), "logprob": row["logprob"]}

def text(file):
    found = ""
    for event in events(file):
        for one in event.get("choices") or [event]:
            if one.get("index", 0) == choice:
                part = one.get("message") or one.get("delta") or one
                found += part.get("content") or one.get("text") or ""
    return found

def name(row):
    named = row.get("token") if row else None
    return "the end" if not row else json.dumps(named) + " (id %r, logprob %r)" % (row.get("id"), row.get("logprob"))

def differ(a, b):
    word = "bytes" if a.get("bytes") and b.get("bytes") else "token"
    return a.get(word) != b.get(word)

mine = rows(files[0])
if mode == "forced":
    print("position %d: primary %s, shadow would say %s" % (said, name(mine[said]), name(best(files[1]))))
    sys.exit()
its = rows(files[1])
if mine and its:
    at = next((i for i, (a, b) in enumerate(zip(mine, its)) if differ(a, b)), min(len(mine), len(its)))
    same = at == len(mine) == len(its)
    print("no difference in %d tokens" % at if same else "position %d: primary %s, shadow %s" % (at, name(mine[at] if at < len(mine) else None), name(its[at] if at < len(its) else None)))
else:
    a, b = text(files[0]), text(files[1])
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    print("no difference in the text" if a == b else "character %d: primary %s, shadow %s" % (at, json.dumps(a[at:at + 40]), json.dumps(b[at:at + 40])))
""".strip()
