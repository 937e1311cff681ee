"use strict";
// The page of one run: sections of figures and tables, drawn from one block of data.

let DATA = JSON.parse(document.getElementById("data").textContent);
const LIVE = DATA.live === true;
const METRICS = { accuracy: "accuracy", nll: "NLL", ece: "ECE", brier: "Brier score" };
const CURVE_NAMES = { validation_nll: "validation NLL", validation_accuracy: "validation accuracy", validation_ece: "validation ECE", validation_entropy: "entropy of predictions", train_loss: "training loss" };
// Okabe and Ito's colours; beside them a dash and a symbol, so that colour is never alone.
const COLOURS = { light: ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B07C00", "#3A8FC4", "#555555", "#8A6FC0"], dark: ["#56B4E9", "#FF8B3D", "#2FC79B", "#E59BC4", "#E9B949", "#8CC9F0", "#B8BBC2", "#B79CEB"] };
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "hexagon", "triangle-down"];
const state = { variant: "last", modes: "all", metric: "nll", bins: "width", calibrationMode: "point", entropyMode: "point", arm: null, x: "nll", y: "accuracy", importance: "nll", slice: "nll", curve: "validation_nll", dgmRow: null, page: 0, filter: "", phase: "", status: "", onlySelected: false, open: null, sort: null };
let selected = new Set();
let figures = [];
const queue = [];
let drawing = false;

/** Plotly takes longest to load, so the page is there before it: texts and tables can be used meanwhile. */
const plotly = new Promise((loaded) => requestAnimationFrame(() => setTimeout(() => {
  const script = document.createElement("script");
  // From an address of its own, it is compiled in the background.
  script.src = URL.createObjectURL(new Blob([document.getElementById("plotly").textContent], { type: "text/javascript" }));
  script.onload = () => { quietSince = performance.now(); loaded(); };
  document.head.append(script);
}, 0)));
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const narrow = () => window.innerWidth < 700;
const theme = () => document.documentElement.dataset.theme;
function look(number) {
  const colours = COLOURS[theme()];
  return { color: colours[number % colours.length], dash: DASHES[number % DASHES.length], symbol: SYMBOLS[(number + Math.floor(number / colours.length)) % SYMBOLS.length] };
}
function lookOf(name) {
  const arms = [...new Set(DATA.trials.columns.arm), "ensemble"];
  const arm = name.split("@")[0];
  const number = Math.max(0, arms.indexOf(arm));
  // The same colour for all rows of an arm, another dash for each.
  return { ...look(number), dash: DASHES[(number + name.includes("@mc") + 2 * name.includes("@tuned")) % DASHES.length] };
}
/** An axis on which one row far off does not press all others together; double-click shows all. */
function sensible(values) {
  const known = values.filter((v) => v !== null && Number.isFinite(v)).sort((a, b) => a - b);
  if (known.length < 4) return undefined;
  const low = known[0], most = known[known.length - 1], usual = known[Math.floor(0.85 * (known.length - 1))];
  const reach = usual - low;
  return most - low > 3 * reach && reach > 0 ? [Math.max(0, low - 0.08 * reach), usual + 0.35 * reach] : undefined;
}

function layout(more = {}) {
  const axis = { gridcolor: css("--grid"), zerolinecolor: css("--line"), linecolor: css("--line"), automargin: true };
  const { xaxis, yaxis, ...rest } = more;
  return { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: "system-ui, sans-serif", size: 13, color: css("--ink") }, margin: { l: 56, r: 14, t: 12, b: 46 }, hoverlabel: { bgcolor: css("--card"), font: { color: css("--ink") } }, legend: { orientation: "h", y: narrow() ? -0.4 : -0.22, x: 0 }, xaxis: { ...axis, ...xaxis }, yaxis: { ...axis, ...yaxis }, ...rest };
}
const axisLook = () => ({ gridcolor: css("--grid"), zerolinecolor: css("--line"), linecolor: css("--line"), automargin: true });
const CONFIG = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["toImage", "autoScale2d", "zoomIn2d", "zoomOut2d"] };

/** A figure: heading, how to read it, controls, the plot, its numbers and downloads. draw(plot) → [traces, layout, config]. */
function figure(parent, { id, title, reading, controls = [], draw, numbers, after, height = 380, empty = "Nothing to draw yet.", wide = false }) {
  const plot = h("div", { class: "plot", id: `plot-${id}`, role: "img", "aria-label": `${title}. ${reading}` });
  const table = h("div", {});
  const details = h("details", { ontoggle: () => { if (details.open) fillNumbers(); } }, h("summary", {}, "Numbers"), table);
  const image = (format) => Plotly.downloadImage(plot, { format, filename: `${DATA.run.run}-${id}`, width: 1000, height: 600 });
  const element = h("figure", { id },
    h("figcaption", {}, h("h3", {}, title), h("p", { class: "reading" }, reading)),
    controls.length ? h("div", { class: "controls" }, ...controls) : null, wide ? h("div", { class: "scroll wide" }, plot) : plot,
    h("div", { class: "tools" },
      h("button", { type: "button", onclick: () => { const { columns, rows } = numbers(); download(`${DATA.run.run}-${id}.csv`, toCsv(columns, rows), "text/csv"); } }, "CSV"),
      h("button", { type: "button", onclick: () => image("svg") }, "SVG"), h("button", { type: "button", onclick: () => image("png") }, "PNG"), details));
  function fillNumbers() {
    const { columns, rows } = numbers();
    const shown = rows.slice(0, 200);
    const made = sortableTable(columns.map((head, i) => ({ head, left: i === 0, text: (row) => (typeof row[i] === "number" ? +row[i].toPrecision(5) : row[i]), sort: (row) => row[i] })), shown);
    table.replaceChildren(made, rows.length > shown.length ? h("p", { class: "quiet" }, `${rows.length - shown.length} more rows in the CSV`) : "");
  }
  parent.append(element);
  const entry = { id, plot, async draw() {
    const [traces, arrangement, config = {}] = draw(plot);
    if (!traces.length) { plot.replaceChildren(h("p", { class: "quiet" }, empty)); plot.dataset.drawn = "1"; return; }
    if (!plot.classList.contains("js-plotly-plot")) plot.replaceChildren();
    plot.busy = true; // what Plotly tells of its own redrawing is no selection
    await Plotly.react(plot, traces, { height: narrow() && !wide ? height + 90 : height, ...arrangement }, { ...CONFIG, ...config });
    plot.busy = false;
    plot.dataset.drawn = "1";
    if (details.open) fillNumbers();
    if (after) after(plot);
  } };
  figures.push(entry);
  enqueue(entry);
  return entry;
}
function enqueue(entry) {
  if (!queue.includes(entry)) queue.push(entry);
  if (!drawing) { drawing = true; setTimeout(work, 0); }
}
/** What is large and not in sight waits until it is, or until the reader has been idle for a while. */
const LARGE = ["history", "pareto", "parallel", "slices"];
let quietSince = performance.now();
for (const name of ["scroll", "keydown", "pointerdown", "input"]) addEventListener(name, () => { quietSince = performance.now(); }, { passive: true, capture: true });
const near = (entry) => { const box = entry.plot.getBoundingClientRect(); return box.top < 1.5 * innerHeight && box.bottom > -0.5 * innerHeight; };
const mayWait = (entry) => many() && LARGE.includes(entry.id) && !near(entry) && performance.now() - quietSince < 1500;
/** One figure at a time, so that the page can be used while the rest is drawn. */
async function work() {
  await plotly;
  const at = queue.findIndex((entry) => !mayWait(entry));
  if (at < 0 && queue.length) { setTimeout(work, 100); return; }
  const [entry] = queue.splice(at, at < 0 ? 0 : 1);
  if (!entry) { drawing = false; document.body.dataset.ready = "1"; return; }
  try { await entry.draw(); } catch (error) { console.error(entry.id, error); }
  setTimeout(work, 0);
}
function redraw(...ids) { for (const entry of figures) if (!ids.length || ids.includes(entry.id)) enqueue(entry); }

