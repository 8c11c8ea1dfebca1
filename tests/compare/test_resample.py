import random
from bisect import bisect_left
from hashlib import blake2b
from math import exp, factorial

from proxy.compare.resample import REPLICATES, lanes, replicates, weights


def test_a_weight_is_a_poisson_number_out_of_two_bytes_of_a_hash():
    """Worked out once more, one number at a time: replicas of other versions must draw the same."""
    upto = [sum(exp(-1) / factorial(k) for k in range(n + 1)) for n in range(8)]
    for conversation in ("", "a", "ü/7"):
        expected = []
        for block in range(REPLICATES // 32):
            digest = blake2b(f"{block}:{conversation}".encode(), digest_size=64).digest()
            for at in range(0, 64, 2):
                uniform = (int.from_bytes(digest[at : at + 2], "little") + 0.5) / 65536
                expected.append(bisect_left(upto, uniform))
        assert list(weights(conversation)) == expected


def test_sums_of_lanes_are_the_sums_of_every_replicate():
    chance = random.Random(1)
    total, expected = 0, [0] * REPLICATES
    for number in range(300):
        count = chance.choice([0, 1, 17, 4096, 10**9])
        total += lanes(str(number)) * count
        expected = [one + weight * count for one, weight in zip(expected, weights(str(number)), strict=True)]
    assert list(replicates(total)) == expected
    assert set(replicates(0)) == {0}
