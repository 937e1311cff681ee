import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pilotstudy.method.masks import MASK_KINDS, Mask, MaskPrior, bernoulli, insert

SIZES = [7, 5, 3]


def units(mask: Mask, n: int) -> torch.Tensor:
    """b written out, [n, Σ sizes], the slow way."""
    b = torch.zeros(n, sum(SIZES))
    rows = torch.arange(n) if mask.rows is None else mask.rows
    for part in mask.parts:
        start = sum(SIZES[: part.layer])
        for position, row in enumerate(rows[part.rows].tolist()):
            b[row, start : start + SIZES[part.layer]] = 1 if part.units is None else part.units[position]
    return b


@given(st.sampled_from(MASK_KINDS), st.integers(1, 40), st.floats(0, 1), st.integers(0, 1000))
def test_a_draw_is_a_mask_of_its_kind(kind, n, rate, seed):
    torch.manual_seed(seed)
    mask = MaskPrior(kind, SIZES).draw(n, rate)
    b = units(mask, n)
    layers = [b[:, :7], b[:, 7:12], b[:, 12:]]
    if kind.startswith("x"):
        assert not layers[1].any()
        assert not layers[2].any()
    if kind.endswith("aug"):
        whole = torch.stack([layer.mean(1) for layer in layers])
        assert ((whole == 0) | (whole == 1)).all()
        assert (whole.sum(0) <= 1).all()
        assert sorted([*mask.rows.tolist(), *mask.others.tolist()]) == list(range(n))
        assert (b[mask.rows].any(1)).all()
        assert not b[mask.others].any()
        hidden = [layer for part in mask.parts for layer in [part.layer] * (part.rows.stop - part.rows.start)]
        assert mask.seen.argmax(1).tolist() == hidden
        assert (mask.seen.sum(1) == 1).all()
    else:
        assert torch.equal(mask.seen, b[:, : mask.seen.shape[1]])


@pytest.mark.parametrize("rate", [0.2, 0.5, 1.0])
def test_rates_follow_the_law(rate):
    torch.manual_seed(0)
    n = 20_000
    tolerance = 4 * (rate * (1 - rate) / n) ** 0.5 + 1e-9
    aug = units(MaskPrior("a-aug", SIZES).draw(n, rate), n)
    each = torch.stack([aug[:, 0], aug[:, 7], aug[:, 12]]).mean(1)
    assert abs(each.sum().item() - rate) <= tolerance
    share = rate / 3
    assert (each - share).abs().max() <= 4 * (share * (1 - share) / n) ** 0.5
    assert abs(units(MaskPrior("x-aug", SIZES).draw(n, rate), n)[:, 0].mean().item() - rate) <= tolerance
    drop = units(MaskPrior("a-drop", SIZES).draw(n, rate), n)
    assert (drop.mean(0) - rate).abs().max() <= tolerance * 1.2
    if rate < 1:  # units are independent of each other
        correlation = torch.corrcoef(drop.T) - torch.eye(sum(SIZES))
        assert correlation.abs().max() < 5 / n**0.5


def test_nothing_is_masked_at_rate_0_and_everything_at_1():
    assert MaskPrior("a-aug", SIZES).draw(50, 0.0).parts == ()
    assert not MaskPrior("a-drop", SIZES).draw(50, 0.0).seen.any()
    assert units(MaskPrior("a-drop", SIZES).draw(50, 1.0), 50).all()
    assert MaskPrior("a-aug", SIZES).draw(50, 1.0).size() == 50


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_insert_puts_values_at_the_masked_units_only(kind):
    torch.manual_seed(1)
    mask = MaskPrior(kind, SIZES).draw(30, 0.5)
    b = units(mask, 30)
    for part in mask.parts:
        start = sum(SIZES[: part.layer])
        here = b[:, start : start + SIZES[part.layer]].bool()
        u = torch.randn(30, SIZES[part.layer], requires_grad=True)
        values = torch.full((part.rows.stop - part.rows.start, SIZES[part.layer]), 1e30)
        h = insert(mask, part, u, values)
        assert torch.equal(h, torch.where(here, torch.tensor(1e30), u))
        h.sum().backward()
        assert torch.equal(u.grad, (~here).float())


def test_an_unknown_mask_is_named():
    with pytest.raises(ValueError, match="a-aug, a-drop, x-aug, x-drop"):
        MaskPrior("b-aug", SIZES)


@pytest.mark.parametrize("rate", [0.0, 1e-3, 0.3, 0.5, 0.999, 1.0])
def test_bernoulli_draws_are_fair_in_every_place(rate):
    """Places within a 64-bit word included: mean, and independence of neighbours."""
    torch.manual_seed(0)
    draws = bernoulli(1001, 397, rate)
    assert draws.shape == (1001, 397)
    flat = draws.flatten()[: 4 * (draws.numel() // 4)].view(-1, 4)
    tolerance = 4.5 * (rate * (1 - rate) / len(flat)) ** 0.5 + 1e-5
    assert (flat.mean(0) - rate).abs().max() <= tolerance
    for a, b in (0, 1), (1, 2), (2, 3), (0, 3):
        both = (flat[:, a] * flat[:, b]).mean().item()
        assert both == pytest.approx(rate**2, abs=4.5 * (rate**2 * (1 - rate**2) / len(flat)) ** 0.5 + 1e-4)
