// 6. Training: learning curves, and the DGM's terms.

const trainingSection = (() => {
  const state = { curve: "validation_nll", row: null };
  const rows = () => page.data.training.rows;

  /** The mean over seeds, with their range around it. */
  function bandTraces(band, { color, dash }, name, more = {}) {
    const x = band.mean.map((_, i) => i + 1);
    const mode = x.length > 1 ? "lines" : "lines+markers"; // one epoch is no line
    const range = band.mean.map((_, i) => [band.low[i], band.high[i]]);
    const common = { type: "scatter", mode, x, legendgroup: name };
    const hovertemplate =
      "%{fullData.name}, epoch %{x}: %{y:.4g}<br>%{customdata[0]:.4g} to %{customdata[1]:.4g} over seeds<extra></extra>";
    const edge = { ...common, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false, ...more };
    return [
      { ...edge, y: band.low },
      { ...edge, y: band.high, fill: "tonexty", fillcolor: `${color}2e` },
      { ...common, y: band.mean, name, customdata: range, hovertemplate, line: { color, dash, width: 2 }, ...more },
    ];
  }

  /** The mean alone, of a row that is not highlighted. */
  function faintTrace(band, name) {
    const [, , mean] = bandTraces(band, shownRows.faded(), name);
    return { ...mean, line: { ...mean.line, width: 1 }, showlegend: false };
  }

  function epochAxis(bands, remark = "", most = undefined) {
    const last = Math.max(1, ...bands.map((band) => band.mean.length));
    return look.whole([1, last], { title: { text: `epoch${remark}` } }, most);
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
    const [shown, others] = [true, false].map((way) => known.filter(({ row }) => shownRows.has(row) === way));
    const traces = [
      ...others.map((row) => faintTrace(row.curves[state.curve], row.label)),
      ...shown.flatMap((row) => bandTraces(row.curves[state.curve], look.ofRow(row), row.label)),
    ];
    const range = look.sensibleRange(known.flatMap((row) => row.curves[state.curve].mean));
    const layout = look.layout({
      shapes:
        state.curve === "validation_nll"
          ? turned()
              .filter(({ row }) => shownRows.has(row))
              .map(turnLine)
          : [],
      xaxis: epochAxis(
        known.map((row) => row.curves[state.curve]),
        range ? `${look.narrow() ? "<br>" : " "}(the other axis is cut; double-click shows all)` : "",
      ),
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
      empty: () => `No row has recorded its ${page.data.training.curves[state.curve]}.`,
      missing() {
        const without = rows().filter((row) => !row.curves[state.curve]);
        const names = without.map((row) => row.label).join(", ");
        return names && `Its ${page.data.training.curves[state.curve]} is not recorded, so not drawn: ${names}.`;
      },
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
    const columns = look.narrow() && !look.printing() ? 2 : 3;
    const epochs = epochAxis(
      terms.flatMap(([name]) => dgm[name] ?? []),
      "",
      5,
    );
    const annotations = [...terms.map(([, head]) => head), "imputation error"].map((text, k) => {
      const { x, y, xaxis, yaxis } = look.panel(k);
      axes[xaxis] = k + columns < 5 ? { ...epochs, title: undefined } : epochs; // named once, below
      axes[yaxis] = { nticks: 5 };
      const corner = { x: 0, y: 1, xanchor: "left", yanchor: "bottom", showarrow: false };
      return { ...corner, text, xref: `${x} domain`, yref: `${y} domain` };
    });
    const traces = terms.flatMap(([name, head], k) => {
      const { x, y } = look.panel(k);
      return dgm[name] ? bandTraces(dgm[name], style, head, { xaxis: x, yaxis: y, showlegend: false }) : [];
    });
    const last = look.panel(terms.length);
    // Shades of grey: layers are no arms, whose colours the other panels have.
    const shade = (layer) => look.faded(look.css("--ink"), 1 - (0.65 * layer) / Math.max(1, imputation().length - 1));
    const layers = imputation().map((errors, layer) => ({
      type: "scatter",
      mode: errors.length > 1 ? "lines" : "lines+markers",
      x: errors.map((_, i) => i + 1),
      y: errors,
      xaxis: last.x,
      yaxis: last.y,
      name: layer ? `layer ${layer}` : "layer 0 (input)",
      legendgroup: layer, // where some have a group, those without lie one below the other
      line: { color: shade(layer), dash: look.dash(layer) },
      hovertemplate: "%{fullData.name}, epoch %{x}: %{y:.4g}<extra></extra>",
    }));
    const high = Math.ceil(6 / columns);
    const grid = { rows: high, columns, pattern: "independent", ygap: 0.34, xgap: 0.22 };
    const above = { legend: { y: 1.06 }, margin: { l: 56, r: 14, t: 36, b: 46 } }; // the panels' names
    return [
      [...traces, ...layers],
      look.layout({ grid, annotations, ...above, height: 110 + (look.printing() ? 170 : 240) * high, ...axes }),
    ];
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
      height: 550,
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
