"""The routes beside chat and completions through a whole process tree: replies untouched, every one compared once, nothing uncounted."""

from __future__ import annotations

from pathlib import Path

from tests.running import parhelion, post, toy, until
from tests.whole import CHAT, law, settle, shadows

ROUTES = "tests.toy_routes"
HALO = "Tell me about halos, the sun's."
BODIES = {
    "responses": {"model": "toy", "input": HALO, "temperature": 0, "max_output_tokens": 12, "store": True},
    "messages": {"model": "toy", "messages": CHAT["messages"], "temperature": 0, "max_tokens": 12},
    "embeddings": {"model": "toy", "input": [HALO, "Bread needs flour."]},
    "rerank": {"model": "toy", "query": HALO, "documents": ["ice", "flour", "light", "sun dogs"]},
    "score": {"model": "toy", "text_1": HALO, "text_2": ["ice", "flour", "light"]},
    "chat/completions": CHAT,
}


def test_every_route_is_compared_in_free_mode_and_settled_in_forced(tmp_path: Path) -> None:
    with (
        toy(ROUTES) as primary,
        toy(ROUTES, noise=0.9, seed=7) as candidate,
        toy(ROUTES) as control,
        parhelion(tmp_path, primary, shadows(candidate, control)) as proxy,
    ):
        proxy.wait_known(["primary", "cand", "control"], 60)
        for path, body in BODIES.items():
            assert post(f"{proxy.clients}/v1/{path}", body) == post(f"{primary}/v1/{path}", body)
        stored = BODIES["responses"] | {"previous_response_id": "resp_1"}
        assert post(f"{proxy.clients}/v1/responses", stored) == post(f"{primary}/v1/responses", stored)
        settle(proxy, len(BODIES) + 1)
        law(proxy)
        noisy, control_ = proxy.report()["shadows"]
        for shadow in (noisy, control_):
            free, forced = shadow["modes"]["free"], shadow["modes"]["forced"]
            assert (free["requests"], free["incomparable"]) == (len(BODIES), {"stored_conversation": 1})
            assert forced["requests"] == 1  # the chat
            assert forced["incomparable"] == {"endpoint": 5, "stored_conversation": 1}
            assert (free["embeddings"]["vectors"], free["rerank"]["items"], free["score"]["items"]) == (2, 4, 3)
        free = control_["modes"]["free"]
        assert (free["identical"], free["measured"]) == (len(BODIES), 0)
        assert free["embeddings"]["cosine_distance"]["max"] == free["score"]["score_error"]["max"] == 0.0
        free = noisy["modes"]["free"]
        assert free["identical"] == 0
        assert 1e-3 < free["embeddings"]["cosine_distance"]["max"] < 2.0
        assert free["rerank"]["score_error"]["max"] > 1e-3
        until(lambda: proxy.metric("parhelion_embedding_cosine_distance_count", shadow="cand") == 2)
        assert proxy.metric("parhelion_rankings_compared_total", shadow="cand") == 2
        assert proxy.metric("parhelion_score_error_count", shadow="control") == 7
        assert proxy.stop() == 0
