// Chart.js, in one look: quiet grid, direct labels, colours that people with any colour vision can tell apart.

const PALETTE = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b0508c", "#c98a00", "#3a9bd4", "#6a4c93", "#6b6b6b"],
  dark: ["#4da3e0", "#f2803a", "#35c79a", "#e39ac4", "#f2b632", "#8cd0f5", "#b497d6", "#b8b8b8"],
};
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3]];
const POINTS = ["circle", "rect", "triangle", "rectRot", "crossRot", "star"];
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
const seriesPoint = number => POINTS[number % POINTS.length];

/** The style sheet's colours and font, read once for each theme: asking for them in between makes the browser lay the page out. */
const looks = {};
function css(name) {
  const look = looks[mode()] || (looks[mode()] = {style: getComputedStyle(document.documentElement), font: getComputedStyle(document.body).fontFamily, known: {}});
  return name === "font" ? look.font : look.known[name] || (look.known[name] = look.style.getPropertyValue(name).trim());
}

function classColor(label) {
  const name = state.data.names.label[label], known = CLASS_COLORS[mode()][name];
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

/** A line at the chosen threshold. */
const thresholdLine = {
  id: "threshold",
  afterDraw(chart) {
    const p = chart.options.plugins.threshold && chart.options.plugins.threshold.value;
    if (p === undefined) return;
    const x = chart.scales.x.getPixelForValue(p), {top, bottom} = chart.chartArea, context = chart.ctx;
    context.save();
    context.strokeStyle = css("--ink");
    context.lineWidth = 1;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(x, top);
    context.lineTo(x, bottom);
    context.stroke();
    context.restore();
  },
};

const charts = new Map(); // canvas -> Chart

/**
 * Draws a chart into a canvas, or updates the one that is there. Options that have not changed stay: taking them in costs more
 * than drawing. Functions among them must not depend on anything but what is current when they are called.
 */
function draw(canvas, type, chartData, options) {
  const key = JSON.stringify(options) + mode(), threshold = options.plugins && options.plugins.threshold;
  const before = charts.get(canvas);
  if (before) {
    before.data = chartData;
    if (before.key !== key) before.options = withLook(options);
    before.key = key;
    if (threshold) before.options.plugins.threshold.value = threshold.value;
    before.update("none");
    return before;
  }
  const chart = new Chart(canvas, {type, data: chartData, options: withLook(options), plugins: [thresholdLine]});
  chart.key = key;
  charts.set(canvas, chart);
  return chart;
}

function forget(container) {
  for (const canvas of container.querySelectorAll("canvas")) {
    const chart = charts.get(canvas);
    if (chart) { chart.destroy(); charts.delete(canvas); }
  }
}

function forgetAll() {
  for (const chart of charts.values()) chart.destroy();
  charts.clear();
}

function withLook(options) {
  const ink = css("--soft"), grid = css("--grid"), font = {family: css("font"), size: 12};
  const axis = given => ({
    ...given,
    grid: {color: grid, drawBorder: false, drawTicks: false, ...(given.grid || {})},
    ticks: {color: ink, font, padding: 6, maxRotation: 0, autoSkip: true, ...(given.ticks || {})},
    title: given.title ? {display: true, color: ink, font, text: given.title} : undefined,
  });
  const scales = {};
  for (const [key, given] of Object.entries(options.scales || {})) scales[key] = axis(given);
  return {
    animation: false, responsive: true, maintainAspectRatio: false, normalized: true, events: ["mousemove", "mouseout", "click"],
    layout: {padding: {top: 6, right: 10}},
    interaction: {mode: "nearest", axis: "xy", intersect: false},
    ...options, scales,
    plugins: {
      legend: false, title: false, subtitle: false, decimation: false, ...(options.plugins || {}),
      tooltip: {
        backgroundColor: css("--tip"), titleColor: css("--tip-ink"), bodyColor: css("--tip-ink"), padding: 10, cornerRadius: 4,
        titleFont: font, bodyFont: font, boxPadding: 4, filter: item => !item.dataset.band,
        ...((options.plugins || {}).tooltip || {}),
      },
    },
  };
}

/** A canvas in a figure: title, chart, and what is behind it as a table. */
function figure(title, height, label) {
  const canvas = el("canvas", {role: "img", "aria-label": label || title});
  const box = el("div", {class: "canvas"}, canvas);
  box.style.height = height + "px";
  return {canvas, element: el("figure", {}, title ? el("figcaption", {}, title) : null, box)};
}

/** Marks of the series, each a button that sets it apart. */
function legend(series, focus, change) {
  return el("div", {class: "legend", role: "group", "aria-label": "Series; press one to set it apart"},
    series.map(one => el("button", {type: "button", class: "key-button" + (focus !== null && focus !== one.key ? " faded" : ""),
      "aria-pressed": String(focus === one.key), onclick: () => change(focus === one.key ? null : one.key)},
      el("span", {class: "swatch dash" + Math.floor(one.color / PALETTE.light.length) % DASHES.length, color: seriesColor(one.color),
        "aria-hidden": "true"}), one.name)));
}
