// Corrupted images: every row under every corruption, as colours.

const shiftHeat = (() => {
  const VALUES = [
    ["difference", "less the clean test"],
    ["figure", "figures"],
    ["reference", "less the reference"],
  ];
  const state = { metric: "nll", value: "difference", strength: "mean", mode: "point" };
  const redraw = () => drawing.redraw("corruptions");
  const LINE = 19; // pixels of a row

  const name = () => (state.value === "difference" ? `${state.metric}_difference` : state.metric);
  /** A line's figure, or what it differs from that of the clean test, or of the reference on the same images. */
  function inCell(line) {
    const own = line[name()];
    if (state.value !== "reference") return own;
    const { reference } = page.data.shift;
    const theirs = corrupted.lines().find((other) => other.row === reference && other.test === line.test);
    return own == null || theirs?.[state.metric] == null ? null : own - theirs[state.metric];
  }
  /** {value, low, high} of a row under a corruption; without an interval where it is a mean over strengths. */
  function cell(row, family) {
    const own = corrupted.lines().filter((one) => one.row === row && one.family === family);
    if (state.strength === "mean") return { value: corrupted.mean(own.map(inCell)) };
    const line = own.find(({ strength }) => String(strength) === state.strength);
    if (!line) return { value: null };
    if (state.value === "reference") return { value: inCell(line) };
    return { value: inCell(line), low: line[`${name()}_low`], high: line[`${name()}_high`] };
  }
  /** Its rows, the best mean over the corruptions first, each with its cells. */
  function grid() {
    const { better } = metrics.get(state.metric);
    const { families } = page.data.shift;
    return corrupted
      .rows()
      .filter(shiftSection.ofMode[state.mode])
      .map((row) => ({ ...row, cells: families.map((family) => cell(row.row, family)) }))
      .map((row) => ({ ...row, mean: corrupted.mean(row.cells.map(({ value }) => value)) }))
      .sort((a, b) => (a.mean === null) - (b.mean === null) || better * (b.mean - a.mean));
  }
  /** Blue is good, orange bad, whichever way the figure goes; the middle is 0, or half of all cells. */
  function colours(values) {
    const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
    const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
    const middle = state.value === "figure" ? at(0.5) : 0;
    const reach = Math.max(at(0.98) - middle, middle - at(0.02)) || 1;
    const [good, bad] = look.theme() === "dark" ? ["#2f8fd0", "#d9722b"] : ["#3d8fc4", "#e08a4a"];
    const neutral = look.theme() === "dark" ? "#2a2e36" : "#f4f2ec";
    const ends = metrics.get(state.metric).better > 0 ? [bad, good] : [good, bad];
    const colorscale = [
      [0, ends[0]],
      [0.5, neutral],
      [1, ends[1]],
    ];
    return { colorscale, zmin: middle - reach, zmid: middle, zmax: middle + reach };
  }
  /** Beside the cells; below them where there is little room. */
  function colorbar(rows) {
    const thin = { thickness: 10, outlinewidth: 0, nticks: 5 };
    if (!look.narrow()) return { ...thin, lenmode: "pixels", len: Math.min(260, LINE * rows) };
    return { ...thin, orientation: "h", x: 0, xanchor: "left", y: 0, yanchor: "top", ypad: 6, xpad: 0 };
  }
  const digits = (value) => {
    if (value === null) return "";
    return state.value === "figure" ? fixed(value, 2) : signed(value, 2);
  };
  function hover(row, family, { value, low, high }) {
    const { head } = metrics.get(state.metric);
    const strength = state.strength === "mean" ? "mean over the strengths" : `strength ${state.strength}`;
    const range = low == null ? "" : ` (${fixed(low)} to ${fixed(high)})`;
    const what = { figure: head, difference: `${head} less clean`, reference: `${head} less the reference` }[
      state.value
    ];
    const size = value === null ? "no figure" : `${fixed(value)}${range}`;
    return `<b>${look.plain(row.label)}</b>, ${look.plain(family)}, ${strength}<br>${what}: ${size}`;
  }
  function draw() {
    const rows = grid();
    if (!rows.length) return [[], {}];
    const { families } = page.data.shift;
    const most = look.narrow() ? 22 : 40;
    const labels = rows.map(({ label }) => (label.length > most ? `${label.slice(0, most - 1)}…` : label));
    const left = 14 + 6.4 * Math.max(...labels.map((text) => text.length));
    const room =
      (look.widthOf(document.getElementById("plot-corruptions")) - left - (look.narrow() ? 10 : 70)) / families.length;
    const values = rows.map((row) => row.cells.map(({ value }) => value));
    const trace = {
      type: "heatmap",
      z: values,
      x: families.map(look.plain),
      y: rows.map((_, k) => k),
      text: values.map((line) => line.map(digits)),
      texttemplate: room > 42 ? "%{text}" : undefined,
      textfont: { size: 11 },
      customdata: rows.map((row) => row.cells.map((one, k) => hover(row, families[k], one))),
      hovertemplate: "%{customdata}<extra></extra>",
      xgap: 1,
      ygap: 1,
      ...colours(values.flat()),
      colorbar: colorbar(rows.length),
    };
    const layout = look.layout({
      height: (room < 64 ? 110 : 78) + (look.narrow() ? 36 : 0) + LINE * rows.length,
      margin: { l: left, r: 8, t: room < 64 ? 60 : 28, b: look.narrow() ? 44 : 8 },
      xaxis: { side: "top", type: "category", tickangle: room < 64 ? -50 : 0, showgrid: false, fixedrange: true },
      yaxis: {
        range: [rows.length - 0.5, -0.5],
        tickvals: rows.map((_, k) => k),
        ticktext: labels.map(look.plain),
        tickfont: { size: 12 },
        automargin: false,
        showgrid: false,
        zeroline: false,
        fixedrange: true,
      },
    });
    return [[trace], layout];
  }

  return {
    add(parent) {
      const modes = shiftSection.MODES.filter(([mode]) => corrupted.rows().some(shiftSection.ofMode[mode]));
      if (!modes.some(([mode]) => mode === state.mode)) state.mode = modes[0][0];
      const strengths = corrupted.strengths().map((strength) => [String(strength), String(strength)]);
      figure(parent, {
        id: "corruptions",
        title: "Corrupted images, every row",
        reading:
          "The same test images, corrupted: what that adds to a figure, the figure itself, or what it is beside the " +
          "reference; the best mean over the corruptions first. Blue is good and orange bad, without colour no difference, or " +
          "the middle of all figures. " +
          "Networks should lose accuracy slowly, and know that they do: their NLL and ECE should rise little.",
        controls: [
          toggle(metrics.options(metrics.inTable()), state, "metric", redraw),
          toggle(
            VALUES.filter(([value]) => value !== "reference" || page.data.shift.reference),
            state,
            "value",
            redraw,
          ),
          choice("strength", [["mean", "mean"], ...strengths], state, "strength", redraw),
          ...(modes.length > 1 ? [toggle(modes, state, "mode", redraw)] : []),
        ],
        height: 110 + LINE * corrupted.rows().filter(shiftSection.ofMode[state.mode]).length,
        image: {},
        draw,
        numbers: corrupted.numbers,
      });
    },
  };
})();
