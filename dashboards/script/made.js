// 8. How it was made.

const madeSection = {
  add() {
    const parent = section("made", "How it was made", "Enough to do it again.");
    const made = page.data.made;
    const { code, machine, budget, doubts, notes } = made;
    const heading = (text) => h("h3", { style: "margin-top:1.2rem" }, text);
    const card = (title, pairs) => h("div", { class: "card" }, h("h3", {}, title), factList(pairs));
    const run = [
      ["started", made.started.replace("T", " ").replace("+00:00", " UTC")],
      ["starts", made.starts],
      ["data fingerprint", made.fingerprint],
      ["code", code.version],
      ["commit", code.commit],
      ["host", machine.host],
      ["system", machine.system],
      ["cores", machine.cores],
      ["trials ran on", made.devices.join("; ") || null],
    ];
    const names = Object.keys(budget[0] || {});
    const columns = names.map((name, i) => ({
      head: name,
      left: i === 0,
      text: (row) => (name === "arm" ? armLabels.of(row.arm) : row[name]),
    }));
    parent.append(
      h("h3", {}, "The command that repeats it"),
      h("pre", { id: "command", tabindex: 0 }, made.command),
      h("div", { class: "detail" }, card("Run", run), card("Versions", Object.entries(made.packages))),
      heading("Budget of each arm"),
      sortableTable(columns, budget),
    );
    parent.append(...notes.map((text) => h("p", { class: "note" }, text)));
    if (doubts.length) {
      const list = h("ul", {}, ...doubts.map((text) => h("li", {}, text)));
      parent.append(heading("Doubts about the paper's figures"), list);
    }
    parent.append(heading("The study"), h("pre", { id: "study", tabindex: 0 }, made.study));
  },
};
