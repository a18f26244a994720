// Shows the dashboard's documents and draws them again when the server has newer ones.
"use strict";

const PAGES = { overview: showOverview, queues: showQueues, nodes: showNodes, jobs: showJobs, decisions: showDecisions,
  application: showApplication };
const STALE_S = 120, OLD_S = 360;
const ROWS_MAX = 500;
const main = document.getElementById("main");
const span = document.getElementById("span");
let overview = null, looked = 0, skew = 0, serverSilent = null, drawing = 0;

const percent = (part) => `${(100 * part).toFixed(part < 0.1 && part > 0 ? 1 : 0)} %`;
const plain = (value) => (value >= 10000 ? `${(value / 1000).toFixed(0)}k` : `${+value.toFixed(value < 10 ? 2 : 0)}`);
const milliseconds = (value) => `${plain(value)} ms`;
const short = (text) => (text.length <= 60 ? text : html("span", { title: text }, `${text.slice(0, 57)}...`));
const perSecond = (value) => `${plain(value)}/s`;
const when = (seconds) => new Date(seconds * 1000).toLocaleString();
const now = () => Date.now() / 1000 + skew;

function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${whole} s`;
  if (whole < 7200) return `${Math.round(whole / 60)} min`;
  if (whole < 172800) return `${Math.round(whole / 3600)} h`;
  return `${Math.round(whole / 86400)} days`;
}

async function get(path) {
  const answer = await fetch(path, { credentials: "same-origin" });
  if (answer.status === 401) { location.assign("/login"); throw new Error("log in"); }
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error || `HTTP ${answer.status}`);
  return content;
}

function section(title, ...children) {
  return html("section", {}, html("h2", {}, ...[].concat(title)), ...children);
}

function wide(part) { part.classList.add("wide"); return part; }

// columns: [title, "number" or "", row => text or element]
function table(columns, rows) {
  const head = html("tr", {}, ...columns.map(([title, kind]) => html("th", { className: kind }, title)));
  const body = rows.slice(0, ROWS_MAX).map((row) =>
    html("tr", {}, ...columns.map(([, kind, value]) => html("td", { className: kind }, value(row)))));
  const whole = html("table", {}, html("thead", {}, head), html("tbody", {}, ...body));
  if (!rows.length) return html("p", { className: "soft" }, "none");
  if (rows.length <= ROWS_MAX) return whole;
  return html("div", {}, whole, html("p", { className: "soft" }, `${rows.length - ROWS_MAX} more are not shown`));
}

function countedSince(seconds) {
  return seconds ? `since ${when(seconds)}, when the ResourceManager started or became active` : "since the ResourceManager's start";
}

function leftOut(count, what) {
  return count ? html("p", { className: "fail" }, `${count} more ${what} are left out`) : "";
}

function readAt(seconds) {
  return html("small", {}, seconds ? ` as read ${when(seconds)}` : " never read");
}

// Old readings are shown as old.
function aged(part, seconds) {
  if (!seconds || now() - seconds > OLD_S || !overview || overview.state !== "ACTIVE") part.classList.add("old");
  return part;
}

async function overTime(names, format, options) {
  const seconds = Number(span.value);
  const query = new URLSearchParams({ span_s: seconds });
  names.forEach(([name]) => query.append("name", name));
  const found = await get(`/api/history?${query}`);
  const until = now();
  const lines = names.map(([name, title, dashed]) => ({ name: title, dashed, points: found.series[name] || [] }));
  return lineChart(lines, { from: until - seconds, until, step: found.step_s, format, ...options });
}

async function showOverview() {
  const totals = overview.totals;
  const figure = (value, text) => html("span", {}, html("b", {}, value), text);
  const figures = html("div", { className: "figures" },
    figure(totals.nodes, "nodes that run"), figure(totals.containers, "containers"),
    figure(percent(totals.memory_used_mb / Math.max(1, totals.memory_mb)), "of memory"),
    figure(percent(totals.vcores_used / Math.max(1, totals.vcores)), "of cores"),
    figure(`${overview.jobs_running} of ${overview.jobs}`, "jobs run"));
  const events = table([["when", "", (row) => when(row.at_s)], ["what", "", (row) => row.text]], overview.events);
  return [
    aged(section(["cluster", readAt(overview.totals_s)], figures,
      html("p", { className: "soft" }, overview.policy ? `mode ${overview.mode}; policy ${overview.policy}` : "")),
      overview.totals_s),
    section("used", await overTime([["memory used", "memory"], ["vcores used", "cores"]], percent, { top: 1 })),
    section("placements a second", await overTime(
      [["rate Committed", "by Treadle"], ["rate PlacedByCapacityScheduler", "by the stock scheduler"]], perSecond)),
    section("jobs", await overTime([["jobs", "not ended"], ["jobs running", "running"]], plain)),
    section("Treadle schedules", await overTime([["schedules", "part of the time"]], percent, { top: 1 })),
    wide(section("what changed", events)),
  ];
}

async function showQueues() {
  const found = await get("/api/queues");
  const indent = (row) => "\u00a0\u00a0".repeat(row.depth) + row.path;
  const share = (name) => (row) => percent(row[name]);
  const columns = [["queue", "", indent], ["state", "", (row) => row.state], ["used", "number", share("used")],
    ["entitled", "number", share("entitled")], ["asks for more", "number", share("pending")],
    ["guaranteed", "number", share("guaranteed")], ["maximum", "number", share("maximum")],
    ["reserved", "number", share("reserved")], ["active jobs", "number", (row) => row.running],
    ["not active", "number", (row) => row.waiting], ["containers", "number", (row) => row.containers]];
  const parts = [aged(wide(section(["queues", readAt(found.at_s)], table(columns, found.queues),
    leftOut(found.left_out, "queues"),
    html("p", { className: "soft" }, "entitled: the queue's guarantee, as far as it asks for it"))), found.at_s)];
  for (const queue of found.queues.filter((row) => row.leaf).slice(0, 12)) {
    const name = `queue ${queue.path}`;
    parts.push(section(queue.path, await overTime(
      [[`${name} used`, "used"], [`${name} entitled`, "entitled", true]], percent)));
  }
  return parts;
}

async function showNodes() {
  const found = await get("/api/nodes");
  const told = html("p", { className: "soft" }, "point at a node");
  const used = (at) => Math.max(found.memory_used_mb[at] / Math.max(1, found.memory_mb[at]),
    found.vcores_used[at] / Math.max(1, found.vcores[at]));
  const cells = found.name.map((name, at) => {
    const runs = found.state[at] === "RUNNING", held = found.held_for[at];
    const label = found.label[at] ? `, label ${found.label[at]}` : "";
    return {
      colour: runs ? heat(used(at)) : "#c9cfd6", mark: runs ? (held ? "#d9480f" : "") : found.state[at] === "DECOMMISSIONING" ? "#9a6700" : "#c62f2f",
      text: `${name}: ${found.state[at]}, ${found.containers[at]} containers, memory ${found.memory_used_mb[at]} of ` +
        `${found.memory_mb[at]} MB, cores ${found.vcores_used[at]} of ${found.vcores[at]}, rack ${found.rack[at]}${label}${held ? `, kept free for ${held}` : ""}`,
    };
  });
  const states = {};
  found.state.forEach((state) => { states[state] = (states[state] || 0) + 1; });
  const counts = Object.entries(states).map(([state, count]) => `${count} ${state}`).join(", ");
  const kept = found.name.map((name, at) => at).filter((at) => found.held_for[at]);
  const away = found.name.map((name, at) => at).filter((at) => found.state[at] !== "RUNNING");
  return [
    aged(wide(section([`nodes: ${counts || "none"}`, readAt(found.at_s)], heatMap(cells, told), told,
      leftOut(found.left_out, "nodes"),
      html("p", { className: "soft" }, "dark: full, by the resource of which most is used; grey: does not run; " +
        "orange border: kept free by the engine for a large ask"))), found.at_s),
    section("nodes that run", await overTime([["nodes", "nodes"]], plain)),
    section("containers", await overTime([["containers", "containers"]], plain)),
    found.held_error
      ? wide(section("nodes that are kept free", html("p", { className: "soft" }, `not known: ${found.held_error}`)))
      : wide(section("nodes that are kept free", table([["node", "", (at) => found.name[at]],
        ["for", "", (at) => jobLink({ id: found.held_for[at] })]], kept))),
    wide(section("nodes that do not run", table([["node", "", (at) => found.name[at]], ["state", "", (at) => found.state[at]],
      ["rack", "", (at) => found.rack[at]]], away))),
  ];
}

function jobLink(row) {
  return html("a", { href: `#application/${encodeURIComponent(row.id)}`, title: row.id }, row.id.replace("application_", ""));
}

