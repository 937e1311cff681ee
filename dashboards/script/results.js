// 2. The table: test figures, beside the paper's where it has any.

const resultsSection = (() => {
  const VARIANTS = [
    ["last", "last epoch"],
    ["last-scaled", "last, temperature-scaled"],
    ["best", "best epoch"],
    ["best-scaled", "best, temperature-scaled"],
  ];
  const MODES = [
    ["all", "all"],
    ["point", "point"],
    ["mc", "Monte Carlo"],
  ];
  const COSTS = [
    ["no", "figures"],
    ["yes", "with cost"],
  ];
  const state = { variant: "last", mode: "all", cost: "no", sort: "" };
  const rows = () => page.data.table.variants[state.variant];

  function ours({ name, column }) {
    const sign = (row) => {
      if (row[name] === null || row[`${name}_best`]) return "";
      if (row[`${name}_leads`]) return " °";
      return row[`${name}_may_be_best`] ? " ≈" : "";
    };
    return {
      head: column,
      name,
      sort: (row) => row[name],
      best: (row) => row[`${name}_best`],
      leads: (row) => row[`${name}_leads`],
      text: (row) => figureText(row, name) + sign(row),
      sub: (row) => intervalText(row, name),
    };
  }
  function floor({ name, head }) {
    const value = (row) => row[`${name}_noise_floor`];
    const title = "What a perfectly calibrated model with these confidences would score";
    return {
      head: "floor",
      alone: `${head}, floor`,
      name: `${name}-floor`,
      title,
      sort: value,
      text: (row) => fixed(value(row)),
    };
  }
  function paper({ name, head }) {
    const difference = (row) => row[`${name}_difference`];
    const signs = (row) => (row[`${name}_doubts`] ? " ?" : "") + (row[`${name}_remarks`] ? " †" : "");
    return {
      head: "paper",
      alone: `${head}, paper`,
      name: `${name}-paper`,
      sort: (row) => row[`${name}_paper`],
      text: (row) => row[`${name}_printed`] + signs(row),
      sub: (row) => (difference(row) > 0 ? "+" : "") + fixed(difference(row)),
    };
  }
  function cost([name, head]) {
    const text = (row) => (row[name] === null ? "" : row[name].toLocaleString("en", { maximumFractionDigits: 1 }));
    return { head, name, sort: (row) => row[name], text };
  }
  function columns() {
    const found = [
      { head: "row", left: true, text: (row) => row.label },
      { head: "seeds", text: (row) => row.seeds || "", sort: (row) => row.seeds, sub: (row) => row.diverged_in_words },
    ];
    for (const metric of metrics.inTable()) {
      found.push(ours(metric));
      if (metric.has_floor) found.push(floor(metric));
      if (page.data.table.paper) found.push(paper(metric));
    }
    if (state.cost === "yes") found.push(...Object.entries(page.data.table.costs).map(cost));
    return found;
  }
  /** Why the table has no row. */
  function why() {
    if (!rows().length) return nothingYet("No trial has finished yet");
    if (state.mode === "mc")
      return "No row is sampled in this run: arms such as dropout and Pilot are, and each has its MC row here.";
    return "No row predicts with one pass in this run.";
  }
  function numbers() {
    const names = Object.keys(rows()[0] || {});
    return { columns: names, rows: rows().map((row) => names.map((name) => row[name])) };
  }

  return {
    add() {
      const figures = page.data.table.paper ? "Test figures beside the paper's" : "Test figures";
      const parent = section("table", "Table", `${figures}; a star only where a row is better than every other.`);
      const place = h("div", {});
      const quiet = (text) => h("p", { class: "quiet" }, text);
      const fill = () => {
        const shown = rows().filter((row) => state.mode === "all" || row.mode === state.mode);
        const own = page.data.table.notes.filter((note) => state.cost === "yes" || !note.startsWith("Cost:"));
        const notes = own.map((note) => quiet(note.replace("* is", "★ is")));
        const table = shown.length ? sortableTable(columns(), shown, { state }) : quiet(why());
        place.replaceChildren(table, ...notes);
      };
      const variants = VARIANTS.filter(([name]) => name === "last" || page.data.table.variants[name].length);
      const toggles = [toggle(variants, state, "variant", fill), toggle(MODES, state, "mode", fill)];
      const controls = [...toggles, toggle(COSTS, state, "cost", fill)];
      const csv = csvButton(() => `table-${state.variant}`, numbers);
      parent.append(h("div", { class: "controls" }, ...controls, csv), place);
      fill();
    },
  };
})();
