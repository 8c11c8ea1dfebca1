// A page that shows what is going on comes anew every few seconds while somebody wants it to, and nobody is in the middle of something on it.
(() => {
  "use strict";
  const EVERY = 5000;
  const button = document.getElementById("live");
  const main = () => document.getElementById("main");
  let on = false;
  try { on = sessionStorage.getItem("live") === "yes"; } catch { /* for this page only */ }
  const name = () => {
    button.textContent = on ? "Live: on" : "Live: off";
    button.setAttribute("aria-pressed", String(on));
  };
  const busy = () => document.hidden || main().contains(document.activeElement) || main().querySelector("details[open]") !== null ||
    String(getSelection()) !== "";
  const renew = async () => {
    if (!on || busy()) return;
    try {
      const answer = await fetch(location.href, { redirect: "error" });
      if (!answer.ok) return;
      const made = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = made.getElementById("main");
      if (next === null || !on || busy()) return;
      main().replaceWith(document.adoptNode(next));
      const foot = made.querySelector(".foot");
      if (foot !== null) document.querySelector(".foot").replaceWith(document.adoptNode(foot));
    } catch { /* the proxy is away for a moment: what is shown says of when it is */ }
  };
  name();
  button.classList.remove("waiting");
  button.addEventListener("click", () => {
    on = !on;
    try { sessionStorage.setItem("live", on ? "yes" : "no"); } catch { /* for this page only */ }
    name();
    renew();
  });
  setInterval(renew, EVERY);
})();
