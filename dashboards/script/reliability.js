// Reliability diagrams, of rows and of single trials.

const reliability = (() => {
  /** Where the bars of bins are, and how wide. */
  function bars(bins) {
    return {
      middle: bins.lower.map((low, m) => (low + bins.upper[m]) / 2),
      width: bins.lower.map((low, m) => Math.max(0.002, (bins.upper[m] - low) * 0.94)),
    };
  }
  /** The range over seeds. */
  function spread(bins, known, big) {
    return {
      type: "data",
      symmetric: false,
      array: known.map((m) => bins.high[m] - bins.accuracy[m]),
      arrayminus: known.map((m) => bins.accuracy[m] - bins.low[m]),
      color: look.css("--ink"),
      thickness: 1,
      width: big ? 3 : 1,
    };
  }
  /** Accuracy by confidence, and the gap between them. row: {arm, mode, phase, seeds}. */
  function traces(row, bins, big) {
    const { middle, width } = bars(bins);
    const known = middle.map((_, m) => m).filter((m) => bins.count[m] > 0 && bins.accuracy[m] !== null);
    const pick = (values) => known.map((m) => values[m]);
    const place = { type: "bar", x: pick(middle), width: pick(width), showlegend: big };
    const gap = look.css("--gap");
    const diagonal = {
      type: "scatter",
      mode: "lines",
      x: [0, 1],
      y: [0, 1],
      line: { dash: "dash", color: look.css("--quiet"), width: 1 },
      hoverinfo: "skip",
      showlegend: false,
    };
    const accuracy = {
      ...place,
      y: pick(bins.accuracy),
      marker: { color: look.ofRow(row).color, opacity: 0.75 },
      name: "accuracy",
      error_y: row.seeds > 1 ? spread(bins, known, big) : undefined,
    };
    const toConfidence = {
      ...place,
      y: known.map((m) => Math.abs(bins.accuracy[m] - bins.confidence[m])),
      base: known.map((m) => Math.min(bins.accuracy[m], bins.confidence[m])),
      marker: {
        color: "rgba(0,0,0,0)",
        line: { color: gap, width: 1 },
        pattern: { shape: "/", fgcolor: gap, size: big ? 8 : 5 },
      },
      name: "gap to confidence",
    };
    return [diagonal, accuracy, toConfidence];
  }
  return { bars, traces };
})();
