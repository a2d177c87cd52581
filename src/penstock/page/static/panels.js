"use strict";
// The plots. All of them share one time axis, one cursor and the marks of changes.

const COLOURS = ["--a", "--b", "--c", "--d", "--e", "--f"];
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const number = (v, unit = "") => (v == null ? "–" : short(v) + (unit && ` ${unit}`));
const percent = (v) => (v == null ? "–" : `${short(100 * v)} %`);
let shown = "whole", zoom = null;

function short(v) {
  const size = Math.abs(v);
  if (size >= 1e6) return `${+(v / 1e6).toPrecision(3)} M`;
  if (size >= 1e4) return `${+(v / 1e3).toPrecision(3)} k`;
  return String(+v.toPrecision(3));
}

// What each plot shows: lines are [column, label, how to say a value, look]; a column "x|" has one line for each place.
const PANELS = [
  { id: "arrivals", title: "Arrivals, whole run", scale: "whole", lines: [
    ["rate", "arrivals", (v) => number(v, "rows/s"), { fill: true }], ["peak", "highest within a point", (v) => number(v, "rows/s"), { thin: true }]],
    what: "Rows a second, over the whole run; each point joins several batches once the run is long." },
  { id: "arrivals-recent", title: "Arrivals, last two minutes", scale: "recent", lines: [["rate", "arrivals", (v) => number(v, "rows/s"), { fill: true }]],
    what: "The same at the scale of single batches: bursts that the scale above averages away." },
  { id: "lag", title: "Time to answer", target: true, lines: [
    ["lag", "answer lag, mean", (v) => number(v, "s"), {}], ["lag_worst", "answer lag, worst", (v) => number(v, "s"), { thin: true }],
    ["mean", "response, mean", (v) => number(v, "s"), {}], ["p95", "response, P95", (v) => number(v, "s"), {}]],
    what: "Answer lag: from the moment a window could be complete to its committed answer. Response: from a row's arrival to the result it is part of." },
  { id: "workers", title: "Workers", steps: true, lines: [
    ["planned|", "planned", number, { dash: [6, 4] }], ["requested|", "requested", number, { dash: [2, 3] }], ["observed|", "working", number, { wide: true }]],
    what: "Planned by the policy, requested from the engine or cluster, really working." },
  { id: "busy", title: "Busy share of each worker", heat: true, lines: [["busiest|", "busiest", percent, {}], ["busy_mean|", "mean", percent, {}]],
    what: "One row a worker; the darker, the larger the share of the time in which it worked." },
  { id: "load", title: "Utilisation of the stages", lines: [["load|", "", percent, {}]], what: "Load over what can be served; above 100 % a stage falls behind." },
  { id: "backlog", title: "Backlog", lines: [["backlog", "rows waiting", (v) => number(v, "rows"), { fill: true }]], what: "Rows that wait.", hideZero: true },
  { id: "splitting", title: "Splitting", lines: [["splitting", "parts a pane", number, {}]], what: "Into how many parts a pane was cut, on average, so that several workers share it." },
  { id: "slack", title: "Slack and late rows", lines: [["slack", "slack", (v) => number(v, "s"), {}], ["late", "late share (right)", percent, { right: true }]],
    what: "Slack: how long an answer waits for rows out of order. Late: the share of rows that came after it." },
  { id: "share", title: "CPU share", steps: true, lines: [["share|", "", percent, {}]], what: "The share of a core that each worker may use." },
  { id: "cores", title: "Cores held, against the static peak", steps: true, peak: true, lines: [["cores", "cores held", number, { fill: true }]],
    what: "The line is the most that was held at any time; what is between it and the curve was saved against holding it all the time." },
  { id: "timeline", title: "Decisions on the time line", timeline: true, what: "Hover for the reason; dotted lines in the other plots are the changes." },
];

const plots = new Map();

function drawPanels() {
  const host = document.getElementById("panels");
  for (const spec of PANELS) {
    const made = spec.timeline ? timeline() : curves(spec);
    let entry = plots.get(spec.id);
    if (!made) { entry?.section.setAttribute("hidden", ""); continue; }
    if (!entry) plots.set(spec.id, (entry = newPanel(spec, host)));
    entry.section.removeAttribute("hidden");
    entry.text = made.texts;
    entry.peak = made.peak;
    if (entry.signature !== made.signature) rebuild(entry, spec, made);
    else entry.plot.setData(made.data);
  }
}

function newPanel(spec, host) {
  const section = document.createElement("section");
  section.className = "panel";
  section.id = `panel-${spec.id}`;
  const head = document.createElement("h2"), what = document.createElement("p"), plot = document.createElement("div");
  head.textContent = spec.title;
  what.textContent = spec.what;
  what.className = "quiet";
  plot.className = "plot";
  section.append(head, what, plot);
  const after = PANELS.slice(PANELS.indexOf(spec) + 1).map((p) => plots.get(p.id)?.section).find((s) => s);
  host.insertBefore(section, after ?? null);
  return { section, host: plot, signature: "" };
}

