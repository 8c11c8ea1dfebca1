from proxy.compare.comparison import ChoiceComparison, Comparison, Flip, FlipClass, Mode, TokenRef
from proxy.compare.life import Life, first_genuine, indices, life, lives, without_position


def flip(index: int, kind: FlipClass = FlipClass.GENUINE) -> Flip:
    return Flip(index, TokenRef(), TokenRef(), kind)


def choice(**fields) -> ChoiceComparison:
    return ChoiceComparison(
        **{"index": 0, "primary_tokens": 9, "shadow_tokens": 9, "compared": 5, "exposed": 5, "identical": False}
        | fields
    )


def test_a_free_life_ends_where_it_parts_or_where_it_could_no_longer():
    assert life(choice(first=flip(4)), Mode.FREE, "c") == Life("c", 5, parted=True)
    assert life(choice(censored="max_tokens"), Mode.FREE, "c") == Life("c", 5, parted=False)


def test_a_forced_life_ends_at_the_first_genuine_flip():
    scored = {"top1_agree": (True, False, None, False, True)}
    flips = (flip(1, FlipClass.NEAR_TIE), flip(3))
    assert life(choice(flips=flips, **scored), Mode.FORCED, "c") == Life("c", 4, parted=True)
    assert life(choice(flips=flips[:1], **scored), Mode.FORCED, "c") == Life("c", 5, parted=False)
    assert life(choice(top1_agree=(None,) * 5), Mode.FORCED, "c").exposed == 0
    assert first_genuine(choice(flips=flips)) == 3


def test_a_sample_of_positions_keeps_its_places():
    sampled = choice(compared=3, positions=(2, 40, 700), top1_agree=(True, True, None))
    assert tuple(indices(sampled)) == (2, 40, 700)
    assert tuple(indices(choice())) == (0, 1, 2, 3, 4)
    assert life(sampled, Mode.FORCED, "c") == Life("c", 41, parted=False)


def test_differences_of_text_alone_are_counted_and_have_no_life():
    made = [
        Comparison(Mode.FREE, choices=(choice(exposed=0, by_text=True, first_text_difference=7),)),
        Comparison(Mode.FREE, choices=(choice(exposed=0, by_text=True), choice(first=flip(4)))),
        Comparison(Mode.FREE, incomparable="sampled"),
    ]
    assert lives(made, ["a", "b", "c"]) == [Life("b", 5, parted=True)]
    assert without_position(made) == 1
