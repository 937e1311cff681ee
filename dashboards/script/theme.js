/** Light or dark: the system's, until the reader chooses. */
function themeButton(element, changed = () => {}) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const apply = () => {
    const dark = chosen === null ? system.matches : chosen === "dark";
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    element.textContent = dark ? "Light" : "Dark";
    element.setAttribute("aria-label", dark ? "Change to the light theme" : "Change to the dark theme");
    changed();
  };
  element.addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}
