// 4. Who beats whom: in how many runs the row on the left is really better than the one above.

const comparedMatrix = (() => {
  const CORRECTIONS = [
    ["verdict", "corrected for all pairs"],
    ["alone", "each pair alone"],
  ];
  const state = { by: "verdict" };
  const place = h("div", {});
  const told = h("div", { id: "pair", role: "status", tabindex: 0 });

  function tally(ours, theirs, metric = chosen.metric) {
    const found = page.data.runs.map((_, number) => compared.pair(number, ours, theirs, metric)).filter(Boolean);
    const count = (verdict) => found.filter((one) => one[state.by] === verdict).length;
    return { runs: found.length, better: count(1), worse: count(-1) };
  }
  function inWords(ours, theirs, { runs, better, worse }) {
    const of = `of ${runs} run${runs === 1 ? "" : "s"}`;
    const really = state.by === "verdict" ? "really " : "by itself ";
    const parts = [better && `${really}better in ${better}`, worse && `${really}worse in ${worse}`].filter(Boolean);
    const verdict = parts.length ? `${parts.join(", ")} ${of}` : `not to be told from it in any ${of}`;
    return `${ours.label} against ${theirs.label}, ${compared.metricHead()}: ${runs ? verdict : "in no run together"}`;
  }
  function tell(ours, theirs) {
    const words = { 1: "✓ better", 0: "~ open", "-1": "✗ worse" };
    const alone = { 1: " (better alone)", 0: "", "-1": " (worse alone)" };
    const lines = page.data.runs.flatMap((run, number) => {
      const one = compared.pair(number, ours.row, theirs.row);
      if (!one) return [];
      const p = one.p < 0.001 ? "< 0.001" : one.p.toFixed(3);
      const size = ` ${signed(one.difference)} (${span(one)}), corrected p ${p}`;
      const verdict = words[one.verdict] + (one.verdict ? "" : alone[one.alone]);
      return [h("li", {}, h("b", { class: VERDICT_NAMES[one.verdict] }, verdict), ` ${run.name}${size}`)];
    });
    told.replaceChildren(h("b", {}, inWords(ours, theirs, tally(ours.row, theirs.row))), h("ul", {}, ...lines));
  }

  function cell(ours, theirs) {
    if (ours.row === theirs.row) return h("td", { class: "same", tabindex: -1 });
    const found = tally(ours.row, theirs.row);
    const net = found.better - found.worse;
    const share = found.runs ? Math.round((55 * Math.abs(net)) / found.runs) : 0;
    const show = () => tell(ours, theirs);
    const attributes = {
      class: found.better || found.worse ? "told" : null,
      tabindex: -1,
      onfocus: show,
      onmouseenter: show,
      style: share ? `--side: var(${net > 0 ? "--accent" : "--bad"}); --share: ${share}%` : null,
    };
    if (!found.runs) return h("td", attributes);
    const losses = found.worse ? h("small", {}, `−${found.worse}`) : null;
    return h("td", attributes, found.better || !found.worse ? String(found.better || "·") : "", losses);
  }
  /** Arrows, Home and End go from cell to cell; one of them can be reached with Tab. */
  function walk(event) {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const ends = { Home: 0, End: Number.MAX_SAFE_INTEGER };
    const from = event.target.closest("td");
    if (!from || !(event.key in steps || event.key in ends)) return;
    event.preventDefault();
    const body = from.closest("tbody");
    const [down, right] = steps[event.key] ?? [0, 0];
    const line = body.rows[Math.max(0, Math.min(body.rows.length - 1, from.parentNode.rowIndex - 1 + down))];
    const cells = line.querySelectorAll("td");
    const at = ends[event.key] ?? from.cellIndex - 1 + right;
    const to = cells[Math.max(0, Math.min(cells.length - 1, at))];
    from.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  }
  function table(rows) {
    const heads = rows.map(({ label }) => h("th", { scope: "col" }, h("span", { class: "up" }, label)));
    const lines = rows.map((ours) =>
      h("tr", {}, h("th", { scope: "row" }, ours.label), ...rows.map((theirs) => cell(ours, theirs))),
    );
    const head = h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "left against above"), ...heads));
    const name = `In how many of ${page.data.runs.length} runs a row is really better, by ${compared.metricHead()}`;
    const body = h("tbody", {}, ...lines);
    const first = body.querySelector("td:not(.same)");
    if (first) first.tabIndex = 0;
    return h(
      "div",
      { class: "matrix" },
      h("table", { role: "grid", "aria-label": name, "aria-readonly": "true", onkeydown: walk }, head, body),
    );
  }
  function numbers() {
    const columns = ["row", "against", "metric", "runs", "better", "worse"];
    const names = page.data.rows.map(({ row }) => row);
    const pairs = names.flatMap((ours) => names.filter((theirs) => theirs !== ours).map((theirs) => [ours, theirs]));
    const rows = page.data.metrics.flatMap(({ name }) =>
      pairs.map((pair) => {
        const { runs, better, worse } = tally(...pair, name);
        return [...pair, name, runs, better, worse];
      }),
    );
    return { columns, rows };
  }
  function fill() {
    const rows = compared.shown();
    const some = rows.length > 1;
    place.replaceChildren(some ? table(rows) : h("p", { class: "quiet" }, "Two rows or more are needed."));
    const none = !place.querySelector("td.told") && "No two of these rows are told apart in any run. ";
    const how = "Point at a cell, or go there with the arrow keys.";
    told.replaceChildren(h("span", { class: "quiet" }, some ? (none || "") + how : ""));
  }
  return {
    fill,
    add() {
      const parent = section("matrix", "Who beats whom");
      const reading =
        "The number is in how many runs the row on the left is really better than the one above, −n in how many it is " +
        "really worse, · where no run tells. Corrected (Holm) for all pairs of a run, fewer are told than against the " +
        "reference only; alone, one in twenty pairs of equals would be told apart. Blue wins more often, orange loses.";
      const tools = h("div", { class: "tools" });
      tools.append(csvButton(() => "who-beats-whom", numbers));
      parent.append(
        h("p", { class: "reading" }, reading),
        h("div", { class: "controls" }, toggle(CORRECTIONS, state, "by", fill)),
        h("div", { class: "pairs" }, h("div", {}, place, tools), told),
      );
      fill();
    },
  };
})();
