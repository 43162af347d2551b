// uPlot, in one look: quiet grid, direct labels, colours that people with any colour vision can tell apart.

const PALETTE = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b0508c", "#c98a00", "#3a9bd4", "#6a4c93", "#6b6b6b"],
  dark: ["#4da3e0", "#f2803a", "#35c79a", "#e39ac4", "#f2b632", "#8cd0f5", "#b497d6", "#b8b8b8"],
};
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3]];
const CLASS_COLORS = {
  light: {"Correct": "#009e73", "Numerical error": "#e6a817", "Runtime error": "#d55e00", "Kernel Execution Timeout": "#b0508c",
    "Compilation error": "#0072b2", "Extraction error": "#6cb8e6", "Other error": "#8a8a8a"},
  dark: {"Correct": "#2fbf93", "Numerical error": "#f0bd48", "Runtime error": "#f07a35", "Kernel Execution Timeout": "#d98abf",
    "Compilation error": "#4796d6", "Extraction error": "#9fd2f2", "Other error": "#9a9a9a"},
};
const CLASS_ORDER = ["Correct", "Numerical error", "Runtime error", "Kernel Execution Timeout", "Compilation error", "Extraction error",
  "Other error"];
const OTHER_SHADES = ["#b5b5b5", "#707070", "#cfcfcf", "#555555"];

