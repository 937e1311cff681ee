// Reliability diagrams, of rows and of single trials.

const reliability = (() => {
  /** Where the bars of bins are, and how wide. */
  function bars(bins) {
    return {
      middle: bins.lower.map((low, m) => (low + bins.upper[m]) / 2),
      width: bins.lower.map((low, m) => Math.max(0.002, (bins.upper[m] - low) * 0.94)),
    };
  }
  /** How strongly each bin is drawn: a few images are no evidence, and should not be as loud as thousands. */
  function weights(bins) {
    const most = Math.max(...bins.count);
    return bins.count.map((count) => 0.15 + 0.85 * Math.sqrt(count / most));
  }
  const diagonal = () => ({
    type: "scatter",
    mode: "lines",
    x: [0, 1],
    y: [0, 1],
    line: { dash: "dash", color: look.css("--quiet"), width: 1 },
    hoverinfo: "skip",
    showlegend: false,
  });
  function hover(bins, m) {
    const images = `${bins.count[m].toLocaleString("en", { maximumFractionDigits: 1 })} images`;
    const range = bins.low[m] < bins.high[m] ? ` (seeds: ${fixed(bins.low[m], 3)} to ${fixed(bins.high[m], 3)})` : "";
    return `${images}<br>accuracy ${fixed(bins.accuracy[m], 3)}${range}<br>confidence ${fixed(bins.confidence[m], 3)}`;
  }
  /** Accuracy by confidence, the gap between them, and the range over seeds. row: {arm, mode, phase, seeds}. */
  function traces(row, bins, big) {
    const { middle, width } = bars(bins);
    const weight = weights(bins);
    const known = middle.map((_, m) => m).filter((m) => bins.count[m] > 0 && bins.accuracy[m] !== null);
    const pick = (values) => known.map((m) => values[m]);
    const ink = known.map((m) => look.faded(look.css("--ink"), weight[m]));
    const text = known.map((m) => hover(bins, m));
    const told = { text, textposition: "none", hovertemplate: "%{text}<extra></extra>" };
    const place = { type: "bar", x: pick(middle), width: pick(width), showlegend: big, ...told };
    const accuracy = {
      ...place,
      y: pick(bins.accuracy),
      marker: { color: look.ofRow(row).color, opacity: pick(weight).map((share) => 0.8 * share) },
      name: "accuracy",
    };
    const gap = {
      ...place,
      y: known.map((m) => Math.abs(bins.accuracy[m] - bins.confidence[m])),
      base: known.map((m) => Math.min(bins.accuracy[m], bins.confidence[m])),
      marker: {
        color: "rgba(0,0,0,0)",
        line: { color: ink, width: 1 },
        pattern: { shape: "/", fgcolor: ink, size: big ? 8 : 5, solidity: 0.2 },
      },
      name: "gap to confidence",
    };
    const spread = {
      ...place,
      y: known.map((m) => bins.high[m] - bins.low[m]),
      base: pick(bins.low),
      width: pick(width).map((wide) => (big ? 0.1 : 0.16) * wide),
      marker: { color: ink },
      name: "range over seeds",
    };
    return [diagonal(), accuracy, gap, ...(row.seeds > 1 ? [spread] : [])];
  }
  return { bars, traces };
})();
