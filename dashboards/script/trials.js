// 7. Trials: a table of all, in which each can be opened.

const trialsSection = (() => {
  const PAGE = 50;
  const state = { filter: "", phase: "", status: "", onlySelected: false, sort: "" };
  const place = h("div", {});
  const faults = h("p", { id: "filter-faults", class: "fails", role: "status" });
  let leaf = 0; // of the table
  let seeking = false; // the leaf of the open trial
  let open = null;
  let keepFilter = null;

  // The table

  /** As many decimals for all of a column as show four digits of what is usual in it. */
  function sameDigits(values) {
    const sizes = values.filter((value) => value).map(Math.abs);
    sizes.sort((a, b) => a - b);
    const usual = sizes[Math.floor(sizes.length / 2)] ?? 1;
    const digits = Math.min(4, Math.max(0, 3 - Math.floor(Math.log10(usual))));
    return (value) => fixed(value, digits);
  }
  function columns() {
    const column = (name, text = (value) => value) => {
      const sort = trials.value(name);
      return { head: name.replace("_", " "), name, sort, text: (i) => text(sort(i)) };
    };
    const arm = (i) => armLabels.of(trials.columns().arm[i]);
    const figureColumn = ({ name, head }) => ({ ...column(name, sameDigits(trials.columns()[name])), head });
    return [
      { head: "arm", left: true, sort: arm, text: arm },
      { ...column("phase"), left: true },
      column("number"),
      column("seed"),
      { ...column("status"), left: true },
      ...trials.figures().map(figureColumn),
      column("epochs"),
      column("seconds", (value) => fixed(value, 1)),
    ].filter(({ name }) => !name || trials.all().some((i) => trials.value(name)(i) != null)); // imported ones took none
  }
  function wanted() {
    const { phase, status } = trials.columns();
    const filter = trialFilter.read(state.filter);
    faults.textContent = filter.faults.join(" ");
    return trials
      .all()
      .filter(
        (i) =>
          (!state.phase || phase[i] === state.phase) &&
          (!state.status || status[i] === state.status) &&
          (!state.onlySelected || selection.has(i)) &&
          filter.matches(i),
      );
  }
  /** One leaf of the table. */
  function table(rows) {
    return sortableTable(columns(), rows, {
      id: "trials-table",
      headings: false,
      state,
      part(ordered) {
        if (seeking) leaf = Math.floor(Math.max(0, ordered.indexOf(open)) / PAGE);
        seeking = false;
        return ordered.slice(leaf * PAGE, (leaf + 1) * PAGE);
      },
      onSort: fillFirst,
      opens: { isOpen: (i) => open === i, toggle: openOrClose, under: () => oneTrial.of(open) },
      rowAttributes: (i) => ({ class: selection.has(i) ? "selected" : "", "data-trial": trials.name(i) }),
    });
  }
  function steps(rows) {
    const pages = Math.max(1, Math.ceil(rows / PAGE));
    const of = trials.all().length;
    const matches = rows === of ? `${of} trials` : `${rows} of ${of} trials`;
    const step = (text, by) => {
      const go = () => {
        leaf += by;
        fill();
      };
      return button(text, go, { disabled: leaf + by < 0 || leaf + by >= pages });
    };
    const where = pages > 1 ? [step("‹ Back", -1), `page ${leaf + 1} of ${pages}`, step("Next ›", 1)] : [];
    return h("div", { class: "controls" }, h("strong", { id: "trials-count", role: "status" }, matches), ...where);
  }
  function fill() {
    const rows = wanted();
    leaf = Math.min(leaf, Math.max(0, Math.ceil(rows.length / PAGE) - 1));
    const focused = document.activeElement?.closest("tr[data-trial]")?.dataset.trial;
    const sorted = document.activeElement?.closest("#trials-table th")?.textContent;
    const made = table(rows);
    const outside = open !== null && !rows.includes(open);
    const note = outside ? [h("p", { class: "quiet" }, "It is not among the trials below."), oneTrial.of(open)] : [];
    place.replaceChildren(...note, steps(rows.length), rows.length ? made : h("p", { class: "quiet" }, why()));
    if (focused) place.querySelector(`tr[data-trial="${CSS.escape(focused)}"] .opener`)?.focus({ preventScroll: true });
    const heads = [...place.querySelectorAll("#trials-table th")];
    heads
      .find((head) => head.textContent === sorted)
      ?.querySelector("button")
      ?.focus({ preventScroll: true });
  }
  /** Why no trial is shown. */
  function why() {
    if (!trials.all().length) return nothingYet("No trial has begun yet");
    return state.onlySelected && !selection.any() ? "No trial is selected." : "No trial matches.";
  }
  function fillFirst() {
    leaf = 0;
    fill();
  }
  function openOrClose(i) {
    if (open === i) {
      open = null;
      selection.set([]);
    } else choose(i);
  }
  /** Opens a trial, in the table's page that it is on. */
  function choose(i) {
    open = i;
    seeking = true;
    selection.set([i]);
  }

  // The controls

  function numbers() {
    const names = Object.keys(trials.columns());
    const values = [...names.map(trials.value), ...trials.settings().map(trials.setting)];
    return {
      columns: [...names, ...trials.settings()],
      rows: trials.all().map((i) => values.map((value) => value(i))),
    };
  }
  function filterBox() {
    const filter = h("input", {
      type: "search",
      id: "filter",
      placeholder: "nll<2.05 arm:dropout -phase:search",
      "aria-label": "Filter trials",
      "aria-describedby": "filter-faults",
      size: 34,
      value: state.filter,
      oninput() {
        state.filter = filter.value;
        keepFilter();
        fillFirst();
      },
    });
    return filter;
  }
  function help() {
    const code = (text) => h("code", {}, text);
    const example = (text, says) => h("li", {}, code(text), ` ${says}`);
    return h(
      "details",
      { id: "filter-help" },
      h("summary", {}, "How to filter"),
      h(
        "ul",
        {},
        example("dropout failed", "trials with both words, anywhere in them"),
        example("nll<2.05 accuracy>=0.8", "figures and settings by size, with <, <=, > and >="),
        example("seed=1 arm:dropout", "the very value, with = or :"),
        example("-arm:l2", "a minus before it leaves these out"),
        example('arm:"Pilot a-aug"', "quotes keep words together"),
      ),
      h("p", {}, "Names: ", ...trialFilter.names().flatMap((name) => [code(name), " "])),
    );
  }
  function onlySelected() {
    const keep = choices.one(state, "onlySelected", [false, true]);
    const only = h("input", {
      type: "checkbox",
      id: "only-selected",
      checked: state.onlySelected,
      onchange() {
        state.onlySelected = only.checked;
        keep();
        fillFirst();
      },
    });
    return h("label", {}, only, "selected only");
  }
  function controls() {
    keepFilter = choices.one(state, "filter");
    const oneOf = (name) => {
      const values = [...new Set(trials.columns()[name])].map((value) => [value, value]);
      return choice("", [["", `every ${name}`], ...values], state, name, fillFirst, { "aria-label": name });
    };
    const csv = csvButton(() => "trials", numbers);
    return h("div", { class: "controls" }, filterBox(), oneOf("phase"), oneOf("status"), onlySelected(), csv);
  }
  /** The open trial and the selected ones, in the address. */
  function keepTrials() {
    selection.keep();
    const name = () => (open === null ? "" : trials.name(open));
    choices.add("trials.open", name, (text) => {
      const found = trials.all().find((i) => trials.name(i) === text);
      if (found === undefined) return false;
      open = found;
    });
  }

  return {
    add() {
      const reading = "Validation figures of every trial. Enter or a click opens one, and selects it in the figures.";
      const parent = section("trials", "Trials", reading);
      keepTrials();
      oneTrial.forget();
      parent.append(controls(), faults, help(), place);
      seeking = open !== null;
      fill();
    },
    fill,
    choose,
    goToOpen() {
      const own = place.querySelector(".opener[aria-expanded=true]");
      (own ?? place).scrollIntoView({ block: "start" });
      own?.focus({ preventScroll: true });
    },
    /** In other colours. */
    showAgain() {
      oneTrial.forget();
      fill();
    },
    /** The place of the trial that is open; a live page moves it. */
    get open() {
      return open;
    },
    set open(i) {
      open = i;
    },
  };
})();
