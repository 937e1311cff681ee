// Elements and numbers as text, for the page of a run and for the index of all runs.

/** An element with attributes and children; text is always text, never markup. */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child != null));
  return element;
}

const button = (text, onclick, more = {}) => h("button", { type: "button", onclick, ...more }, text);

const fixed = (value, digits = 4) => (value == null ? "" : Number(value).toFixed(digits));

/** A row's figure with its deviation over seeds, and its interval; nothing where there is no figure. */
function figureText(row, metric) {
  if (row?.[metric] == null) return "";
  const deviation = row[`${metric}_sd`];
  return fixed(row[metric]) + (deviation === null ? "" : ` ± ${fixed(deviation)}`);
}
function intervalText(row, metric) {
  return row?.[metric] == null ? "" : `${fixed(row[`${metric}_low`])} to ${fixed(row[`${metric}_high`])}`;
}
