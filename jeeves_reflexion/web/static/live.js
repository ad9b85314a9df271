// Shows the part of a page that is live anew when the server says that it has changed, unless somebody is at work in it.
"use strict";
const part = document.querySelector("[data-live]");
const news = document.getElementById("news");
let source = null;
let pending = false;

function atWork() {
  if (part.contains(document.activeElement)) return true;
  return [...part.querySelectorAll("input, textarea")].some((each) => each.value !== each.defaultValue);
}

async function show() {
  if (pending) return;
  pending = true;
  try {
    const response = await fetch(location.href);
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html").querySelector("[data-live]");
    if (!response.ok || !fresh) location.reload();
    else if (fresh.innerHTML === part.innerHTML) return;
    else if (atWork()) news.textContent = "There is news: load the page again to see it.";
    else part.replaceChildren(...fresh.childNodes);
  } catch {
    news.textContent = "The server can't be reached.";
  } finally {
    pending = false;
  }
}

function listen() {
  if (document.hidden) {
    // A browser has few connections to one host, and tabs that nobody sees need none.
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
