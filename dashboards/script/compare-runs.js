// 2. The runs: what each is, what differs between them, and what goes for its figures.

const comparedRuns = (() => {
  const runs = page.data.runs;

  function table() {
    const columns = [
      { head: "run", left: true, text: (run) => run.name, sub: (run) => (run.title === run.name ? "" : run.title) },
      { head: "state", left: true, text: (run) => run.state, sub: (run) => (run.failed ? `${run.failed} failed` : "") },
      { head: "trials", text: (run) => `${run.done} of ${run.trials}`, sort: (run) => run.done },
      { head: "data", left: true, text: (run) => run.data },
      { head: "network", left: true, text: (run) => (run.imported ? "imported" : run.network) },
      { head: "seeds", left: true, text: (run) => run.seeds },
      { head: "test images", text: (run) => run.points.toLocaleString("en"), sort: (run) => run.points },
      { head: "rows", text: (run) => run.lines.length },
    ];
    return sortableTable(columns, runs, { id: "runs-table" });
  }
  /** A line for each key in which they differ. */
  function differences() {
    const keys = Object.keys(runs[0].differs);
    if (!keys.length) return [h("p", { class: "quiet" }, "Their studies say the same.")];
    const columns = [
      { head: "key of the study", left: true, text: (key) => key },
      ...runs.map((run) => ({ head: run.name, left: true, text: (key) => run.differs[key] })),
    ];
    const numbers = () => ({
      columns: ["key", ...runs.map((run) => run.name)],
      rows: keys.map((key) => [key, ...runs.map((run) => run.differs[key])]),
    });
    return [
      sortableTable(columns, keys, { id: "differs" }),
      h(
        "div",
        { class: "tools" },
        csvButton(() => "what-differs", numbers),
      ),
    ];
  }
  /** What goes for the figures of some runs, once for all that it goes for. */
  function notes() {
    const by = new Map();
    for (const run of runs) for (const note of run.notes) by.set(note, [...(by.get(note) ?? []), run.name]);
    return [...by].map(([note, names]) =>
      h("p", { class: "quiet" }, names.length === runs.length ? note : `${names.join(", ")}: ${note}`),
    );
  }
  return {
    add() {
      const parent = section("runs", "The runs");
      const differ = h("h3", { class: "apart" }, "What differs between them");
      parent.append(table(), ...notes(), differ, ...differences());
    },
  };
})();
