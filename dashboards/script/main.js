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

/** Where an element is found again once the page is filled anew. */
function placeOf(element) {
  const { dataset, id } = element.closest("[data-trial], [id]");
  return dataset.trial ? `[data-trial="${CSS.escape(dataset.trial)}"]` : `#${CSS.escape(id)}`;
}
function placeOfDetails(details) {
  if (details.id) return placeOf(details);
  return placeOf(details) + (details.matches(".chooser") ? " .chooser" : " > .tools details");
}
/** Gives the focus back to what has it now; call what is returned once the page is filled anew. */
function keptFocus() {
  const FOCUSABLE = "a, button, input, select, summary, [tabindex]";
  const focused = document.activeElement;
  if (!document.getElementById("main").contains(focused)) return () => {};
  const place = placeOf(focused);
  const number = [...document.querySelectorAll(`${place} :is(${FOCUSABLE})`)].indexOf(focused);
  const typing = focused.id === "filter" ? focused.selectionStart : null;
  return () => {
    const found = document.querySelectorAll(number < 0 ? place : `${place} :is(${FOCUSABLE})`)[Math.max(0, number)];
    found?.focus({ preventScroll: true });
    if (typing !== null) found?.setSelectionRange(typing, typing);
  };
}

/** Fills the page; what the reader had open, was typing or looking at stays as it was. */
function render() {
  const main = document.getElementById("main");
  const top = window.scrollY;
  const giveFocusBack = keptFocus();
  const opened = [...document.querySelectorAll("details[open]")].map(placeOfDetails);
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
  drawing.keepRoom();
  for (const place of opened) {
    const details = document.querySelector(place);
    details?.setAttribute("open", "");
    details?.dispatchEvent(new Event("toggle")); // now, for it changes the page's height
  }
  giveFocusBack();
  window.scrollTo({ top, behavior: "instant" });
}

/** New data: the same trials stay selected and open, wherever they are now. */
function update(data) {
  const selected = selection.all().map(trials.name);
  const open = trialsSection.open === null ? null : trials.name(trialsSection.open);
  drawing.clear(); // what is on the page is of the old data
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
  let fresh = null; // data that are not shown yet
  /** Not while something is pressed or dragged, which would be taken from under the pointer. */
  function show() {
    if (!fresh || document.querySelector(":active")) return;
    document.body.dataset.version = version;
    if (fresh.problem) state.textContent = fresh.problem;
    else update(fresh);
    fresh = null;
  }
  async function poll() {
    try {
      const answer = await fetch(`data.json?since=${encodeURIComponent(version)}`);
      if (answer.status === 200) {
        fresh = await answer.json();
        version = fresh.version;
      }
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // what fetch throws when nobody answers
      state.textContent = "the server does not answer; what is shown is the last state";
    }
    show();
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
