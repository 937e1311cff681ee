// 3. Calibration: is a network as often right as it is sure?

const calibrationSection = (() => {
  const MODES = [
    ["point", "networks as they are"],
    ["mc", "sampling and ensembles"],
    ["tuned", "tuned"],
  ];
  const KINDS = [
    ["width", "equal-width bins"],
    ["mass", "equal-mass bins"],
  ];
  const PRINTED = 180; // pixels of a small diagram on a sheet
  const state = { mode: "point", bins: "width", curveMode: "point" };
  const all = () => page.data.calibration.rows;
  const ofMode = {
    point: (row) => row.phase === "arms" && row.mode === "point",
    mc: (row) => row.phase === "arms" && row.mode !== "point",
    tuned: (row) => row.phase === "confirm",
  };

  /** Why there is no row of this kind. */
  function noRow(mode) {
    const done = all().length || page.data.run.state === "done";
    if (mode === "mc" && done)
      return "No row is sampled: dropout's and Pilot's predictions are, and an ensemble is made of two or more arms.";
    if (mode === "tuned" && !Object.keys(page.data.search.arms).length)
      return "Nothing is tuned: this study has no [search].";
    return nothingYet(mode === "tuned" ? "No winner of the search is confirmed yet" : "No arm has finished yet");
  }

  // Reliability diagrams

  function small(row) {
    const plot = h("div", { class: "plot", id: `plot-reliability-${row.row}`, style: "min-height: 165px" });
    const label = `Reliability of ${row.label}, ECE ${fixed(row.ece, 3)}; larger`;
    const figures = `ECE ${fixed(row.ece, 3)}, floor ${fixed(row.floor, 3)}`;
    const open = { type: "button", onclick: () => large(row), "aria-label": label };
    const axis = { range: [0, 1], dtick: 0.5 };
    async function draw() {
      const layout = look.layout({
        height: 165,
        width: look.printing() ? PRINTED : plot.clientWidth,
        margin: { l: 26, r: 6, t: 6, b: 22 },
        barmode: "overlay",
        showlegend: false,
        font: { size: 10, color: look.css("--ink") },
        xaxis: axis,
        yaxis: axis,
      });
      plot.style.minHeight = "";
      const traces = reliability.traces(row, row[state.bins], false);
      await drawPlot(plot, traces, layout, { staticPlot: true });
      plot.dataset.drawn = "1";
    }
    drawing.add({ id: `reliability-${row.row}`, group: "reliability", plot, draw });
    return h("button", open, h("b", {}, row.label), h("small", {}, figures), plot);
  }
  function numbers() {
    const parts = ["lower", "upper", "count", "confidence", "accuracy", "low", "high"];
    const ofBins = (row, kind) =>
      row[kind].lower.map((_, m) => [row.row, kind, ...parts.map((name) => row[kind][name][m])]);
    return {
      columns: ["row", "bins", ...parts.slice(0, 5), "lowest seed", "highest seed"],
      rows: all().flatMap((row) => KINDS.flatMap(([kind]) => ofBins(row, kind))),
    };
  }
  function diagrams(parent) {
    const grid = h("div", { class: "multiples" });
    const fill = () => {
      drawing.forget("reliability");
      const rows = all().filter(ofMode[state.mode]);
      grid.replaceChildren(
        ...(rows.length
          ? rows.map(small)
          : [h("p", { class: "quiet", style: "grid-column: 1 / -1" }, noRow(state.mode))]),
      );
    };
    const reading =
      "Bars are accuracy by confidence, mean over seeds, with the seeds' range; hatching is the gap to the " +
      "confidence. On the dashed diagonal a network is as often right as it is sure; bars below it are " +
      "over-confident. The paler a bar, the fewer images are in it. The paper's Figure 1 and appendix C. Choose one to see it large.";
    const controls = [toggle(MODES, state, "mode", fill), toggle(KINDS, state, "bins", fill)];
    const tools = [
      csvButton(() => "reliability", numbers),
      h("span", { class: "quiet" }, "SVG and PNG in the large view"),
    ];
    parent.append(
      h(
        "figure",
        { id: "reliability" },
        h("figcaption", {}, h("h3", {}, "Reliability diagrams"), h("p", { class: "reading" }, reading)),
        h("div", { class: "controls" }, ...controls),
        grid,
        h("div", { class: "tools" }, ...tools),
      ),
    );
    fill();
  }

  // One of them, large, with the number of images in each bin

  function large(row) {
    const dialog = document.getElementById("large");
    const plot = h("div", { class: "plot", style: "height: 620px" });
    const reading =
      `ECE ${fixed(row.ece)} with ${page.data.calibration.bins} equal-width bins, noise floor ${fixed(row.floor)}; ` +
      `accuracy ${fixed(row.accuracy, 3)}, mean confidence ${fixed(row.confidence, 3)}; ` +
      `${row.seeds} seed${row.seeds === 1 ? "" : "s"}; drawn with ${Object.fromEntries(KINDS)[state.bins]}.`;
    const images = imageButtons(plot, `reliability-${row.row.replaceAll("@", "-")}`, { width: 700, height: 760 });
    dialog
      .querySelector("div")
      .replaceChildren(
        h("h3", {}, row.label),
        h("p", { class: "reading" }, reading),
        plot,
        h("div", { class: "tools" }, ...images),
      );
    if (!dialog.open) dialog.showModal();
    const config = { ...look.CONFIG, responsive: true };
    plotly.then(() => Plotly.newPlot(plot, largeTraces(row), largeLayout(row), config));
  }
  function largeTraces(row) {
    const bins = row[state.bins];
    const { middle, width } = reliability.bars(bins);
    const marker = { color: look.css("--quiet") };
    const images = {
      type: "bar",
      x: middle,
      y: bins.count,
      width,
      marker,
      name: "images",
      hovertemplate: "%{y:,.0f} images<extra></extra>",
      yaxis: "y2",
      showlegend: false,
    };
    return [...reliability.traces(row, bins, true), images];
  }
  function largeLayout(row) {
    const color = look.css("--ink");
    const yref = "y2 domain";
    const mark = (x, dash) => ({ type: "line", x0: x, x1: x, yref, y0: 0, y1: 1, line: { color, dash, width: 2 } });
    const word = (x, text, y) => {
      const xanchor = x > 0.5 ? "right" : "left";
      const bgcolor = look.css("--card"); // the text lies over bars
      return { x, yref, y, text, showarrow: false, xanchor, bgcolor, font: { size: 12 } };
    };
    return look.layout({
      height: 620,
      barmode: "overlay",
      legend: { orientation: "h", y: 1, yanchor: "bottom" },
      margin: { l: 56, r: 14, t: 64, b: 46 },
      xaxis: { range: [0, 1], title: { text: "confidence" }, anchor: "y2" },
      yaxis: { range: [0, 1], title: { text: "accuracy" }, domain: [0.32, 1] },
      yaxis2: { title: { text: "images" }, domain: [0, 0.24] },
      shapes: [mark(row.accuracy, "solid"), mark(row.confidence, "dot")],
      annotations: [word(row.accuracy, " accuracy ", 0.98), word(row.confidence, " confidence ", 0.8)],
    });
  }

  // Entropy, and risk against coverage

  /** A figure with a line for each row: its values of one name over x. */
  function lines(parent, name, x, shape, axes, texts) {
    const line = (row) => {
      const shown = shownRows.has(row.row);
      const { color, dash } = shown ? look.ofRow(row) : shownRows.faded();
      const style = { color, dash, width: shown ? 2 : 1, shape };
      const hovertemplate = `%{fullData.name}<br>${axes.xaxis.title.text}: %{x:.3g}<br>${axes.yaxis.title.text}: %{y:.4f}<extra></extra>`;
      return {
        type: "scatter",
        mode: "lines",
        x,
        y: row[name],
        name: row.label,
        showlegend: shown,
        line: style,
        hovertemplate,
      };
    };
    figure(parent, {
      id: name,
      height: 420,
      empty: () => noRow(state.curveMode),
      draw() {
        const rows = all().filter(ofMode[state.curveMode]);
        const faintFirst = [...rows].sort((a, b) => shownRows.has(a.row) - shownRows.has(b.row));
        return [faintFirst.map(line), look.layout(axes)];
      },
      numbers: () => ({
        columns: ["row", ...x.map((value) => value.toFixed(2))],
        rows: all().map((row) => [row.row, ...row[name]]),
      }),
      ...texts,
    });
  }
  function curves(parent) {
    const two = h("div", { class: "two" });
    parent.append(two);
    const { most_entropy, entropy_bins, coverage_steps } = page.data.calibration;
    const entropies = Array.from({ length: entropy_bins }, (_, i) => ((i + 0.5) * most_entropy) / entropy_bins);
    const coverage = Array.from({ length: coverage_steps }, (_, i) => (i + 1) / coverage_steps);
    const entropyAxes = {
      xaxis: { title: { text: "entropy (nats)" }, rangemode: "tozero" },
      yaxis: { title: { text: "share of images" }, rangemode: "tozero" },
    };
    const riskAxes = {
      xaxis: { title: { text: "share answered" }, range: [0, 1] },
      yaxis: { title: { text: "error rate" }, rangemode: "tozero" },
    };
    lines(two, "entropy", entropies, "hvh", entropyAxes, {
      title: "Entropy of the predictions",
      reading:
        "The share of test images by the entropy of their prediction, from sure (0) to knowing nothing (right end); " +
        "the paper's appendix D.",
      controls: [toggle(MODES, state, "curveMode", () => drawing.redraw("entropy", "risk"))],
    });
    lines(two, "risk", coverage, "linear", riskAxes, {
      title: "Risk against coverage",
      reading:
        "The error rate if only the most confident share of the images is answered; lower is better, and at the " +
        "right end it is the whole error.",
    });
  }

  return {
    add() {
      const parent = section("calibration", "Calibration", "Is a network as often right as it is sure?");
      diagrams(parent);
      curves(parent);
    },
  };
})();
