"use strict";
// The stages as boxes from left to right, with what flows between them.

const BOX = { width: 190, height: 92, gapX: 70, gapY: 22 };

function drawGraph() {
  const nodes = mirror.facts.graph ?? [], section = document.getElementById("flow");
  section.hidden = nodes.length === 0;
  if (!nodes.length) return;
  const level = levels(nodes), columns = [];
  nodes.forEach((n) => (columns[level.get(n.name)] ??= []).push(n));
  const place = new Map();
  columns.forEach((column, x) => column?.forEach((n, y) => place.set(n.name, [10 + x * (BOX.width + BOX.gapX), 10 + y * (BOX.height + BOX.gapY)])));
  const height = 20 + Math.max(...columns.map((c) => c?.length ?? 0)) * (BOX.height + BOX.gapY) - BOX.gapY;
  const svg = make("svg", { width: 20 + columns.length * (BOX.width + BOX.gapX) - BOX.gapX, height, role: "img", "aria-label": said(nodes) });
  for (const n of nodes) for (const next of n.downstream) if (place.has(next)) svg.append(edge(place.get(n.name), place.get(next)));
  for (const n of nodes) svg.append(box(n, place.get(n.name)));
  document.getElementById("graph").replaceChildren(svg);
}

function levels(nodes) {
  const level = new Map(nodes.map((n) => [n.name, 0]));
  for (let round = 0; round < nodes.length; round++)
    for (const n of nodes) for (const next of n.downstream)
      if (level.has(next) && level.get(next) < level.get(n.name) + 1 && level.get(n.name) < nodes.length) level.set(next, level.get(n.name) + 1);
  return level;
}

function box(n, [x, y]) {
  const group = make("g", { transform: `translate(${x},${y})` });
  const load = n.busiest ?? n.load;
  group.append(make("rect", { class: "box", width: BOX.width, height: BOX.height, rx: 7 }));
  if (load != null) group.append(make("rect", { class: load > 0.9 ? "hot" : "level", width: BOX.width * Math.min(1, load), height: BOX.height, rx: 7 }));
  const lines = [[`${n.name}  × ${workersOf(n)}`, true], ...figuresOf(n).map((text) => [text, false])];
  let at = 6;
  for (const [text, head] of lines) {
    if (!text) continue;
    const shownText = make("text", { x: 10, y: (at += 18), class: head ? "" : "faint", "font-weight": head ? 600 : 400 });
    shownText.textContent = text.length > 30 ? `${text.slice(0, 29)}…` : text;
    group.append(shownText);
  }
  const title = make("title", {});
  title.textContent = madeOf(n).join(" · ") || n.name;
  group.prepend(title);
  return group;
}

const workersOf = (n) => (n.observed === n.planned ? `${n.observed}` : `${n.observed} of ${n.planned}`);
const madeOf = (n) => [n.kind, ...n.operators].filter(Boolean);

// The figures of a stage, line by line.
function figuresOf(n) {
  const load = n.busiest ?? n.load;
  return [
    [n.rate != null && `${short(n.rate)} rows/s`, n.selectivity != null && `out ${short(n.selectivity)} a row`],
    [load != null && `busy ${percent(load)}`, n.share != null && `CPU ${percent(n.share)}`],
    [n.skew != null && `key skew ${short(n.skew)}`, n.backlog > 0 && `${short(n.backlog)} rows wait`],
  ].map((line) => line.filter(Boolean).join(", "));
}

function edge([x1, y1], [x2, y2]) {
  const from = x1 + BOX.width, a = y1 + BOX.height / 2, b = y2 + BOX.height / 2, middle = (from + x2) / 2;
  return make("path", { d: `M${from},${a} C${middle},${a} ${middle},${b} ${x2},${b}` });
}

// All that the picture shows, in words.
function said(nodes) {
  const names = new Set(nodes.map((n) => n.name));
  return nodes.map((n) => {
    const of = madeOf(n).join(", "), to = n.downstream.filter((next) => names.has(next)).join(" and ");
    const told = [`${workersOf(n)} worker${n.observed === 1 && n.planned === 1 ? "" : "s"}`, ...figuresOf(n), to && `on to ${to}`].filter(Boolean).join(", ");
    return `${n.name}${of && ` (${of})`}: ${told}`;
  }).join("; ");
}

function make(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
