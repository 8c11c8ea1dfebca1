// The panel of a token at once: on hover, on focus, on a click. Without this script each token is a link to a page that has its panel.
(() => {
  "use strict";
  const copy = document.getElementById("copy");
  if (copy && navigator.clipboard) {
    copy.classList.remove("waiting");
    copy.addEventListener("click", async () => {
      const said = document.getElementById("copied");
      try {
        await navigator.clipboard.writeText(document.getElementById(copy.dataset.copy).textContent);
        said.textContent = "Copied.";
      } catch { said.textContent = "The browser does not let it be copied: select the text."; }
    });
  }
})();

(() => {
  "use strict";
  const strands = document.getElementById("strands");
  const beside = document.getElementById("beside");
  if (!strands || !beside) return;
  const tokens = [...strands.querySelectorAll("a.t")];
  const kept = new Map();
  let wanted = null;
  let timer = 0;
  let pinned = false;
  const said = document.getElementById("said");
  for (const hint of document.querySelectorAll(".keys")) hint.hidden = false;

  const fetched = (address) => {
    if (!kept.has(address)) {
      if (kept.size > 200) kept.delete(kept.keys().next().value);
      const url = new URL(address, location.href);
      url.hash = "";
      url.searchParams.set("part", "panel");
      kept.set(address, fetch(url).then((answer) => (answer.ok ? answer.text() : Promise.reject(answer.status))));
      kept.get(address).catch(() => kept.delete(address));
    }
    return kept.get(address);
  };
  // The answer is markup of the same page, made by the same template; the policy lets nothing in it run.
  const show = async (link) => {
    const address = link.getAttribute("href");
    if (wanted === address) return;
    wanted = address;
    try {
      const text = await fetched(address);
      if (wanted !== address) return;
      const panel = new DOMParser().parseFromString(text, "text/html").getElementById("panel");
      if (!panel) return;
      beside.replaceChildren(document.adoptNode(panel));
      const words = [panel.querySelector("h3"), ...panel.querySelectorAll(".side > p:first-of-type")];
      said.textContent = words.map((one) => one.textContent.replace(/\s+/g, " ").trim()).join(". ");
      for (const one of tokens) one.classList.toggle("chosen", one.dataset.token === link.dataset.token);
    } catch { wanted = null; /* the link is there still */ }
  };
  const soon = (link) => { clearTimeout(timer); timer = setTimeout(() => show(link), 60); };
  const token = (event) => event.target.closest && event.target.closest("a.t");

  strands.addEventListener("pointerover", (event) => { if (event.pointerType === "mouse" && !pinned && token(event)) soon(token(event)); });
  strands.addEventListener("focusin", (event) => {
    const link = token(event);
    if (!link) return;
    for (const one of tokens) one.tabIndex = one === link ? 0 : -1;
    soon(link);
  });
  strands.addEventListener("click", (event) => {
    const link = token(event);
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    history.replaceState(null, "", link.getAttribute("href").split("#")[0] + location.hash);
    pinned = true;
    link.focus();
    show(link);
    if (matchMedia("(max-width: 64rem)").matches) beside.scrollIntoView({ block: "nearest" });
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") pinned = false; });
  // One stop for Tab; the arrows go from token to token, up and down to the other arm.
  const start = strands.querySelector("a.t.differs") || tokens[0];
  for (const one of tokens) one.tabIndex = one === start ? 0 : -1;
  const arm = (link) => tokens.filter((one) => one.id[0] === link.id[0]);
  strands.addEventListener("keydown", (event) => {
    const link = token(event);
    if (!link || event.ctrlKey || event.metaKey || event.altKey) return;
    const line = arm(link);
    const at = line.indexOf(link);
    const other = () => document.getElementById((link.id[0] === "t" ? "s" : "t") + link.dataset.token);
    const differing = tokens.filter((one) => one.classList.contains("differs") && one.id[0] === link.id[0]);
    const next = {
      ArrowRight: () => line[at + 1], ArrowLeft: () => line[at - 1], ArrowDown: other, ArrowUp: other,
      Home: () => line[0], End: () => line[line.length - 1],
      n: () => differing.find((one) => +one.dataset.token > +link.dataset.token),
      p: () => differing.filter((one) => +one.dataset.token < +link.dataset.token).pop(),
    }[event.key];
    if (!next) return;
    event.preventDefault();
    const found = next();
    if (found) found.focus();
  });
})();