function choice(label, options, key, changed) {
  const select = h("select", { onchange: () => { state[key] = select.value; changed(); } }, ...options.map(([value, text]) => h("option", { value, selected: value === state[key] }, text)));
  return h("label", {}, label, select);
}
function toggle(options, key, changed) {
  const buttons = options.map(([value, text]) => h("button", { type: "button", "aria-pressed": String(value === state[key]), onclick: () => {
    state[key] = value;
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(options[i][0] === value)));
    changed();
  } }, text));
  return h("span", { class: "buttons", role: "group" }, ...buttons);
}
function section(id, title, reading) {
  const element = h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), reading ? h("p", { class: "reading" }, reading) : null);
  document.getElementById("main").append(element);
  document.getElementById("nav").append(h("a", { href: `#${id}` }, title));
  return element;
}

// 1. The answer

function answerSection() {
  const parent = section("answer", "The answer");
  const { sentences, cards, claims } = DATA.answer;
  parent.append(...sentences.map((text) => h("p", { class: "lead" }, text)));
  parent.append(h("div", { class: "cards" }, ...cards.map((card) => h("div", { class: "card" }, h("p", { class: "quiet" }, card.head), h("p", { class: "value" }, fixed(card.value, 3)), h("p", { class: "who" }, card.label),
    h("p", { class: "quiet" }, `95 %: ${fixed(card.low, 3)} to ${fixed(card.high, 3)}`), h("p", { class: card.real ? "holds" : "undecided" }, (card.real ? "✓ " : "~ ") + card.verdict)))));
  if (!DATA.table.variants.last.length) return;
  const rows = () => DATA.table.variants.last.filter((row) => row.nll !== null);
  figure(parent, {
    id: "forest", title: "Every row with its interval", height: Math.max(260, 90 + 26 * rows().length),
    reading: "A dot is the mean over seeds, the line its 95 % interval over seeds and test images; rows whose lines overlap widely may not differ. For the ECE, a small bar marks the noise floor.",
    controls: [toggle(Object.entries(METRICS).slice(0, 3), "metric", () => redraw("forest"))],
    draw() {
      const metric = state.metric;
      const ordered = rows().sort((a, b) => (metric === "accuracy" ? a[metric] - b[metric] : b[metric] - a[metric]));
      const traces = ordered.map((row) => { const style = lookOf(row.row); return { type: "scatter", mode: "markers", x: [row[metric]], y: [row.label], error_x: { type: "data", symmetric: false, array: [row[`${metric}_high`] - row[metric]], arrayminus: [row[metric] - row[`${metric}_low`]], color: style.color, thickness: 2, width: 5 }, marker: { color: style.color, symbol: row[`${metric}_best`] ? "star" : style.symbol, size: row[`${metric}_best`] ? 14 : 9 }, name: row.label, showlegend: false, hovertemplate: `%{y}: %{x:.4f}<extra>${row.seeds} seeds</extra>` }; });
      if (metric === "ece") traces.push({ type: "scatter", mode: "markers", x: ordered.map((row) => row.ece_noise_floor), y: ordered.map((row) => row.label), marker: { symbol: "line-ns-open", size: 14, color: css("--quiet"), line: { width: 2 } }, name: "noise floor", showlegend: true });
      const range = sensible(ordered.flatMap((row) => [row[`${metric}_low`], row[`${metric}_high`]]));
      return [traces, layout({ margin: { l: 150, r: 14, t: 12, b: 46 }, xaxis: { title: { text: METRICS[metric] + (range ? " (the axis is cut; double-click shows all)" : "") }, range }, yaxis: { type: "category" } })];
    },
    numbers: () => ({ columns: ["row", "seeds", "figure", "low", "high"], rows: rows().map((row) => [row.row, row.seeds, row[state.metric], row[`${state.metric}_low`], row[`${state.metric}_high`]]) }),
  });
  if (claims.length) {
    const sign = { holds: "✓ holds", fails: "✗ fails", undecided: "~ undecided", "not tested": "– not tested" };
    parent.append(h("h3", {}, "Claims"), h("p", { class: "reading" }, "What the study stated, and what this run says of it. Left minus right of the statement with its 95 % interval; for a group, beside the row that is hardest to decide against."),
      h("ol", { class: "claims" }, ...claims.map((claim) => h("li", {}, h("span", { class: `verdict ${claim.verdict.split(" ")[0]}` }, sign[claim.verdict]),
        h("div", {}, h("span", {}, claim.says), claim.section ? h("span", { class: "quiet" }, ` (${claim.section})`) : null, claim.stated === "after" ? h("strong", {}, " written after the first results") : null, h("br"),
          h("code", {}, claim.holds), claim.difference === null ? null : h("span", { class: "quiet" }, ` ${claim.difference >= 0 ? "+" : ""}${fixed(claim.difference)} (${fixed(claim.low)} to ${fixed(claim.high)})${claim.opponents > 1 ? ` beside ${claim.hardest}, of ${claim.opponents}` : ""}; ${claim.budget}`), claim.reason ? h("span", { class: "quiet" }, `; ${claim.reason}`) : null)))));
  }
}

// 2. Table

function tableSection() {
  const parent = section("table", "Table", DATA.table.paper ? "Test figures beside the paper's; a star only where a row is better than every other." : "Test figures; a star only where a row is better than every other.");
  const place = h("div", {});
  const fill = () => {
    const rows = DATA.table.variants[state.variant].filter((row) => state.modes === "all" || row.mode === state.modes);
    const columns = [{ head: "row", left: true, text: (row) => row.label }, { head: "seeds", text: (row) => row.seeds || "", sort: (row) => row.seeds }];
    for (const metric of ["accuracy", "nll", "ece"]) {
      columns.push({ head: METRICS[metric] + (metric === "ece" ? ` (${DATA.calibration.bins} bins)` : ""), sort: (row) => row[metric], best: (row) => row[`${metric}_best`],
        text: (row) => (row[metric] === null ? "" : fixed(row[metric]) + (row[`${metric}_sd`] === null ? "" : ` ± ${fixed(row[`${metric}_sd`])}`) + (row[`${metric}_may_be_best`] && !row[`${metric}_best`] ? " ≈" : "")), sub: (row) => (row[metric] === null ? "" : `${fixed(row[`${metric}_low`])} to ${fixed(row[`${metric}_high`])}`) });
      if (metric === "ece") columns.push({ head: "floor", title: "What a perfectly calibrated model with these confidences would score", sort: (row) => row.ece_noise_floor, text: (row) => fixed(row.ece_noise_floor) });
      if (DATA.table.paper) columns.push({ head: "paper", sort: (row) => row[`${metric}_paper`], text: (row) => row[`${metric}_printed`] + (row[`${metric}_doubts`] ? " ?" : ""), sub: (row) => (row[`${metric}_difference`] === null || row[`${metric}_difference`] === undefined ? "" : `${row[`${metric}_difference`] > 0 ? "+" : ""}${fixed(row[`${metric}_difference`])}`) });
    }
    place.replaceChildren(rows.length ? sortableTable(columns, rows) : h("p", { class: "quiet" }, "No finished trial yet."), ...DATA.table.notes.map((note) => h("p", { class: "quiet" }, note.replace("* is", "★ is"))));
  };
  const csv = () => { const rows = DATA.table.variants[state.variant]; const names = rows.length ? Object.keys(rows[0]) : []; download(`${DATA.run.run}-table-${state.variant}.csv`, toCsv(names, rows.map((row) => names.map((name) => row[name]))), "text/csv"); };
  parent.append(h("div", { class: "controls" }, toggle([["last", "last epoch"], ["last-scaled", "last, temperature-scaled"], ["best", "best epoch"], ["best-scaled", "best, temperature-scaled"]], "variant", fill),
    toggle([["all", "all"], ["point", "point"], ["mc", "Monte Carlo"]], "modes", fill), h("button", { type: "button", onclick: csv }, "CSV")), place);
  fill();
}

