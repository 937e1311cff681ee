// The run's data, which a live page replaces as the run goes on, and what can be asked of them.

const page = { data: JSON.parse(document.getElementById("data").textContent) };

/** The metrics: [{name, head, column, better, in_table, has_floor}]. */
const metrics = {
  get: (name) => page.data.metrics.find((metric) => metric.name === name),
  inTable: () => page.data.metrics.filter((metric) => metric.in_table),
  options: (some) => some.map(({ name, head }) => [name, head]),
};

/** The study's arms, in its order, and what they are called. */
const armLabels = {
  names: () => Object.keys(page.data.arms),
  of: (arm) => page.data.arms[arm] ?? arm,
};

/** The trials, column by column; a trial is known by its place in them. */
const trials = (() => {
  let unpacked = null;
  const columns = () => page.data.trials.columns;
  const all = () => columns().arm.map((_, i) => i);
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const words = (text) => new Uint16Array(bytes(text).buffer);

  function unpack() {
    const { lengths, curves, reliability } = page.data.trials;
    const starts = [0];
    for (const length of lengths) starts.push(starts[starts.length - 1] + length);
    return {
      of: page.data,
      starts,
      curves: Object.fromEntries(Object.entries(curves).map(([name, one]) => [name, words(one.data)])),
      count: words(reliability.count),
      accuracy: bytes(reliability.accuracy),
      confidence: bytes(reliability.confidence),
    };
  }
  function packed() {
    if (unpacked?.of !== page.data) unpacked = unpack();
    return unpacked;
  }
  /** Numbers from steps between two extremes. */
  function numbers(steps, packing, low = 0, high = 1) {
    return Array.from(steps, (v) => (v === packing.none ? null : low + (v / packing.steps) * (high - low)));
  }
  /** A trial's figure for each epoch. */
  function curve(i, name) {
    const { starts, curves } = packed();
    const { low, high } = page.data.trials.curves[name];
    return numbers(curves[name].subarray(starts[i], starts[i + 1]), page.data.trials.packing.curves, low[i], high[i]);
  }
  /** A trial's reliability, in bins of equal width. */
  function bins(i) {
    const n = page.data.calibration.bins;
    const part = (values) => values.subarray(i * n, (i + 1) * n);
    const shares = (values) => numbers(part(values), page.data.trials.packing.shares);
    const accuracy = shares(packed().accuracy);
    return {
      lower: accuracy.map((_, m) => m / n),
      upper: accuracy.map((_, m) => (m + 1) / n),
      count: Array.from(part(packed().count)),
      accuracy,
      confidence: shares(packed().confidence),
      low: accuracy,
      high: accuracy,
    };
  }
  /** The search's trials that have figures, of one arm or of all. */
  function searched(arm) {
    const { phase, arm: arms, nll } = columns();
    return all().filter((i) => phase[i] === "search" && (!arm || arms[i] === arm) && nll[i] !== null);
  }
  return {
    all,
    bins,
    columns,
    curve,
    searched,
    /** Column or setting of a trial, as a function of its place. */
    value: (name) => (i) => columns()[name][i],
    setting: (name) => (i) => page.data.trials.settings[name][i],
    settings: () => Object.keys(page.data.trials.settings),
    name: (i) => `${columns().phase[i]} ${columns().arm[i]} ${columns().number[i]}`,
    title: (i) => `${armLabels.of(columns().arm[i])}, ${columns().phase[i]} ${columns().number[i]}`,
    /** The figures that tables show of every trial. */
    figures: () => page.data.trials.figures.map(metrics.get),
  };
})();
