// Figures, and when they are drawn.

/** entry: {id, group, plot, ofTrials, keepRoom(), draw()}; `ofTrials`: it shows single trials. */
const drawing = (() => {
  const entries = new Map(); // by plot
  const due = new Set(); // those that have come into view
  let working = false;
  const sight = new IntersectionObserver(
    (seen) => {
      for (const { isIntersecting, target } of seen) if (isIntersecting) isDue(entries.get(target));
      wake();
    },
    { rootMargin: "50% 0px" },
  );

  function isDue(entry) {
    if (!entry) return; // it is gone meanwhile
    sight.unobserve(entry.plot);
    due.add(entry);
  }
  /** It is drawn once it is in view, even if it is there now. */
  function drawInView(entry) {
    delete entry.plot.dataset.drawn;
    sight.unobserve(entry.plot);
    sight.observe(entry.plot);
  }
  function near({ plot }) {
    const box = plot.getBoundingClientRect();
    return box.top < innerHeight && box.bottom > 0;
  }
  function wake() {
    if (working) return;
    working = true;
    setTimeout(work, 0);
  }
  /** One figure at a time, so that the page can be used while the rest is drawn. */
  async function work() {
    await plotly;
    const entry = [...due].find(near) ?? [...due][0];
    if (!entry) {
      working = false;
      document.body.dataset.ready = "1";
      return;
    }
    due.delete(entry);
    try {
      await entry.draw();
    } catch (error) {
      console.error(entry.id, error);
    }
    setTimeout(work, 0);
  }
  function drop(wanted) {
    for (const entry of [...entries.values()].filter(wanted)) {
      sight.unobserve(entry.plot);
      due.delete(entry);
      entries.delete(entry.plot);
    }
  }
  /** All get their room at once, so that nothing moves later, when one after the other is drawn. */
  function keepRoom(some = [...entries.values()]) {
    for (const entry of some) entry.keepRoom?.();
  }
  function redrawThose(wanted) {
    const some = [...entries.values()].filter(wanted);
    keepRoom(some);
    for (const entry of some) drawInView(entry);
  }
  return {
    add(entry) {
      entries.set(entry.plot, entry);
      drawInView(entry);
    },
    keepRoom: () => keepRoom(),
    /** Those with one of the ids; all, if none is given. */
    redraw: (...ids) => redrawThose((entry) => !ids.length || ids.includes(entry.id)),
    redrawTrials: (except) => redrawThose((entry) => entry.ofTrials && entry.id !== except),
    forget: (group) => drop((entry) => entry.group === group),
    clear() {
      for (const plot of entries.keys()) if (plot.classList.contains("js-plotly-plot")) Plotly.purge(plot);
      drop(() => true);
    },
    /** All of them at once, for printing. */
    drawNow() {
      if (window.Plotly) for (const entry of entries.values()) entry.draw();
    },
  };
})();

/**
 * A figure: heading, how to read it, controls, the plot, its numbers and downloads.
 *
 * draw(): [traces, layout]; without traces the figure says why it is empty
 * empty(), missing(): why there is nothing to draw; what is not in the figure, and why
 * numbers(): {columns, rows}
 * after(plot): when it has been drawn
 * image: the size of the images that are saved; {}: as it is on the page
 */
function figure(parent, options) {
  const { id, title, reading, controls = [], numbers, ofTrials = false } = options;
  const { image = { width: 1000, height: 600 } } = options;
  const label = `${title}. ${reading}`;
  const plot = h("div", { class: "plot", id: `plot-${id}`, role: "group", "aria-label": label });
  const note = h("p", { class: "quiet", hidden: true });
  const table = h("div", {});
  const details = h("details", { ontoggle: fillNumbers }, h("summary", {}, "Numbers"), table);
  function fillNumbers() {
    if (details.open) table.replaceChildren(...numbersTable(numbers()));
  }
  const images = imageButtons(plot, id, image);
  const tools = [csvButton(() => id, numbers), ...images, details];
  parent.append(
    h(
      "figure",
      { id },
      h("figcaption", {}, h("h3", {}, title), h("p", { class: "reading" }, reading)),
      controls.length ? h("div", { class: "controls" }, ...controls) : null,
      plot,
      note,
      h("div", { class: "tools" }, ...tools),
    ),
  );
  async function draw() {
    await drawFigure(plot, note, options);
    fillNumbers();
  }
  drawing.add({ id, plot, ofTrials, draw, keepRoom: () => planned(plot, note, options) });
}

/** Draws it, or draws it again: from the beginning where it has another form than before. */
function drawPlot(plot, traces, layout, config) {
  const form = look.form();
  if (plot.classList.contains("js-plotly-plot") && plot.dataset.form !== form) {
    Plotly.purge(plot);
    plot.linked = false;
  }
  plot.dataset.form = form;
  return Plotly.react(plot, traces, layout, config);
}

/** When the page gets another width, what is drawn is drawn again in it, and `changed` is called. */
function followWidth(changed = () => {}) {
  const PAUSE = 120;
  const main = document.getElementById("main");
  let width = main.clientWidth;
  let due = 0;
  function drawAgain() {
    if (look.printing() || main.clientWidth === width) return;
    width = main.clientWidth;
    drawing.redraw();
    changed();
  }
  new ResizeObserver(() => {
    clearTimeout(due);
    due = setTimeout(drawAgain, PAUSE);
  }).observe(main);
}

/** What is to be drawn, [traces, layout], for which its place gets the height; or it says why there is nothing. */
function planned(plot, note, { draw, height = 380, empty, missing = () => "" }) {
  const [traces, found] = draw();
  note.textContent = traces.length ? missing() : "";
  note.hidden = !note.textContent;
  plot.closest("figure").classList.toggle("empty", !traces.length); // which has nothing to save
  if (!traces.length) {
    if (plot.classList.contains("js-plotly-plot")) Plotly.purge(plot);
    plot.linked = false; // to what is gone
    plot.style.height = "";
    plot.style.minHeight = "0";
    plot.replaceChildren(h("p", { class: "quiet" }, empty?.() ?? "Nothing to draw yet."));
    return [traces, found];
  }
  for (const trace of traces) if (trace.name) trace.name = look.plain(trace.name);
  const layout = look.withLegend(plot, traces, found, height);
  plot.style.height = `${layout.height}px`;
  return [traces, layout];
}

async function drawFigure(plot, note, options) {
  const [traces, layout] = planned(plot, note, options);
  if (!traces.length) {
    plot.dataset.drawn = "1";
    return;
  }
  if (!plot.classList.contains("js-plotly-plot")) plot.replaceChildren();
  plot.busy = true; // what Plotly tells of its own redrawing is no selection
  await drawPlot(plot, traces, layout, look.CONFIG);
  plot.busy = false;
  plot.dataset.drawn = "1";
  options.after?.(plot);
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