// 3. Calibration

function reliabilityTraces(row, kind, big) {
  const bins = row[kind];
  const middle = bins.lower.map((low, m) => (low + bins.upper[m]) / 2);
  const width = bins.lower.map((low, m) => Math.max(0.002, (bins.upper[m] - low) * 0.94));
  const { color } = lookOf(row.row);
  const known = middle.map((_, m) => m).filter((m) => bins.count[m] > 0 && bins.accuracy[m] !== null);
  const pick = (values) => known.map((m) => values[m]);
  const base = known.map((m) => Math.min(bins.accuracy[m], bins.confidence[m]));
  const gap = known.map((m) => Math.abs(bins.accuracy[m] - bins.confidence[m]));
  return [
    { type: "scatter", mode: "lines", x: [0, 1], y: [0, 1], line: { dash: "dash", color: css("--quiet"), width: 1 }, hoverinfo: "skip", showlegend: false },
    { type: "bar", x: pick(middle), y: pick(bins.accuracy), width: pick(width), marker: { color, opacity: 0.75 }, name: "accuracy", error_y: row.seeds > 1 ? { type: "data", symmetric: false, array: known.map((m) => bins.high[m] - bins.accuracy[m]), arrayminus: known.map((m) => bins.accuracy[m] - bins.low[m]), color: css("--ink"), thickness: 1, width: big ? 3 : 1 } : undefined, showlegend: big },
    { type: "bar", x: pick(middle), y: gap, base, width: pick(width), marker: { color: "rgba(0,0,0,0)", line: { color: css("--gap"), width: 1 }, pattern: { shape: "/", fgcolor: css("--gap"), size: big ? 8 : 5 } }, name: "gap to confidence", showlegend: big },
  ];
}
function calibrationSection() {
  const parent = section("calibration", "Calibration", "Is a network as often right as it is sure?");
  const all = DATA.calibration.rows;
  const grid = h("div", { class: "multiples" });
  const rows = () => all.filter((row) => (state.calibrationMode === "tuned" ? row.phase === "confirm" : row.phase === "arms" && (state.calibrationMode === "point" ? row.mode === "point" : row.mode !== "point")));
  const modes = [["point", "networks as they are"], ["mc", "sampling and ensembles"], ["tuned", "tuned"]];
  const fill = () => {
    grid.replaceChildren();
    figures = figures.filter((entry) => !entry.id.startsWith("reliability-"));
    if (!rows().length) grid.append(h("p", { class: "quiet" }, "Nothing to draw yet."));
    rows().forEach((row) => {
      const plot = h("div", { class: "plot", id: `plot-reliability-${row.row}` });
      grid.append(h("button", { type: "button", onclick: () => large(row), "aria-label": `Reliability of ${row.label}, ECE ${fixed(row.ece, 3)}; larger` }, h("b", {}, row.label), h("small", {}, `ECE ${fixed(row.ece, 3)}, floor ${fixed(row.floor, 3)}`), plot));
      const entry = { id: `reliability-${row.row}`, plot, async draw() {
        await Plotly.react(plot, reliabilityTraces(row, state.bins, false), layout({ height: 165, margin: { l: 26, r: 6, t: 6, b: 22 }, barmode: "overlay", showlegend: false, font: { size: 10, color: css("--ink") }, xaxis: { range: [0, 1], dtick: 0.5 }, yaxis: { range: [0, 1], dtick: 0.5 } }), { staticPlot: true, responsive: true });
        plot.dataset.drawn = "1";
      } };
      figures.push(entry);
      enqueue(entry);
    });
  };
  const numbers = () => ({ columns: ["row", "bins", "lower", "upper", "count", "confidence", "accuracy", "lowest seed", "highest seed"], rows: all.flatMap((row) => ["width", "mass"].flatMap((kind) => row[kind].lower.map((low, m) => [row.row, kind, low, row[kind].upper[m], row[kind].count[m], row[kind].confidence[m], row[kind].accuracy[m], row[kind].low[m], row[kind].high[m]]))) });
  parent.append(h("figure", { id: "reliability" }, h("figcaption", {}, h("h3", {}, "Reliability diagrams"), h("p", { class: "reading" }, "Bars are accuracy by confidence, mean over seeds, with the seeds' range; hatching is the gap to the confidence. On the dashed diagonal a network is as often right as it is sure; bars below it are over-confident. The paper's Figure 1 and appendix C. Choose one to see it large.")),
    h("div", { class: "controls" }, toggle(modes, "calibrationMode", fill), toggle([["width", "equal-width bins"], ["mass", "equal-mass bins"]], "bins", fill)), grid,
    h("div", { class: "tools" }, h("button", { type: "button", onclick: () => { const { columns, rows: lines } = numbers(); download(`${DATA.run.run}-reliability.csv`, toCsv(columns, lines), "text/csv"); } }, "CSV"), h("span", { class: "quiet" }, "SVG and PNG in the large view"))));
  fill();
  const two = h("div", { class: "two" });
  parent.append(two);
  const modeRows = () => all.filter((row) => (state.entropyMode === "tuned" ? row.phase === "confirm" : row.phase === "arms" && (state.entropyMode === "point" ? row.mode === "point" : row.mode !== "point")));
  const steps = 25;
  const edges = Array.from({ length: steps }, (_, i) => ((i + 0.5) * DATA.calibration.most_entropy) / steps);
  const line = (row, x, y, shape) => { const style = lookOf(row.row); return { type: "scatter", mode: "lines", x, y, name: row.label, line: { color: style.color, dash: style.dash, width: 2, shape } }; };
  figure(two, { id: "entropy", title: "Entropy of the predictions", reading: "The share of test images by the entropy of their prediction, from sure (0) to knowing nothing (right end); the paper's appendix D.", height: 420,
    controls: [toggle(modes, "entropyMode", () => redraw("entropy", "risk"))],
    draw: () => [modeRows().map((row) => line(row, edges, row.entropy, "hvh")), layout({ xaxis: { title: { text: "entropy (nats)" }, rangemode: "tozero" }, yaxis: { title: { text: "share of images" }, rangemode: "tozero" } })],
    numbers: () => ({ columns: ["row", ...edges.map((edge) => edge.toFixed(2))], rows: all.map((row) => [row.row, ...row.entropy]) }) });
  const coverage = Array.from({ length: 50 }, (_, i) => (i + 1) / 50);
  figure(two, { id: "risk", title: "Risk against coverage", reading: "The error rate if only the most confident share of the images is answered; lower is better, and at the right end it is the whole error.", height: 420,
    draw: () => [modeRows().map((row) => line(row, coverage, row.risk, "linear")), layout({ xaxis: { title: { text: "share answered" }, range: [0, 1] }, yaxis: { title: { text: "error rate" }, rangemode: "tozero" } })],
    numbers: () => ({ columns: ["row", ...coverage.map((c) => c.toFixed(2))], rows: all.map((row) => [row.row, ...row.risk]) }) });
}
function large(row) {
  const dialog = document.getElementById("large");
  const plot = h("div", { class: "plot" });
  const name = `${DATA.run.run}-reliability-${row.row.replaceAll("@", "-")}`;
  const kinds = { width: "equal-width", mass: "equal-mass" };
  dialog.querySelector("div").replaceChildren(h("h3", {}, row.label), h("p", { class: "reading" }, `ECE ${fixed(row.ece)} with ${DATA.calibration.bins} equal-width bins, noise floor ${fixed(row.floor)}; accuracy ${fixed(row.accuracy, 3)}, mean confidence ${fixed(row.confidence, 3)}; ${row.seeds} seed${row.seeds === 1 ? "" : "s"}; drawn with ${kinds[state.bins]} bins.`), plot,
    h("div", { class: "tools" }, ...["svg", "png"].map((format) => h("button", { type: "button", onclick: () => Plotly.downloadImage(plot, { format, filename: name, width: 700, height: 760 }) }, format.toUpperCase()))));
  if (!dialog.open) dialog.showModal();
  const bins = row[state.bins];
  const middle = bins.lower.map((low, m) => (low + bins.upper[m]) / 2);
  const counts = { type: "bar", x: middle, y: bins.count, width: bins.lower.map((low, m) => Math.max(0.002, (bins.upper[m] - low) * 0.94)), marker: { color: css("--quiet") }, name: "images", yaxis: "y2", showlegend: false };
  const mark = (x, dash) => ({ type: "line", x0: x, x1: x, yref: "y2 domain", y0: 0, y1: 1, line: { color: css("--ink"), dash, width: 2 } });
  const word = (x, text, y) => ({ x, yref: "y2 domain", y, text, showarrow: false, xanchor: x > 0.5 ? "right" : "left", font: { size: 12 } });
  plotly.then(() => Plotly.newPlot(plot, [...reliabilityTraces(row, state.bins, true), counts], layout({ height: 620, barmode: "overlay", legend: { orientation: "h", y: 1.08 }, xaxis: { range: [0, 1], title: { text: "confidence" }, anchor: "y2" }, yaxis: { range: [0, 1], title: { text: "accuracy" }, domain: [0.32, 1] }, yaxis2: { ...axisLook(), title: { text: "images" }, domain: [0, 0.24] }, shapes: [mark(row.accuracy, "solid"), mark(row.confidence, "dot")], annotations: [word(row.accuracy, " accuracy ", 0.98), word(row.confidence, " confidence ", 0.8)] }), CONFIG));
}

