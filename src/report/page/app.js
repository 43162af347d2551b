// Puts the page together: data, filters, sections that draw when they are seen, theme, and following a server.

const near = new Set(), onScreen = new Set(), dirty = new Set();

/** Draws sections again: those on screen now, those nearby when there is time, the others when somebody comes near. */
function refresh(names) {
  for (const name of names) dirty.add(name);
  for (const name of names) if (onScreen.has(name)) drawSection(name);
  for (const name of names) if (near.has(name) && dirty.has(name)) later(() => drawSection(name));
}

function drawSection(name) {
  if (!state.data || !dirty.has(name) || (NEEDS_DETAILS.has(name) && !isWhole())) return;
  dirty.delete(name);
  const body = document.querySelector(`#${name} .body`), last = body.previousElementSibling;
  if (last.matches(".failure")) last.remove();
  try {
    SECTIONS[name](body);
  } catch (error) {
    notice(body, error);
  }
  body.style.minHeight = "";
}

/** Says that a section cannot be drawn: the others are none the worse for it. */
function notice(body, error) {
  console.error(error);
  if (!body.previousElementSibling.matches(".failure")) body.before(el("p", {class: "failure", role: "alert"}, `This section cannot be drawn (${error.message || error}).`));
}

/** Draws what nobody has come near yet, one after the other, so that places of the page stay where they are. */
function drawRest() {
  if (!state.data || !isWhole()) return;
  const name = Object.keys(SECTIONS).find(one => dirty.has(one));
  if (name) later(() => { drawSection(name); drawRest(); });
  else goToPlace();
}

let atPlace = false;

/** Once all is drawn and nobody has begun to read, to the part of the page that its address names. */
function goToPlace() {
  const place = !atPlace && location.hash ? byId(location.hash.slice(1)) : null;
  atPlace = true;
  if (place) place.scrollIntoView({behavior: "instant"});
}

for (const sign of ["wheel", "touchstart", "pointerdown", "keydown"]) addEventListener(sign, () => { atPlace = true; }, {once: true, passive: true});

// What is on paper is of one selection.
addEventListener("beforeprint", () => {
  for (const name of [...dirty]) drawSection(name);
  drawAllWaiting();
});

function refreshAll() {
  const started = performance.now();
  select();
  if (view.focus !== null && !groups(state.selected, [state.series]).some(one => one.key === view.focus)) view.focus = null;
  const {data, selected} = state;
  byId("selected").textContent = `${plural(turnsOf(selected), "turn")} of ${plural(selected.length, "trajectory", "trajectories")} selected` + (selected.length < data.count ? ` (of ${thousands(data.turnCount)} turns)` : "");
  drawKey(byId("key"));
  refresh(Object.keys(SECTIONS));
  timings.interactions.push(performance.now() - started);
}

// ---- filters

function drawFilters() {
  const {data} = state, place = byId("filters");
  const dimensions = DIMENSIONS.filter(d => data.names[d].length > 1 && !(d === "workload" && data.names.workload.length === data.names.problem.length));
  replace(place, data.pools.length ? choice("Pool", [["-1", "all runs"], ...data.pools.map((pool, k) => [String(k), pool.name])], String(state.pool), value => { state.pool = Number(value); refreshAll(); }) : null,
    dimensions.map(d => filterFor(d)), el("button", {type: "button", class: "quiet", id: "reset", onclick: () => { state.filters = {}; state.pool = -1; drawFilters(); refreshAll(); }}, "Reset"));
}

