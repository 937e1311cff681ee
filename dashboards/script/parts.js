// What sections are made of.

const signed = (value, digits = 4) => `${value > 0 ? "+" : ""}${fixed(value, digits)}`.replace("-", "−");

function section(id, title, reading) {
  choices.within(id);
  const heading = h("h2", { id: `${id}-title` }, title);
  const element = h("section", { id, "aria-labelledby": `${id}-title` }, heading);
  if (reading) element.append(h("p", { class: "reading" }, reading));
  document.getElementById("main").append(element);
  document.getElementById("nav").append(h("a", { href: `#${id}` }, title));
  return element;
}

/** Text whose commands, between backticks, look like such. */
const withCode = (text) => text.split("`").map((part, k) => (k % 2 ? h("code", {}, part) : part));

/** Why a figure is empty, and which command tells more. */
function nothingYet(what) {
  const { state, failed } = page.data.run;
  const { status, errors } = page.data.hints;
  if (failed) return `${what}. ${failed} failed: ${errors} says why.`;
  return state === "done" ? `${what}.` : `${what}. ${status} says how far it is.`;
}

const valuesOf = (options) => options.map(([value]) => value);

/** One of several options, [[value, text], ..], kept in state[key] and in the address: from a list. */
function choice(label, options, state, key, changed, more = {}) {
  const keep = choices.one(state, key, valuesOf(options));
  const onchange = () => {
    state[key] = select.value;
    keep();
    changed();
  };
  const entries = options.map(([value, text]) => h("option", { value, selected: value === state[key] }, text));
  const select = h("select", { onchange, ...more }, ...entries);
  return h("label", {}, label, select);
}

/** The same with a button for each. */
function toggle(options, state, key, changed) {
  const keep = choices.one(state, key, valuesOf(options));
  const press = () => {
    buttons.forEach((one, i) => {
      one.setAttribute("aria-pressed", String(options[i][0] === state[key]));
    });
  };
  const buttons = options.map(([value, text]) =>
    button(text, () => {
      state[key] = value;
      press();
      keep();
      changed();
    }),
  );
  press();
  return h("span", { class: "buttons one-of", role: "group" }, ...buttons);
}

/** [[name, value], ..] */
function factList(pairs) {
  return h("dl", {}, ...pairs.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value ?? "–"))]));
}

/** A button that saves {columns, rows} of numbers() as CSV. */
function csvButton(name, numbers) {
  function save() {
    const { columns, rows } = numbers();
    const text = [columns, ...rows].map((row) => row.map(csvCell).join(",")).join("\n");
    const href = URL.createObjectURL(new Blob([`${text}\n`], { type: "text/csv" }));
    h("a", { href, download: `${page.data.run.run}-${name()}.csv` }).click();
    URL.revokeObjectURL(href);
  }
  return button("CSV", save);
}

/** Quoted where needed; what a spreadsheet would take for a formula is kept as text. */
function csvCell(value) {
  const formula = typeof value === "string" && /^[=+\-@\t\r]/.test(value);
  const text = (formula ? "'" : "") + String(value ?? "");
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Buttons that save a plot as an image. */
function imageButtons(plot, name, size) {
  const filename = `${page.data.run.run}-${name}`;
  const save = (format) => () => Plotly.downloadImage(plot, { format, filename, ...size });
  return ["svg", "png"].map((format) => button(format.toUpperCase(), save(format)));
}
