// 7. Trials: a table of all, and one of them in detail.

const trialsSection = (() => {
  const PAGE = 50;
  const state = { page: 0, text: "", phase: "", status: "", onlySelected: false, sorted: null };
  let open = null;
  const place = h("div", {});
  const detail = h("div", { id: "detail", "aria-live": "polite" });

  // The table

  function columns() {
    const short = (value) => (typeof value === "number" && !Number.isInteger(value) ? +value.toPrecision(4) : value);
    const column = (name, head = name, left = false) => {
      const sort = trials.value(name);
      return { head, left, sort, text: (i) => short(sort(i)) };
    };
    return [
      column("arm", "arm", true),
      column("phase", "phase", true),
      column("number"),
      column("seed"),
      column("status", "status", true),
      ...trials.figures().map(({ name, head }) => column(name, head)),
      column("epochs"),
      column("seconds"),
    ];
  }
  /** Everything of a trial that the filter looks at. */
  function haystack(i) {
    const { phase, arm, status, error, seed } = trials.columns();
    const settings = trials.settings().map((name) => {
      const value = trials.setting(name)(i);
      return value === null ? "" : `${name}=${value}`;
    });
    return [phase[i], arm[i], status[i], error[i] || "", `seed ${seed[i]}`, ...settings].join(" ").toLowerCase();
  }
  function wanted() {
    const { phase, status } = trials.columns();
    const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
    return trials
      .all()
      .filter(
        (i) =>
          (!state.phase || phase[i] === state.phase) &&
          (!state.status || status[i] === state.status) &&
          (!state.onlySelected || selection.has(i)) &&
          words.every((word) => haystack(i).includes(word)),
      );
  }
  function fill() {
    const rows = wanted();
    const pages = Math.max(1, Math.ceil(rows.length / PAGE));
    state.page = Math.min(state.page, pages - 1);
    const table = sortableTable(columns(), rows, {
      id: "trials-table",
      headings: false,
      sorted: state.sorted,
      part: (ordered) => ordered.slice(state.page * PAGE, (state.page + 1) * PAGE),
      onSort(sorted) {
        state.sorted = sorted;
        fillFirst();
      },
      onRow: choose,
      rowAttributes: (i) => ({
        class: `${selection.has(i) ? "selected" : ""} ${open === i ? "open" : ""}`.trim(),
        "aria-selected": String(selection.has(i)),
      }),
    });
    const step = (text, by) => {
      const go = () => {
        state.page += by;
        fill();
      };
      return button(text, go, { disabled: state.page + by < 0 || state.page + by >= pages });
    };
    const count = `${rows.length.toLocaleString("en")} trials, page ${state.page + 1} of ${pages}`;
    const steps = [step("‹ Back", -1), h("span", { id: "trials-count" }, count), step("Next ›", 1)];
    place.replaceChildren(table, h("div", { class: "controls" }, ...steps));
  }
  function fillFirst() {
    state.page = 0;
    fill();
  }
  function choose(i) {
    selection.set([i]);
    show(i);
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
  function controls() {
    const filter = h("input", {
      type: "search",
      id: "filter",
      placeholder: "filter: dropout rate=0.5 seed 1 …",
      "aria-label": "Filter trials",
      size: 30,
      value: state.text,
      oninput() {
        state.text = filter.value;
        fillFirst();
      },
    });
    const only = h("input", {
      type: "checkbox",
      id: "only-selected",
      checked: state.onlySelected,
      onchange() {
        state.onlySelected = only.checked;
        fillFirst();
      },
    });
    const oneOf = (name) => {
      const values = [...new Set(trials.columns()[name])].map((value) => [value, value]);
      return choice("", [["", `every ${name}`], ...values], state, name, fillFirst);
    };
    return h(
      "div",
      { class: "controls" },
      filter,
      oneOf("phase"),
      oneOf("status"),
      h("label", {}, only, "selected only"),
      csvButton(() => "trials", numbers),
    );
  }

  // One trial

  function facts(i) {
    const c = trials.columns();
    const settings = trials.settings().map((name) => [name, trials.setting(name)(i)]);
    return [
      ["status", c.status[i]],
      ...(c.error[i] ? [["error", c.error[i]]] : []),
      ["seed", c.seed[i]],
      ["epochs", c.epochs[i]],
      ["best epoch", c.best_epoch[i]],
      ["seconds", c.seconds[i]],
      ["retries", c.retries[i]],
      ["moves", c.moves[i]],
      ["reused", c.reused[i] ? "yes" : "no"],
      ...settings.filter(([, value]) => value !== null),
    ];
  }
  function drawCurves(plot, i) {
    const nll = trials.curve(i, "validation_nll");
    if (!nll.length) {
      plot.append(h("p", { class: "quiet" }, "It has no epochs to show."));
      return;
    }
    const x = nll.map((_, k) => k + 1);
    const line = (y, metric, more) => ({
      type: "scatter",
      mode: "lines",
      x,
      y,
      name: metrics.get(metric).head,
      ...more,
    });
    plotly.then(() => {
      const accuracyLine = { color: look.style(1).color, dash: "dash" };
      const traces = [
        line(nll, "nll", { line: { color: look.style(0).color } }),
        line(trials.curve(i, "validation_accuracy"), "accuracy", { yaxis: "y2", line: accuracyLine }),
      ];
      const layout = look.layout({
        height: 280,
        margin: { l: 44, r: 44, t: 8, b: 36 },
        xaxis: { title: { text: "epoch" } },
        yaxis2: { overlaying: "y", side: "right", showgrid: false },
      });
      Plotly.newPlot(plot, traces, layout, look.CONFIG);
    });
  }
  function drawBins(plot, i) {
    const bins = trials.bins(i);
    if (!bins.count.some((n) => n > 0)) {
      plot.append(h("p", { class: "quiet" }, "It has no predictions to show."));
      return;
    }
    const row = { arm: trials.columns().arm[i], mode: "point", phase: "arms", seeds: 1 };
    plotly.then(() => {
      const layout = look.layout({
        height: 280,
        margin: { l: 44, r: 8, t: 8, b: 36 },
        barmode: "overlay",
        showlegend: false,
        xaxis: { range: [0, 1], title: { text: "confidence" } },
        yaxis: { range: [0, 1], title: { text: "accuracy" } },
      });
      Plotly.newPlot(plot, reliability.traces(row, bins, false), layout, look.CONFIG);
    });
  }
  function show(i) {
    if (i >= trials.all().length) return;
    open = i;
    const curves = h("div", { class: "plot", id: "detail-curves" });
    const bins = h("div", { class: "plot", id: "detail-bins" });
    const reading = (text) => h("p", { class: "reading" }, text);
    detail.replaceChildren(
      h("h3", {}, trials.name(i)),
      h(
        "div",
        { class: "detail" },
        factList(facts(i)),
        h("div", {}, reading("Its validation NLL and accuracy by epoch."), curves),
        h("div", {}, reading("Its calibration on validation images, last epoch."), bins),
      ),
    );
    const traceback = page.data.trials.tracebacks[i];
    if (traceback) detail.append(reading("Where it failed."), h("pre", { id: "traceback" }, traceback));
    drawCurves(curves, i);
    drawBins(bins, i);
    fill();
  }
  function showAgain() {
    if (open !== null) show(open);
  }

  return {
    add() {
      const reading = "Validation figures of every trial. Enter or a click opens one and selects it.";
      const parent = section("trials", "Trials", reading);
      detail.replaceChildren();
      parent.append(controls(), place, detail);
      fill();
      showAgain();
    },
    fill,
    choose,
    showAgain,
    /** The place of the trial that is shown; a live page moves it. */
    get open() {
      return open;
    },
    set open(i) {
      open = i;
    },
  };
})();