function filterFor(dimension) {
  const {data} = state, names = data.names[dimension];
  const summary = el("summary", {}), details = el("details", {class: "filter", id: "filter-" + dimension}, summary);
  const title = () => {
    const set = state.filters[dimension];
    summary.textContent = `${DIMENSION_NAMES[dimension]}: ` + (!set ? "all" : set.size === 1 ? nameOf(dimension, [...set][0]) : set.size === 0 ? "none" : `${set.size} of ${names.length}`);
  };
  title();
  details.addEventListener("keydown", event => { if (event.key === "Escape" && details.open) { details.open = false; summary.focus(); } });
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    const counts = new Float64Array(names.length);
    for (let i = 0; i < data.count; i++) counts[data.of[dimension][i]] += data.first[i + 1] - data.first[i];
    const boxes = names.map((_, number) => el("input", {type: "checkbox", value: String(number), checked: !state.filters[dimension] || state.filters[dimension].has(number), onchange: apply}));
    function apply() {
      const chosen = boxes.filter(box => box.checked).map(box => Number(box.value));
      if (chosen.length === names.length) delete state.filters[dimension]; else state.filters[dimension] = new Set(chosen);
      title();
      refreshAll();
    }
    const set = on => { for (const box of boxes) if (!box.closest("label").hidden) box.checked = on; apply(); };
    const search = names.length > 10 ? el("input", {type: "search", placeholder: "Search", "aria-label": `Search ${DIMENSION_NAMES[dimension]}`, oninput: () => {
      for (const box of boxes) box.closest("label").hidden = !nameOf(dimension, Number(box.value)).toLowerCase().includes(search.value.toLowerCase());
    }}) : null;
    details.append(el("fieldset", {class: "menu"}, el("legend", {class: "hidden"}, DIMENSION_NAMES[dimension]), el("div", {class: "menu-head"}, search,
      el("button", {type: "button", class: "link", onclick: () => set(true)}, "all"), el("button", {type: "button", class: "link", onclick: () => set(false)}, "none")),
    el("div", {class: "menu-list"}, names.map((_, number) => el("label", {}, boxes[number], " ", nameOf(dimension, number), " ", el("span", {class: "soft"}, thousands(counts[number])))))));
  });
  return details;
}

document.addEventListener("click", event => {
  for (const open of document.querySelectorAll("details.filter[open]")) if (!open.contains(event.target)) open.open = false;
});

// ---- theme

function drawTheme() {
  byId("theme").textContent = isDark() ? "Light mode" : "Dark mode";
  byId("theme").setAttribute("aria-label", isDark() ? "Switch to light mode" : "Switch to dark mode");
}

function changeTheme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  redraw();
}

function redraw() {
  darkNow = null;
  drawTheme();
  if (state.data) { drawKey(byId("key")); refresh(Object.keys(SECTIONS)); }
}

// ---- start

function fail(text) {
  byId("failure").textContent = text;
  byId("failure").hidden = false;
}

/** Whether the whole file has been read: what stands behind the scripts is there. */
const isWhole = () => document.readyState !== "loading";

document.addEventListener("DOMContentLoaded", () => {
  if (!byId("end")) fail("The end of this page is missing: its file is incomplete.");
  refresh([...dirty]); // the sections that waited for it
  drawRest();
});

/** Takes new data in and shows everything but the sections. */
function show(json, version) {
  const {filters, data: before} = state;
  state.data = prepare(json);
  state.version = version;
  if (before) {
    // Numbers of names may have changed: go by the names.
    const renamed = (dimension, number) => {
      const names = data => dimension === "pool" ? data.pools.map(pool => pool.name) : data.names[dimension];
      const now = names(state.data).indexOf(names(before)[number]);
      return now < 0 ? null : now;
    };
    const asText = number => number === null ? "" : String(number);
    if (view.focus !== null) view.focus = asText(renamed(state.series, Number(view.focus))) || null;
    for (const side of ["a", "b"]) if (view.pair[side] !== null) view.pair[side] = renamed(view.pair.by, view.pair[side]);
    for (const key of ["run", "label"]) if (view.list[key] !== "") view.list[key] = asText(renamed(key, Number(view.list[key])));
    if (state.pool >= 0) state.pool = renamed("pool", state.pool) ?? -1;
    for (const [dimension, set] of Object.entries(filters)) {
      const names = [...set].map(number => before.names[dimension][number]);
      state.filters[dimension] = new Set(names.map(name => state.data.names[dimension].indexOf(name)).filter(number => number >= 0));
    }
    forgetAll();
    for (const body of document.querySelectorAll("main .body")) {
      body.style.minHeight = body.offsetHeight + "px"; // until it is drawn again: whoever reads stays where they are
      body.replaceChildren();
      for (const key of ["figure", "figures", "cells", "known", "columns", "series"]) delete body[key];
    }
  }
  const {data} = state, count = (n, one, many) => plural(n, one, many);
  byId("title").textContent = data.title || "Results";
  byId("subtitle").textContent = [count(data.turnCount, "turn"), count(data.count, "trajectory", "trajectories"), count(data.names.run.length, "run"), count(data.names.model.length, "model"), count(data.names.problem.length, "problem")].join(" · ");
  byId("made").textContent = `Made by ptxbench ${data.version}, ${data.made}. Everything on this page is computed in it; nothing is sent anywhere.`;
  if (!byId("contents").firstChild) replace(byId("contents"), sections().map(section => el("li", {}, el("a", {href: "#" + section.id}, [...section.querySelector("h2").cloneNode(true).childNodes]))));
  drawFilters();
  refreshAll();
  timings.shown = performance.now();
}