// 4. Search

const columns = () => DATA.trials.columns;
const searchTrials = (arm) => columns().arm.map((_, i) => i).filter((i) => columns().phase[i] === "search" && (!arm || columns().arm[i] === arm) && columns().nll[i] !== null);
const trialName = (i) => `${columns().phase[i]} ${columns().arm[i]} ${columns().number[i]}`;
const many = () => searchTrials().length > 400;
const kind = () => (many() ? "scattergl" : "scatter");

function linked(plot) {
  if (plot.linked) return;
  plot.linked = true;
  plot.on("plotly_selected", (event) => { if (!plot.busy && event && event.points) select(event.points.map((point) => point.customdata).filter((i) => Number.isInteger(i)), plot.id.slice(5)); });
  plot.on("plotly_deselect", () => { if (!plot.busy) select([]); });
  plot.on("plotly_click", (event) => { const i = event.points[0].customdata; if (Number.isInteger(i)) { select([i]); openTrial(i); } });
}
function points(indices, x, y, style, name, more = {}) {
  const chosen = selected.size ? indices.map((i, at) => (selected.has(i) ? at : -1)).filter((at) => at >= 0) : null;
  return { type: kind(), mode: "markers", x, y, customdata: indices, text: indices.map(trialName), name, marker: { color: style.color, symbol: style.symbol, size: 8, opacity: 0.75 }, selectedpoints: chosen, unselected: { marker: { opacity: 0.12 } }, selected: { marker: { opacity: 1, size: 11 } }, hovertemplate: "%{text}<br>%{x:.5g}, %{y:.5g}<extra></extra>", ...more };
}
function marks(plotX, plotY, arms) {
  const found = [];
  for (const [label, key, symbol, size] of [["the study's settings", "paper", "diamond-open", 15], ["confirmed best", "confirmed", "star-open", 19]]) {
    const at = arms.map((arm) => DATA.search.arms[arm][key]).filter((i) => i !== null && columns().nll[i] !== null);
    if (at.length) found.push({ type: kind(), mode: "markers", x: at.map(plotX), y: at.map(plotY), marker: { symbol, size, color: css("--ink"), line: { width: 2 } }, name: label, hoverinfo: "name" });
  }
  return found;
}
function front(indices, x, y) {
  const sign = (name) => (name === "accuracy" ? -1 : 1);
  const allowed = indices.filter((i) => columns().accuracy[i] >= DATA.search.floor);
  const ordered = [...allowed].sort((a, b) => sign(x) * (columns()[x][a] - columns()[x][b]) || sign(y) * (columns()[y][a] - columns()[y][b]));
  const found = [];
  let best = Infinity;
  for (const i of ordered) { const value = sign(y) * columns()[y][i]; if (value < best) { best = value; found.push(i); } }
  return found;
}
function searchSection() {
  const arms = Object.keys(DATA.search.arms);
  if (!arms.length) return;
  if (!arms.includes(state.arm)) state.arm = arms[0];
  if (!DATA.search.objectives.includes(state.importance)) state.importance = DATA.search.objectives[0];
  const parent = section("search", "Search", "Validation figures of every search trial; each arm had the same number of trials. Drag over points to select trials: they are marked in every figure and in the table of trials.");
  figure(parent, { id: "history", title: "History", reading: "Each point is a trial, the line the best so far of its arm.",
    draw: () => [[...arms.flatMap((arm, number) => {
      const at = searchTrials(arm), style = look(number);
      let best = Infinity;
      const line = at.map((i) => (best = Math.min(best, columns().nll[i])));
      return [points(at, at.map((i) => columns().number[i]), at.map((i) => columns().nll[i]), style, arm), { type: kind(), mode: "lines", x: at.map((i) => columns().number[i]), y: line, line: { color: style.color, dash: style.dash, shape: "hv", width: 2 }, name: `${arm}, best so far`, hoverinfo: "skip" }];
    }), ...marks((i) => columns().number[i], (i) => columns().nll[i], arms)], layout({ dragmode: "select", xaxis: { title: { text: "trial" }, dtick: Math.max(...columns().number) < 20 ? 1 : undefined }, yaxis: { title: { text: "validation NLL" } } })],
    numbers: () => ({ columns: ["arm", "trial", "NLL", "accuracy", "ECE"], rows: searchTrials().map((i) => [columns().arm[i], columns().number[i], columns().nll[i], columns().accuracy[i], columns().ece[i]]) }), after: linked });
  const objectives = Object.entries(METRICS);
  figure(parent, { id: "pareto", title: "Pareto front", reading: "Trials that no other beats in both figures are joined by the staircase; those below the floor on accuracy are crossed.",
    controls: [choice("x", objectives, "x", () => redraw("pareto")), choice("y", objectives, "y", () => redraw("pareto"))],
    draw() {
      const traces = [];
      const best = front(searchTrials(), state.x, state.y);
      const value = (name) => (i) => columns()[name][i];
      arms.forEach((arm, number) => {
        const at = searchTrials(arm), style = look(number);
        const onFront = new Set(best);
        const ok = at.filter((i) => columns().accuracy[i] >= DATA.search.floor), bad = at.filter((i) => columns().accuracy[i] < DATA.search.floor);
        const trace = points(ok, ok.map(value(state.x)), ok.map(value(state.y)), style, arm);
        trace.marker.color = ok.map((i) => (onFront.has(i) ? style.color : theme() === "dark" ? "#6d727d" : "#b3b3ae"));
        traces.push(trace);
        if (bad.length) traces.push(points(bad, bad.map(value(state.x)), bad.map(value(state.y)), { color: css("--bad"), symbol: "x-thin-open" }, `${arm}, below the floor`));
      });
      traces.push({ type: kind(), mode: "lines", x: best.map(value(state.x)), y: best.map(value(state.y)), line: { shape: "hv", color: css("--ink"), width: 1.5 }, name: "front", hoverinfo: "skip" });
      return [[...traces, ...marks(value(state.x), value(state.y), arms)], layout({ dragmode: "select", xaxis: { title: { text: `validation ${METRICS[state.x]}` } }, yaxis: { title: { text: `validation ${METRICS[state.y]}` } } })];
    },
    numbers: () => { const best = new Set(front(searchTrials(), state.x, state.y)); return { columns: ["trial", METRICS[state.x], METRICS[state.y], "on the front"], rows: searchTrials().map((i) => [trialName(i), columns()[state.x][i], columns()[state.y][i], best.has(i) ? "yes" : ""]) }; }, after: linked });
  const pickArm = () => choice("arm", arms.map((arm) => [arm, arm]), "arm", () => { for (const select of document.querySelectorAll("select.arm")) select.value = state.arm; redraw("parallel", "importance", "slices"); });
  const withClass = (label) => { label.querySelector("select").classList.add("arm"); return label; };
  const parameters = () => DATA.search.arms[state.arm].parameters;
  const parameterValues = (name, at) => at.map((i) => DATA.trials.settings[name][i]);
  figure(parent, { id: "parallel", title: "Parallel coordinates", reading: "Each line is a trial, from its settings to its figures; drag along an axis to select. Blue is a low NLL.", height: 430, wide: true, controls: [withClass(pickArm())],
    draw() {
      const at = searchTrials(state.arm);
      if (!at.length) return [[], {}];
      const dimensions = parameters().map(({ name, log, choice: isChoice }) => {
        const values = parameterValues(name, at);
        if (isChoice) { const options = [...new Set(values)]; return { label: name, values: values.map((v) => options.indexOf(v)), tickvals: options.map((_, k) => k), ticktext: options.map(String) }; }
        if (log && values.every((v) => v > 0)) { const logs = values.map(Math.log10); const ticks = [...new Set(logs.map((v) => Math.round(v * 2) / 2))].sort((a, b) => a - b); return { label: name, values: logs, tickvals: ticks, ticktext: ticks.map((v) => String(+(10 ** v).toPrecision(2))) }; }
        return { label: name, values };
      });
      for (const [name, text] of Object.entries(METRICS).slice(0, 3)) dimensions.push({ label: text, values: at.map((i) => columns()[name][i]) });
      const nll = at.map((i) => columns().nll[i]).sort((a, b) => a - b);
      const grey = theme() === "dark" ? "#3a3e47" : "#dddddd";
      const line = selected.size ? { color: at.map((i) => (selected.has(i) ? 1 : 0)), colorscale: [[0, grey], [1, css("--accent")]], cmin: 0, cmax: 1 }
        : { color: at.map((i) => columns().nll[i]), colorscale: [[0, "#0072B2"], [0.5, "#56B4E9"], [1, theme() === "dark" ? "#5b4a20" : "#f3e3b3"]], cmin: nll[0], cmax: nll[Math.floor(nll.length * 0.9)], showscale: true, colorbar: { title: { text: "NLL" }, thickness: 12 } };
      return [[{ type: "parcoords", dimensions, line, labelfont: { size: 11 }, tickfont: { size: 10 }, rangefont: { size: 10 }, labelangle: -12 }], layout({ margin: { l: 60, r: 60, t: 60, b: 20 } })];
    },
    numbers: () => { const at = searchTrials(state.arm); return { columns: ["trial", ...parameters().map((p) => p.name), "NLL", "accuracy", "ECE"], rows: at.map((i) => [columns().number[i], ...parameters().map((p) => DATA.trials.settings[p.name][i]), columns().nll[i], columns().accuracy[i], columns().ece[i]]) }; },
    after(plot) {
      if (plot.linked || !plot.on) return;
      plot.linked = true;
      plot.on("plotly_restyle", ([change]) => {
        if (!Object.keys(change).some((name) => name.startsWith("dimensions"))) return;
        const at = searchTrials(state.arm);
        const limits = plot.data[0].dimensions.map((d) => [d.values, d.constraintrange]).filter(([, range]) => range && range.length);
        const inside = (range, v) => (Array.isArray(range[0]) ? range : [range]).some(([low, high]) => v >= low && v <= high);
        select(limits.length ? at.filter((_, k) => limits.every(([values, range]) => inside(range, values[k]))) : [], "parallel");
      });
    } });
  const two = h("div", { class: "two" });
  parent.append(two);
  figure(two, { id: "importance", title: "Importance for reaching the best trials", reading: "How much each setting tells the best tenth of trials from the rest (PED-ANOVA); the shares add up to one.", height: 360, empty: "Too few finished trials: four or more are needed.", controls: [withClass(pickArm()), choice("of", DATA.search.objectives.map((name) => [name, METRICS[name]]), "importance", () => redraw("importance"))],
    draw() {
      const scores = Object.entries(DATA.search.arms[state.arm].importance[state.importance] || {}).sort((a, b) => a[1] - b[1]);
      return [scores.length ? [{ type: "bar", orientation: "h", x: scores.map((s) => s[1]), y: scores.map((s) => s[0]), text: scores.map((s) => s[1].toFixed(2)), textposition: "auto", marker: { color: css("--accent") }, hoverinfo: "x+y" }] : [], layout({ margin: { l: 140, r: 14, t: 12, b: 40 }, yaxis: { type: "category" } })];
    },
    numbers: () => ({ columns: ["arm", "objective", "setting", "importance"], rows: arms.flatMap((arm) => Object.entries(DATA.search.arms[arm].importance).flatMap(([objective, scores]) => Object.entries(scores).map(([name, score]) => [arm, objective, name, score]))) }) });
  two.append(h("figure", { id: "optimism" }, h("figcaption", {}, h("h3", {}, "The search's optimism"), h("p", { class: "reading" }, "The best validation figure of the search, and that of the same settings on fresh seeds: the difference is what choosing the luckiest trial promised too much.")),
    DATA.search.optimism.length ? sortableTable([{ head: "arm", left: true, text: (row) => row.arm }, { head: "search", text: (row) => fixed(row.search) }, { head: "confirmed", text: (row) => fixed(row.confirmed) }, { head: "optimism", text: (row) => fixed(row.optimism) }], DATA.search.optimism) : h("p", { class: "quiet" }, "Nothing is confirmed yet.")));
  figure(parent, { id: "slices", title: "Each setting against a figure", reading: "One panel a setting; the diamond marks the study's own settings, the star the confirmed best.", height: 520, wide: true, controls: [withClass(pickArm()), choice("figure", objectives, "slice", () => redraw("slices"))],
    draw() {
      const at = searchTrials(state.arm), style = look(arms.indexOf(state.arm));
      if (!at.length) return [[], {}];
      const names = parameters(), wide = Math.min(4, names.length), high = Math.ceil(names.length / wide);
      const traces = [], arrangement = layout({ grid: { rows: high, columns: wide, pattern: "independent", ygap: 0.38, xgap: 0.2 }, height: Math.max(300, 245 * high), showlegend: false, dragmode: "select" });
      names.forEach(({ name, log, choice: isChoice }, k) => {
        const suffix = k ? String(k + 1) : "";
        traces.push({ ...points(at, parameterValues(name, at).map((v) => (isChoice ? String(v) : v)), at.map((i) => columns()[state.slice][i]), style, name), xaxis: `x${suffix}`, yaxis: `y${suffix}` });
        for (const mark of marks((i) => DATA.trials.settings[name][i], (i) => columns()[state.slice][i], [state.arm])) traces.push({ ...mark, xaxis: `x${suffix}`, yaxis: `y${suffix}` });
        arrangement[`xaxis${suffix}`] = { ...axisLook(), title: { text: name, standoff: 4 }, type: isChoice ? "category" : log ? "log" : "linear", nticks: 4 };
        arrangement[`yaxis${suffix}`] = { ...axisLook(), nticks: 5 };
      });
      return [traces, arrangement];
    },
    numbers: () => { const at = searchTrials(state.arm); return { columns: ["trial", ...parameters().map((p) => p.name), METRICS[state.slice]], rows: at.map((i) => [columns().number[i], ...parameters().map((p) => DATA.trials.settings[p.name][i]), columns()[state.slice][i]]) }; }, after: linked });
}

