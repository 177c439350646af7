"use strict";
// What is on the page is changed in place: focus, open details and the reader's position stay. What is
// not drawn again goes, and what is new comes where it is drawn.
// Texts come from queries and tables of others: they are only ever set as textContent.

const base = location.origin + location.pathname.replace(/\/*$/, "/"); // a path may begin with two slashes
const main = document.getElementById("queries");
const pause = document.getElementById("pause");
const status = document.getElementById("state");
let seen = -1, isPaused = false, timer = 0, isOver = false, turn = 0, patienceMs = 20000;
document.getElementById("metrics").href = base + "metrics";

const SVG = "http://www.w3.org/2000/svg";

/** The child of an element with a key; made where there is none. */
function at(parent, key, tag, attributes = {}) {
  parent.kept ??= new Map();
  let child = parent.kept.get(key);
  if (!child) {
    const isSvg = tag === "svg" || parent.namespaceURI === SVG;
    child = isSvg ? document.createElementNS(SVG, tag) : document.createElement(tag);
    parent.kept.set(key, child);
    if (parent.last?.turn === turn) parent.last.after(child);
    else parent.prepend(child);
  }
  child.turn = turn;
  parent.last = child;
  for (const [name, value] of Object.entries(attributes)) {
    if (child.getAttribute(name) !== String(value)) child.setAttribute(name, value);
  }
  return child;
}

/** The same with a text. */
function say(parent, key, tag, text, attributes = {}) {
  const child = at(parent, key, tag, attributes);
  if (child.textContent !== text) child.textContent = text;
  return child;
}

/** Remove what was not drawn in this turn. */
function sweep(parent) {
  for (const [key, child] of parent.kept ?? []) {
    if (child.turn === turn) sweep(child);
    else { child.remove(); parent.kept.delete(key); }
  }
}

const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const number = (x) => x === null || x === undefined ? "–" : compact.format(x);
const share = (x) => x === null || x === undefined ? "–" : (100 * x).toFixed(1) + " %";
const decimal = (x) => x === null || x === undefined ? "–" : x.toFixed(2);
const bytes = (x) => {
  if (x === null || x === undefined) return "–";
  let unit = 0;
  while (x >= 1024 && unit < 4) { x /= 1024; unit += 1; }
  return x.toFixed(unit ? 1 : 0) + " " + ["bytes", "KiB", "MiB", "GiB", "TiB"][unit];
};
const time = (s) => {
  if (s === null || s === undefined) return "–";
  if (s < 1) return +(1000 * s).toFixed(s < 0.01 ? 1 : 0) + " ms";
  const [unit, seconds] = s < 120 ? ["s", 1] : s < 7200 ? ["min", 60] : s < 172800 ? ["h", 3600] : ["days", 86400];
  return `${(s / seconds).toFixed(1)} ${unit}`;
};
const clock = (t) => {
  if (!t) return "–";
  const then = new Date(t), isToday = then.toDateString() === new Date().toDateString();
  return isToday ? then.toLocaleTimeString() : then.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
};

function table(parent, key, caption, head, rows) {
  const found = at(at(parent, key, "div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }), "t", "table");
  say(found, "caption", "caption", caption);
  const top = at(at(found, "head", "thead"), "r", "tr");
  head.forEach((name, n) => say(top, n, "th", name, { scope: "col", class: n && typeof rows[0]?.[n] === "number" ? "number" : "" }));
  const body = at(found, "body", "tbody");
  rows.forEach((cells, r) => {
    const row = at(body, r, "tr");
    cells.forEach((cell, n) => say(row, n, n ? "td" : "th", typeof cell === "number" ? cell.toLocaleString() : String(cell ?? "–"),
      n ? { class: typeof cell === "number" ? "number" : "" } : { scope: "row" }));
  });
}

/** A figure with an empty picture, beside it a scale from nought to the most: both. */
function picture(parent, key, title, now, most, format, label) {
  const figure = at(parent, key, "figure");
  const caption = at(figure, "caption", "figcaption");
  say(caption, "title", "span", title);
  say(caption, "now", "span", now, { class: "now" });
  const plot = at(figure, "plot", "div", { class: "plot" });
  const scale = at(plot, "scale", "div", { class: "scale", "aria-hidden": "true" });
  say(scale, "most", "span", format(most));
  say(scale, "least", "span", format(0));
  return [figure, at(plot, "svg", "svg", { viewBox: "0 0 300 80", preserveAspectRatio: "none", role: "img", "aria-label": label })];
}

/** The values of a figure, as a table that is drawn when it is open. */
function values(figure, caption, head, rows) {
  const details = at(figure, "values", "details");
  say(details, "summary", "summary", "Values");
  if (details.open) table(details, "table", caption, head, rows());
}

/** Lines over the last micro-batches: [{name, values}], the second one dashed; values as a table. */
function chart(parent, key, title, batches, lines, format, least = 0) {
  const known = lines.flatMap((line) => line.values).filter((value) => value !== null && value !== undefined);
  const most = Math.max(least, ...known) || 1;
  const now = lines.map((line) => format(line.values.findLast((value) => value !== null && value !== undefined)));
  const told = lines.map((line, n) => `${line.name || title}: last ${now[n]}`).join("; ");
  const [figure, svg] = picture(parent, key, title, now.join(" / "), most, format,
    `${told}; most ${format(known.length ? Math.max(...known) : null)}, of ${batches.length} micro-batches`);
  const step = 300 / Math.max(1, batches.length - 1);
  lines.forEach((line, n) => {
    // A gap, where a value is not known, ends a line and begins another one.
    const pieces = [[]];
    line.values.forEach((value, i) => {
      if (value === null || value === undefined) pieces.push([]);
      else pieces.at(-1).push([(i * step).toFixed(1), (78 - 74 * value / most).toFixed(1)]);
    });
    const drawn = pieces.filter((piece) => piece.length);
    const group = at(svg, n, "g");
    drawn.forEach((piece, p) => {
      const points = piece.length > 1 ? piece : [[piece[0][0] - 2, piece[0][1]], [+piece[0][0] + 2, piece[0][1]]];
      at(group, p, "polyline", { class: n ? "two" : "one", points: points.map((point) => point.join(",")).join(" ") });
    });
  });
  if (lines.length > 1) {
    const legend = at(figure, "legend", "p", { class: "legend", "aria-hidden": "true" });
    lines.forEach((line, n) => say(legend, n, "span", line.name, { class: n ? "two" : "one" }));
  }
  values(figure, `${title}, newest first`, ["Micro-batch", ...lines.map((line) => line.name || title)],
    () => batches.map((batch, i) => [batch, ...lines.map((line) => format(line.values[i]))]).reverse());
}

function facts(parent, key, pairs) {
  const list = at(parent, key, "dl", { class: "facts" });
  for (const [name, value] of pairs.filter((pair) => pair[1] !== null)) {
    const pair = at(list, name, "div");
    say(pair, "dt", "dt", name);
    say(pair, "dd", "dd", value);
  }
}

/** A card with lines of text: [text, class]. */
function card(parent, key, title, lines) {
  const found = at(parent, key, "section", { class: "card", "aria-label": title });
  say(found, "title", "h4", title);
  lines.forEach(([text, kind], n) => say(found, n, "p", text, { class: kind || "" }));
  return at(found, "rest", "div");
}

function partitions(parent, rows) {
  const most = Math.max(...rows, 1), mean = rows.reduce((a, b) => a + b, 0) / rows.length;
  const [figure, svg] = picture(parent, "partitions", "Rows of each partition", `${rows.length}, mean ${number(mean)}`, most, number,
    `Rows of ${rows.length} partitions: most ${number(most)}, on average ${number(mean)}`);
  const width = 300 / rows.length;
  rows.forEach((value, n) => at(svg, n, "rect", {
    x: (n * width + width * 0.1).toFixed(2), width: (width * 0.8).toFixed(2),
    y: (80 - 76 * value / most).toFixed(2), height: (76 * value / most).toFixed(2),
  }));
  values(figure, "Rows of each partition", ["Partition", "Rows"], () => [...rows.entries()]);
}

/** How a table follows its source, as lines of a card. */
function followed({ source, newest, last_look, lag_s, applied, read_whole, read_whole_why }) {
  const committed = source.committed_at_us === null ? "" : `, committed ${clock(source.committed_at_us / 1000)}`;
  const looked = last_look ? `; last look ${clock(last_look)}` : "";
  const behind = !newest ? "" : newest.version === source.version ? "; the source has no newer one" : `; the source has version ${newest.version}`;
  return [
    [`Follows ${source.source}`],
    [`Its version in the table: ${source.version}${committed}${behind}${looked}`],
    ...(lag_s === null ? [] : [[`Lag, from its commit until it was in the table: ${time(lag_s)}`]]),
    [`Versions made of what has changed: ${applied.toLocaleString()}; by reading the source whole: ${read_whole.toLocaleString()}` +
      (read_whole_why ? `, the last of these: ${read_whole_why}` : "")],
  ];
}

function drawJoin(parent, join) {
  const history = join.history, batches = history.map((one) => one.n), last = history.at(-1);
  const column = (name) => history.map((one) => one[name]);
  const id = `${parent.getAttribute("aria-labelledby")}-join-${join.join}`;
  const section = at(parent, `join ${join.join}`, "section", { "aria-labelledby": id });
  const title = `Join ${join.join} on ${join.on || "a range"}` + (join.table ? `, with ${join.table}` : "");
  say(section, "title", "h3", title, { id });
  const cache = join.cache, partition = join.partition, placement = join.placement, refresh = join.refresh;
  facts(section, "facts", [
    ["Rows in / out", `${number(last.in)} / ${number(last.out)}`],
    ["Hit rate", share(last.hit)],
    ["Runs in", join.runtime === "jvm" ? "the JVM" : "Python"],
    ["Table version", join.versions.length ? String(join.versions.at(-1).version) : null],
    ["Lag of the table", refresh && refresh.lag_s !== null ? time(refresh.lag_s) : null],
    ["From the cache", cache ? share(column("cached").findLast((x) => x !== null)) : null],
    ["Cache", cache ? `${bytes(cache.bytes)}, ${number(cache.rows)} rows` : null],
    ["Look-ups p50 / p99", cache ? (join.loaded ? `${time(join.loaded.load_ms_p50 / 1000)} / ${time(join.loaded.load_ms_p99 / 1000)}` : "–") : null],
    ["Evicted, failed, stale", cache ? `${number(cache.evictions)}, ${number(cache.failed_keys)}, ${number(cache.stale_rows)}` : null],
    ["Tasks placed", placement ? `${placement.landed ?? "–"} of ${placement.requested}` : null],
    ["Rent", placement && placement.rent !== null ? `$${placement.rent.toPrecision(3)}` : null],
  ]);
  const grid = at(section, "grid", "div", { class: "grid" });
  chart(grid, "hit", "Hit rate", batches, [{ values: column("hit") }], share, 1);
  if (cache) {
    chart(grid, "cached", "Rows from the cache", batches, [{ values: column("cached") }], share, 1);
    chart(grid, "bytes", "Size of the cache", batches, [{ values: column("bytes") }], bytes);
  }
  if (partition.rows.length) {
    chart(grid, "skew", "Skew (DS)", batches, [
      { name: "by the rule", values: column("skew") }, { name: "by hash, estimated", values: column("by_hash") },
    ], decimal);
    partitions(grid, partition.rows);
  }
  const cards = at(section, "cards", "div", { class: "grid" });
  if (join.reason) card(cards, "reason", "Why not the JVM", [[join.reason]]);
  if (join.versions.length || refresh) {
    const rest = card(cards, "versions", "The table", [
      ...(refresh ? [[`Last refresh that succeeded: ${clock(refresh.last_success)}`]] : []),
      ...(refresh?.last_error ? [[`Last error, ${clock(refresh.last_error_at)}: ${refresh.last_error}`, refresh.is_failing ? "bad" : "soft"]] : []),
      ...(refresh?.source ? followed(refresh) : []),
    ]);
    if (join.versions.length) {
      const sources = join.versions.some((one) => one.source !== null);
      table(rest, "table", "Versions taken up, newest first", ["Version", ...(sources ? ["Source"] : []), "Batch", "At"],
        join.versions.map((one) => [one.version, ...(sources ? [one.source] : []), one.n, clock(one.t)]).reverse());
    }
  }
  if (placement) {
    const rest = card(cards, "placement", "Placement", [[`${placement.action}: ${placement.reason}`]]);
    table(rest, "table", "Tasks of each worker", ["Worker", "Tasks"], placement.workers);
  }
  const hottest = (partition.hottest.length ? partition.hottest : cache?.hottest ?? []);
  if (hottest.length) {
    const rest = card(cards, "hottest", "Most frequent keys", []);
    table(rest, "table", "Most frequent keys, of a sample", ["Key", "Share of rows"], hottest.map(([key, part]) => [key, share(part)]));
  }
}

const STATES = { running: "running", ended: "ended", failed: "failed", gone: "its session has ended, or cannot be reached" };

function drawQuery(query, place) {
  const section = at(main, place, "section", { "aria-labelledby": `query-${place}` });
  say(section, "title", "h2", query.name, { id: `query-${place}` });
  const state = say(section, "state", "p", STATES[query.state] + (query.error ? `: ${query.error}` : ""),
    { class: query.state === "ended" ? "soft" : "bad" });
  state.hidden = query.state === "running" && !query.error;
  const last = query.batches.at(-1);
  if (!last) { say(section, "none", "p", "No micro-batch has ended yet.", { class: "soft" }); return; }
  const rates = query.batches.map((one) => one.rate), durations = query.batches.map((one) => one.s);
  const waits = query.routes.map((one) => one.waiting_now).filter((rows) => rows !== null);
  const { latency } = query, batches = query.batches.map((one) => one.n);
  facts(section, "facts", [
    ["Rows a second", number(rates.findLast((x) => x !== null))],
    ["Micro-batch p50", latency ? time(latency["0.5"]) : null],
    ["Micro-batch p95", latency ? time(latency["0.95"]) : null],
    ["Micro-batch p99", latency ? time(latency["0.99"]) : null],
    ["Last micro-batch", `${last.n}, ${clock(1000 * last.t)}`],
    ["Charts begin", clock(1000 * query.batches[0].t)],
    ["Rows that wait", waits.length ? number(waits.reduce((a, b) => a + b)) : null],
    ["Not seen", query.unseen ? `${number(query.unseen)} micro-batches` : null],
  ]);
  const grid = at(section, "grid", "div", { class: "grid" });
  chart(grid, "rate", "Rows a second", batches, [{ values: rates }], number);
  if (latency) chart(grid, "duration", "Duration of micro-batches", batches, [{ values: durations }], time);
  if (query.routes.length) {
    const rest = card(section, "routes", "Rows that wait for their row of the table", []);
    table(rest, "table", "Sent by bsjoin.kafka.route in the micro-batches that this page has seen", ["Topic", "Found", "Of them after waiting", "Sent to wait", "Expired", "Wait now"],
      query.routes.map((one) => [one.topic, one.found, one.recovered, one.waiting, one.expired, one.waiting_now]));
  }
  query.joins.forEach((join) => drawJoin(section, join));
  if (!query.joins.length) say(section, "nojoin", "p", "No join of bsjoin has been counted in it.", { class: "soft" });
}

/** Where there are several queries: links to them, with those that do not run. */
function drawLinks(queries) {
  const links = at(main, "links", "nav", { "aria-label": "Queries" });
  queries.forEach(({ name, state }, n) => say(links, n, "a", state === "running" ? name : `${name} (${state})`,
    { href: `#query-${n}`, class: state === "failed" || state === "gone" ? "bad" : "" }));
}

let drawn = null;

function draw(data) {
  drawn = data;
  turn += 1;
  if (data.queries.length > 1) drawLinks(data.queries);
  data.queries.forEach(drawQuery);
  sweep(main);
  const running = data.queries.filter((query) => query.state === "running").length;
  isOver = running === 0;
  const count = data.queries.length;
  const isGone = data.queries.some((query) => query.state === "gone");
  const failed = data.queries.filter((query) => query.state === "failed").length;
  tell(data.is_silent ? "The session of a query does not answer: all figures are old" :
    isOver && isGone ? "The session of a query has ended, or cannot be reached" :
    isOver && failed ? (count > 1 ? `All queries have ended, ${failed} of ${count} failed` : "The query has failed") :
    isOver ? (count > 1 ? "All queries have ended" : "The query has ended") :
    count > 1 ? `${running} of ${count} queries run` + (failed ? `, ${failed} failed` : "") : "The query runs");
}

function tell(text) { // a screen reader says it when it changes, and only then
  if (status.textContent !== text) status.textContent = text;
}

async function look() {
  clearTimeout(timer);
  if (isPaused || document.hidden) return;
  let pauseMs = isOver ? 20000 : 2000, data = null;
  try {
    const answer = await fetch(`${base}data.json?seen=${seen}`, { cache: "no-store", signal: AbortSignal.timeout(patienceMs) });
    if (answer.status === 200) data = await answer.json();
    else if (answer.status !== 204) throw new Error(String(answer.status));
    else data = drawn;
  } catch (error) {
    tell(error.name === "TimeoutError" ? "No answer yet: the session of a query, or its program, is busy" :
      "No connection: the page was closed, or its program has ended");
    pauseMs = 10000;
  }
  timer = setTimeout(look, pauseMs);
  if (data && !isPaused) { seen = data.number; draw(data); }
}

pause.addEventListener("click", () => {
  isPaused = !isPaused;
  pause.setAttribute("aria-pressed", String(isPaused));
  look();
});
document.addEventListener("visibilitychange", look);
main.addEventListener("toggle", () => drawn && draw(drawn), true);
look();
