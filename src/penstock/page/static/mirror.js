"use strict";
// The page's copy of what the server keeps: each message replaces the end of a list and drops what is too old.

const mirror = { facts: {}, whole: emptyScale(), recent: emptyScale(), decisions: [], warnings: [], first: {} };

function emptyScale() {
  return { generation: -1, first: 0, length: 0, columns: { time: [] } };
}

function takeNews(news) {
  const { whole, recent, decisions, warnings, ...facts } = news;
  mirror.facts = facts;
  if (whole) takeScale(mirror.whole, whole);
  if (recent) takeScale(mirror.recent, recent);
  if (decisions) takeRows("decisions", decisions);
  if (warnings) takeRows("warnings", warnings);
}

function takeScale(scale, news) {
  if (scale.generation !== news.generation || news.from <= scale.first) Object.assign(scale, emptyScale(), { generation: news.generation, first: news.from });
  const kept = Math.max(0, Math.min(scale.length, news.from - scale.first));
  const added = news.columns.time.length;
  for (const name of Object.keys(news.columns)) scale.columns[name] ??= new Array(kept).fill(null);
  for (const [name, column] of Object.entries(scale.columns)) {
    column.length = kept;
    column.push(...(news.columns[name] ?? new Array(added).fill(null)));
  }
  const gone = Math.min(kept, Math.max(0, news.first - scale.first)); // what was missed meanwhile is older than all that came
  for (const column of Object.values(scale.columns)) column.splice(0, gone);
  scale.first = news.first;
  scale.length = kept + added - gone;
}

function takeRows(name, news) {
  const rows = mirror[name], first = mirror.first[name] ?? 0;
  rows.length = Math.max(0, Math.min(rows.length, news.from - first));
  rows.push(...news.rows);
  rows.splice(0, Math.max(0, rows.length - (news.from + news.rows.length - news.first)));
  mirror.first[name] = news.first;
}
