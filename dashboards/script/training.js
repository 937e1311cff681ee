// 6. Training: learning curves, and the DGM's terms.

const trainingSection = (() => {
  const state = { curve: "validation_nll", row: null };
  const rows = () => page.data.training.rows;

  /** The mean over seeds, with their range around it. */
  function bandTraces(band, { color, dash }, name, more = {}) {
    const x = band.mean.map((_, i) => i + 1);
    const common = { type: "scatter", mode: "lines", x, legendgroup: name };
    const edge = { ...common, line: { width: 0 }, hoverinfo: "skip", showlegend: false, ...more };
    return [
      { ...edge, y: band.low },
      { ...edge, y: band.high, fill: "tonexty", fillcolor: `${color}2e` },
      { ...common, y: band.mean, name, line: { color, dash, width: 2 }, ...more },
    ];
  }

  // Learning curves

  const turned = () => rows().filter((row) => row.turn && row.phase === "arms");

  /** Where overfitting starts, and for which arms with a DGM it does not. */
  function overfitting() {
    const epochs = (row) => row.curves.validation_nll?.mean.length ?? 0;
    const whole = Math.max(...rows().map(epochs));
    const kept = rows().filter((row) => !row.turn && row.dgm && row.phase === "arms" && epochs(row) === whole);
    const those = turned().map((row) => `${row.label} (from epoch ${row.turn})`);
    if (!those.length) return "";
    const but = kept.length ? `, but not for ${kept.map((row) => row.label).join(", ")}` : "";
    return ` Validation NLL turns and grows by more than a tenth for ${those.join(", ")}${but}.`;
  }
  function turnLine(row) {
    const line = { color: look.ofRow(row).color, dash: "dot", width: 1 };
    return { type: "line", x0: row.turn, x1: row.turn, yref: "y domain", y0: 0, y1: 1, line };
  }
  function drawLearning() {
    const known = rows().filter((row) => row.curves[state.curve]);
    const traces = known.flatMap((row) => bandTraces(row.curves[state.curve], look.ofRow(row), row.label));
    const range = look.sensibleRange(known.flatMap((row) => row.curves[state.curve].mean));
    const layout = look.layout({
      shapes: state.curve === "validation_nll" ? turned().map(turnLine) : [],
      xaxis: { title: { text: `epoch${range ? " (the other axis is cut; double-click shows all)" : ""}` } },
      yaxis: { title: { text: page.data.training.curves[state.curve] }, range },
    });
    return [traces, layout];
  }
  function learning(parent) {
    const options = Object.entries(page.data.training.curves);
    const lines = (row) => {
      const band = row.curves[state.curve];
      return band ? band.mean.map((mean, i) => [row.row, i + 1, mean, band.low[i], band.high[i]]) : [];
    };
    figure(parent, {
      id: "learning",
      title: "Learning curves",
      reading: `The mean over seeds, with their range as a band.${overfitting()}`,
      height: 440,
      controls: [choice("figure", options, state, "curve", () => drawing.redraw("learning"))],
      draw: drawLearning,
      numbers: () => ({
        columns: ["row", "epoch", "mean", "lowest seed", "highest seed"],
        rows: rows().flatMap(lines),
      }),
    });
  }

  // The DGM

  const current = () => rows().find((row) => row.row === state.row);
  const imputation = () => current().dgm.imputation_error || [];

  function drawDgm() {
    const { dgm } = current();
    const style = look.ofRow(current());
    const terms = Object.entries(page.data.training.dgm);
    const axes = {};
    [...terms.map(([, head]) => head), "imputation error"].forEach((text, k) => {
      const { xaxis, yaxis } = look.panel(k);
      axes[xaxis] = { nticks: 6 };
      axes[yaxis] = { title: { text }, nticks: 5 };
    });
    const traces = terms.flatMap(([name, head], k) => {
      const { x, y } = look.panel(k);
      return dgm[name] ? bandTraces(dgm[name], style, head, { xaxis: x, yaxis: y, showlegend: false }) : [];
    });
    const last = look.panel(terms.length);
    const layers = imputation().map((errors, layer) => ({
      type: "scatter",
      mode: "lines",
      x: errors.map((_, i) => i + 1),
      y: errors,
      xaxis: last.x,
      yaxis: last.y,
      name: layer ? `layer ${layer}` : "layer 0 (input)",
      line: { color: look.style(layer).color, dash: look.dash(layer) },
    }));
    const grid = { rows: 2, columns: 3, pattern: "independent", ygap: 0.3, xgap: 0.18 };
    const layout = look.layout({ grid, annotations: [], legend: { orientation: "h", y: -0.12 }, ...axes });
    return [[...traces, ...layers], layout];
  }
  function dgmNumbers() {
    const { dgm, curves } = current();
    const terms = Object.entries(page.data.training.dgm);
    const layers = imputation();
    const line = (i) => [i + 1, ...terms.map(([name]) => dgm[name]?.mean[i]), ...layers.map((errors) => errors[i])];
    return {
      columns: [
        "epoch",
        ...terms.map(([, head]) => head),
        ...layers.map((_, layer) => `imputation error, layer ${layer}`),
      ],
      rows: curves.validation_nll.mean.map((_, i) => line(i)),
    };
  }
  function dgmTerms(parent, known) {
    const options = known.map((row) => [row.row, row.label]);
    figure(parent, {
      id: "dgm",
      title: "The DGM",
      reading:
        "Its bound's terms (nats a masked sample), the norm of its gradient before clipping, and how far imputed " +
        "units are from the true ones by layer (root mean square, in the units that it sees; 1 is guessing the mean).",
      height: 520,
      wide: true,
      controls: [choice("row", options, state, "row", () => drawing.redraw("dgm"))],
      draw: drawDgm,
      numbers: dgmNumbers,
    });
  }

  return {
    add() {
      if (!rows().length) return;
      const parent = section("training", "Training");
      learning(parent);
      const known = rows().filter((row) => row.dgm);
      if (!known.length) return;
      if (!known.some((row) => row.row === state.row)) state.row = known[0].row;
      dgmTerms(parent, known);
    },
  };
})();
