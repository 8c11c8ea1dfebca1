// Keys for the list: j and k move from row to row, Enter opens (it is a link). Without this script the list is links all the same.
(() => {
  "use strict";
  const links = [...document.querySelectorAll("tr[data-row] th a")];
  if (links.length === 0) return;
  for (const hint of document.querySelectorAll(".keys")) hint.hidden = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest("input, select, textarea, [contenteditable]")) return;
    const step = { j: 1, k: -1 }[event.key];
    if (step === undefined) return;
    const at = links.findIndex((link) => link.closest("tr").contains(document.activeElement));
    const next = links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + step))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
    event.preventDefault();
  });
})();
