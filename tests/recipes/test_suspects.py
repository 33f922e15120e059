"""What the front page shows of SmolLM2's heads is what SmolLM2 does."""

import pytest
import torch

from attnlib.pretrained import card, smollm2
from recipes.suspects import NEXT, PROMPT


@pytest.mark.slow
def test_the_stored_removals_are_those_of_the_model() -> None:
    """Asked of the whole model, where the recipe starts at the layer of the head."""
    lm, stored = smollm2(), card("suspects")
    ids = torch.tensor([lm.encode(PROMPT)])
    words = [token for word in NEXT for token in lm.encode(word)]

    def near(logits: torch.Tensor, wanted: list[float]) -> bool:
        ours = logits[0, -1].softmax(-1)[words]
        return bool((ours - torch.tensor(wanted)).abs().max() < 2e-3)

    with torch.no_grad():
        assert near(lm.model(ids), stored["before"])
        pattern = lm.trace(PROMPT).pattern[:, :, -1]
        assert (pattern - torch.tensor(stored["weights"])).abs().max() < 2e-3
        for layer, head in ((24, 4), (29, 1), (0, 0)):

            def removed(z: torch.Tensor, head: int = head) -> torch.Tensor:
                z = z.clone()
                z[:, head] = 0
                return z

            logits = lm.model(ids, edits={("z", layer): removed})
            assert near(logits, stored["zero"][layer][head])
            assert not near(logits, stored["before"])


def test_the_head_that_looks_hardest_works_against_the_word_in_either_way() -> None:
    stored = card("suspects")
    answer = stored["tokens"].index(NEXT[0])
    weights = torch.tensor(stored["weights"])[..., answer]
    assert divmod(int(weights.argmax()), weights.shape[1]) == (24, 4)
    for way in ("zero", "mean"):
        assert stored[way][24][4][0] > stored["before"][0] + 0.03
    missed = torch.tensor(stored["mean"])[..., 0]
    assert divmod(int(missed.argmin()), weights.shape[1]) == (29, 1)
    assert weights[29, 1] < 0.01
