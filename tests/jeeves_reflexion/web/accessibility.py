"""What a page must have so that everybody can use it: names, labels, landmarks, contrast, and no sideways scrolling."""

from __future__ import annotations

from typing import Any

_CHECK = r"""
() => {
  const found = [];
  const seen = (e) => e.checkVisibility({ visibilityProperty: true });
  const name = (e) =>
    e.getAttribute("aria-label") || (e.labels && [...e.labels].map((l) => l.innerText).join(" ")) || e.innerText ||
    document.getElementById(e.getAttribute("aria-labelledby"))?.innerText || "";
  const named = "a, button, input:not([type=hidden]), select, textarea, nav, [role=region], [role=img]";
  for (const e of document.querySelectorAll(named))
    if (seen(e) && !name(e).trim()) found.push(`no name: ${e.outerHTML.slice(0, 80)}`);
  if (!document.documentElement.lang || !document.title.trim()) found.push("no language or title");
  for (const [one, n] of [["main", 1], ["h1", 1], ["header", 1]])
    if (document.querySelectorAll(one).length !== n) found.push(`${one} is not there once`);
  let level = 0;
  for (const e of document.querySelectorAll("h1, h2, h3, h4")) {
    const now = Number(e.tagName[1]);
    if (now > level + 1) found.push(`heading skips a level: ${e.innerText}`);
    level = now;
  }
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  if (new Set(ids).size !== ids.length) found.push("an id is there twice");
  const regions = [...document.querySelectorAll("nav, [role=region]")].map(name);
  if (new Set(regions).size !== regions.length) found.push(`landmarks of one name: ${regions}`);
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) found.push("it scrolls sideways");
  const rgb = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const luminance = (c) => {
    const [r, g, b] = c.map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !seen(e) || e.closest("svg, script, .skip, option")) continue;
    const [one, two] = [luminance(rgb(getComputedStyle(e).color)), luminance(behind(e))];
    const contrast = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    if (contrast < 4.5) found.push(`contrast ${contrast.toFixed(2)}: ${e.outerHTML.slice(0, 80)}`);
  }
  return found;
}
"""


def problems(page: Any) -> list[str]:
    """Return what is wrong with the page that a browser shows, in words."""
    return page.evaluate(_CHECK)
