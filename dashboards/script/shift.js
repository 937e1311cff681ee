// 4. Shift and out of distribution: what happens with other images than those of the test?

/** The lines of further test sets, of shift or ood, from their columns, each with the label, arm .. of its row. */
const testFigures = (() => {
  let made = null;
  function unpacked(columns, rows) {
    const entries = Object.entries(columns);
    return (columns.row ?? []).map((row, i) => ({
      ...rows[row],
      ...Object.fromEntries(entries.map(([name, values]) => [name, values[i]])),
    }));
  }
  return (kind) => {
    if (made?.of !== page.data) {
      const { shift, ood, rows } = page.data.shift;
      made = { of: page.data, shift: unpacked(shift, rows), ood: unpacked(ood, rows) };
    }
    return made[kind];
  };
})();

/** What the figures of corrupted images have in common. */
const corrupted = (() => {
  const lines = () => testFigures("shift").filter((line) => line.family);
  const clean = (line, name) => (line[`${name}_difference`] == null ? null : line[name] - line[`${name}_difference`]);
  const strengths = () => [...new Set(lines().map(({ strength }) => strength))].sort((a, b) => a - b);
  /** The rows, as the table has them: [{row, label, arm, mode, phase}]. */
  function rows() {
    const found = new Map(lines().map(({ row, label, arm, mode, phase }) => [row, { row, label, arm, mode, phase }]));
    return [...found.values()];
  }
  const mean = (values) =>
    values.length && values.every((value) => value != null) ? values.reduce((a, b) => a + b, 0) / values.length : null;
  function numbers() {
    const shown = metrics.inTable();
    return {
      columns: ["test", "row", ...shown.flatMap(({ name }) => [name, `${name} less clean`])],
      rows: testFigures("shift").map((line) => [
        line.test,
        line.row,
        ...shown.flatMap(({ name }) => [line[name], line[`${name}_difference`]]),
      ]),
    };
  }
  return { lines, clean, strengths, rows, mean, numbers };
})();

const shiftSection = (() => {
  const MODES = [
    ["point", "networks as they are"],
    ["mc", "sampling and ensembles"],
    ["tuned", "tuned"],
  ];
  const ofMode = {
    point: (row) => row.phase === "arms" && row.mode === "point",
    mc: (row) => row.phase === "arms" && row.mode !== "point",
    tuned: (row) => row.phase === "confirm",
  };
  const state = { mode: "point", shifted: "", unseen: "", score: "msp" };
  const interval = (line, name) =>
    line[`${name}_low`] == null ? "" : `${fixed(line[`${name}_low`], 3)} to ${fixed(line[`${name}_high`], 3)}`;

  /** A table of one of several test sets, for the rows of a mode; columns() may depend on what is chosen. */
  function table(parent, key, { id, title, reading, lines, columns, controls = [] }) {
    const tests = [...new Set(lines.map(({ test }) => test))];
    if (!tests.includes(state[key])) state[key] = tests[0];
    const modes = MODES.filter(([mode]) => lines.some(ofMode[mode]));
    if (!modes.some(([mode]) => mode === state.mode)) state.mode = modes[0][0];
    const place = h("div", {});
    const fill = () => {
      const shown = lines.filter((line) => line.test === state[key] && ofMode[state.mode](line));
      const own = [
        { head: "row", left: true, text: (line) => line.label },
        { head: "seeds", text: (line) => line.seeds },
        ...columns(shown),
      ];
      place.replaceChildren(
        shown.length ? sortableTable(own, shown, { id }) : h("p", { class: "quiet" }, "The test set has no such rows."),
      );
    };
    const chosen = [
      choice(
        "images",
        tests.map((test) => [test, test]),
        state,
        key,
        fill,
      ),
      ...(modes.length > 1 ? [toggle(modes, state, "mode", fill)] : []),
      ...controls.map((control) => control(fill)),
    ];
    const numbers = () => {
      const names = [...new Set(lines.flatMap(Object.keys))].filter((name) => name !== "label");
      return { columns: names, rows: lines.map((line) => names.map((name) => line[name] ?? null)) };
    };
    const csv = csvButton(() => id, numbers);
    const caption = h("figcaption", {}, h("h3", {}, title), h("p", { class: "reading" }, reading));
    const parts = [h("div", { class: "controls" }, ...chosen), place, h("div", { class: "tools" }, csv)];
    parent.append(h("figure", { id: `${id}-figure` }, caption, ...parts));
    fill();
  }
  function others(parent) {
    const lines = testFigures("shift").filter((line) => !line.family);
    if (!lines.length) return;
    const columns = () =>
      metrics.inTable().flatMap(({ name, column }) => [
        {
          head: column,
          text: (line) => fixed(line[name]),
          sort: (line) => line[name],
          sub: (line) => interval(line, name),
        },
        {
          head: "less clean",
          name: `${name} less clean`,
          text: (line) => fixed(line[`${name}_difference`]),
          sort: (line) => line[`${name}_difference`],
          sub: (line) => interval(line, `${name}_difference`),
        },
      ]);
    table(parent, "shifted", {
      id: "shifted",
      title: "Other images of the same classes",
      reading:
        "Figures with their intervals, and beside each what it differs from that of the study's own test images.",
      lines,
      columns,
    });
  }
  function unseen(parent) {
    const { ood_metrics: names, ood_scores: scores } = page.data.shift;
    const lines = testFigures("ood");
    if (!lines.length) return;
    const has = (score) => lines.some((line) => line[`auroc_${score}`] != null);
    const known = Object.entries(scores).filter(([score]) => has(score));
    const columns = () =>
      Object.keys(names)
        .filter((name) => name.endsWith(`_${state.score}`))
        .map((name) => ({
          head: name.split("_")[0].toUpperCase(),
          text: (line) => fixed(line[name]),
          sort: (line) => line[name],
          sub: (line) => interval(line, name),
        }));
    table(parent, "unseen", {
      id: "unseen",
      title: "Images of none of the classes",
      reading:
        "How well a score of the predictions tells them from the test images: AUROC and AUPR are better when higher, " +
        "FPR95 when lower. Mutual information needs sampled predictions, surprise and typicality an arm with a DGM: the " +
        "first takes more surprise for unseen, the second whatever is far from the usual.",
      lines,
      columns,
      controls: [(fill) => choice("told by", known, state, "score", fill)],
    });
  }

  return {
    MODES,
    ofMode,
    add() {
      const { families } = page.data.shift;
      if (!testFigures("shift").length && !testFigures("ood").length) return;
      const question = "What happens with other images than those of the test?";
      const parent = section("shift", "Shift and out of distribution", question);
      if (families.length) {
        shiftHeat.add(parent);
        shiftLines.add(parent);
      }
      others(parent);
      unseen(parent);
    },
  };
})();
