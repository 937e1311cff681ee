/** Light or dark: the system's, until the reader chooses. */
function themeButton(element, changed = () => {}) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = "";
  const keep = (text) => {
    if (!["light", "dark"].includes(text)) return false;
    chosen = text;
  };
  choices.add("theme", () => chosen, keep);
  const apply = () => {
    const dark = chosen ? chosen === "dark" : system.matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    element.textContent = dark ? "Light" : "Dark";
    element.setAttribute("aria-label", dark ? "Light: change to the light theme" : "Dark: change to the dark theme");
    changed();
  };
  element.addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    choices.save();
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}
