"""What figures show, when they are drawn, and what can be done in them."""

import pytest

from pilotstudy.page import render
from tests.page.conftest import look_at_all, see
from tests.support.made_run import made


def hovered(tab, plot: str, trace: str) -> str:
    """What is told of the second point of the trace of a name."""
    see(tab, plot)
    script = """([id, name]) => {
        const plot = document.getElementById(id);
        const curveNumber = plot.data.findLastIndex((one) => one.name === name);
        Plotly.Fx.hover(plot, [{ curveNumber, pointNumber: Math.min(1, plot.data[curveNumber].x.length - 1) }]);
    }"""
    tab.evaluate(script, [plot, trace])
    return tab.locator(f"#{plot} .hovertext").first.text_content()


def test_a_page_is_small(saved):
    assert saved.stat().st_size < 1_000_000


def test_what_is_hovered_tells_its_name_settings_and_interval(saved, visit):
    tab = visit(saved)
    for plot in "plot-history", "plot-pareto":
        told = hovered(tab, plot, "Pilot a-aug")
        assert told.startswith("Pilot a-aug, search ")
        assert all(f"{name}: " in told for name in ("accuracy", "NLL", "ECE", "mask_rate", "decoder_variance"))
    told = hovered(tab, "plot-forest", "Vanilla")
    assert "95 %: " in told
    assert "seeds: 3" in told
    assert "over seeds" in hovered(tab, "plot-learning", "Dropout")


def test_figures_are_drawn_when_they_come_into_view_and_all_for_printing(saved, visit):
    tab = visit(saved, viewport={"width": 1000, "height": 500})
    drawn = "() => [...document.querySelectorAll('.plot')].filter((e) => e.querySelector('.main-svg')).map((e) => e.id)"
    assert "plot-dgm" not in tab.evaluate(drawn)
    see(tab, "plot-dgm")
    assert "plot-pareto" not in tab.evaluate(drawn)
    tab.click("#theme")
    see(tab, "plot-dgm")
    tab.wait_for_function("document.getElementById('plot-dgm').layout.font.color === '#eceae4'")
    assert "plot-pareto" not in tab.evaluate(drawn)
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert len(tab.evaluate(drawn)) == tab.locator(".plot").count()
    widths = "[...document.querySelectorAll('figure > .plot')].map((e) => e.layout.width)"
    assert set(tab.evaluate(widths)) == {620}  # of a sheet of paper


# Figures whose drawing is not as large as Plotly was told, or not as wide as its place, and places that are too low.
OFF = """() => [...document.querySelectorAll("figure > .plot")].filter((plot) => plot.layout).flatMap((plot) => {
    const [svg, { width, height }] = [plot.querySelector(".main-svg").getBoundingClientRect(), plot.layout];
    const near = (a, b) => Math.abs(a - b) < 2;
    const fits = near(svg.width, plot.clientWidth) && near(width, svg.width) && near(height, svg.height);
    return fits && plot.getBoundingClientRect().height > svg.height - 2 ? [] : [plot.id];
})"""


@pytest.mark.long
def test_figures_keep_their_shape_when_the_window_changes(saved, visit):
    tab = visit(saved, viewport={"width": 1200, "height": 900})
    look_at_all(tab)
    for width in 1000, 950, 390, 844, 1200:
        tab.set_viewport_size({"width": width, "height": 900})
        for plot in "plot-forest", "plot-parallel", "plot-dgm":
            place = see(tab, plot)
            tab.wait_for_function(
                f"(({OFF})(), (p) => Math.abs(p.querySelector('.main-svg')?.clientWidth - p.clientWidth) < 2)"
                f"(document.getElementById('{plot}'))"
            )
            assert place.bounding_box()["height"] > 150
    look_at_all(tab)
    tab.wait_for_function(f"({OFF})().length === 0")


def test_after_printing_figures_are_as_wide_as_the_page_again(saved, visit):
    tab = visit(saved)
    look_at_all(tab)
    tab.pdf()
    for plot in "plot-forest", "plot-risk", "plot-parallel":
        see(tab, plot)
        place = f"document.getElementById('{plot}')"
        tab.wait_for_function(f"Math.abs({place}.layout.width - {place}.clientWidth) < 2")


def test_an_arm_off_the_front_is_in_the_legend(saved, visit):
    tab = visit(saved)
    see(tab, "plot-pareto")
    shown = "document.getElementById('plot-pareto').data.filter((t) => t.showlegend !== false).map((t) => t.name)"
    assert {"Pilot a-aug", "Dropout", "front"} <= set(tab.evaluate(shown))


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """The page of a run without figures of its search yet."""
    return render.save(made(tmp_path_factory.mktemp("begun") / "made", most=7))


