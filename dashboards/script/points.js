// Trials as points of a plot.

const trialPoints = (() => {
  const told = { of: null, texts: [] };

  /** A trial's name, figures and settings, for its hover; told once, then kept. */
  function about(i) {
    if (told.of !== page.data) Object.assign(told, { of: page.data, texts: [] });
    told.texts[i] ??= describe(i);
    return told.texts[i];
  }
  function describe(i) {
    const { arm, phase, number } = trials.columns();
    const short = (value) => (typeof value === "number" ? String(+value.toPrecision(4)) : look.plain(value));
    const line = (name, value) => (value === null ? [] : [`${look.plain(name)}: ${short(value)}`]);
    const figures = page.data.metrics.flatMap(({ name, head }) => line(head, trials.value(name)(i)));
    const searched = page.data.search.arms[arm[i]]?.parameters.map(({ name }) => name);
    const settings = (searched ?? trials.settings()).flatMap((name) => line(name, trials.setting(name)(i)));
    const title = `<b>${look.plain(armLabels.of(arm[i]))}</b>, ${phase[i]} ${number[i]}`;
    return [title, inLines(figures), ...settings].join("<br>");
  }
  /** Three to a line. */
  function inLines(parts) {
    const lines = [];
    for (let k = 0; k < parts.length; k += 3) lines.push(parts.slice(k, k + 3).join(" · "));
    return lines.join("<br>");
  }

  /** A trace of trials, of which the selected ones are marked. x, y: functions of a trial's place. */
  function trace(places, x, y, { color, symbol, opacity = 0.75 }, name) {
    const chosen = places.flatMap((i, at) => (selection.has(i) ? [at] : []));
    return {
      type: "scatter",
      mode: "markers",
      x: places.map(x),
      y: places.map(y),
      customdata: places,
      text: places.map(about),
      name,
      marker: { color, symbol, size: 8, opacity },
      selectedpoints: selection.any() ? chosen : null,
      unselected: { marker: { opacity: 0.12 } },
      selected: { marker: { opacity: 1, size: 11 } },
      hovertemplate: "%{text}<extra></extra>",
    };
  }
  /** The study's own settings and the confirmed best ones. */
  function marks(x, y, names) {
    const mark = (name, key, symbol, size) => {
      const found = names.map((arm) => page.data.search.arms[arm][key]);
      const places = found.filter((i) => i !== null && trials.columns().nll[i] !== null);
      const marker = { symbol, size, color: look.css("--ink"), line: { width: 2 } };
      const hover = { text: places.map(about), hovertemplate: `${name}<br>%{text}<extra></extra>` };
      const points = { type: "scatter", mode: "markers", x: places.map(x), y: places.map(y) };
      return places.length ? [{ ...points, marker, name, ...hover }] : [];
    };
    return [
      ...mark("the study's settings", "paper", "diamond-open", 15),
      ...mark("confirmed best", "confirmed", "star-open", 19),
    ];
  }
  /** Selecting in a plot selects everywhere. */
  function link(plot) {
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
  }
  return { about, link, marks, trace };
})();
