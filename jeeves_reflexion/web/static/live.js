// Reloads the live part of a page when the server says that it has changed, unless the user is working in it.
"use strict";
const part = document.querySelector("[data-live]");
const news = document.getElementById("news");
let source = null;
let pending = false;
let again = false;

function atWork() {
  if (part.contains(document.activeElement)) return true;
  return [...part.querySelectorAll("input, textarea")].some((each) => each.value !== each.defaultValue);
}

async function show() {
  again = pending; // the response under way may be older than this change
  if (pending) return;
  pending = true;
  try {
    const response = await fetch(location.href);
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html").querySelector("[data-live]");
    const same = fresh && fresh.innerHTML === part.innerHTML;
    news.textContent = !same && atWork() ? "There is news: load the page again to see it." : "";
    if (same || news.textContent) return;
    if (response.ok && fresh) part.replaceChildren(...fresh.childNodes);
    else location.reload();
  } catch {
    news.textContent = "The server can't be reached.";
  } finally {
    pending = false;
    if (again) show();
  }
}

function listen() {
  if (document.hidden) {
    // A browser has few connections per host, and hidden tabs need none.
    if (source) source.close();
    source = null;
  } else if (!source) {
    source = new EventSource(part.dataset.live);
    source.addEventListener("changed", show);
    source.addEventListener("open", show);
  }
}

if (part) {
  document.addEventListener("visibilitychange", listen);
  listen();
}
