// 5. Search, continued: the settings that were searched, of one arm at a time.

const searchedSettings = (() => {
  const state = { arm: null, importance: "nll", slice: "nll" };
  const search = () => page.data.search;
  const parameters = () => search().arms[state.arm].parameters;
  const places = () => trials.searched(state.arm);

  function pickArm() {
    const options = Object.keys(search().arms).map((arm) => [arm, arm]);
    const changed = () => {
      for (const select of document.querySelectorAll("select.arm")) select.value = state.arm;
      drawing.redraw("parallel", "importance", "slices");
    };
    return choice("arm", options, state, "arm", changed, { class: "arm" });
  }
  /** Each trial with its settings and some figures. */
  function numbers(figures) {
    const names = parameters().map((parameter) => parameter.name);
    const values = [
      trials.value("number"),
      ...names.map(trials.setting),
      ...figures.map((metric) => trials.value(metric.name)),
    ];
    return {
      columns: ["trial", ...names, ...figures.map((metric) => metric.head)],
      rows: places().map((i) => values.map((value) => value(i))),
    };
  }

  // Parallel coordinates

  function dimension({ name, log, choice: isChoice }, at) {
    const values = at.map(trials.setting(name));
    if (isChoice) {
      const options = [...new Set(values)];
      const numbered = values.map((value) => options.indexOf(value));
      return { label: name, values: numbered, tickvals: options.map((_, k) => k), ticktext: options.map(String) };
    }
    if (log && values.every((value) => value > 0)) {
      const logs = values.map(Math.log10);
      const ends = [Math.min(...logs), Math.max(...logs)];
      const halves = [...new Set(logs.map((v) => Math.round(v * 2) / 2))].filter((v) => v >= ends[0] && v <= ends[1]);
      const ticks = halves.length > 1 ? halves.sort((a, b) => a - b) : ends; // half a decade may hold none
      const texts = ticks.map((v) => String(+(10 ** v).toPrecision(2)));
      return { label: name, values: logs, tickvals: ticks, ticktext: texts };
    }
    return { label: name, values };
  }
  /** The colours of lines: by selection, or by NLL. */
  function colours(at) {
    const dark = look.theme() === "dark";
    if (selection.any()) {
      const colorscale = [
        [0, dark ? "#3a3e47" : "#dddddd"],
        [1, look.css("--accent")],
      ];
      return { color: at.map((i) => (selection.has(i) ? 1 : 0)), colorscale, cmin: 0, cmax: 1 };
    }
    const color = at.map(trials.value("nll"));
    const sorted = [...color].sort((a, b) => a - b);
    const colorscale = [
      [0, "#0072B2"],
      [0.5, "#56B4E9"],
      [1, dark ? "#5b4a20" : "#f3e3b3"],
    ];
    const colorbar = { title: { text: metrics.get("nll").head }, thickness: 12 };
    const cmax = sorted[Math.floor(sorted.length * 0.9)];
    return { color, colorscale, cmin: sorted[0], cmax, showscale: true, colorbar };
  }
  function drawParallel() {
    const at = places();
    if (!at.length) return [[], {}];
    const dimensions = parameters().map((parameter) => dimension(parameter, at));
    for (const { name, head } of metrics.inTable()) {
      dimensions.push({ label: head, values: at.map(trials.value(name)) });
    }
    const fonts = { labelfont: { size: 11 }, tickfont: { size: 10 }, rangefont: { size: 10 }, labelangle: -12 };
    const trace = { type: "parcoords", dimensions, line: colours(at), ...fonts };
    return [[trace], look.layout({ margin: { l: 60, r: 60, t: 60, b: 20 } })];
  }
  /** What is dragged along axes is selected. */
  function linkParallel(plot) {
    if (plot.linked || !plot.on) return;
    plot.linked = true;
    plot.on("plotly_restyle", ([change]) => {
      if (!Object.keys(change).some((name) => name.startsWith("dimensions"))) return;
      const limited = plot.data[0].dimensions.filter((one) => one.constraintrange?.length);
      const inside = ({ values, constraintrange: range }, k) =>
        (Array.isArray(range[0]) ? range : [range]).some(([low, high]) => values[k] >= low && values[k] <= high);
      const found = limited.length ? places().filter((_, k) => limited.every((one) => inside(one, k))) : [];
      selection.set(found, "parallel");
    });
  }
  function parallel(parent) {
    figure(parent, {
      id: "parallel",
      title: "Parallel coordinates",
      reading:
        "Each line is a trial, from its settings to its figures; drag along an axis to select. Blue is a low NLL.",
      height: 430,
      wide: true,
      controls: [pickArm()],
      ofTrials: true,
      draw: drawParallel,
      numbers: () => numbers(trials.figures()),
      after: linkParallel,
    });
  }

  // Importance, and the search's optimism

  function drawImportance() {
    const scores = Object.entries(search().arms[state.arm].importance[state.importance] || {});
    scores.sort((a, b) => a[1] - b[1]);
    const bars = {
      type: "bar",
      orientation: "h",
      x: scores.map(([, score]) => score),
      y: scores.map(([name]) => name),
      text: scores.map(([, score]) => score.toFixed(2)),
      textposition: "auto",
      marker: { color: look.css("--accent") },
      hoverinfo: "x+y",
    };
    const layout = look.layout({ margin: { l: 140, r: 14, t: 12, b: 40 }, yaxis: { type: "category" } });
    return [scores.length ? [bars] : [], layout];
  }
  function importance(parent) {
    const options = metrics.options(search().objectives.map(metrics.get));
    const lines = ([arm, { importance: found }]) =>
      Object.entries(found).flatMap(([objective, scores]) =>
        Object.entries(scores).map(([name, score]) => [arm, objective, name, score]),
      );
    figure(parent, {
      id: "importance",
      title: "Importance for reaching the best trials",
      reading:
        "How much each setting tells the best tenth of trials from the rest (PED-ANOVA); the shares add up to one.",
      height: 360,
      empty: "Too few finished trials: four or more are needed.",
      controls: [pickArm(), choice("of", options, state, "importance", () => drawing.redraw("importance"))],
      draw: drawImportance,
      numbers: () => ({
        columns: ["arm", "objective", "setting", "importance"],
        rows: Object.entries(search().arms).flatMap(lines),
      }),
    });
  }
  function optimism(parent) {
    const asItIs = (value) => value;
    const digits = { search: fixed, confirmed: fixed, optimism: fixed, seconds: (value) => value.toFixed(0) };
    const columns = ["arm", "search", "confirmed", "optimism", "trials", "seconds"].map((head) => ({
      head,
      left: head === "arm",
      text: (row) => (digits[head] || asItIs)(row[head]),
    }));
    const rows = search().optimism;
    const reading =
      "The best validation figure of the search, and that of the same settings on fresh seeds: the difference is " +
      "what choosing the luckiest seed promised too much. The validation images are those that chose. Then the " +
      "trials of the search, and their training seconds.";
    const none = h("p", { class: "quiet" }, "Nothing is confirmed yet.");
    parent.append(
      h(
        "figure",
        { id: "optimism" },
        h("figcaption", {}, h("h3", {}, "The search's optimism over seeds"), h("p", { class: "reading" }, reading)),
        rows.length ? sortableTable(columns, rows) : none,
      ),
    );
  }

  // Slices

  function drawSlices() {
    const at = places();
    if (!at.length) return [[], {}];
    const names = parameters();
    const wide = Math.min(4, names.length);
    const high = Math.ceil(names.length / wide);
    const style = look.ofArm(state.arm);
    const figureOf = trials.value(state.slice);
    const axes = {};
    const traces = names.flatMap(({ name, log, choice: isChoice }, k) => {
      const { x, y, xaxis, yaxis } = look.panel(k);
      const scale = log ? "log" : "linear";
      axes[xaxis] = { title: { text: name, standoff: 4 }, type: isChoice ? "category" : scale, nticks: 4 };
      axes[yaxis] = { nticks: 5 };
      const setting = trials.setting(name);
      const shown = (i) => (isChoice ? String(setting(i)) : setting(i));
      const points = trialPoints.trace(at, shown, figureOf, style, name);
      const found = [points, ...trialPoints.marks(setting, figureOf, [state.arm])];
      return found.map((trace) => ({ ...trace, xaxis: x, yaxis: y }));
    });
    const grid = { rows: high, columns: wide, pattern: "independent", ygap: 0.38, xgap: 0.2 };
    const height = Math.max(300, 245 * high);
    return [traces, look.layout({ grid, height, showlegend: false, dragmode: "select", ...axes })];
  }
  function slices(parent) {
    const options = metrics.options(page.data.metrics);
    figure(parent, {
      id: "slices",
      title: "Each setting against a figure",
      reading: "One panel a setting; the diamond marks the study's own settings, the star the confirmed best.",
      height: 520,
      wide: true,
      controls: [pickArm(), choice("figure", options, state, "slice", () => drawing.redraw("slices"))],
      ofTrials: true,
      draw: drawSlices,
      numbers: () => numbers([metrics.get(state.slice)]),
      after: trialPoints.link,
    });
  }

  return {
    add(parent) {
      const arms = Object.keys(search().arms);
      if (!arms.includes(state.arm)) state.arm = arms[0];
      if (!search().objectives.includes(state.importance)) state.importance = search().objectives[0];
      parallel(parent);
      const two = h("div", { class: "two" });
      parent.append(two);
      importance(two);
      optimism(two);
      slices(parent);
    },
  };
})();
