/** A printed page is light, and has all its figures. */
function printInLight() {
  const root = document.documentElement;
  let before = null;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    root.dataset.printing = "";
    drawing.drawNow();
  });
  addEventListener("afterprint", () => {
    root.dataset.theme = before;
    delete root.dataset.printing;
    drawing.redraw();
  });
}