// 5. Training

function bandTraces(band, style, name, more = {}) {
  const x = band.mean.map((_, i) => i + 1);
  const soft = { type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false, legendgroup: name, ...more };
  return [{ ...soft, x, y: band.low }, { ...soft, x, y: band.high, fill: "tonexty", fillcolor: style.color + "2e" }, { type: "scatter", mode: "lines", x, y: band.mean, name, legendgroup: name, line: { color: style.color, dash: style.dash, width: 2 }, ...more }];
}
function trainingSection() {
  const rows = DATA.training.rows;
  if (!rows.length) return;
  const parent = section("training", "Training");
  const turns = rows.filter((row) => row.turn && row.phase === "arms");
  const whole = Math.max(...rows.map((row) => (row.curves.validation_nll ? row.curves.validation_nll.mean.length : 0)));
  const kept = rows.filter((row) => !row.turn && row.row.startsWith("pilot") && row.phase === "arms" && row.curves.validation_nll?.mean.length === whole).map((row) => row.label);
  const told = turns.length ? ` Validation NLL turns and grows by more than a tenth for ${turns.map((row) => `${row.label} (from epoch ${row.turn})`).join(", ")}${kept.length ? `, but not for ${kept.join(", ")}` : ""}.` : "";
  figure(parent, { id: "learning", title: "Learning curves", reading: `The mean over seeds, with their range as a band.${told}`, height: 440, controls: [choice("figure", Object.entries(CURVE_NAMES), "curve", () => redraw("learning"))],
    draw() {
      const traces = rows.filter((row) => row.curves[state.curve]).flatMap((row) => bandTraces(row.curves[state.curve], lookOf(row.row), row.label));
      const shapes = state.curve === "validation_nll" ? turns.map((row) => ({ type: "line", x0: row.turn, x1: row.turn, yref: "y domain", y0: 0, y1: 1, line: { color: lookOf(row.row).color, dash: "dot", width: 1 } })) : [];
      const range = sensible(rows.flatMap((row) => (row.curves[state.curve] ? row.curves[state.curve].mean : [])));
      return [traces, layout({ shapes, xaxis: { title: { text: `epoch${range ? " (the other axis is cut; double-click shows all)" : ""}` } }, yaxis: { title: { text: CURVE_NAMES[state.curve] }, range } })];
    },
    numbers: () => ({ columns: ["row", "epoch", "mean", "lowest seed", "highest seed"], rows: rows.flatMap((row) => { const band = row.curves[state.curve]; return band ? band.mean.map((v, i) => [row.row, i + 1, v, band.low[i], band.high[i]]) : []; }) }) });
  const dgms = rows.filter((row) => row.dgm);
  if (!dgms.length) return;
  if (!dgms.some((row) => row.row === state.dgmRow)) state.dgmRow = dgms[0].row;
  const names = { reconstruction: "reconstruction", kl: "KL", hyperprior: "hyperprior", gradient_norm: "gradient norm" };
  const current = () => dgms.find((row) => row.row === state.dgmRow);
  figure(parent, { id: "dgm", title: "The DGM", reading: "Its bound's terms (nats a masked sample), the norm of its gradient before clipping, and how far imputed units are from the true ones by layer (root mean square, in the units that it sees; 1 is guessing the mean).", height: 520, wide: true, controls: [choice("row", dgms.map((row) => [row.row, row.label]), "dgmRow", () => redraw("dgm"))],
    draw() {
      const row = current(), style = lookOf(row.row);
      const traces = [], arrangement = layout({ grid: { rows: 2, columns: 3, pattern: "independent", ygap: 0.3, xgap: 0.18 }, annotations: [], legend: { orientation: "h", y: -0.12 } });
      const titles = [...Object.values(names), "imputation error"];
      Object.keys(names).forEach((name, k) => { const suffix = k ? String(k + 1) : ""; if (row.dgm[name]) traces.push(...bandTraces(row.dgm[name], style, names[name], { xaxis: `x${suffix}`, yaxis: `y${suffix}`, showlegend: false })); });
      (row.dgm.imputation_error || []).forEach((errors, layer) => { const own = look(layer); traces.push({ type: "scatter", mode: "lines", x: errors.map((_, i) => i + 1), y: errors, xaxis: "x5", yaxis: "y5", name: layer ? `layer ${layer}` : "layer 0 (input)", line: { color: own.color, dash: DASHES[layer % DASHES.length] } }); });
      for (let k = 0; k < 5; k++) { const suffix = k ? String(k + 1) : ""; arrangement[`xaxis${suffix}`] = { ...axisLook(), nticks: 6 }; arrangement[`yaxis${suffix}`] = { ...axisLook(), title: { text: titles[k] }, nticks: 5 }; }
      return [traces, arrangement];
    },
    numbers: () => { const row = current(); return { columns: ["epoch", ...Object.values(names), ...(row.dgm.imputation_error || []).map((_, layer) => `imputation error, layer ${layer}`)], rows: row.curves.validation_nll.mean.map((_, i) => [i + 1, ...Object.keys(names).map((name) => row.dgm[name] && row.dgm[name].mean[i]), ...(row.dgm.imputation_error || []).map((errors) => errors[i])]) }; } });
}