function curves(spec) {
  const scale = mirror[spec.scale ?? shown], columns = scale.columns, lines = [];
  for (const [key, label, say, look] of spec.lines) {
    const names = key.endsWith("|") ? Object.keys(columns).filter((n) => n.startsWith(key)) : key in columns ? [key] : [];
    for (const name of names) {
      const place = name.split("|").slice(1).join(" ");
      lines.push({ name, label: [place, label].filter(Boolean).join(", "), say, look, place });
    }
  }
  const used = lines.filter((l) => columns[l.name].some((v) => v != null && (!spec.hideZero || v > 0)));
  if (!used.length || !scale.length) return null;
  const places = [...new Set(used.map((l) => l.place))];
  used.forEach((l, i) => (l.colour = COLOURS[(places.length > 1 ? places.indexOf(l.place) : i) % COLOURS.length]));
  const data = [columns.time, ...used.map((l) => columns[l.name])];
  const rows = spec.heat ? workerRows(columns) : [];
  const peak = spec.peak ? mirror.facts.figures.static_peak_cores : null; // of the whole run; the curve averages, and may be of two minutes
  const target = spec.target ? mirror.facts.target : null;
  return { data, lines: used, rows, peak, target, signature: JSON.stringify([shown, used.map((l) => l.name), rows, target, mirror.facts.clock]) };
}

// The first worker of the first stage at the top.
function workerRows(columns) {
  const names = Object.keys(columns).filter((n) => n.startsWith("busy|")), stages = [...new Set(names.map((n) => n.split("|")[1]))];
  const place = (n) => { const [, stage, at] = n.split("|"); return 1000 * stages.indexOf(stage) + +at; };
  return names.sort((a, b) => place(b) - place(a));
}

function timeline() {
  const kinds = [["change made", "--a"], ["wanted, not made", "--b"], ["warning", "--e"]];
  const marks = mirror.decisions.filter((d) => d.changes || d.wanted).map((d) => [d.time, isMade(d) ? 0 : 1, sentence(d)]);
  marks.push(...mirror.warnings.map((w) => [w.time, 2, w.text]));
  if (!mirror.whole.length) return null;
  const edge = mirror[shown].columns.time;
  marks.push([edge[0], -1, ""], [edge.at(-1), -1, ""]);
  marks.sort((a, b) => a[0] - b[0]);
  const data = [marks.map((m) => m[0]), ...kinds.map((_, k) => marks.map((m) => (m[1] === k ? 3 - k : null)))];
  const lines = kinds.map(([label, colour]) => ({ label, colour, say: null, look: { dots: true } }));
  return { data, lines, rows: [], texts: marks.map((m) => m[2]), signature: `timeline ${shown} ${mirror.facts.clock}` };
}

const isMade = (d) => Boolean(d.changes) && !["dry-run", "paused", "failed"].includes(d.mode);
const sentence = (d) => [d.changes || `wanted ${d.wanted}`, d.mode && `(${d.mode})`, d.reason, d.notes].filter(Boolean).join(" · ");

function rebuild(entry, spec, made) {
  entry.plot?.destroy();
  entry.signature = made.signature;
  const axis = { stroke: () => style("--quiet"), grid: { stroke: () => style("--grid"), width: 1 }, ticks: { stroke: () => style("--grid") } };
  const right = made.lines?.some((l) => l.look.right);
  const heat = made.rows.length > 0;
  const options = {
    width: width(), height: spec.timeline ? 90 : heat ? Math.max(90, 40 + 16 * made.rows.length) : 190,
    cursor: {  sync: { key: "time", scales: ["x", null] }, drag: { x: true, y: false, setScale: false }, points: { show: !heat } },
    legend: { live: true }, padding: [10, 30, 0, 0],
    scales: {
      x: { time: mirror.facts.clock === "wall", range: (u, lo, hi) => timeRange(spec, lo, hi) },
      y: { range: (u, lo, hi) => (spec.timeline ? [0.4, 3.6] : heat ? [0, made.rows.length] : [0, Math.max(hi ?? 0, made.target ?? 0, entry.peak ?? 0, 1e-6) * 1.08]) },
      right: { range: (u, lo, hi) => [0, Math.max(hi ?? 0, 1e-4) * 1.08] },
    },
    axes: [
      { ...axis, space: 80, values: (u, at) => at.map((v) => saidTime(v, "\n")) },
      { ...axis, size: heat ? 90 : 60, ...yValues(spec, made, heat) },
      ...(right ? [{ ...axis, scale: "right", side: 1, grid: { show: false }, values: (u, at) => at.map(percent) }] : []),
    ],
    series: [timeSeries(spec), ...made.lines.map((l) => lineSeries(l, spec, entry, heat))],
    hooks: { draw: [(u) => drawMarks(u, entry, made)], drawClear: [(u) => heat && drawHeat(u, made.rows, mirror[spec.scale ?? shown].columns)],
      setSelect: [(u) => selected(u)], ready: [(u) => u.over.addEventListener("dblclick", () => { zoom = null; drawPanels(); })] },
  };
  entry.plot = new uPlot(options, made.data, entry.host);
}

