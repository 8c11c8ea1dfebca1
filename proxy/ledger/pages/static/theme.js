// The theme that was chosen, before anything is painted; the button that chooses.
(() => {
  "use strict";
  const themes = ["system", "light", "dark"];
  const kept = () => {
    try {
      const theme = localStorage.getItem("theme");
      return themes.includes(theme) ? theme : "system";
    } catch {
      return "system";
    }
  };
  const show = (theme) => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };
  show(kept());
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const name = (theme) => { button.textContent = `Theme: ${theme}`; };
    name(kept());
    button.classList.remove("waiting");
    button.addEventListener("click", () => {
      const theme = themes[(themes.indexOf(kept()) + 1) % themes.length];
      try { localStorage.setItem("theme", theme); } catch { /* a private window: for this page only */ }
      show(theme);
      name(theme);
    });
  });
})();
