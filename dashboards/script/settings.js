// 5. Search, continued: the settings that were searched, of one arm at a time.

const searchedSettings = (() => {
  const state = { arm: null, importance: "nll", slice: "nll" };
  const search = () => page.data.search;
  const parameters = () => search().arms[state.arm].parameters;
  const places = () => trials.searched(state.arm);

  function pickArm() {
    const options = Object.keys(search().arms).map((arm) => [arm, armLabels.of(arm)]);
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

  const noTrial = () => nothingYet(`No trial of the search of ${armLabels.of(state.arm)} has finished yet`);

  // Parallel coordinates

  function parallel(parent) {
    figure(parent, {
      id: "parallel",
      title: "Parallel coordinates",
      reading:
        "Each line is a trial, from its settings to its figures; the stronger its colour, the lower its NLL. Drag " +
        "along an axis to select, with shift along another one as well.",
      height: 430,
      controls: [pickArm()],
      ofTrials: true,
      empty: noTrial,
      draw: () => parallelCoordinates.draw(state.arm),
      numbers: () => numbers(trials.figures()),
      after: (plot) => parallelCoordinates.link(plot, state.arm),
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
      y: scores.map(([name]) => look.plain(name)),
      text: scores.map(([, score]) => score.toFixed(2)),
      textposition: "auto",
      marker: { color: look.ofArm(state.arm).color },
      hovertemplate: "%{y}: %{x:.3f}<extra></extra>",
    };
    const layout = look.layout({ margin: { l: 60, r: 14, t: 12, b: 40 }, yaxis: { type: "category" } });
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
      empty() {
        const few = `${armLabels.of(state.arm)} has ${places().length} finished trials of the search; four are needed`;
        return nothingYet(few);
      },
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
    const digits = {
      arm: armLabels.of,
      search: fixed,
      confirmed: fixed,
      optimism: fixed,
      seconds: (value) => value.toFixed(0),
    };
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

  function settingAxis({ name, log, choice: isChoice }, values) {
    const titled = {
      title: { text: look.plain(name), standoff: 4, font: { size: look.narrow() ? 11 : 14 } },
      automargin: false,
    };
    if (isChoice) return { ...titled, type: "category" };
    if (log) {
      const logs = values.map(Math.log10).filter(Number.isFinite);
      const ticks = look.logTicks(Math.min(...logs), Math.max(...logs));
      return { ...titled, type: "log", tickvals: ticks.map((tick) => 10 ** tick), ticktext: ticks.map(look.ofLog) };
    }
    return values.every(Number.isInteger) ? look.whole(values, titled, 4) : { ...titled, nticks: 4 };
  }
  /** Without automatic margins, for which Plotly would draw thousands of points once more. */
  function drawSlices() {
    const at = places();
    if (!at.length) return [[], {}];
    const names = parameters();
    const onScreen = look.narrow() ? 2 : 4;
    const wide = Math.min(look.printing() ? 3 : onScreen, names.length); // all of them on one sheet
    const high = Math.ceil(names.length / wide);
    const style = look.ofArm(state.arm);
    const figureOf = trials.value(state.slice);
    const axes = {};
    const traces = names.flatMap((parameter, k) => {
      const { x, y, xaxis, yaxis } = look.panel(k);
      const setting = trials.setting(parameter.name);
      axes[xaxis] = settingAxis(parameter, at.map(setting));
      axes[yaxis] = {
        automargin: false,
        nticks: 5,
        title: k % wide ? undefined : { text: metrics.get(state.slice).head },
      };
      const shown = (i) => (parameter.choice ? look.plain(setting(i)) : setting(i));
      const points = trialPoints.trace(at, shown, figureOf, style, parameter.name);
      const found = [points, ...trialPoints.marks(shown, figureOf, [state.arm])];
      return found.map((trace) => ({ ...trace, xaxis: x, yaxis: y, showlegend: false }));
    });
    const grid = { rows: high, columns: wide, pattern: "independent", ygap: 0.38, xgap: 0.2 };
    return [
      traces,
      look.layout({ grid, height: Math.max(300, (look.printing() ? 215 : 245) * high), dragmode: "select", ...axes }),
    ];
  }
  function slices(parent) {
    const options = metrics.options(page.data.metrics);
    figure(parent, {
      id: "slices",
      title: "Each setting against a figure",
      reading: "One panel a setting; the diamond marks the study's own settings, the star the confirmed best.",
      height: 520,
      controls: [pickArm(), choice("figure", options, state, "slice", () => drawing.redraw("slices"))],
      ofTrials: true,
      empty: noTrial,
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