async function showJobs() {
  const found = await get("/api/jobs");
  const left = (row) => (row.expected_ms === null ? "" : duration((row.expected_ms - row.elapsed_ms) / 1000));
  const running = [["job", "", jobLink], ["name", "", (row) => short(row.name)], ["user", "", (row) => short(row.user)],
    ["queue", "", (row) => short(row.queue)], ["type", "", (row) => row.type], ["state", "", (row) => row.state],
    ["came as", "number", (row) => row.place], ["progress", "number", (row) => percent(row.progress)],
    ["runs since", "number", (row) => duration(row.elapsed_ms / 1000)], ["left, by progress", "number", left],
    ["containers", "number", (row) => row.containers], ["by Treadle", "number", (row) => row.placed ?? ""],
    ["natively", "number", (row) => row.placed_by_capacity_scheduler ?? ""],
    ["reserved MB", "number", (row) => row.reserved_mb]];
  const expected = (mark) => (row) => {
    const value = (row.expected_ms || {})[mark];
    return value === undefined ? "" : `${duration(value / 1000)} (${value > row.elapsed_ms ? "+" : ""}` +
      `${Math.round((100 * (value - row.elapsed_ms)) / Math.max(1, row.elapsed_ms))} %)`;
  };
  const ended = [["job", "", jobLink], ["name", "", (row) => short(row.name)], ["user", "", (row) => short(row.user)],
    ["queue", "", (row) => short(row.queue)], ["ended", "", (row) => when(row.ended_ms / 1000)], ["as", "", (row) => row.final],
    ["took", "number", (row) => duration(row.elapsed_ms / 1000)], ["expected at 25 %", "number", expected("0.25")],
    ["at 50 %", "number", expected("0.5")], ["at 75 %", "number", expected("0.75")]];
  return [
    aged(wide(section([`jobs that have not ended: ${found.running.length + found.left_out}`, readAt(found.at_s)],
      table(running, found.running), leftOut(found.left_out, "jobs"),
      html("p", { className: "soft" }, "came as: position by submission time in its queue; the link shows the engine's order. " +
        "Progress is as the application master reports it. By Treadle, natively: containers placed " +
        `${countedSince(found.counted_since_s)}.`))), found.at_s),
    wide(section("jobs that ended", table(ended, found.ended))),
  ];
}

