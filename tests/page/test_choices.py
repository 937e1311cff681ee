"""Finding trials by a filter, and what the reader chose: kept in the address."""

import json

FILTERS = {
    "nll<1.7": lambda t: t["nll"] < 1.7,
    "accuracy>=0.42 arm:dropout": lambda t: t["accuracy"] >= 0.42 and t["arm"] == "dropout",
    "seed=1": lambda t: t["seed"] == 1,
    "seed=10": lambda t: False,
    "seed:1 -arm:l2": lambda t: t["seed"] == 1 and t["arm"] != "l2",
    'arm:"Pilot a-aug" phase:search': lambda t: t["arm"] == "pilot-a-aug" and t["phase"] == "search",
    "mask_rate>0.5": lambda t: (t["mask_rate"] or 0) > 0.5,
    "PILOT finished nll<": lambda t: t["arm"] == "pilot-a-aug",  # the last is not typed to its end
}


def test_a_filter_finds_the_trials_that_it_says_and_tells_what_it_cannot_understand(saved, visit):
    tab = visit(saved)
    data = json.loads(tab.locator("#data").text_content())["trials"]
    columns = data["columns"] | data["settings"]
    each = [{name: values[i] for name, values in columns.items()} for i in range(len(columns["arm"]))]
    for text, wanted in FILTERS.items():
        number = sum(map(wanted, each))
        tab.fill("#filter", text)
        assert tab.inner_text("#trials-count") == f"{number} of {len(each)} trials", text
        assert tab.locator("#trials-table tbody tr").count() == number
        assert tab.inner_text("#filter-faults") == ""
    tab.fill("#filter", "mask_rat>0.5")
    assert "did you mean mask_rate" in tab.inner_text("#filter-faults")
    assert tab.inner_text("#trials-count") == "0 of 38 trials"
    tab.fill("#filter", "zzzzzzz=1")
    assert "Known are: " in tab.inner_text("#filter-faults")
    tab.fill("#filter", "nll<low")
    assert "needs a number" in tab.inner_text("#filter-faults")


def test_a_link_shows_what_its_sender_saw(saved, run, visit, serve):
    tab = visit(saved, color_scheme="light")
    tab.click("#forest button:text-is('ECE')")
    tab.select_option("#search select.arm >> nth=0", "dropout")
    tab.fill("#filter", "arm:dropout nll<1.9")
    tab.click("#trials-table th button:text-is('accuracy')")
    tab.locator("#trials-table .opener").nth(1).click()
    tab.click("#theme")
    tab.click("nav a:text-is('Trials')")
    tab.wait_for_function("location.hash.startsWith('#trials?') && location.hash.includes('theme=dark')")
    drawn = "tr.open + tr.under #detail-bins .main-svg"  # the last of what is in it
    tab.wait_for_selector(drawn)
    shown = tab.inner_text("#trials-table")
    link = tab.evaluate("location.hash")
    live = f"http://127.0.0.1:{serve(run).server_address[1]}/"
    for where in saved.as_uri(), live:
        other = visit(where + link, color_scheme="light")
        assert other.evaluate("document.documentElement.dataset.theme") == "dark"
        assert other.get_attribute("#forest button:text-is('ECE')", "aria-pressed") == "true"
        assert other.locator("#search select.arm").evaluate_all("all => all.map(e => e.value)") == ["dropout"] * 3
        assert other.input_value("#filter") == "arm:dropout nll<1.9"
        assert other.get_attribute("#trials-table th:has-text('accuracy')", "aria-sort") == "ascending"
        other.wait_for_selector(drawn)
        assert other.inner_text("#trials-table") == shown
        assert other.inner_text("#selection span") == tab.inner_text("#selection span")
        assert other.evaluate("document.getElementById('trials').getBoundingClientRect().top < innerHeight")


def test_what_means_nothing_in_an_address_is_ignored(saved, visit):
    nonsense = "#nowhere?answer.metric=beauty&trials.open=search+x+99&trials.sort=%00&page.theme=<b>&%E0%A4%A&=&a=b"
    tab = visit(saved.as_uri() + nonsense)
    assert tab.get_attribute("#forest button:text-is('NLL')", "aria-pressed") == "true"
    assert tab.inner_text("#trials-count") == "38 trials"
    tab.click("#forest button:text-is('ECE')")
    tab.wait_for_function("location.hash.includes('answer.metric=ece')")
    tab.click("#forest button:text-is('NLL')")
    tab.wait_for_function("!location.hash.includes('answer.metric')")
