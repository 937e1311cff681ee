// 5. Search, continued: parallel coordinates, where each trial is a line across an axis for each setting and figure.

const parallelCoordinates = (() => {
  const BINS = 5; // of the figure that gives lines their colour
  let boxes = []; // what was dragged over axes, as Plotly keeps it,
  let ours = []; // and the trials that were selected so

  // Axes: {label, at(value): 0 to 1, values, ticks: [value, ..], text(value)}

  function scale(values) {
    const known = values.filter((value) => value !== null);
    const low = Math.min(...known);
    const high = Math.max(...known);
    const at = (value) => (high > low ? (value - low) / (high - low) : 0.5);
    return { low, high, at };
  }
  function linear(label, values) {
    const { low, high, at } = scale(values);
    const ticks = [];
    if (high > low) {
      const step = look.step(high - low, 4);
      for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(tick);
    }
    const text = (value) => String(+value.toPrecision(4));
    return { label, values, at, ticks: ticks.length ? ticks : [low], text };
  }
  function logarithmic(label, values) {
    const logs = values.map((value) => (value === null ? null : Math.log10(value)));
    const { low, high, at } = scale(logs);
    return { label, values: logs, at, ticks: look.logTicks(low, high), text: look.ofLog };
  }
  function ofChoice(label, values) {
    const options = [...new Set(values)].sort((a, b) => compare(a, b));
    const { at } = scale(options.map((_, k) => k));
    return {
      label,
      values: values.map((value) => options.indexOf(value)),
      at,
      ticks: options.map((_, k) => k),
      text: (k) => look.plain(options[k] ?? "none"),
    };
  }
  function axesOf(arm, places) {
    const settings = page.data.search.arms[arm].parameters.map(({ name, log, choice: isChoice }) => {
      const values = places.map(trials.setting(name));
      if (isChoice) return ofChoice(name, values);
      return log && values.every((value) => value === null || value > 0)
        ? logarithmic(name, values)
        : linear(name, values);
    });
    const figures = metrics.inTable().map(({ name, head }) => linear(head, places.map(trials.value(name))));
    return [...settings, ...figures];
  }

  // Lines, in groups of one colour

  /** [{name, color, width, those}], what matters last, so that it lies above the rest; `those`: places in `places`. */
  function groups(arm, places) {
    const own = look.ofArm(arm).color;
    const all = places.map((_, k) => k);
    const marked = (k) => selection.has(places[k]);
    const pale = look.faded(look.css("--quiet"), 0.25);
    if (selection.any())
      return [
        { name: "not selected", color: pale, width: 1, those: all.filter((k) => !marked(k)) },
        { name: "selected", color: own, width: 2, those: all.filter(marked) },
      ];
    const nll = (k) => trials.value("nll")(places[k]);
    const ordered = all.sort((a, b) => nll(b) - nll(a));
    const bins = Math.min(BINS, ordered.length);
    const { head } = metrics.get("nll");
    return Array.from({ length: bins }, (_, bin) => {
      const part = (end) => Math.round((end * ordered.length) / bins);
      const those = ordered.slice(part(bin), part(bin + 1));
      const ends = [those.at(-1), those[0]].map((k) => fixed(nll(k), 3));
      const name = `${head} ${[...new Set(ends)].join(" to ")}`;
      const color = look.faded(own, 0.2 + (0.75 * bin) / Math.max(1, bins - 1));
      return { name, color, width: 1 + bin / 4, those };
    });
  }
  function lines({ name, color, width, those }, places, axes) {
    const [along, across, customdata, text] = [[], [], [], []];
    for (const k of those) {
      axes.forEach(({ values, at }, number) => {
        along.push(number);
        across.push(values[k] === null ? null : at(values[k]));
        customdata.push(places[k]);
        text.push(trialPoints.about(places[k]));
      });
      for (const each of [along, across, customdata, text]) each.push(null); // where a line ends
    }
    const [x, y] = look.narrow() ? [across, along] : [along, across];
    const hovertemplate = "%{text}<extra></extra>";
    return { type: "scatter", mode: "lines", x, y, customdata, text, name, line: { color, width }, hovertemplate };
  }

  // Where there is room, axes stand beside one another; else they lie one below the other.

  function texts({ label, at, ticks, text }, number) {
    const common = {
      showarrow: false,
      font: { size: 10 },
      bgcolor: look.faded(look.css("--card"), 0.85),
      borderpad: 1,
    };
    const known = ticks.filter(Number.isFinite); // a figure that no trial has
    if (!look.narrow())
      return known.map((tick) => ({ ...common, text: text(tick), x: number, y: at(tick), xanchor: "left" }));
    const below = known.map((tick) => ({ ...common, text: text(tick), x: at(tick), y: number, yanchor: "top" }));
    const name = { text: `<b>${look.plain(label)}</b>`, x: -0.04, y: number, xanchor: "left", yanchor: "bottom" };
    return [...below, { ...common, ...name }];
  }
  function layout(axes) {
    const tickvals = axes.map((_, k) => k);
    const named = { tickvals, ticktext: axes.map(({ label }) => look.plain(label)), gridcolor: look.css("--quiet") };
    const names = { ...named, zeroline: false, fixedrange: true, tickfont: { size: 12 }, ticklabeloverflow: "allow" };
    const values = { visible: false, range: [-0.04, 1.04], fixedrange: true };
    const last = axes.length - 1;
    const common = {
      dragmode: "select",
      annotations: axes.flatMap(texts),
      selections: shown() ? boxes : [],
      margin: { l: look.narrow() ? 14 : 56, r: 14, t: 12, b: 46 },
    };
    if (!look.narrow())
      return look.layout({ ...common, xaxis: { ...names, range: [-0.15, last + 0.5] }, yaxis: values });
    const yaxis = { ...names, showticklabels: false, range: [last + 0.5, -0.5] };
    return look.layout({ ...common, height: 130 + 56 * axes.length, xaxis: values, yaxis });
  }

  // What is dragged over axes is selected: of one axis what any box holds, of several what all of them hold.

  const shown = () => ours.length && ours.length === selection.all().length && ours.every(selection.has);
  /** Which axes a box holds: those that it covers, else the nearest. */
  function held(axes, box) {
    const along = look.narrow() ? "y" : "x";
    const [left, right] = ordered(box, along);
    const covered = axes.map((_, number) => number).filter((number) => left <= number && number <= right);
    const nearest = Math.min(axes.length - 1, Math.max(0, Math.round((left + right) / 2)));
    return covered.length ? covered : [nearest];
  }
  const ordered = (box, axis) => [box[`${axis}0`], box[`${axis}1`]].sort((a, b) => a - b);
  function holds(box, { values, at }, k) {
    const [low, high] = ordered(box, look.narrow() ? "x" : "y");
    return values[k] !== null && low <= at(values[k]) && at(values[k]) <= high;
  }
  function chosen(arm) {
    const places = trials.searched(arm);
    const axes = axesOf(arm, places);
    const ofAxis = axes.map((_, number) => boxes.filter((box) => held(axes, box).includes(number)));
    const fits = (k) => ofAxis.every((own, number) => !own.length || own.some((box) => holds(box, axes[number], k)));
    return places.filter((_, k) => fits(k));
  }
  function link(plot, arm) {
    plot.arm = arm;
    if (plot.linked) return;
    plot.linked = true;
    plot.on("plotly_selected", (event) => {
      if (plot.busy || !event?.selections?.length) return;
      boxes = event.selections.map(({ x0, x1, y0, y1 }) => ({ type: "rect", x0, x1, y0, y1 }));
      ours = chosen(plot.arm);
      selection.set(ours);
    });
    plot.on("plotly_deselect", () => {
      if (!plot.busy) selection.set([]);
    });
    plot.on("plotly_click", (event) => trialsSection.choose(event.points[0].customdata));
  }
  return {
    draw(arm) {
      const places = trials.searched(arm);
      if (!places.length) return [[], {}];
      const axes = axesOf(arm, places);
      return [groups(arm, places).map((group) => lines(group, places, axes)), layout(axes)];
    },
    link,
  };
})();