async function showDecisions() {
  const found = await get("/api/decisions");
  if (!found.there) return [section("decisions", html("p", { className: "fail" }, "nothing is known of decisions"))];
  const reasons = Object.entries(found.rejected).filter(([, count]) => count).sort((one, other) => other[1] - one[1]);
  const texts = Object.entries(found.texts).filter(([, text]) => text);
  const parts = [
    aged(section(["engine", readAt(found.at_s)], table([["", "", (row) => row[0]], ["", "", (row) => row[1]]],
      [...texts, ...Object.entries(found.numbers)]),
      html("p", { className: "soft" }, `counters and times ${countedSince(found.counted_since_s)}`)), found.at_s),
    section("time of a decision", await overTime([["decide p50", "half within"], ["decide p99", "99 % within"]], milliseconds)),
    section("proposals a second", await overTime([["rate Proposals", "proposed"], ["rate Committed", "placed"],
      ["rate Rejected", "rejected"],
      ["rate PlacedByCapacityScheduler", "placed by the stock scheduler"]], perSecond)),
    section("rejected, by reason, since then", table([["reason", "", (row) => row[0]], ["proposals", "number", (row) => row[1]],
      ["a second now", "number", (row) => perSecond((found.rates[`Rejected${row[0]}`]) || 0)]], reasons)),
  ];
  if (reasons.length) parts.push(section("rejected, over time", await overTime(
    reasons.slice(0, 8).map(([reason]) => [`rate Rejected${reason}`, reason]), perSecond)));
  if (found.engines.length) {
    parts.push(wide(section("engines", table([["engine", "", (row) => row.engine],
      ["lives", "", (row) => (row.lives ? "yes" : "no")], ["served by", "", (row) => row.served_by],
      ["applications", "number", (row) => row.applications], ["policy", "", (row) => row.policy],
      ["busy", "number", (row) => percent(row.busy)], ["placed", "number", (row) => row.committed],
      ["conflicts", "number", (row) => row.conflicts], ["retries", "number", (row) => row.retries],
      ["wait p99", "number", (row) => milliseconds(row.wait_p99_ms)], ["last error", "", (row) => row.last_error]],
      found.engines))));
    parts.push(section("placements a second, by engine", await overTime(
      found.engines.map((row) => [`rate engine ${row.engine} committed`, row.engine]), perSecond)));
  }
  return parts;
}

