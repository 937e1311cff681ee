// The index of all runs: what each is, and any of them side by side.

const { runs, metrics } = JSON.parse(document.getElementById("data").textContent);
const inTable = metrics.filter((metric) => metric.in_table);
const chosen = new Set();

function runsTable() {
  const tick = (run) => {
    const onchange = (event) => {
      chosen[event.target.checked ? "add" : "delete"](run.run);
      layBeside();
    };
    const label = `Lay ${run.run} beside others`;
    const box = h("input", { type: "checkbox", value: run.run, "aria-label": label, onchange });
    return h("label", {}, box, run.problem ? run.run : h("a", { href: run.link }, run.run));
  };
  const best = ({ name, head }) => {
    const card = (run) => run.best.find((one) => one.metric === name);
    const value = (run) => card(run)?.value ?? null;
    return { head: `best ${head}`, sort: value, text: (run) => fixed(value(run), 3), sub: (run) => card(run)?.label };
  };
  const columns = [
    { head: "run", left: true, text: tick, sort: (run) => run.run, sub: (run) => run.title },
    { head: "state", left: true, text: (run) => run.problem || run.state },
    {
      head: "trials",
      text: (run) => (run.problem ? "" : `${run.done} / ${run.trials}`),
      sort: (run) => run.done,
      sub: (run) => (run.failed ? `${run.failed} failed` : ""),
    },
    { head: "data", left: true, text: (run) => run.data },
    { head: "network", left: true, text: (run) => run.network },
    ...inTable.map(best),
    { head: "since", left: true, text: (run) => run.since },
  ];
  const none = h("p", { class: "lead" }, "There are no runs yet.");
  document.getElementById("runs").replaceChildren(runs.length ? sortableTable(columns, runs) : none);
}

function layBeside() {
  const some = runs.filter((run) => chosen.has(run.run));
  const place = document.getElementById("beside");
  if (some.length < 2) {
    place.replaceChildren();
    return;
  }
  const labels = new Map(some.flatMap((run) => run.rows.map((row) => [row.row, row.label])));
  const rows = [...labels].map(([row, label]) => ({ row, label }));
  const column = (run, metric) => {
    const own = ({ row }) => run.rows.find((one) => one.row === row);
    return {
      head: run.run,
      sort: (row) => own(row)?.[metric] ?? null,
      text: (row) => figureText(own(row), metric),
      sub: (row) => intervalText(own(row), metric),
    };
  };
  const tables = inTable.map(({ name, head }) => {
    const columns = [{ head: "row", left: true, text: (row) => row.label }, ...some.map((run) => column(run, name))];
    return sortableTable(columns, rows, { caption: head[0].toUpperCase() + head.slice(1) });
  });
  const command = `\`pilotstudy compare ${some.map((run) => run.run).join(" ")}\``;
  const reading = `Mean ± deviation over seeds, and the 95 % interval. ${command} tells which differences are real.`;
  place.replaceChildren(h("h2", {}, "Side by side"), h("p", { class: "reading" }, reading), ...tables);
}

runsTable();
themeButton(document.getElementById("theme"));
