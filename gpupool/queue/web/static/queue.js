"use strict";
// Keeps an open page as fresh as the queue: reads the page again when the server says that something has
// changed, and replaces the parts that differ. Without this file the pages are the same, only not live.
(() => {
  const main = document.querySelector("[data-follow]");
  if (!main) return;
  const SOON = 300;
  const LEAST = 1000;
  const SLOW = 10000;
  const status = document.getElementById("live-state");
  let timer = null;
  let last = 0;
  let reading = false;
  let missed = false;

  // What a reader has opened, scrolled or focused stays so.
  function replace(old, fresh) {
    const open = [...old.querySelectorAll("details[open][id]")].map((each) => each.id);
    const scrolled = [...old.querySelectorAll("pre[id]")].map((each) => [
      each.id,
      each.scrollTop + each.clientHeight >= each.scrollHeight - 4 ? Infinity : each.scrollTop,
    ]);
    const focused = old.contains(document.activeElement) ? place(old, document.activeElement) : null;
    old.replaceChildren(...fresh.childNodes);
    for (const id of open) {
      const each = document.getElementById(id);
      if (each) each.open = true;
    }
    for (const [id, top] of scrolled) {
      const each = document.getElementById(id);
      if (each) each.scrollTop = top === Infinity ? each.scrollHeight : top;
    }
    if (focused) focused()?.focus({ preventScroll: true });
  }

  function place(within, element) {
    if (element.id) return () => document.getElementById(element.id);
    const like = `${element.localName}${element.getAttribute("href") ? `[href="${CSS.escape(element.getAttribute("href"))}"]` : ""}`;
    const index = [...within.querySelectorAll(like)].indexOf(element);
    return () => within.querySelectorAll(like)[index];
  }

  async function read() {
    if (reading) {
      missed = true;
      return;
    }
    reading = true;
    last = Date.now();
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
      if (answer.redirected && new URL(answer.url).pathname === "/login") {
        location.reload();
        return;
      }
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const old of document.querySelectorAll("[data-live]")) {
        const other = fresh.getElementById(old.id);
        if (other && other.innerHTML !== old.innerHTML) replace(old, other);
      }
      say("Live.");
    } catch {
      say("The queue can't be reached; trying again.");
    } finally {
      reading = false;
      if (missed) {
        missed = false;
        later();
      }
    }
  }

  function later() {
    if (timer !== null || document.hidden) return;
    timer = setTimeout(() => {
      timer = null;
      read();
    }, Math.max(SOON, LEAST - (Date.now() - last)));
  }

  function say(text) {
    if (status.textContent !== text) status.textContent = text;
  }

  const events = new EventSource(main.dataset.follow);
  events.onopen = () => say("Live.");
  events.onmessage = later;
  // Durations grow and projections move without an event.
  setInterval(() => {
    if (Date.now() - last >= SLOW) later();
  }, SLOW);
  document.addEventListener("visibilitychange", later);
})();
