// Keeps what a page shows up to date. Everything works without it.
"use strict";
(() => {
  const EVERY_MS = 2000;
  const PATIENCE_MS = 10000;
  const content = document.getElementById("content");
  const button = document.getElementById("live");

  // A second click on a button does nothing, here and on the server.
  addEventListener("submit", (event) => {
    if (event.target.method === "post") {
      setTimeout(() => event.target.querySelectorAll("button").forEach((each) => { each.disabled = true; }));
    }
  });
  addEventListener("pageshow", () => {
    document.querySelectorAll("form button:disabled").forEach((each) => { each.disabled = false; });
  });

  if (!content || !button || !("live" in content.dataset)) { return; }

  let stopped = false;
  let ended = false;
  let pressed = false;
  let missed = 0;
  let last = "";

  // Is somebody at it: reading a selection, typing, opening something, about to click?
  const inUse = () => {
    const selection = getSelection();
    const selects = selection && !selection.isCollapsed && content.contains(selection.anchorNode);
    // The page of an outage is loaded anew as a whole.
    const typed = isOutage && [...document.querySelectorAll("form.search input")].some((each) => each.value !== each.defaultValue);
    return selects || pressed || typed || content.contains(document.activeElement) || content.querySelector("details[open]");
  };

  // Each form has another number, each time.
  const same = (text) => text.replace(/name="once" value="[^"]*"/g, "");

  // What was scrolled stays where it was.
  const put = (text) => {
    const scrolled = () => [...content.querySelectorAll("pre, .scroll")];
    const before = scrolled().map((each) => [each.scrollLeft, each.scrollTop]);
    content.innerHTML = text;
    scrolled().forEach((each, index) => { each.scrollTo(...(before[index] || [0, 0])); });
  };

  // A page that was opened in an outage is loaded as a whole when that is over.
  const isOutage = content.dataset.live === "again";

  const show = () => {
    const state = ended ? "ended" : stopped ? "stopped" : missed ? "stale" : inUse() ? "held" : "live";
    button.textContent = button.dataset[state];
    button.className = "live" + (state === "live" ? " on" : state === "stale" || state === "ended" ? " bad" : "");
    button.setAttribute("aria-pressed", String(!stopped));
  };

  const refresh = async () => {
    const response = await fetch(location.href, {
      headers: { "duly-refresh": "1" }, cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(PATIENCE_MS),
    });
    const text = await response.text();
    // It sends others to its login, or says that they may not.
    ended = response.status === 401 || response.status === 403 || response.redirected;
    // What was asked for is late if somebody is at the page now.
    if (ended || inUse() || stopped) { return; }
    // A proxy in front of it answers in its place while it is away.
    const isOwn = response.headers.has("duly-refresh");
    const isOver = isOwn && response.status !== 503;
    if (isOutage && isOver) { location.reload(); }
    if (!isOutage && isOwn && same(text) !== last) {
      last = same(text);
      put(text);
    }
    if (!isOver) { throw new Error("an outage"); }
  };

  const turn = async () => {
    if (!stopped && !ended && !document.hidden && !inUse()) {
      try {
        await refresh();
        missed = 0;
      } catch {
        missed += 1;
      }
    }
    show();
    setTimeout(turn, EVERY_MS);
  };

  button.hidden = false;
  button.addEventListener("click", () => { stopped = !stopped; show(); });
  addEventListener("pointerdown", () => { pressed = true; });
  for (const name of ["pointerup", "pointercancel", "blur"]) {
    addEventListener(name, () => { pressed = false; });
  }
  document.addEventListener("selectionchange", show);
  show();
  setTimeout(turn, EVERY_MS);
})();