// 6. Trials

const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const words = (text) => new Uint16Array(bytes(text).buffer);
function unpack() {
  const starts = [0];
  for (const length of DATA.trials.lengths) starts.push(starts[starts.length - 1] + length);
  const curves = Object.fromEntries(Object.entries(DATA.trials.curves).map(([name, one]) => [name, { ...one, steps: words(one.data) }]));
  const { count, accuracy, confidence } = DATA.trials.reliability;
  return { starts, curves, count: words(count), accuracy: bytes(accuracy), confidence: bytes(confidence) };
}
let unpacked = null;
function curveOf(i, name) {
  unpacked ||= unpack();
  const { steps } = unpacked.curves[name], low = unpacked.curves[name].low[i], high = unpacked.curves[name].high[i];
  return Array.from(steps.subarray(unpacked.starts[i], unpacked.starts[i + 1]), (v) => (v === 65535 ? null : low + (v / 65534) * (high - low)));
}
function binsOf(i) {
  unpacked ||= unpack();
  const n = DATA.calibration.bins, from = i * n;
  const part = (values) => Array.from(values.subarray(from, from + n), (v) => (v === 255 ? null : v / 254));
  const accuracy = part(unpacked.accuracy);
  return { lower: accuracy.map((_, m) => m / n), upper: accuracy.map((_, m) => (m + 1) / n), count: Array.from(unpacked.count.subarray(from, from + n)), accuracy, confidence: part(unpacked.confidence), low: accuracy, high: accuracy };
}
let fillTrials = () => {};
function trialsSection() {
  const parent = section("trials", "Trials", "Validation figures of every trial. Enter or a click opens one and selects it.");
  const detail = h("div", { id: "detail", "aria-live": "polite" });
  const place = h("div", {});
  const PAGE = 50;
  fillTrials = () => {
    const c = columns();
    const text = state.filter.toLowerCase();
    const names = Object.keys(DATA.trials.settings);
    const haystack = (i) => [c.phase[i], c.arm[i], c.status[i], c.error[i] || "", `seed ${c.seed[i]}`, ...names.map((name) => (DATA.trials.settings[name][i] === null ? "" : `${name}=${DATA.trials.settings[name][i]}`))].join(" ").toLowerCase();
    let rows = c.arm.map((_, i) => i).filter((i) => (!state.phase || c.phase[i] === state.phase) && (!state.status || c.status[i] === state.status) && (!state.onlySelected || selected.has(i)) && (!text || text.split(/\s+/).every((word) => haystack(i).includes(word))));
    const heads = [["arm", (i) => c.arm[i], true], ["phase", (i) => c.phase[i], true], ["number", (i) => c.number[i]], ["seed", (i) => c.seed[i]], ["status", (i) => c.status[i], true], ["NLL", (i) => c.nll[i]], ["accuracy", (i) => c.accuracy[i]], ["ECE", (i) => c.ece[i]], ["epochs", (i) => c.epochs[i]], ["seconds", (i) => c.seconds[i]]];
    if (state.sort) { const value = heads[state.sort.number][1]; rows.sort((a, b) => compare(value(a), value(b), state.sort.down)); }
    const pages = Math.max(1, Math.ceil(rows.length / PAGE));
    state.page = Math.min(state.page, pages - 1);
    const shown = rows.slice(state.page * PAGE, state.page * PAGE + PAGE);
    const head = h("tr", {}, ...heads.map(([name, , left], number) => h("th", { scope: "col", class: left ? "left" : null, "aria-sort": state.sort && state.sort.number === number ? (state.sort.down ? "descending" : "ascending") : "none" }, h("button", { type: "button", onclick: () => { state.sort = state.sort && state.sort.number === number ? { number, down: !state.sort.down } : { number, down: false }; state.page = 0; fillTrials(); } }, name))));
    const body = shown.map((i) => h("tr", { class: `row${selected.has(i) ? " selected" : ""}${state.open === i ? " open" : ""}`, tabindex: 0, "data-trial": i, "aria-selected": String(selected.has(i)), onclick: () => choose(i), onkeydown: (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(i); }
      if (event.key === "ArrowDown" && event.target.nextElementSibling) event.target.nextElementSibling.focus();
      if (event.key === "ArrowUp" && event.target.previousElementSibling) event.target.previousElementSibling.focus();
    } }, ...heads.map(([, value, left]) => { const v = value(i); return h("td", { class: left ? "left" : null }, v === null || v === undefined ? "" : typeof v === "number" && !Number.isInteger(v) ? String(+v.toPrecision(4)) : String(v)); })));
    const step = (by) => h("button", { type: "button", disabled: state.page + by < 0 || state.page + by >= pages, onclick: () => { state.page += by; fillTrials(); } }, by < 0 ? "‹ Back" : "Next ›");
    place.replaceChildren(h("div", { class: "scroll" }, h("table", { id: "trials-table" }, h("thead", {}, head), h("tbody", {}, ...body))), h("div", { class: "controls" }, step(-1), h("span", { id: "trials-count" }, `${rows.length.toLocaleString("en")} trials, page ${state.page + 1} of ${pages}`), step(1)));
  };
  const choose = (i) => { select([i]); openTrial(i); };
  const unique = (name) => [["", `every ${name}`], ...[...new Set(columns()[name])].map((value) => [value, value])];
  const filter = h("input", { type: "search", id: "filter", placeholder: "filter: dropout rate=0.5 seed 1 …", "aria-label": "Filter trials", size: 30, value: state.filter, oninput: () => { state.filter = filter.value; state.page = 0; fillTrials(); } });
  const csv = () => { const c = columns(), names = Object.keys(c), own = Object.keys(DATA.trials.settings); download(`${DATA.run.run}-trials.csv`, toCsv([...names, ...own], c.arm.map((_, i) => [...names.map((name) => c[name][i]), ...own.map((name) => DATA.trials.settings[name][i])])), "text/csv"); };
  const refill = () => { state.page = 0; fillTrials(); };
  parent.append(h("div", { class: "controls" }, filter, choice("", unique("phase"), "phase", refill), choice("", unique("status"), "status", refill), h("label", {}, h("input", { type: "checkbox", id: "only-selected", checked: state.onlySelected, onchange: (event) => { state.onlySelected = event.target.checked; refill(); } }), "selected only"), h("button", { type: "button", onclick: csv }, "CSV")), place, detail);
  fillTrials();
  if (state.open !== null) openTrial(state.open, false);
}
function openTrial(i, scroll = false) {
  const detail = document.getElementById("detail");
  if (!detail || i >= columns().arm.length) return;
  state.open = i;
  const c = columns();
  const settings = Object.entries(DATA.trials.settings).filter(([, values]) => values[i] !== null);
  const facts = [["status", c.status[i]], ...(c.error[i] ? [["error", c.error[i]]] : []), ["seed", c.seed[i]], ["epochs", c.epochs[i]], ["best epoch", c.best_epoch[i]], ["seconds", c.seconds[i]], ["retries", c.retries[i]], ["moves", c.moves[i]], ["reused", c.reused[i] ? "yes" : "no"], ...settings.map(([name, values]) => [name, values[i]])];
  const curves = h("div", { class: "plot", id: "detail-curves" }), bins = h("div", { class: "plot", id: "detail-bins" });
  detail.replaceChildren(h("h3", {}, trialName(i)), h("div", { class: "detail" }, h("dl", {}, ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value === null || value === undefined ? "–" : String(value))])), h("div", {}, h("p", { class: "reading" }, "Its validation NLL and accuracy by epoch."), curves), h("div", {}, h("p", { class: "reading" }, "Its calibration on validation images, last epoch."), bins)));
  const traceback = DATA.trials.tracebacks[i];
  if (traceback) detail.append(h("p", { class: "reading" }, "Where it failed."), h("pre", { id: "traceback" }, traceback));
  const nll = curveOf(i, "validation_nll"), accuracy = curveOf(i, "validation_accuracy");
  const x = nll.map((_, k) => k + 1);
  if (x.length) plotly.then(() => Plotly.newPlot(curves, [{ type: "scatter", mode: "lines", x, y: nll, name: "NLL", line: { color: look(0).color } }, { type: "scatter", mode: "lines", x, y: accuracy, name: "accuracy", yaxis: "y2", line: { color: look(1).color, dash: "dash" } }], layout({ height: 280, margin: { l: 44, r: 44, t: 8, b: 36 }, xaxis: { title: { text: "epoch" } }, yaxis2: { ...axisLook(), overlaying: "y", side: "right", showgrid: false } }), CONFIG));
  else curves.append(h("p", { class: "quiet" }, "It has no epochs to show."));
  const found = binsOf(i);
  if (found.count.some((n) => n > 0)) plotly.then(() => Plotly.newPlot(bins, reliabilityTraces({ row: c.arm[i], seeds: 1, width: found }, "width", false), layout({ height: 280, margin: { l: 44, r: 8, t: 8, b: 36 }, barmode: "overlay", showlegend: false, xaxis: { range: [0, 1], title: { text: "confidence" } }, yaxis: { range: [0, 1], title: { text: "accuracy" } } }), CONFIG));
  else bins.append(h("p", { class: "quiet" }, "It has no predictions to show."));
  if (scroll) detail.scrollIntoView({ block: "nearest" });
  fillTrials();
}

