// 4. Shift and out of distribution: what happens with other images than those of the test?

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
  const state = { mode: "point", metric: "nll", family: "" };
  const shown = () => page.data.metrics.filter((metric) => metric.in_table);
  const interval = (line, name) =>
    line[`${name}_low`] == null ? "" : `${fixed(line[`${name}_low`], 3)} to ${fixed(line[`${name}_high`], 3)}`;

  // A corruption by strength

  /** The lines of one row of the table, clean images (strength 0) first. */
  function byStrength(family, name) {
    const rows = new Map();
    for (const line of page.data.shift.shift) {
      if (line.family !== family || line[name] == null) continue;
      if (!rows.has(line.row)) {
        const clean = line[`${name}_difference`] == null ? null : line[name] - line[`${name}_difference`];
        rows.set(line.row, { line, x: [0], y: [clean] });
      }
      rows.get(line.row).x.push(line.strength);
      rows.get(line.row).y.push(line[name]);
    }
    return [...rows.values()];
  }
  function strengths(parent) {
    const families = page.data.shift.families;
    if (!families.includes(state.family)) state.family = families[0];
    const redraw = () => drawing.redraw("strengths");
    const trace = ({ line, x, y }) => {
      const { color, dash } = look.ofRow(line);
      return { type: "scatter", mode: "lines+markers", x, y, name: line.label, line: { color, dash, width: 2 } };
    };
    figure(parent, {
      id: "strengths",
      title: "Corrupted images",
      reading:
        "The same test images, corrupted more and more; 0 is as they are. Networks should lose accuracy slowly, and " +
        "know that they do: their NLL and ECE should rise little.",
      controls: [
        choice(
          "corruption",
          families.map((name) => [name, name]),
          state,
          "family",
          redraw,
        ),
        choice("figure", metrics.options(shown()), state, "metric", redraw),
        toggle(MODES, state, "mode", redraw),
      ],
      height: 420,
      draw: () => [
        byStrength(state.family, state.metric)
          .filter(({ line }) => ofMode[state.mode](line))
          .map(trace),
        look.layout({
          xaxis: { title: { text: `strength of ${state.family}` }, dtick: 1 },
          yaxis: { title: { text: metrics.get(state.metric).head } },
        }),
      ],
      numbers: () => ({
        columns: ["test", "row", ...shown().flatMap(({ name }) => [name, `${name} less clean`])],
        rows: page.data.shift.shift.map((line) => [
          line.test,
          line.row,
          ...shown().flatMap(({ name }) => [line[name], line[`${name}_difference`]]),
        ]),
      }),
    });
  }

  // Tables

  const named = [
    { head: "", left: true, text: (line) => line.label },
    { head: "test set", left: true, text: (line) => line.test },
    { head: "seeds", text: (line) => line.seeds },
  ];
  function table(parent, id, title, reading, lines, columns) {
    const all = [...named, ...columns];
    const numbers = () => ({
      columns: all.map(({ head }) => head || "row"),
      rows: lines.map((line) => all.map(({ text, sort = text }) => sort(line))),
    });
    parent.append(
      h(
        "figure",
        { id: `${id}-figure` },
        h("figcaption", {}, h("h3", {}, title), h("p", { class: "reading" }, reading)),
        sortableTable(all, lines, { id }),
        h(
          "div",
          { class: "tools" },
          csvButton(() => id, numbers),
        ),
      ),
    );
  }
  function others(parent) {
    const lines = page.data.shift.shift.filter((line) => !line.family);
    const columns = shown().flatMap(({ name, head }) => [
      { head, text: (line) => fixed(line[name]), sort: (line) => line[name], sub: (line) => interval(line, name) },
      {
        head: `${head} less clean`,
        text: (line) => fixed(line[`${name}_difference`]),
        sort: (line) => line[`${name}_difference`],
        sub: (line) => interval(line, `${name}_difference`),
      },
    ]);
    const reading = "Figures with their intervals, and what they differ from those of the study's own test images.";
    if (lines.length) table(parent, "shifted", "Other images of the same classes", reading, lines, columns);
  }
  function unseen(parent) {
    const lines = page.data.shift.ood;
    const columns = Object.entries(page.data.shift.ood_metrics)
      .filter(([name]) => lines.some((line) => line[name] != null))
      .map(([name, head]) => ({
        head,
        text: (line) => fixed(line[name]),
        sort: (line) => line[name],
        sub: (line) => interval(line, name),
      }));
    const reading =
      "How well each score tells them from the test images: AUROC and AUPR are better when higher, FPR95 when lower.";
    if (lines.length) table(parent, "unseen", "Images of none of the classes", reading, lines, columns);
  }

  return {
    add() {
      const { shift, ood } = page.data.shift;
      if (!shift.length && !ood.length) return;
      const parent = section(
        "shift",
        "Shift and out of distribution",
        "What happens with other images than those of the test?",
      );
      if (page.data.shift.families.length) strengths(parent);
      others(parent);
      unseen(parent);
    },
  };
})();
