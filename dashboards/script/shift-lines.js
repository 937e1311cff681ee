// Corrupted images: a few rows by strength.

const shiftLines = (() => {
  const state = { metric: "nll", family: "" };
  let ticked = null;
  const redraw = () => drawing.redraw("strengths");

  /** A row by strength, clean images (0) first; without a family, the mean over all of them. */
  function byStrength(row) {
    const { families } = page.data.shift;
    const own = corrupted.lines().filter((line) => line.row === row && (!state.family || line.family === state.family));
    const strengths = corrupted.strengths().filter((strength) => own.some((line) => line.strength === strength));
    const at = (strength) => own.filter((line) => line.strength === strength);
    const figures = strengths.map((strength) => {
      const there = at(strength);
      const whole = state.family || there.length === families.length;
      return whole ? corrupted.mean(there.map((line) => line[state.metric])) : null;
    });
    const clean = corrupted.mean(own.slice(0, 1).map((line) => corrupted.clean(line, state.metric)));
    return { x: [0, ...strengths], y: [clean, ...figures] };
  }
  function trace(row) {
    const { color, dash, symbol } = look.ofRow(row);
    const style = {
      type: "scatter",
      mode: "lines+markers",
      line: { color, dash, width: 2 },
      marker: { symbol, size: 8 },
    };
    const hovertemplate = `${look.plain(row.label)}: %{y:.4f}<extra></extra>`;
    return { ...style, ...byStrength(row.row), name: row.label, hovertemplate };
  }
  return {
    add(parent) {
      const { families, begin } = page.data.shift;
      const rows = corrupted.rows();
      ticked ??= new Set(begin);
      figure(parent, {
        id: "strengths",
        title: "Corrupted images, by strength",
        reading: "Some rows under more and more of a corruption; 0 is the images as they are.",
        controls: [
          toggle(metrics.options(metrics.inTable()), state, "metric", redraw),
          choice("corruption", [["", "mean of all"], ...families.map((name) => [name, name])], state, "family", redraw),
          rowChooser("shift.rows", rows, ticked, [`${begin.length} to begin with`, begin], redraw),
        ],
        height: 400,
        empty: () => "No row is chosen.",
        draw: () => [
          rows.filter(({ row }) => ticked.has(row)).map(trace),
          look.layout({
            xaxis: look.whole([0, ...corrupted.strengths()], { title: { text: "strength" } }),
            yaxis: { title: { text: metrics.get(state.metric).head } },
          }),
        ],
        numbers: corrupted.numbers,
      });
    },
  };
})();
