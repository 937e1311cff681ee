// The page of several runs: its head, what is chosen for all sections, and the sections in order.

function fillHead() {
  const { runs } = page.data;
  const names = runs.map((run) => run.name);
  document.title = `Compared: ${names.join(", ")}`;
  document.getElementById("title").textContent = `${runs.length} runs compared`;
  document.getElementById("state").textContent = names.join(" · ");
}

function fillChoices() {
  const changed = () => {
    comparedAnswer.fill();
    comparedPanels.fill();
    comparedMatrix.fill();
  };
  const { rows, matter } = page.data;
  document
    .getElementById("choices")
    .replaceChildren(
      toggle(metrics.options(metrics.inTable()), chosen, "metric", changed),
      rowChooser("rows", rows, chosen.rows, [`the ${matter.length} that matter`, matter], changed),
    );
}

fillHead();
fillChoices();
comparedAnswer.add();
comparedRuns.add();
comparedPanels.add();
comparedMatrix.add();
comparedClaims.add();
themeButton(document.getElementById("theme"), () => drawing.redraw());
document.getElementById("print").addEventListener("click", () => plotly.then(() => window.print()));
printInLight();
followWidth();
choices.goToPlace();
