// Elements, numbers and names. Everything from a run reaches the page as text, never as markup.

/** Makes an element: properties, then children (texts, numbers, elements, lists of these). */
function el(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "width") element.style.setProperty("width", value);
    else if (key === "color") element.style.setProperty("--c", value);
    else if (key === "at") element.style.setProperty("left", value);
    else if (key in element && key !== "list" && key !== "role" && !key.includes("-")) element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) add(element, child);
    else if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

function replace(element, ...children) {
  const fresh = document.createDocumentFragment();
  add(fresh, children);
  element.replaceChildren(fresh);
}

/** Replaces choices if what they offer has changed; the focus stays in its place among them. */
function offer(element, offered, make) {
  const key = JSON.stringify(offered);
  if (element.offered === key) return;
  element.offered = key;
  const at = [...element.querySelectorAll("select")].indexOf(document.activeElement);
  replace(element, make());
  if (at >= 0) element.querySelectorAll("select")[at]?.focus();
}

const byId = id => document.getElementById(id);

/** Two decimals, exact halves as C prints them: 3 of 96 is 3.12. */
function percent(count, of) {
  if (!of) return "–";
  const exact = 10000 * count / of, down = Math.floor(exact);
  const rounded = exact - down === 0.5 ? (down % 2 === 0 ? down : down + 1) : Math.round(exact);
  return (rounded / 100).toFixed(2);
}

/** A whole number with its thousands apart. The browser's own formatter takes milliseconds to begin. */
const thousands = number => String(number).replace(/\B(?=(\d{3})+$)/g, ",");

function amount(value) {
  if (value >= 1e6) return (value / 1e6).toFixed(2) + " M";
  if (value >= 1e4) return (value / 1e3).toFixed(1) + " k";
  return value >= 10 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(2);
}

const speed = value => value.toFixed(3) + "×";
const plural = (count, one, many) => `${thousands(count)} ${count === 1 ? one : many || one + "s"}`;
const NOT_MEASURED = "not measured";
const notMeasured = () => el("span", {class: "unknown"}, NOT_MEASURED);

/** A table with a caption for screen readers; the first column heads its rows. */
function table(caption, header, rows, options = {}) {
  return el("div", {class: "scroll", tabIndex: 0, role: "region", "aria-label": caption},
    el("table", {class: options.class},
      el("caption", {class: options.shown ? "" : "hidden"}, caption),
      el("thead", {}, el("tr", {}, header.map(cell => el("th", {scope: "col"}, cell)))),
      el("tbody", {}, rows.map(row => el("tr", {}, row.map((cell, i) =>
        i < (options.heads || 1) ? el("th", {scope: "row"}, cell) : el("td", {}, cell)))))));
}

/** The data behind a chart: a table in `place`, made while it is open and made again by each call. */
function dataTable(place, caption, make) {
  let details = place.firstChild;
  if (!details) {
    place.append(details = el("details", {class: "data"}, el("summary", {}, "Data table")));
    details.addEventListener("toggle", () => details.fill());
  }
  details.fill = () => {
    while (details.children.length > 1) details.lastChild.remove();
    if (!details.open) return;
    const {header, rows} = make();
    details.append(table(caption, header, rows));
  };
  details.fill();
}

/** A labelled choice. */
function choice(label, options, value, change) {
  const select = el("select", {onchange: () => change(select.value)},
    options.map(([key, text]) => el("option", {value: key, selected: key === value}, text)));
  select.value = value;
  return el("label", {class: "choice"}, el("span", {}, label), select);
}

const timings = window.ptxbenchTimings = {interactions: [], pending: 0};

/** Calls `work` when the browser has time, and not before what has changed is on screen. */
function later(work) {
  timings.pending++;
  const go = () => (window.requestIdleCallback || (f => setTimeout(f, 1)))(() => { timings.pending--; work(); }, {timeout: 400});
  if (document.hidden) go(); else requestAnimationFrame(go);
}