// The ResourceManager's facts of an application.
function fromYarn(found) {
  return [html("p", { className: "soft" }, "YARN's diagnostics (not Treadle's)"), html("pre", {}, found.diagnostics || "none")];
}

async function showApplication(id) {
  const found = await get(`/api/application/${encodeURIComponent(id)}`);
  const parts = [];
  const why = found.explained;
  if (why) {
    const facts = why.facts;
    const among = `${facts.asking_in_queue} applications of its queue`;
    const first = facts.with_higher_priority ? `; ${facts.with_higher_priority} of them first for their priority` : "";
    const line = (facts.ahead_in_queue === null ? `${among} ask ` : `${facts.ahead_in_queue} of ${among} that ask are before it `) +
      `(order ${facts.order}, share ${facts.share}${first}); ${facts.containers} containers, ${facts.asked_for} asked for, ` +
      `${facts.proposed} proposed`;
    parts.push(wide(section(`${why.application} (${why.name}) of ${why.user} in ${why.queue}: ${why.state}`,
      html("p", {}, line), ...(why.stalled || []).map((text) => html("p", { className: "fail" }, text)),
      html("p", { className: "soft" }, `as of ${when(found.asked_s)}`))));
    const refused = Object.entries(why.rejected);
    if (refused.length) parts.push(section("rejected so far", table([["reason", "", (row) => row[0].replaceAll("_", " ")],
      ["proposals", "number", (row) => row[1]]], refused)));
    for (const ask of why.asks) {
      const wanted = Object.entries(ask.capability).map(([name, amount]) => `${amount} ${name}`).join(", ");
      const nodes = Object.entries(ask.nodes).map(([reason, count]) => `${count} ${reason.replaceAll("_", " ")}`).join(", ");
      const label = ask.partition ? `, label ${ask.partition}` : "";
      parts.push(wide(section(`ask ${ask.key}: ${ask.count} x ${wanted}, priority ${ask.priority}${label}`,
        table([["verdict", "", (row) => row.verdict], ["why", "", (row) => row.text]], ask.causes),
        html("p", { className: "soft" }, `nodes: ${nodes || "none"}`),
        ask.ways.length ? table([["what would let it start", "", (row) => row.text]], ask.ways) : "")));
    }
    if (!why.asks.length) parts.push(wide(section("asks", html("p", {}, "it asks for nothing now"))));
    if (why.left_out) parts.push(leftOut(why.left_out, "asks"));
  } else if (found.ended) {
    parts.push(wide(section(`${id} has ended: ${found.ended}`, ...fromYarn(found))));
    return parts;
  } else {
    parts.push(wide(section(id, html("p", { className: "fail" }, `no explanation by Treadle: ${found.explain_error}`),
      ...fromYarn(found))));
  }
  if (found.asks) parts.push(wide(section("stages that wait, as the ResourceManager tells them", table(
    [["request priority", "number", (row) => row.priority], ["stage", "", (row) => row.stage],
      ["containers", "number", (row) => row.count], ["memory MB", "number", (row) => row.memory_mb],
      ["cores", "number", (row) => row.vcores], ["other resources", "", (row) => row.others],
      ["label", "", (row) => row.label]], found.asks))));
  else parts.push(wide(section("stages", html("p", { className: "fail" }, found.asks_error))));
  return parts;
}

