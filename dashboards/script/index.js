// The index of all runs: what each is, and any of them side by side.

const { runs, metrics } = JSON.parse(document.getElementById("data").textContent);
const inTable = metrics.filter((metric) => metric.in_table);
const order = { sort: "-started" }; // newest first
const chosen = new Set();

/** Its tick, its name, and under it what it is about, or what is wrong with it. */
function nameCell(run) {
  const onchange = (event) => {
    chosen[event.target.checked ? "add" : "delete"](run.run);
    choices.save();
    layBeside();
  };
  const label = `Lay ${run.run} beside others`;
  const checked = chosen.has(run.run);
  const box = h("input", {
    type: "checkbox",
    value: run.run,
    checked,
    disabled: !run.rows.length,
    "aria-label": label,
    onchange,
  });
  const about = run.problem ? h("small", { class: "fails" }, run.problem) : h("small", {}, run.title);
  const name = run.problem ? h("b", {}, run.run) : h("a", { href: run.link }, run.run);
  return h("div", { class: "named" }, box, h("div", {}, name, about));
}
function stateCell(run) {
  if (run.trials == null) return run.state;
  const share = `${run.done} of ${run.trials} trials`;
  const bar = h("progress", { max: run.trials || 1, value: run.done, "aria-label": `${run.run}: ${share}` });
  const failed = run.failed ? h("small", { class: "fails" }, `${run.failed} failed`) : null;
  return h("div", {}, h("span", { class: run.state }, run.state), bar, h("small", {}, share), failed);
}
function runsTable() {
  const best = ({ name, head }) => {
    const card = (run) => run.best.find((one) => one.metric === name);
    const value = (run) => card(run)?.value ?? null;
    return { head: `best ${head}`, sort: value, text: (run) => fixed(value(run), 3), sub: (run) => card(run)?.label };
  };
  const columns = [
    { head: "run", left: true, text: nameCell, sort: (run) => run.run },
    { head: "state", left: true, text: stateCell, sort: (run) => run.state },
    { head: "data", left: true, text: (run) => run.data, sub: (run) => run.network },
    { head: "to take", left: true, text: (run) => run.take || "–" },
    ...inTable.map(best),
    {
      head: "started",
      text: (run) => run.since?.slice(0, 10),
      sort: (run) => run.since,
      sub: (run) => run.since && `${run.since.slice(11, 16)} UTC`,
    },
  ];
  const none = h("p", { class: "lead" }, "There are no runs here yet: pilotstudy run STUDY begins one.");
  document.getElementById("runs").replaceChildren(runs.length ? sortableTable(columns, runs, { state: order }) : none);
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
  const names = some.map((run) => run.run).join(" ");
  const reading = h(
    "p",
    { class: "reading" },
    "Mean ± deviation over seeds, and the 95 % interval. ",
    h("code", {}, `pilotstudy compare ${names}`),
    " tells which differences are real, ",
    h("code", {}, `pilotstudy dashboard ${names}`),
    " draws them.",
  );
  place.replaceChildren(h("h2", {}, "Side by side"), reading, ...tables);
}

themeButton(document.getElementById("theme"));
choices.within("runs");
choices.several(
  "beside",
  chosen,
  runs.map(({ run }) => run),
);
runsTable();
layBeside();
choices.goToPlace();