/** The same trials are marked everywhere. */
function select(indices, from) {
  selected = new Set(indices);
  const bar = document.getElementById("selection");
  bar.hidden = !selected.size;
  bar.querySelector("span").textContent = `${selected.size} trial${selected.size === 1 ? "" : "s"} selected`;
  for (const id of ["history", "pareto", "slices", "parallel"]) if (id !== from) redraw(id);
  fillTrials();
}

// 7. How it was made

function madeSection() {
  const parent = section("made", "How it was made", "Enough to do it again.");
  const made = DATA.made;
  const list = (pairs) => h("dl", {}, ...pairs.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value === null || value === undefined ? "–" : String(value))]));
  parent.append(h("h3", {}, "The command that repeats it"), h("pre", { id: "command" }, made.command), h("div", { class: "detail" },
    h("div", { class: "card" }, h("h3", {}, "Run"), list([["started", made.started], ["starts", made.starts], ["data fingerprint", made.fingerprint], ["code", made.code.version], ["commit", made.code.commit], ["host", made.machine.host], ["system", made.machine.system], ["cores", made.machine.cores], ["trials ran on", made.devices.join("; ") || null]])),
    h("div", { class: "card" }, h("h3", {}, "Versions"), list(Object.entries(made.packages)))),
  h("h3", { style: "margin-top:1.2rem" }, "Budget of each arm"), sortableTable(Object.keys(made.budget[0] || {}).map((name, i) => ({ head: name, left: i === 0, text: (row) => row[name] })), made.budget),
  ...(made.doubts.length ? [h("h3", { style: "margin-top:1.2rem" }, "Doubts about the paper's figures"), h("ul", {}, ...made.doubts.map((text) => h("li", {}, text)))] : []),
  h("h3", { style: "margin-top:1.2rem" }, "The study"), h("pre", { id: "study" }, made.study));
}

