// Several runs: what is shown of them, and what can be asked of their data.

/** What the reader chose, for all sections. */
const chosen = { metric: "nll", rows: new Set(page.data.matter) };

const compared = (() => {
  const { runs, rows } = page.data;
  const lines = runs.map((run) => new Map(run.lines.map((line) => [line.row, line])));
  const places = runs.map((run) => new Map(run.paired.map((row, place) => [row, place])));
  const label = new Map(rows.map((row) => [row.row, row.label]));
  const WINNERS = { "+": 1, "-": -1, p: 0, m: 0, 0: 0 };
  const ALONE = { "+": 1, "-": -1, p: 1, m: -1, 0: 0 };

  /** A row's figure in a run: {value, low, high, deviation, mark, seeds, diverged}, or null. */
  function figureOf(number, row, metric = chosen.metric) {
    const line = lines[number].get(row);
    if (!line?.[metric]) return null;
    const [value, low, high, deviation, mark] = line[metric];
    return { value, low, high, deviation, mark, seeds: line.seeds, diverged: line.diverged };
  }
  /** A row less the run's reference, as the run's answer judges it: {difference, low, high, p, verdict}, or null. */
  function againstReference(number, row, metric = chosen.metric) {
    const found = runs[number].against?.gains[metric]?.[row];
    if (!found) return null;
    const [difference, low, high, p, verdict] = found;
    return { difference, low, high, p, verdict };
  }
  /** One row less another in a run, the same; verdict: 1 where the first is really better; alone: uncorrected. */
  function pair(number, ours, theirs, metric = chosen.metric) {
    const [i, j] = [ours, theirs].map((row) => places[number].get(row));
    if (i === undefined || j === undefined || i === j) return null;
    const [first, second] = [Math.min(i, j), Math.max(i, j)];
    const n = places[number].size;
    const at = first * n - (first * (first + 1)) / 2 + second - first - 1;
    const { difference: differences, half, p, winner } = runs[number].pairs[metric];
    if (winner[at] === " " || differences[at] === null) return null;
    const sign = i < j ? 1 : -1;
    const difference = (sign * differences[at]) / 10000;
    const reach = half[at] / 10000;
    const verdict = sign * WINNERS[winner[at]];
    const alone = sign * ALONE[winner[at]];
    return { difference, low: difference - reach, high: difference + reach, p: p[at] / 1000, verdict, alone };
  }
  /** The rows that are shown, the best mean place over the runs first: the same order everywhere. */
  function shown() {
    const { better } = metrics.get(chosen.metric);
    const sum = new Map(rows.map(({ row }) => [row, { places: 0, runs: 0 }]));
    runs.forEach((_, number) => {
      const known = rows.map(({ row }) => [row, figureOf(number, row)?.value]).filter(([, value]) => value != null);
      known.sort((a, b) => better * (b[1] - a[1]));
      known.forEach(([row], place) => {
        sum.get(row).places += (place + 0.5) / known.length;
        sum.get(row).runs += 1;
      });
    });
    const mean = ({ row }) => (sum.get(row).runs ? sum.get(row).places / sum.get(row).runs : 2);
    return rows.filter(({ row }) => chosen.rows.has(row)).sort((a, b) => mean(a) - mean(b));
  }
  return {
    runs,
    rows,
    shown,
    figureOf,
    againstReference,
    pair,
    label: (row) => label.get(row) ?? row,
    /** What is shown, in words. */
    metricHead: () => metrics.get(chosen.metric).head,
  };
})();

const VERDICT_NAMES = { 1: "holds", 0: "quiet", "-1": "fails" };
const span = ({ low, high }, digits = 4) => `${signed(low, digits)} to ${signed(high, digits)}`;