@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("page", ["saved", "begun"])
def test_nothing_moves_when_figures_are_drawn(page, visit, width, request):
    """Who presses a button below a figure, meanwhile drawn, presses that button."""
    tab = visit(request.getfixturevalue(page), viewport={"width": width, "height": 900})
    heights = "Object.fromEntries([...document.querySelectorAll('figure')].map((e) => [e.id, e.offsetHeight]))"
    before = tab.evaluate(heights)
    assert tab.locator("figure > .plot:not([data-drawn])").count() > 3
    look_at_all(tab)
    assert tab.evaluate(heights) == before


@pytest.mark.parametrize("width", [1200, 390])
def test_dragging_along_an_axis_selects(saved, visit, width):
    """The lower half of the NLL, on a vertical axis where there is room, and on a horizontal one where there is not."""
    tab = visit(saved, viewport={"width": width, "height": 1100})
    see(tab, "plot-parallel").locator(".nsewdrag").wait_for()
    box = tab.locator("#plot-parallel .nsewdrag").bounding_box()
    below, axes, horizontal, vertical = tab.evaluate("""() => {
        const { xaxis, yaxis } = document.getElementById("plot-parallel").layout;
        const { nll, arm, phase } = JSON.parse(document.getElementById("data").textContent).trials.columns;
        const own = nll.filter((_, i) => phase[i] === "search" && arm[i] === "pilot-a-aug");
        const middle = (Math.min(...own) + Math.max(...own)) / 2;
        const { tickvals } = xaxis.tickvals ? xaxis : yaxis;
        return [own.filter((value) => value <= middle).length, tickvals.length, xaxis.range, yaxis.range];
    }""")

    def at(along: float, across: float) -> tuple[float, float]:
        x, y = (along, across) if width > 700 else (across, along)
        (left, right), (bottom, top) = horizontal, vertical
        right_by, down_by = (x - left) / (right - left), (top - y) / (top - bottom)
        return box["x"] + box["width"] * right_by, box["y"] + box["height"] * down_by

    nll = axes - 2  # the axis before that of the ECE
    tab.mouse.move(*at(nll - 0.2, -0.03))
    tab.mouse.down()
    tab.mouse.move(*at(nll, 0.2), steps=4)
    tab.mouse.move(*at(nll + 0.2, 0.5), steps=4)
    tab.mouse.up()
    tab.wait_for_selector("#selection:not([hidden])")
    assert tab.inner_text("#selection span").startswith(f"{below} trial")
    tab.wait_for_function("document.getElementById('plot-parallel').data.some((one) => one.name === 'selected')")
    see(tab, "plot-history")
    marked = "document.getElementById('plot-history').data.reduce((n, t) => n + (t.selectedpoints || []).length, 0)"
    tab.wait_for_function(f"{marked} === {below}")


def test_an_arm_has_its_colour_where_only_one_is_drawn(saved, visit):
    """Another arm's would be taken for that arm."""
    tab = visit(saved)
    colours = "(id) => document.getElementById(id).data.map((one) => one.line.color.slice(0, 7))"
    arms = "document.getElementById('plot-history').data.map((one) => [one.name, one.marker?.color])"
    see(tab, "plot-history")
    own = dict(tab.evaluate(arms))["Pilot a-aug"]
    see(tab, "plot-parallel").locator(".nsewdrag").wait_for()
    assert set(tab.evaluate(colours, "plot-parallel")) == {own}
    tab.fill("#filter", "arm:pilot-a-aug")
    tab.locator("#trials-table .opener").first.click()
    tab.wait_for_selector("#detail-curves .main-svg")
    assert set(tab.evaluate(colours, "detail-curves")) == {own}


def test_a_group_of_one_trial_is_named_by_its_figure(saved, visit):
    tab = visit(saved)
    see(tab, "plot-parallel").locator(".nsewdrag").wait_for()
    for name in tab.evaluate("document.getElementById('plot-parallel').data.map((one) => one.name)"):
        words = name.removeprefix("NLL ").split(" to ")
        assert len(words) == len(set(words))


def test_figures_without_anything_to_show_say_why(tmp_path, visit):
    tab = visit(render.save(made(tmp_path / "empty", most=0)))
    for plot in "history", "pareto", "parallel", "slices":
        told = see(tab, f"plot-{plot}").inner_text()
        assert "has finished yet" in told
        assert "pilotstudy status empty" in told
    assert "No arm has finished yet" in see(tab, "plot-entropy").inner_text()
    assert tab.locator(".main-svg").count() == 0


def test_axes_of_epochs_have_whole_numbers(tmp_path, visit):
    tab = visit(render.save(made(tmp_path / "short", training={"epochs": 2}, search=None, points=60)))
    for plot in "plot-learning", "plot-dgm":
        see(tab, plot).locator(".xtick").first.wait_for()
        ticks = tab.eval_on_selector_all(f"#{plot} .xtick, #{plot} .x2tick", "all => all.map(e => e.textContent)")
        assert set(ticks) == {"1", "2"}