// The page

function head() {
  const run = DATA.run;
  document.title = `${run.run}: ${run.title}`;
  document.getElementById("title").textContent = run.title;
  const phases = run.phases.filter((phase) => phase.trials).map((phase) => `${phase.phase} ${phase.finished + phase.diverged + phase.stopped}/${phase.trials}`).join(" · ");
  const failed = run.failed ? ` · ${run.failed} failed` : "";
  document.getElementById("state").textContent = `${run.run} · ${run.network} on ${run.data} · ${run.state}: ${run.done} of ${run.trials} trials · ${phases}${failed}${LIVE ? " · live" : ""}`;
}
function render() {
  const top = window.scrollY;
  const typing = document.activeElement && document.activeElement.id === "filter" ? document.activeElement.selectionStart : null;
  const opened = [...document.querySelectorAll("details[open]")].map((element) => element.closest("figure").id);
  document.getElementById("main").replaceChildren();
  document.getElementById("nav").replaceChildren();
  for (const entry of figures) if (entry.plot.classList.contains("js-plotly-plot")) Plotly.purge(entry.plot);
  figures = [];
  queue.length = 0;
  unpacked = null;
  if (DATA.problem) { document.getElementById("main").append(h("p", { class: "lead" }, DATA.problem)); document.body.dataset.ready = "1"; return; }
  head();
  answerSection();
  tableSection();
  calibrationSection();
  searchSection();
  trainingSection();
  trialsSection();
  madeSection();
  for (const id of opened) { const details = document.querySelector(`#${CSS.escape(id)} details`); if (details) details.open = true; }
  if (typing !== null) { const filter = document.getElementById("filter"); filter.focus({ preventScroll: true }); filter.setSelectionRange(typing, typing); }
  window.scrollTo({ top, behavior: "instant" });
}
render();
let started = false;
themeButton(document.getElementById("theme"), () => { if (started) { redraw(); if (state.open !== null) openTrial(state.open); } started = true; });
document.getElementById("print").addEventListener("click", () => window.print());
document.querySelector("#selection button").addEventListener("click", () => select([]));
let before = null;
window.addEventListener("beforeprint", () => { before = theme(); document.documentElement.dataset.theme = "light"; if (window.Plotly) for (const entry of figures) entry.draw(); });
window.addEventListener("afterprint", () => { document.documentElement.dataset.theme = before; redraw(); });

if (LIVE) {
  let version = DATA.version;
  const poll = async () => {
    try {
      const answer = await fetch(`data.json?since=${encodeURIComponent(version)}`);
      if (answer.status === 200) {
        const fresh = await answer.json();
        version = fresh.version;
        document.body.dataset.version = version;
        if (fresh.problem) document.getElementById("state").textContent = fresh.problem;
        else { const kept = [...selected].map(trialName), open = state.open === null ? null : trialName(state.open); DATA = fresh; const at = new Map(columns().arm.map((_, i) => [trialName(i), i])); state.open = at.get(open) ?? null; selected = new Set(kept.map((name) => at.get(name)).filter((i) => i !== undefined)); render(); if (selected.size) select([...selected]); }
      }
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // what fetch throws when nobody answers
      document.getElementById("state").textContent = "the server does not answer; what is shown is the last state";
    }
    setTimeout(poll, 1500);
  };
  setTimeout(poll, 1500);
}