const sections = () => [...document.querySelectorAll("main section[aria-labelledby]")];

/** Draws the sections on screen, and from then on those that come there. */
function watch() {
  // Here and now, and not when the browser says that they are seen: that is a frame later.
  // The first section unseen, as measuring makes the browser lay the page out once more.
  const [first, ...others] = sections();
  drawSection(first.id);
  for (const section of others) {
    const {top, bottom} = section.getBoundingClientRect();
    if (top >= innerHeight) break;
    if (bottom > 0) drawSection(section.id);
  }
  const observe = (set, margin, change) => {
    const observer = new IntersectionObserver(entries => {
      for (const {target, isIntersecting} of entries) {
        if (isIntersecting) { set.add(target.id); change(target.id); } else { set.delete(target.id); }
      }
    }, {rootMargin: margin});
    for (const section of sections()) observer.observe(section);
  };
  observe(onScreen, "0px", drawSection);
  observe(near, "400px 0px", name => later(() => drawSection(name)));
  document.documentElement.dataset.ready = "yes";
  drawRest();
  // Charts are drawn when the script that made them has ended; the frame with them comes later.
  queueMicrotask(() => { timings.ready = performance.now(); });
  requestAnimationFrame(() => { const channel = new MessageChannel(); channel.port1.onmessage = () => { timings.frame = performance.now(); }; channel.port2.postMessage(0); });
}

async function follow() {
  const live = byId("live");
  live.hidden = false;
  let failures = 0, first = true, shown = null;
  for (;;) {
    try {
      const reply = await (await fetch("version")).json();
      if (reply.version !== shown) {
        const data = await fetch("data");
        const version = Number(data.headers.get("X-Version"));
        const json = await unzip(await data.arrayBuffer());
        // Whoever reads a trajectory is not disturbed.
        show(json, version);
        if (first) watch(); else drawRest();
        first = false;
        shown = version;
      }
      failures = 0;
      live.className = "live" + (reply.error ? " bad" : "");
      live.textContent = reply.error ? `Live; what changed last cannot be read: ${reply.error}` : `Live, state ${state.version}`;
    } catch (error) {
      live.className = "live bad";
      live.textContent = ++failures > 1 ? "The server does not answer; trying again" : live.textContent;
      if (first && failures > 3) fail(String(error.message || error));
    }
    await new Promise(done => setTimeout(done, document.hidden ? 10000 : 2000));
  }
}

function start() {
  byId("failure").hidden = true;
  byId("failure").classList.remove("unstarted");
  if (!window.uPlot) fail("The charting library of this page did not start; the file may be damaged.");
  drawTheme();
  byId("theme").addEventListener("click", changeTheme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  const block = byId("data");
  if (!block) {
    state.live = true;
    return follow();
  }
  try {
    show(JSON.parse(block.textContent), 0);
  } catch (error) {
    fail(`The data of this page cannot be read (${error.message || error}); the file may be incomplete.`);
    throw error;
  }
  watch();
}

start();