function showState() {
  const light = document.getElementById("light"), box = document.getElementById("troubles");
  const troubles = [];
  if (serverSilent !== null) troubles.push({ severity: "fail", text: "the dashboard does not answer", since_s: serverSilent });
  else if (looked && now() - looked > STALE_S)
    troubles.push({ severity: "fail", text: "no update; the ResourceManager may hang", since_s: looked });
  if (overview) troubles.push(...overview.conditions);
  const worst = troubles.some((each) => each.severity === "fail") ? "fail" : troubles.length ? "warn" : "ok";
  if (!overview) { light.textContent = "connecting"; light.className = "light unknown"; }
  else {
    const fresh = serverSilent === null && now() - looked <= STALE_S;
    light.textContent = !fresh || !overview.state ? "not known" : overview.schedules ? "Treadle schedules" : "Treadle does not schedule";
    light.className = `light ${overview.schedules || worst === "fail" ? worst : "warn"}`;
    document.getElementById("where").textContent = overview.rm;
    document.getElementById("age").textContent = overview.heard_s
      ? `updated ${duration(now() - overview.heard_s)} ago` : "never updated";
  }
  box.replaceChildren(...troubles.map((each) => html("div", { className: `trouble ${each.severity}` },
    `${each.text} \u2014 since ${when(each.since_s)} (${duration(now() - each.since_s)})`)));
}

async function draw() {
  const mine = ++drawing;
  const [name, argument] = (location.hash.slice(1) || "overview").split("/");
  const show = PAGES[name] || showOverview;
  for (const link of document.querySelectorAll("nav a")) link.className = link.hash === `#${name}` ? "here" : "";
  let parts;
  try {
    overview = await get("/api/overview");
    showState();
    parts = await show(decodeURIComponent(argument || ""));
  } catch (error) {
    parts = [section("no answer", html("p", { className: "fail" }, String(error.message || error)))];
  }
  if (mine !== drawing) return;
  main.replaceChildren(...parts.flat());
  main.dataset.page = name;
}

function listen() {
  const events = new EventSource("/api/events");
  let version = -1;
  events.addEventListener("look", (event) => {
    const told = JSON.parse(event.data);
    skew = told.now_s - Date.now() / 1000;
    looked = told.polled_s;
    serverSilent = null;
    const asks = location.hash.startsWith("#application");
    // a question costs the engine something: the page of an application is drawn once, only an unreadable document is read again
    if (told.version !== version) {
      if (asks && version >= 0) get("/api/overview").then((found) => { overview = found; showState(); }).catch(() => {});
      else draw();
    }
    version = told.version;
    showState();
  });
  events.addEventListener("error", () => {
    if (serverSilent === null) serverSilent = now();
    showState();
    // a refusal ends the stream for good: another try, or the way to the log-in
    if (events.readyState === EventSource.CLOSED) setTimeout(() => get("/api/overview").catch(() => {}).then(listen), 5000);
  });
}

window.addEventListener("hashchange", draw);
span.addEventListener("change", draw);
setInterval(showState, 1000);
draw();
listen();
