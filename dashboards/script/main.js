// The page: its head, its sections in order, printing, and what a live page does.

function fillHead() {
  const { run, live } = page.data;
  document.title = `${run.run}: ${run.title}`;
  document.getElementById("title").textContent = run.title;
  const ended = (phase) => phase.finished + phase.diverged + phase.stopped;
  const begun = run.phases.filter((phase) => phase.trials);
  const parts = [
    run.run,
    run.network === "imported" ? `predictions of ${run.data}, imported` : `${run.network} on ${run.data}`,
    `${run.state}: ${run.done} of ${run.trials} trials`,
    ...(begun.length > 1 ? begun.map((phase) => `${phase.phase} ${ended(phase)}/${phase.trials}`) : []),
    ...(run.failed ? [`${run.failed} failed`] : []),
    ...(live ? ["live"] : []),
  ];
  document.getElementById("state").textContent = parts.join(" · ");
}

/** Fills the page; what the reader had open, was typing or looking at stays as it was. */
function render() {
  const main = document.getElementById("main");
  const top = window.scrollY;
  const typing = document.activeElement?.id === "filter" ? document.activeElement.selectionStart : null;
  const opened = [...document.querySelectorAll("details[open]")].map((element) => element.closest("[id]").id);
  main.replaceChildren();
  document.getElementById("nav").replaceChildren();
  drawing.clear();
  if (page.data.problem) {
    main.append(h("p", { class: "lead" }, page.data.problem));
    document.body.dataset.ready = "1";
    return;
  }
  fillHead();
  choices.within("page");
  shownRows.addControl(main, () => drawing.redraw("forest", "learning", "entropy", "risk"));
  answerSection.add();
  resultsSection.add();
  calibrationSection.add();
  shiftSection.add();
  searchSection.add();
  trainingSection.add();
  trialsSection.add();
  madeSection.add();
  for (const id of opened)
    document.querySelector(`details#${CSS.escape(id)}, #${CSS.escape(id)} > .tools details`)?.setAttribute("open", "");
  if (typing !== null) {
    const filter = document.getElementById("filter");
    filter.focus({ preventScroll: true });
    filter.setSelectionRange(typing, typing);
  }
  window.scrollTo({ top, behavior: "instant" });
}

/** New data: the same trials stay selected and open, wherever they are now. */
function update(data) {
  const selected = selection.all().map(trials.name);
  const open = trialsSection.open === null ? null : trials.name(trialsSection.open);
  page.data = data;
  const places = new Map(trials.all().map((i) => [trials.name(i), i]));
  trialsSection.open = places.get(open) ?? null;
  selection.set(selected.map((name) => places.get(name)).filter((i) => i !== undefined));
  render();
}

function follow() {
  const PAUSE = 1500;
  const state = document.getElementById("state");
  let version = page.data.version;
  async function poll() {
    try {
      const answer = await fetch(`data.json?since=${encodeURIComponent(version)}`);
      if (answer.status === 200) {
        const fresh = await answer.json();
        version = fresh.version;
        document.body.dataset.version = version;
        if (fresh.problem) state.textContent = fresh.problem;
        else update(fresh);
      }
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // what fetch throws when nobody answers
      state.textContent = "the server does not answer; what is shown is the last state";
    }
    setTimeout(poll, PAUSE);
  }
  setTimeout(poll, PAUSE);
}

themeButton(document.getElementById("theme"), () => {
  drawing.redraw();
  trialsSection.showAgain();
});
document.getElementById("print").addEventListener("click", () => plotly.then(() => window.print()));
document.getElementById("clear").addEventListener("click", () => selection.set([]));
document.getElementById("to-trial").addEventListener("click", () => trialsSection.goToOpen());
printInLight();
render();
followWidth();
choices.goToPlace();
if (page.data.live) follow();
