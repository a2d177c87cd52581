"use strict";
// What is around the plots, and where the data comes from: inside the page, or from the server that sent it.

const STATES = { running: "running", paused: "running, the policy is paused", ended: "the run has ended", recorded: "from the journal", lost: "no answer any more; the last figures stay" };

const WORDS = {
  "core-seconds": "Cores held, summed over time. Workers of a stage count one core each, times their CPU share; executors likewise.",
  "saved against static peak": "What was not used, compared with holding the largest capacity of the run from the first moment to the last.",
  reconfigurations: "Changes of capacity that were made, each counted once. Stability (the first S of SASO) asks for few.",
  "missed target": "Observations in which the target was missed, among those in which it could be judged. This is accuracy, the A of SASO.",
  "settling time": "Mean length of the bursts of changes, in which changes less than 5 s apart belong together. The second S of SASO.",
  amplitude: "Mean size of a change: 1 is one worker or executor, or 0.1 of CPU share.",
  overshoot: "Share by which the workers exceeded the least number that would have kept every stage below full use. The O of SASO.",
  "mean response": "Time from a row's arrival to the result it is part of, on average over the results.",
  "P95 response": "95 % of the observations had a P95 response (or mean, where no P95 is known) of no more than this.",
  planned: "What the policy wants.",
  requested: "What the engine or the cluster manager has been asked for.",
  working: "What is there and works.",
  "answer lag": "From the end of a window plus the slack, when its answer could be known, to the answer's commit.",
  slack: "How long answers wait for rows that come out of order.",
  splitting: "Into how many parts a pane (a piece of a window) is cut so that several workers share it.",
  "key skew": "Load of the fullest worker over the mean, by the keys that came; 1 is even.",
  guards: "Limits that hold whatever the policy wants: bounds, cool-down, rollback of what did not help.",
};

const byId = (id) => document.getElementById(id);
const token = new URLSearchParams(location.search).get("token") ?? "";
const withToken = (path) => (token ? `${path}?token=${encodeURIComponent(token)}` : path);

function show() {
  const { facts } = mirror;
  document.title = `${facts.title} - Penstock`;
  byId("title").textContent = facts.title;
  byId("about").textContent = about(facts);
  setState(facts.state);
  const pause = byId("pause");
  pause.hidden = !(facts.pausable && token && ["running", "paused"].includes(facts.state));
  pause.textContent = facts.state === "paused" ? "Resume the policy" : "Pause the policy";
  drawTiles(facts);
  drawGraph();
  drawPanels();
  drawDecisions();
  drawWarnings();
  document.body.dataset.points = mirror.whole.length;
}

function about(facts) {
  const times = mirror.whole.columns.time, parts = [];
  if (times.length && facts.clock === "wall") parts.push(`${date(times[0])} to ${date(times.at(-1))}`);
  parts.push(facts.policies.length ? `policy ${facts.policies.join(", ")}` : "no policy");
  parts.push(facts.target != null ? `target: ${facts.metric.replaceAll("_", " ")} at most ${short(facts.target)} s` : "no target was set");
  parts.push(`${facts.figures.observations} observations`);
  return parts.join(" · ");
}

const date = (v) => new Date(1000 * v).toLocaleString("sv"); // year-month-day hour:minute:second

function setState(state) {
  byId("state").textContent = STATES[state] ?? state;
  byId("state").dataset.state = state;
}

function drawTiles({ figures, target }) {
  const saved = figures.static_peak_core_seconds > 0 ? 1 - figures.core_seconds / figures.static_peak_core_seconds : null;
  const tiles = {
    duration: duration(figures.duration),
    "core-seconds": short(figures.core_seconds),
    "saved against static peak": saved == null ? "unknown" : percent(saved),
    reconfigurations: figures.reconfigurations,
    "missed target": target == null ? "no target" : figures.violation_share == null ? "nothing measured" : percent(figures.violation_share),
    "mean response": figures.latency_mean == null ? "unknown" : number(figures.latency_mean, "s"),
    "P95 response": figures.latency_p95 == null ? "unknown" : number(figures.latency_p95, "s"),
    "settling time": number(figures.settling_time, "s"),
    amplitude: short(figures.amplitude),
    overshoot: figures.overshoot == null ? "unknown" : percent(figures.overshoot),
  };
  byId("tiles").replaceChildren(...Object.entries(tiles).map(([name, value]) => pair(name, value)));
}

function pair(name, value) {
  const div = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd");
  dt.textContent = name;
  dd.textContent = value;
  if (WORDS[name]) div.title = WORDS[name];
  div.append(dt, dd);
  return div;
}

function duration(seconds) {
  const whole = Math.round(seconds), h = Math.floor(whole / 3600), m = Math.floor((whole % 3600) / 60);
  return h ? `${h} h ${m} min` : m ? `${m} min ${whole % 60} s` : `${whole} s`;
}

function drawDecisions() {
  const dropped = mirror.first.decisions ?? 0, earlier = byId("earlier");
  earlier.hidden = !dropped;
  earlier.textContent = `${dropped} earlier rows stand in the journal only.`;
  const rows = [...mirror.decisions].reverse().map((d) => row([
    d.count > 1 ? `${saidTime(d.time)} – ${saidTime(d.until)}` : saidTime(d.time),
    [d.changes || (d.wanted && `wanted ${d.wanted}`), d.mode && `(${d.mode})`].filter(Boolean).join(" "), d.reason, d.notes], isMade(d) ? "made" : ""));
  if (!rows.length) rows.push(row(["", "No decisions were recorded.", "", ""], ""));
  byId("decisions").tBodies[0].replaceChildren(...rows);
}

function drawWarnings() {
  byId("warned").hidden = !mirror.warnings.length;
  byId("warnings").tBodies[0].replaceChildren(...[...mirror.warnings].reverse().map((w) => row([saidTime(w.time), w.text], "")));
}

function row(cells, kind) {
  const tr = document.createElement("tr");
  tr.className = kind;
  tr.append(...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
  return tr;
}

function choose(which) {
  shown = which;
  zoom = null;
  byId("show-whole").setAttribute("aria-pressed", which === "whole");
  byId("show-recent").setAttribute("aria-pressed", which === "recent");
  drawPanels();
}

function follow() {
  const events = new EventSource(withToken("/events"));
  events.onmessage = (message) => {
    takeNews(JSON.parse(message.data));
    show();
    if (mirror.facts.state === "ended") events.close();
  };
  events.onerror = () => mirror.facts.state !== "ended" && setState("lost"); // it tries again by itself
  byId("pause").onclick = () => fetch(withToken(mirror.facts.state === "paused" ? "/resume" : "/pause"), { method: "POST" });
}

byId("words").append(...Object.entries(WORDS).flatMap(([word, meaning]) => {
  const dt = document.createElement("dt"), dd = document.createElement("dd");
  dt.textContent = word;
  dd.textContent = meaning;
  return [dt, dd];
}));
byId("show-whole").onclick = () => choose("whole");
byId("show-recent").onclick = () => choose("recent");
const inside = byId("data");
if (inside) {
  takeNews(JSON.parse(inside.textContent));
  show();
} else {
  follow();
}