let darkNow = null; // asking the browser each time is slow
function isDark() {
  if (darkNow === null) {
    const chosen = document.documentElement.dataset.theme;
    darkNow = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  return darkNow;
}
const mode = () => isDark() ? "dark" : "light";
const seriesColor = number => PALETTE[mode()][number % PALETTE.light.length];
const seriesDash = number => DASHES[Math.floor(number / PALETTE.light.length) % DASHES.length];

/** The style sheet's colours and font, read once for each theme: asking for them in between makes the browser lay the page out. */
const looks = {};
function css(name) {
  const look = looks[mode()] || (looks[mode()] = {style: getComputedStyle(document.documentElement), font: getComputedStyle(document.body).fontFamily, known: {}});
  return name === "font" ? look.font : look.known[name] || (look.known[name] = look.style.getPropertyValue(name).trim());
}

function classColor(label, data = state.data) {
  const name = data.names.label[label], known = CLASS_COLORS[mode()][name];
  return known || OTHER_SHADES[label % OTHER_SHADES.length];
}

/** Labels with turns, in the taxonomy's order. */
function orderedLabels(counts) {
  const names = state.data.names.label;
  const rank = label => { const at = CLASS_ORDER.indexOf(names[label]); return at < 0 ? CLASS_ORDER.length : at; };
  return names.map((_, label) => label).filter(label => counts[label] > 0).sort((a, b) => rank(a) - rank(b) || a - b);
}

function fade(color, alpha) {
  const value = parseInt(color.slice(1), 16);
  return `rgba(${value >> 16}, ${(value >> 8) & 255}, ${value & 255}, ${alpha})`;
}

// ---- charts

const charts = new Map(); // box -> {plot, key, spec, line}
const sizes = new ResizeObserver(entries => {
  for (const {target, contentRect} of entries) {
    const chart = charts.get(target);
    if (chart && contentRect.width > 0 && (contentRect.width !== chart.plot.width || contentRect.height !== chart.plot.height)) chart.plot.setSize(contentRect);
  }
});
const inSight = new Set(), waiting = new Map(); // boxes; box -> spec of a chart that nobody sees yet
const sight = new IntersectionObserver(entries => {
  for (const {target, isIntersecting} of entries) {
    if (isIntersecting) { inSight.add(target); drawWaiting(target); } else inSight.delete(target);
  }
});

function drawWaiting(box) {
  const spec = waiting.get(box);
  waiting.delete(box);
  try {
    if (spec) drawNow(box, spec);
  } catch (error) {
    notice(box.closest(".body"), error);
  }
}

const drawAllWaiting = () => { for (const box of [...waiting.keys()]) drawWaiting(box); };

/** Draws a chart into the box of a figure, or brings the one that is there up to date, if it is out of sight when there is time. */
function draw(box, spec) {
  waiting.delete(box);
  if (!charts.has(box) || inSight.has(box)) return drawNow(box, spec);
  waiting.set(box, spec);
  later(() => drawWaiting(box));
}

/**
 * What a chart is made of:
 *   series   [{name, x: [], y: [], color, solid, width, dash, point, faded}]: later ones over earlier ones, y null where there is
 *            nothing. `point` is the size of points in px, `solid` the colour of a faded one's name. `low`: with this as the lower edge and y as the upper one, a band.
 *   x, y     {min, max, title, whole, small}; x.names: categories, at 0, 1, ...; whole: no fractions at the axis
 *   bars     "stacked" or "grouped", over x.names; `lying` bars have their names at the left
 *   tip      {title(x), line(series, y, index), foot(index)}: what a pointer brings up; categories are their own titles
 *   pick     (x) called with the place of a click; threshold: a line at x
 */
function drawNow(box, spec) {
  waiting.delete(box);
  const {xs, columns} = aligned(spec);
  // What makes another chart of it. Ranges and data do not.
  const {x, y} = spec, key = JSON.stringify([mode(), spec.bars, spec.lying, x.title, x.small, x.whole, x.names, y.title, y.whole, spec.series.map(one => [one.color, one.width, one.dash, one.point, one.low !== undefined])]);
  let chart = charts.get(box);
  if (chart && chart.key === key) {
    chart.spec = spec;
    chart.plot.setData([xs, ...columns]);
    hideTip(chart);
    return;
  }
  if (chart) {
    hideTip(chart);
    chart.plot.destroy();
    charts.delete(box);
  }
  chart = {key, spec};
  chart.plot = new uPlot(optionsFor(chart, box.clientWidth, box.clientHeight), [xs, ...columns], box);
  charts.set(box, chart);
  listen(chart);
  sizes.observe(box);
  sight.observe(box);
}

/** All series over the same xs, as uPlot wants them. */
function aligned({series, bars, x}) {
  if (bars === "stacked") {
    // Each from zero to the sum of those before it and itself; the longest first, under the others.
    const sums = x.names.map(() => 0);
    const columns = series.map(one => one.y.map((value, i) => value === null ? null : (sums[i] += value)));
    return {xs: x.names.map((_, i) => i), columns: columns.reverse()};
  }
  if (bars === "grouped") {
    const step = GROUP / series.length, xs = [];
    x.names.forEach((_, i) => series.forEach((_, s) => xs.push(i + (s - (series.length - 1) / 2) * step)));
    return {xs, columns: series.map((one, s) => xs.map((_, at) => at % series.length === s ? one.y[Math.floor(at / series.length)] : null))};
  }
  const edges = series.flatMap(one => one.low ? [{x: one.x, y: one.y}, {x: one.x, y: one.low}] : [one]);
  if (!edges.length) return {xs: [x.min, x.max], columns: []};
  if (edges.every(one => one.x === edges[0].x)) return {xs: edges[0].x, columns: edges.map(one => one.y)};
  const [xs, ...columns] = uPlot.join(edges.map(one => [one.x, one.y]));
  return {xs, columns};
}

const GROUP = 0.72; // of the room of a category
const WHOLE = [1, 10, 100, 1e3, 1e4, 1e5, 1e6].flatMap(one => [one, 2 * one, 5 * one]);

function optionsFor(chart, width, height) {
  const {spec} = chart, {x, y, bars, lying} = spec, family = css("font"), ink = css("--soft"), grid = {stroke: css("--grid"), width: 1};
  const font = (x.small ? "10px " : "12px ") + family, none = {show: false};
  const axis = (given, across) => ({stroke: ink, font, grid, ticks: none, gap: 6, size: across ? 24 : 38, label: given.title, labelFont: font, labelSize: given.title ? 20 : 0,
    space: across ? (x.small ? 40 : 60) : (x.small ? 28 : 36), incrs: given.whole ? WHOLE : undefined});
  const axes = [{...axis(x, !lying), scale: "x"}, {...axis(y, lying), scale: "y"}];
  if (lying) { axes[0].side = 3; axes[1].side = 2; }
  const range = (key, {min, max, names} = chart.spec[key]) => names ? [-0.5, names.length - 0.5] : min < max ? [min, max] : [min - 0.5, min + 0.5];
  // Lines at the ends of the axis are seen whole.
  const values = () => { const [low, high] = range("y"), room = bars ? 0 : 0.015 * (high - low); return [low - room, high + room]; };
  if (x.names) {
    // Names that have room; those at the left have it all.
    const wide = nameWidth(x.names, font);
    axes[0].grid = bars ? none : grid;
    axes[0].splits = u => {
      const every = lying ? 1 : Math.max(1, Math.ceil((wide + 10) * x.names.length / (u.bbox.width / devicePixelRatio || width)));
      return x.names.map((_, i) => i).filter(i => i % every === 0);
    };
    axes[0].values = (u, splits) => splits.map(i => lying ? shortened(x.names[i], font, u.width * 0.4) : x.names[i]);
    if (lying) axes[0].size = u => Math.ceil(Math.min(wide, u.width * 0.4)) + 12;
  }
  const series = spec.series.flatMap(one => {
    const line = {label: one.name, stroke: one.color, width: one.width ?? 2, dash: one.dash && one.dash.length ? one.dash : undefined, spanGaps: false,
      points: one.point ? {show: true, size: one.point, width: 0, fill: one.color, stroke: one.color} : none};
    if (one.low) return [{...line, width: 0, points: none}, {...line, width: 0, points: none}];
    if (bars) Object.assign(line, {width: 0, fill: one.color, stroke: undefined, points: none, paths: uPlot.paths.bars({size: [bars === "stacked" ? (lying ? 0.78 : 0.9) : spec.series.length > 1 ? 0.92 : 0.7, 100]})});
    return [line];
  });
  const bands = [];
  let at = 1;
  for (const one of spec.series) { if (one.low) bands.push({series: [at, at + 1], fill: one.fill}); at += one.low ? 2 : 1; }
  return {width, height, pxAlign: 1, padding: [8, 14, 0, 0], legend: none, cursor: none, bands,
    scales: {x: {time: false, range: () => range("x"), ...(lying ? {ori: 1, dir: -1} : {})}, y: {range: values, ...(lying ? {ori: 0} : {})}},
    axes, series: [{}, ...(bars === "stacked" ? series.reverse() : series)], hooks: {draw: [() => placeThreshold(chart)]}};
}

const ruler = {context: null, widths: new Map()};
function textWidth(text, font) {
  const key = font + text;
  let width = ruler.widths.get(key);
  if (width === undefined) {
    if (!ruler.context) ruler.context = document.createElement("canvas").getContext("2d");
    ruler.context.font = font;
    ruler.widths.set(key, width = ruler.context.measureText(text).width);
  }
  return width;
}

const nameWidth = (names, font) => names.reduce((most, name) => Math.max(most, textWidth(name, font)), 0);

function shortened(name, font, room) {
  if (textWidth(name, font) <= room) return name;
  let length = name.length;
  while (length > 1 && textWidth(name.slice(0, length) + "…", font) > room) length--;
  return name.slice(0, length) + "…";
}

/** A line at the chosen threshold. */
function placeThreshold(chart) {
  const {threshold} = chart.spec;
  if (threshold === undefined) return;
  if (!chart.line) chart.plot.over.append(chart.line = el("div", {class: "threshold"}));
  chart.line.hidden = threshold > chart.spec.x.max;
  chart.line.style.left = chart.plot.valToPos(threshold, "x") + "px";
}

function moveThreshold(box, p) {
  const chart = charts.get(box), next = waiting.get(box);
  if (next) next.threshold = p;
  if (!chart) return;
  chart.spec.threshold = p;
  placeThreshold(chart);
}

// ---- what a pointer brings up

let tip = null;

/** Of this chart, or whichever it is. */
function hideTip(chart = null) {
  if (!tip || (chart && tip.chart !== chart)) return;
  tip.element.hidden = true;
  tip.mark.remove();
  tip.chart = null;
}

function listen(chart) {
  const {over} = chart.plot;
  over.addEventListener("pointermove", event => showTip(chart, event));
  over.addEventListener("pointerleave", () => hideTip());
  over.addEventListener("click", event => {
    if (chart.spec.pick) chart.spec.pick(chart.plot.posToVal(event.offsetX, "x"));
    showTip(chart, event); // a finger does not move over it
  });
}

/** The point that is nearest, of a line; all of a category, of bars. */
function showTip(chart, event) {
  const {plot, spec} = chart, {series, bars, lying, x} = spec;
  if (!spec.tip) return;
  if (!tip) {
    tip = {element: el("div", {class: "tip", "aria-hidden": "true"}), mark: el("div", {class: "tip-mark", "aria-hidden": "true"})};
    document.body.append(tip.element);
  }
  const row = (one, y, index) => el("p", {}, el("span", {class: "swatch", color: one.solid || one.color}), spec.tip.line(one, y, index));
  if (bars) {
    const index = Math.round(plot.posToVal(lying ? event.offsetY : event.offsetX, "x"));
    if (!(index >= 0 && index < x.names.length)) return hideTip();
    replace(tip.element, el("p", {class: "tip-title"}, x.names[index]), series.filter(one => bars === "stacked" ? one.y[index] : one.y[index] !== null).map(one => row(one, one.y[index], index)),
      spec.tip.foot ? el("p", {}, spec.tip.foot(index)) : null);
  } else {
    let best = null, least = Infinity;
    const apart = series.some(one => one.faded) && series.some(one => one.faded === false);
    for (const one of series) {
      if (one.low || (apart && one.faded)) continue;
      for (let i = 0; i < one.x.length; i++) {
        if (one.y[i] === null) continue;
        const left = plot.valToPos(one.x[i], "x"), top = plot.valToPos(one.y[i], "y"), far = (left - event.offsetX) ** 2 + (top - event.offsetY) ** 2;
        if (far < least) { least = far; best = {one, i, left, top}; }
      }
    }
    if (!best) return hideTip();
    const {one, i} = best;
    replace(tip.element, el("p", {class: "tip-title"}, spec.tip.title ? spec.tip.title(one.x[i]) : x.names[one.x[i]]), row(one, one.y[i], i));
    tip.mark.style.setProperty("--c", one.solid || one.color);
    tip.mark.style.left = best.left + "px";
    tip.mark.style.top = best.top + "px";
    plot.over.append(tip.mark);
  }
  const {element} = tip;
  tip.chart = chart;
  element.hidden = false;
  // Beside the pointer, on the side that has room.
  const width = element.offsetWidth, height = element.offsetHeight;
  element.style.left = (event.clientX + 14 + width > innerWidth ? Math.max(0, event.clientX - 14 - width) : event.clientX + 14) + "px";
  element.style.top = Math.max(0, Math.min(event.clientY - height / 2, innerHeight - height)) + "px";
}

document.addEventListener("scroll", () => hideTip(), {passive: true, capture: true});
document.addEventListener("pointerdown", () => hideTip(), {passive: true});

// ---- around charts

function forget(container) {
  for (const box of container.querySelectorAll(".canvas")) forgetBox(box);
}

function forgetBox(box) {
  const chart = charts.get(box);
  if (!chart) return;
  hideTip(chart);
  waiting.delete(box);
  inSight.delete(box);
  sizes.unobserve(box);
  sight.unobserve(box);
  chart.plot.destroy();
  charts.delete(box);
}

function forgetAll() {
  for (const box of [...charts.keys()]) forgetBox(box);
}

/** A chart's box in a figure: title, and what is drawn. */
function figure(title, height, label) {
  const box = el("div", {class: "canvas", role: "img", "aria-label": label || title});
  box.style.height = height + "px";
  return {box, element: el("figure", {}, title ? el("figcaption", {}, title) : null, box)};
}

/** Marks of the series, each a button that sets it apart. */
function legend(series, focus, change) {
  return el("div", {class: "legend", role: "group", "aria-label": "Series; press one to set it apart"},
    series.map(one => el("button", {type: "button", class: "key-button" + (focus !== null && focus !== one.key ? " faded" : ""),
      "aria-pressed": String(focus === one.key), onclick: () => change(focus === one.key ? null : one.key)},
      el("span", {class: "swatch dash" + Math.floor(one.color / PALETTE.light.length) % DASHES.length, color: seriesColor(one.color),
        "aria-hidden": "true"}), one.name)));
}

/** Marks of what stands in a chart, to read only. */
const marks = list => el("ul", {class: "legend static"}, list.map(({color, text, detail}) =>
  el("li", {}, el("span", {class: "swatch", color, "aria-hidden": "true"}), text, detail ? el("span", {class: "soft"}, " " + detail) : null)));