const width = () => Math.max(280, document.getElementById("panels").clientWidth);

function timeSeries(spec) {
  return { label: "time", value: (u, v, s, i) => {
    const at = i ?? newest(u, spec);
    return at == null ? "–" : saidTime(u.data[0][at]) + (i == null ? " (newest)" : "");
  } };
}

// What the legend tells while no cursor is over the plots; the decisions of the time line stand in the table.
function newest(u, spec) {
  for (let at = spec.timeline ? -1 : u.data[0].length - 1; at >= 0; at--) if (u.data.some((column, s) => s && column[at] != null)) return at;
  return null;
}

// On a run of more than a day a time of day alone would mean several moments.
function saidTime(v, between = " ") {
  if (mirror.facts.clock !== "wall") return `${+v.toFixed(1)} s`;
  const times = mirror.whole.columns.time, moment = new Date(1000 * v), time = moment.toLocaleTimeString("en-GB");
  return times.at(-1) - times[0] > 86400 ? moment.toLocaleDateString("sv") + between + time : time;
}

function timeRange(spec, lo, hi) {
  if (zoom && spec.scale !== "recent") return zoom;
  const times = mirror[spec.scale ?? shown].columns.time;
  const [from, to] = times.length ? [times[0], times.at(-1)] : [lo ?? 0, hi ?? 1];
  return to > from ? [from, to] : [from - 1, to + 1];
}

function yValues(spec, made, heat) {
  if (spec.timeline) return { splits: () => [], values: () => [] };
  if (!heat) {
    const say = made.lines[0].say === percent ? percent : short;
    return { values: (u, at) => at.map(say) };
  }
  const names = made.rows.map((n) => n.split("|").slice(1)).map(([stage, at]) => `${stage} ${+at + 1}`);
  const every = Math.ceil(names.length / 16);
  return { splits: () => names.map((_, i) => i + 0.5).filter((_, i) => i % every === 0), values: (u, at) => at.map((v) => names[Math.floor(v)]), grid: { show: false } };
}

function lineSeries(line, spec, entry, heat) {
  const { look } = line;
  const series = { label: line.label, stroke: () => style(line.colour), scale: look.right ? "right" : "y",
    width: look.wide ? 2.2 : look.thin ? 0.8 : 1.5, dash: look.dash, points: { show: false }, spanGaps: false,
    value: (u, v, s, i) => (line.say ? line.say(u.data[s][i ?? newest(u, spec)]) : i != null && v != null ? entry.text[i] : "–") };
  if (look.fill) series.fill = () => style("--fill");
  if (spec.steps) series.paths = uPlot.paths.stepped({ align: 1 });
  if (look.dots) Object.assign(series, { paths: () => null, points: { show: true, size: 9, fill: () => style(line.colour) } });
  if (heat) series.paths = () => null;
  return series;
}

function selected(u) {
  if (u.select.width < 4) return;
  zoom = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
  u.setSelect({ width: 0, height: 0 }, false);
  drawPanels();
}

function drawMarks(u, entry, made) {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  line(u, mirror.decisions.filter(isMade).map((d) => d.time), "--f", [2, 4], "x");
  if (made.target != null) line(u, [made.target], "--e", [8, 4], "y");
  if (entry.peak) line(u, [entry.peak], "--e", [8, 4], "y");
  ctx.restore();
}

function line(u, values, colour, dash, scale) {
  const { ctx, bbox } = u;
  ctx.strokeStyle = style(colour);
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash(dash.map((d) => d * devicePixelRatio));
  ctx.beginPath();
  for (const value of values) {
    const at = Math.round(u.valToPos(value, scale, true));
    if (scale === "x") { ctx.moveTo(at, bbox.top); ctx.lineTo(at, bbox.top + bbox.height); }
    else { ctx.moveTo(bbox.left, at); ctx.lineTo(bbox.left + bbox.width, at); }
  }
  ctx.stroke();
}

function drawHeat(u, rows, columns) {
  const { ctx, bbox } = u, times = columns.time;
  ctx.save();
  ctx.fillStyle = style("--a");
  rows.forEach((name, row) => {
    const top = u.valToPos(row + 1, "y", true) + 1, bottom = u.valToPos(row, "y", true) - 1;
    columns[name].forEach((value, i) => {
      if (value == null) return;
      const left = Math.max(bbox.left, u.valToPos(i ? times[i - 1] : times[0], "x", true)), end = Math.min(bbox.left + bbox.width, u.valToPos(times[i], "x", true));
      if (end <= left) return;
      ctx.globalAlpha = Math.min(1, Math.max(0.04, value));
      ctx.fillRect(left, top, end - left + 0.5, bottom - top);
    });
  });
  ctx.restore();
}

addEventListener("resize", () => { for (const { plot, signature } of plots.values()) plot?.setSize({ width: width(), height: plot.height }); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const { plot } of plots.values()) plot?.redraw(); });
