// 3. Small multiples: the same rows of each run, in one order and on one scale.

const comparedPanels = (() => {
  const SCALES = [
    ["figure", "figures"],
    ["difference", "less the reference"],
  ];
  const state = { scale: "figure" };
  const TITLE = 30; // pixels over a panel
  const AXIS = 52; // below it
  const perRow = (rows) => (rows.length > 20 ? 15 : 21);
  const size = () => (look.narrow() ? 11 : 12);

  /** Of a row in a run: what is drawn, {value, low, high}, or null. */
  function drawn(number, row) {
    if (state.scale === "figure") return compared.figureOf(number, row);
    const run = page.data.runs[number];
    if (row === run.against?.reference) return { value: 0, low: 0, high: 0 };
    const found = compared.againstReference(number, row);
    return found && { ...found, value: found.difference };
  }
  function hover(number, { row, label }) {
    const own = compared.figureOf(number, row);
    const against = compared.againstReference(number, row);
    const verdict = { 1: ", really better", 0: "", "-1": ", really worse" };
    const reference = compared.label(page.data.runs[number].against?.reference);
    return [
      `<b>${look.plain(label)}</b>, ${look.plain(page.data.runs[number].name)}`,
      own && `${fixed(own.value)} (${fixed(own.low)} to ${fixed(own.high)}), ${own.seeds} seeds`,
      own?.diverged,
      own?.mark === "best" && "better than every other row",
      against && `${signed(against.difference)} (${span(against)}) beside ${look.plain(reference)}`,
      against && `p ${against.p}${verdict[against.verdict]}`,
    ]
      .filter(Boolean)
      .join("<br>");
  }
  function trace(number, rows, axes) {
    const there = rows.flatMap((row, y) => (drawn(number, row.row) ? [{ row, y, one: drawn(number, row.row) }] : []));
    const mark = ({ row }) => compared.figureOf(number, row.row)?.mark;
    const colours = there.map(({ row }) => look.ofRow(row).color);
    return {
      type: "scatter",
      mode: "markers",
      x: there.map(({ one }) => one.value),
      y: there.map(({ y }) => y),
      error_x: {
        type: "data",
        symmetric: false,
        array: there.map(({ one }) => one.high - one.value),
        arrayminus: there.map(({ one }) => one.value - one.low),
        color: look.css("--quiet"),
        thickness: 1.3,
        width: 0,
      },
      marker: {
        color: colours,
        symbol: there.map((at) => (mark(at) === "best" ? "star" : look.ofRow(at.row).symbol)),
        size: there.map((at) => (mark(at) === "best" ? 14 : 9)),
        line: {
          color: look.css("--ink"),
          width: there.map((at) => (mark(at) === "leading" || mark(at) === "best" ? 1.6 : 0)),
        },
      },
      text: there.map(({ row }) => hover(number, row)),
      hovertemplate: "%{text}<extra></extra>",
      name: page.data.runs[number].name,
      showlegend: false,
      xaxis: axes.x,
      yaxis: axes.y,
    };
  }
  /** The run's reference, as a line over the whole panel. */
  function referenceLine(number, axes) {
    const reference = page.data.runs[number].against?.reference;
    const found = reference && drawn(number, reference);
    if (!found) return [];
    const place = { x0: found.value, x1: found.value, y0: 0, y1: 1, xref: axes.x, yref: `${axes.y} domain` };
    return [{ type: "line", ...place, line: { color: look.css("--ink"), width: 1, dash: "dot" }, layer: "below" }];
  }
  const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

  /** How many panels stand side by side, and where: the plot's width in, shares of it out. */
  function places(rows) {
    const width = look.widthOf(document.getElementById("plot-panels"));
    const texts = rows.map(({ label }) => shortened(label, look.narrow() ? 24 : 36));
    const left = 12 + 0.55 * size() * Math.max(0, ...texts.map((text) => text.length));
    const across = Math.max(1, Math.min(page.data.runs.length, Math.floor((width - left) / 205)));
    const down = Math.ceil(page.data.runs.length / across);
    const high = TITLE + AXIS + perRow(rows) * rows.length;
    return { texts, left, across, down, high };
  }
  function axesOf(number, rows, { texts, across, down }, range) {
    const [at, line] = [number % across, Math.floor(number / across)];
    const high = 1 / down;
    const part = high / (TITLE + AXIS + perRow(rows) * rows.length);
    const gap = 0.012;
    const tickfont = { size: size() };
    return {
      x: {
        domain: [at / across + (at ? gap : 0), (at + 1) / across - (at < across - 1 ? gap : 0)],
        range,
        nticks: 4,
        tickfont,
        title: { text: compared.metricHead(), font: { size: size() }, standoff: 4 },
        matches: number ? "x" : undefined,
        anchor: look.panel(number).y,
      },
      y: {
        domain: [1 - (line + 1) * high + AXIS * part, 1 - line * high - TITLE * part],
        range: [rows.length - 0.4, -0.6],
        tickvals: rows.map((_, k) => k),
        ticktext: at ? rows.map(() => "") : texts.map(look.plain),
        tickfont,
        automargin: false,
        zeroline: false,
        matches: number ? "y" : undefined,
        anchor: look.panel(number).x,
      },
    };
  }
  function title(number) {
    const { x, y } = look.panel(number);
    const text = `<b>${look.plain(shortened(page.data.runs[number].name, 28))}</b>`;
    const where = { xref: `${x} domain`, yref: `${y} domain`, x: 0, y: 1, xanchor: "left", yanchor: "bottom" };
    return { ...where, text, showarrow: false, font: { size: 13 } };
  }
  function draw() {
    const rows = compared.shown();
    if (!rows.length) return [[], {}];
    const where = places(rows);
    const known = page.data.runs.flatMap((_, number) => rows.map(({ row }) => drawn(number, row)).filter(Boolean));
    const range =
      state.scale === "figure" ? look.sensibleRange(known.flatMap(({ low, high }) => [low, high])) : undefined;
    const layout = {
      showlegend: false,
      height: where.down * where.high,
      margin: { l: where.left, r: 8, t: 0, b: 0 },
      shapes: [],
      annotations: [],
    };
    const traces = page.data.runs.map((_, number) => {
      const panel = look.panel(number);
      const axes = axesOf(number, rows, where, range);
      layout[panel.xaxis] = axes.x;
      layout[panel.yaxis] = axes.y;
      layout.shapes.push(...referenceLine(number, panel));
      layout.annotations.push(title(number));
      return trace(number, rows, panel);
    });
    return [known.length ? traces : [], look.layout(layout)];
  }
  function numbers() {
    const parts = ["seeds", "value", "deviation", "low", "high", "mark"];
    return {
      columns: ["run", "row", "metric", ...parts],
      rows: page.data.runs.flatMap((run, number) =>
        run.lines.flatMap(({ row }) =>
          page.data.metrics.flatMap(({ name }) => {
            const found = compared.figureOf(number, row, name);
            return found ? [[run.name, row, name, ...parts.map((part) => found[part])]] : [];
          }),
        ),
      ),
    };
  }

  return {
    fill: () => drawing.redraw("panels"),
    add() {
      const parent = section("panels-section", "Side by side");
      figure(parent, {
        id: "panels",
        title: "Every row in every run",
        reading:
          "A panel for each run, the same rows in the order of their mean place over the runs, one scale. A dot is " +
          "the mean over seeds with its 95 % interval; the dotted line is the run's reference. A star is better " +
          "than every other row of its run, a ring only has the best mean.",
        height: 420,
        image: {},
        controls: [toggle(SCALES, state, "scale", () => drawing.redraw("panels"))],
        draw,
        numbers,
      });
    },
  };
})();
