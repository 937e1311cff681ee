// 1. The answer: what all runs say together, what each recommends, and every row against the reference.

const comparedAnswer = (() => {
  const COUNTED =
    "Runs are counted, not pooled: each verdict is of one run, corrected for the rows of that run, and a run in which " +
    "nothing can be told counts for neither side. Intervals and verdicts are those of the commands.";
  const place = h("div", {});

  function ofRuns() {
    const entries = page.data.runs.flatMap((run) => [
      h("dt", {}, run.name),
      h(
        "dd",
        {},
        h("p", {}, ...withCode(run.answer.join(" "))),
        run.settling ? h("p", { class: "quiet" }, ...withCode(run.settling)) : null,
      ),
    ]);
    return [h("h3", { class: "apart" }, "What each run says"), h("dl", { class: "of-runs" }, ...entries)];
  }

  // Every row against the reference, run by run

  const SIGNS = { 1: "✓ ", 0: "", "-1": "✗ " };
  function column(run, number) {
    const found = ({ row }) => compared.againstReference(number, row);
    return {
      head: run.name,
      sort: (row) => found(row)?.difference ?? null,
      text(row) {
        const one = found(row);
        if (!one) return row.row === run.against?.reference ? "reference" : "";
        return h("span", { class: VERDICT_NAMES[one.verdict] }, SIGNS[one.verdict] + signed(one.difference));
      },
      sub: (row) => (found(row) ? span(found(row), 3) : ""),
    };
  }
  const count = (row, verdict) =>
    page.data.runs.filter((_, number) => compared.againstReference(number, row.row)?.verdict === verdict).length;
  function numbers() {
    const columns = ["run", "row", "metric", "difference", "low", "high", "p", "verdict"];
    const names = { 1: "better", 0: "open", "-1": "worse" };
    const rows = page.data.runs.flatMap((run, number) =>
      page.data.metrics.flatMap(({ name }) =>
        Object.keys(run.against?.gains[name] ?? {}).map((row) => {
          const { difference, low, high, p, verdict } = compared.againstReference(number, row, name);
          return [run.name, row, name, difference, low, high, p, names[verdict]];
        }),
      ),
    );
    return { columns, rows };
  }
  function table() {
    const { head, better } = metrics.get(chosen.metric);
    const candidates = new Set(page.data.runs.flatMap((run) => Object.keys(run.against?.gains[chosen.metric] ?? {})));
    const rows = compared.shown().filter(({ row }) => candidates.has(row));
    const columns = [
      { head: "row", left: true, text: (row) => row.label },
      { head: "better in", text: (row) => count(row, 1), sort: (row) => -count(row, 1) },
      { head: "worse in", text: (row) => count(row, -1), sort: (row) => -count(row, -1) },
      ...page.data.runs.map(column),
    ];
    const reading =
      `${head} of each row less that of the run's reference; ${better > 0 ? "more" : "less"} is better. ✓ is really ` +
      "better, ✗ really worse; the interval leaves out 0 just where that is so. Ensembles are no candidates.";
    return h(
      "figure",
      { id: "against" },
      h("figcaption", {}, h("h3", {}, "Against the reference, run by run"), h("p", { class: "reading" }, reading)),
      rows.length
        ? sortableTable(columns, rows, { id: "against-table" })
        : h("p", { class: "quiet" }, "No row that is shown can be held against a reference of several seeds."),
      h(
        "div",
        { class: "tools" },
        csvButton(() => "against-reference", numbers),
      ),
    );
  }
  function fill() {
    const sentences = page.data.answer[chosen.metric].map((text) => h("p", { class: "lead" }, text));
    place.replaceChildren(...sentences, h("p", { class: "quiet" }, COUNTED), ...ofRuns(), table());
  }
  return {
    fill,
    add() {
      section("answer", "The answer").append(place);
      fill();
    },
  };
})();
