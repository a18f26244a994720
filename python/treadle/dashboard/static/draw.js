// Lines over time and a heat map, as SVG. Texts go in as text nodes: names are whatever users chose.
"use strict";

const COLOURS = ["#0b5cad", "#c2571a", "#1a7f4b", "#8b3fa8", "#a8842c", "#b8336a", "#3b8f9c", "#5c6b7a"];

function svg(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function html(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) element[name] = value;
  for (const child of children) element.append(child);
  return element;
}

function clock(seconds, span) {
  const time = new Date(seconds * 1000);
  if (span > 86400) return time.toISOString().slice(5, 10);
  return time.toTimeString().slice(0, 5);
}

// The top of an axis: 1, 2 or 5 times a power of ten.
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = Math.pow(10, Math.floor(Math.log10(value)));
  return [1, 2, 5, 10].map((times) => times * power).find((top) => top >= value * 0.999) || 10 * power;
}

// lines: [{name, points: [[seconds, number], ...]}]; a gap of more than three steps breaks a line.
function lineChart(lines, { from, until, step, format, top }) {
  const width = 640, height = 180, left = 52, right = 8, above = 8, below = 20;
  const box = html("div");
  const most = top || roundUp(Math.max(0, ...lines.flatMap((line) => line.points.map((point) => point[1]))));
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  const x = (seconds) => left + ((seconds - from) / (until - from)) * (width - left - right);
  const y = (value) => height - below - (Math.min(value, most) / most) * (height - above - below);
  for (let part = 0; part <= 4; part++) {
    const value = (most * part) / 4;
    chart.append(svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), stroke: "#e3e8ed" }));
    chart.append(svg("text", { x: left - 6, y: y(value) + 3, "text-anchor": "end" }, format(value)));
    const seconds = from + ((until - from) * part) / 4;
    const anchor = part === 0 ? "start" : part === 4 ? "end" : "middle";
    chart.append(svg("text", { x: x(seconds), y: height - 6, "text-anchor": anchor }, clock(seconds, until - from)));
  }
  const key = html("div", { className: "key" });
  lines.forEach((line, index) => {
    const colour = COLOURS[index % COLOURS.length];
    const dash = line.dashed ? { "stroke-dasharray": "4 3" } : {};
    let run = [], before = null;
    const flush = () => {
      if (run.length === 1) chart.append(svg("circle", { cx: run[0][0], cy: run[0][1], r: 1.5, fill: colour }));
      if (run.length > 1)
        chart.append(svg("polyline", { points: run.join(" "), fill: "none", stroke: colour, "stroke-width": 1.5, ...dash }));
      run = [];
    };
    for (const [seconds, value] of line.points) {
      if (before !== null && seconds - before > 3 * step) flush();
      run.push([x(seconds).toFixed(1), y(value).toFixed(1)]);
      before = seconds;
    }
    flush();
    const sign = svg("svg", { viewBox: "0 0 10 10" });
    sign.append(svg("rect", { width: 10, height: 10, fill: colour }));
    const last = line.points.length ? ` ${format(line.points[line.points.length - 1][1])}` : " no data";
    key.append(html("span", {}, sign, line.name + last));
  });
  box.append(chart, key);
  return box;
}

// From white to dark blue.
function heat(part) {
  const at = Math.max(0, Math.min(1, part));
  const mix = (light, dark) => Math.round(light + (dark - light) * at);
  return `rgb(${mix(232, 8)},${mix(240, 64)},${mix(248, 129)})`;
}

// cells: [{colour, mark, text}]; mark is drawn as a border of that colour.
function heatMap(cells, told) {
  const columns = Math.max(40, Math.ceil(Math.sqrt(cells.length * 3)));
  const size = 10, rows = Math.ceil(cells.length / columns);
  const map = svg("svg", { viewBox: `0 0 ${columns * size} ${Math.max(rows, 1) * size}`, role: "img", class: "heat" });
  cells.forEach((cell, index) => {
    const square = svg("rect", {
      x: (index % columns) * size + 0.5, y: Math.floor(index / columns) * size + 0.5, width: size - 1, height: size - 1,
      fill: cell.colour, ...(cell.mark ? { stroke: cell.mark, "stroke-width": 1.5 } : {}),
    });
    square.dataset.at = index;
    map.append(square);
  });
  // one listener, however many nodes there are
  map.addEventListener("mouseover", (event) => {
    const at = event.target.dataset && event.target.dataset.at;
    if (at !== undefined) told.textContent = cells[at].text;
  });
  return map;
}
