// Figures, and the queue in which they are drawn.

/** entry: {id, group, plot, ofTrials, draw()}; `ofTrials`: it shows single trials, so it may be large. */
const drawing = (() => {
  let entries = [];
  const queue = [];
  let working = false;
  let quietSince = performance.now();
  const touched = () => {
    quietSince = performance.now();
  };
  for (const name of ["scroll", "keydown", "pointerdown", "input"])
    addEventListener(name, touched, { passive: true, capture: true });
  const loaded = plotly.then(touched);

  function near(entry) {
    const box = entry.plot.getBoundingClientRect();
    return box.top < 1.5 * innerHeight && box.bottom > -0.5 * innerHeight;
  }
  /** What is large and not in sight waits until it is, or until the reader has been idle for a while. */
  function mayWait(entry) {
    return entry.ofTrials && trials.many() && !near(entry) && performance.now() - quietSince < 1500;
  }
  function enqueue(entry) {
    if (!queue.includes(entry)) queue.push(entry);
    if (working) return;
    working = true;
    setTimeout(work, 0);
  }
  /** One figure at a time, so that the page can be used while the rest is drawn. */
  async function work() {
    await loaded;
    if (!queue.length) {
      working = false;
      document.body.dataset.ready = "1";
      return;
    }
    const at = queue.findIndex((one) => !mayWait(one));
    if (at < 0) {
      setTimeout(work, 100);
      return;
    }
    const [entry] = queue.splice(at, 1);
    try {
      await entry.draw();
    } catch (error) {
      console.error(entry.id, error);
    }
    setTimeout(work, 0);
  }
  return {
    add(entry) {
      entries.push(entry);
      enqueue(entry);
    },
    /** Those with one of the ids; all, if none is given. */
    redraw(...ids) {
      for (const entry of entries) if (!ids.length || ids.includes(entry.id)) enqueue(entry);
    },
    redrawTrials(except) {
      for (const entry of entries) if (entry.ofTrials && entry.id !== except) enqueue(entry);
    },
    forget(group) {
      entries = entries.filter((entry) => entry.group !== group);
    },
    clear() {
      for (const { plot } of entries) if (plot.classList.contains("js-plotly-plot")) Plotly.purge(plot);
      entries = [];
      queue.length = 0;
    },
    /** At once, for printing. */
    drawNow() {
      if (window.Plotly) for (const entry of entries) entry.draw();
    },
  };
})();

/**
 * A figure: heading, how to read it, controls, the plot, its numbers and downloads.
 *
 * draw(): [traces, layout]
 * numbers(): {columns, rows}
 * after(plot): when it has been drawn
 * wide: it scrolls sideways where there is little room
 */
function figure(parent, options) {
  const { id, title, reading, controls = [], numbers, wide = false, ofTrials = false } = options;
  const plot = h("div", { class: "plot", id: `plot-${id}`, role: "img", "aria-label": `${title}. ${reading}` });
  const table = h("div", {});
  const fillNumbers = () => {
    if (details.open) table.replaceChildren(...numbersTable(numbers()));
  };
  const details = h("details", { ontoggle: fillNumbers }, h("summary", {}, "Numbers"), table);
  const images = imageButtons(plot, id, { width: 1000, height: 600 });
  parent.append(
    h(
      "figure",
      { id },
      h("figcaption", {}, h("h3", {}, title), h("p", { class: "reading" }, reading)),
      controls.length ? h("div", { class: "controls" }, ...controls) : null,
      wide ? h("div", { class: "scroll wide" }, plot) : plot,
      h(
        "div",
        { class: "tools" },
        csvButton(() => id, numbers),
        ...images,
        details,
      ),
    ),
  );
  drawing.add({ id, plot, ofTrials, draw: () => drawFigure(plot, options, fillNumbers) });
}

async function drawFigure(plot, { draw, after, height = 380, empty = "Nothing to draw yet.", wide }, fillNumbers) {
  const [traces, layout] = draw();
  if (!traces.length) {
    plot.replaceChildren(h("p", { class: "quiet" }, empty));
    plot.dataset.drawn = "1";
    return;
  }
  if (!plot.classList.contains("js-plotly-plot")) plot.replaceChildren();
  plot.busy = true; // what Plotly tells of its own redrawing is no selection
  await Plotly.react(plot, traces, { height: look.narrow() && !wide ? height + 90 : height, ...layout }, look.CONFIG);
  plot.busy = false;
  plot.dataset.drawn = "1";
  fillNumbers();
  after?.(plot);
}

function numbersTable({ columns, rows }) {
  const short = (value) => (typeof value === "number" ? +value.toPrecision(5) : value);
  const shown = rows.slice(0, 200);
  const heads = columns.map((head, i) => ({
    head,
    left: i === 0,
    text: (row) => short(row[i]),
    sort: (row) => row[i],
  }));
  const left = rows.length - shown.length;
  return [sortableTable(heads, shown), left ? h("p", { class: "quiet" }, `${left} more rows in the CSV`) : ""];
}
