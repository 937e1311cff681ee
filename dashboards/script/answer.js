// 1. The answer: which row is best in what, and whether that is real.

const answerSection = (() => {
  const VERDICTS = { holds: "✓ holds", fails: "✗ fails", undecided: "~ undecided", "not tested": "– not tested" };
  const state = { metric: "nll" };
  const rows = () => page.data.table.variants.last.filter((row) => row.nll !== null);

  function card({ head, value, label, low, high, real, verdict }) {
    return h(
      "div",
      { class: "card" },
      h("p", { class: "quiet" }, head),
      h("p", { class: "value" }, fixed(value, 3)),
      h("p", { class: "who" }, label),
      h("p", { class: "quiet" }, `95 %: ${fixed(low, 3)} to ${fixed(high, 3)}`),
      h("p", { class: real ? "holds" : "undecided" }, `${real ? "✓" : "~"} ${verdict}`),
    );
  }

  function forestTrace(row, metric) {
    const { color, symbol } = shownRows.has(row.row) ? look.ofRow(row) : shownRows.faded();
    const value = row[metric];
    const best = row[`${metric}_best`];
    return {
      type: "scatter",
      mode: "markers",
      x: [value],
      y: [look.plain(row.label)],
      error_x: {
        type: "data",
        symmetric: false,
        array: [row[`${metric}_high`] - value],
        arrayminus: [value - row[`${metric}_low`]],
        color,
        thickness: 2,
        width: 5,
      },
      marker: { color, symbol: best ? "star" : symbol, size: best ? 14 : 9 },
      name: row.label,
      showlegend: false,
      hovertemplate: `%{y}: %{x:.4f}<br>95 %: ${intervalText(row, metric)}<br>seeds: ${row.seeds}<extra></extra>`,
    };
  }
  function floorTrace(ordered, metric) {
    return {
      type: "scatter",
      mode: "markers",
      x: ordered.map((row) => row[`${metric}_noise_floor`]),
      y: ordered.map((row) => look.plain(row.label)),
      hovertemplate: "%{y}: noise floor %{x:.4f}<extra></extra>",
      marker: { symbol: "line-ns-open", size: 14, color: look.css("--quiet"), line: { width: 2 } },
      name: "noise floor",
      showlegend: true,
    };
  }
  function drawForest() {
    const { name, head, better, has_floor } = metrics.get(state.metric);
    const ordered = rows().sort((a, b) => better * (a[name] - b[name]));
    const traces = ordered.map((row) => forestTrace(row, name));
    if (has_floor) traces.push(floorTrace(ordered, name));
    const range = look.sensibleRange(ordered.flatMap((row) => [row[`${name}_low`], row[`${name}_high`]]));
    const text = head + (range ? `${look.narrow() ? "<br>" : " "}(the axis is cut; double-click shows all)` : "");
    const tickfont = { size: look.narrow() ? 10 : 13 };
    const yaxis = { type: "category", range: [-0.7, ordered.length - 0.3], tickfont };
    const margin = { l: 20, r: 14, t: 12, b: 46 };
    return [traces, look.layout({ margin, xaxis: { title: { text }, range }, yaxis })];
  }
  function forest(parent) {
    const names = () => ["row", "seeds", state.metric, `${state.metric}_low`, `${state.metric}_high`];
    figure(parent, {
      id: "forest",
      title: "Every row with its interval",
      height: Math.max(260, 90 + 26 * rows().length),
      reading:
        "A dot is the mean over seeds, the line its 95 % interval over seeds and test images; rows whose lines " +
        "overlap widely may not differ. For the ECE, a small bar marks the noise floor.",
      controls: [toggle(metrics.options(metrics.inTable()), state, "metric", () => drawing.redraw("forest"))],
      draw: drawForest,
      numbers: () => ({
        columns: ["row", "seeds", "figure", "low", "high"],
        rows: rows().map((row) => names().map((name) => row[name])),
      }),
    });
  }

  function claimItem(claim) {
    const quiet = (text) => h("span", { class: "quiet" }, text);
    const hardest = rows().find(({ row }) => row === claim.hardest)?.label ?? claim.hardest;
    const beside = claim.opponents > 1 ? ` beside ${hardest}, of ${claim.opponents}` : "";
    const size = () => {
      const interval = `${signed(claim.low)} to ${signed(claim.high)}`;
      return `difference ${signed(claim.difference)} (${interval})${beside}; ${claim.budget}`;
    };
    const told = h(
      "div",
      {},
      h("span", {}, claim.says),
      claim.section ? quiet(` (${claim.section})`) : null,
      claim.stated === "after" ? h("strong", {}, " written after the first results") : null,
      h("br"),
      h("code", {}, claim.holds),
      h("br"),
      quiet([claim.difference === null ? "" : size(), claim.reason].filter(Boolean).join("; ")),
    );
    const verdict = h("span", { class: `verdict ${claim.verdict.split(" ")[0]}` }, VERDICTS[claim.verdict]);
    return h("li", {}, verdict, told);
  }
  function claimList(parent, claims) {
    const reading =
      "What the study stated, and what this run says of it, corrected for all claims. Left minus right of the " +
      "statement with its 95 % interval; for a group, beside the row that is hardest to decide against.";
    parent.append(
      h("h3", {}, "Claims"),
      h("p", { class: "reading" }, reading),
      h("ol", { class: "claims" }, ...claims.map(claimItem)),
    );
  }

  return {
    add() {
      const parent = section("answer", "The answer");
      const { sentences, cards, claims, notes } = page.data.answer;
      const none = !page.data.table.variants.last.length;
      const [first, ...more] = none ? [nothingYet(sentences[0].replace(/\.$/, ""))] : sentences;
      parent.append(h("p", { class: "lead takes" }, ...withCode(first)), ...more.map((text) => h("p", {}, text)));
      if (none) return;
      parent.append(h("div", { class: "cards" }, ...cards.map(card)));
      forest(parent);
      if (claims.length) claimList(parent, claims);
      parent.append(...notes.map((text) => h("p", { class: "quiet" }, text)));
    },
  };
})();
