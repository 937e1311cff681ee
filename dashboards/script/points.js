// Trials as points of a plot.

const trialPoints = {
  /** A trace of trials, of which the selected ones are marked. x, y: functions of a trial's place. */
  trace(places, x, y, { color, symbol }, name) {
    const chosen = places.flatMap((i, at) => (selection.has(i) ? [at] : []));
    return {
      type: look.scatter(),
      mode: "markers",
      x: places.map(x),
      y: places.map(y),
      customdata: places,
      text: places.map(trials.name),
      name,
      marker: { color, symbol, size: 8, opacity: 0.75 },
      selectedpoints: selection.any() ? chosen : null,
      unselected: { marker: { opacity: 0.12 } },
      selected: { marker: { opacity: 1, size: 11 } },
      hovertemplate: "%{text}<br>%{x:.5g}, %{y:.5g}<extra></extra>",
    };
  },
  /** The study's own settings and the confirmed best ones. */
  marks(x, y, arms) {
    const mark = (name, key, symbol, size) => {
      const found = arms.map((arm) => page.data.search.arms[arm][key]);
      const places = found.filter((i) => i !== null && trials.columns().nll[i] !== null);
      const marker = { symbol, size, color: look.css("--ink"), line: { width: 2 } };
      const trace = { type: look.scatter(), mode: "markers", x: places.map(x), y: places.map(y) };
      return places.length ? [{ ...trace, marker, name, hoverinfo: "name" }] : [];
    };
    return [
      ...mark("the study's settings", "paper", "diamond-open", 15),
      ...mark("confirmed best", "confirmed", "star-open", 19),
    ];
  },
  /** Selecting in a plot selects everywhere. */
  link(plot) {
    if (plot.linked) return;
    plot.linked = true;
    plot.on("plotly_selected", (event) => {
      if (plot.busy || !event?.points) return;
      const places = event.points.map((point) => point.customdata).filter(Number.isInteger);
      selection.set(places, plot.closest("figure").id);
    });
    plot.on("plotly_deselect", () => {
      if (!plot.busy) selection.set([]);
    });
    plot.on("plotly_click", (event) => {
      const i = event.points[0].customdata;
      if (Number.isInteger(i)) trialsSection.choose(i);
    });
  },
};
