"use strict";
// The index of all runs: what each is, and any of them side by side.

const RUNS = JSON.parse(document.getElementById("data").textContent);
const chosen = new Set();
const bestOf = (run, metric) => run.best.find((card) => card.metric === metric);

function runsTable() {
  const best = (metric, head) => ({ head, sort: (run) => bestOf(run, metric)?.value ?? null, text: (run) => (bestOf(run, metric) ? fixed(bestOf(run, metric).value, 3) : ""), sub: (run) => bestOf(run, metric)?.label });
  const tick = (run) => h("label", {}, h("input", { type: "checkbox", value: run.run, "aria-label": `Lay ${run.run} beside others`, onchange: (event) => { chosen[event.target.checked ? "add" : "delete"](run.run); beside(); } }), run.problem ? run.run : h("a", { href: run.link }, run.run));
  const columns = [{ head: "run", left: true, text: tick, sort: (run) => run.run, sub: (run) => run.title }, { head: "state", left: true, text: (run) => run.problem || run.state }, { head: "trials", text: (run) => (run.problem ? "" : `${run.done} / ${run.trials}`), sort: (run) => run.done, sub: (run) => (run.failed ? `${run.failed} failed` : "") },
    { head: "data", left: true, text: (run) => run.data }, { head: "network", left: true, text: (run) => run.network }, best("accuracy", "best accuracy"), best("nll", "best NLL"), best("ece", "best ECE"), { head: "since", left: true, text: (run) => run.since }];
  document.getElementById("runs").replaceChildren(RUNS.length ? sortableTable(columns, RUNS) : h("p", { class: "lead" }, "There are no runs yet."));
}
function beside() {
  const runs = RUNS.filter((run) => chosen.has(run.run));
  const place = document.getElementById("beside");
  if (runs.length < 2) { place.replaceChildren(); return; }
  const rows = [...new Map(runs.flatMap((run) => run.rows.map((row) => [row.row, row.label])))].map(([row, label]) => ({ row, label }));
  const cell = (run, row) => run.rows.find((one) => one.row === row.row);
  const tables = [["accuracy", "Accuracy"], ["nll", "NLL"], ["ece", "ECE"]].map(([metric, head]) => sortableTable([{ head: "row", left: true, text: (row) => row.label }, ...runs.map((run) => ({ head: run.run, sort: (row) => cell(run, row)?.[metric] ?? null, text: (row) => { const one = cell(run, row); return one ? fixed(one[metric]) + (one[`${metric}_sd`] === null ? "" : ` ± ${fixed(one[`${metric}_sd`])}`) : ""; }, sub: (row) => { const one = cell(run, row); return one ? `${fixed(one[`${metric}_low`])} to ${fixed(one[`${metric}_high`])}` : ""; } }))], rows, { caption: head }));
  place.replaceChildren(h("h2", {}, "Side by side"), h("p", { class: "reading" }, `Mean ± deviation over seeds, and the 95 % interval. \`pilotstudy compare ${runs.map((run) => run.run).join(" ")}\` tells which differences are real.`), ...tables);
}
runsTable();
themeButton(document.getElementById("theme"), () => {});
