// One function per section of the page: each draws what is chosen into its body.

const view = {focus: null, multiples: {metric: "correct", rows: "arch", all: false}, pair: {by: "model", a: null, b: null, metric: "correct"},
  classesBy: "turn", board: {by: ["model", "arch"], sort: null, down: true}, list: {run: "", label: "", page: 0}, costsBy: "model"};

/** "12.50" with its count, or what can be said when something was not measured. */
function shareText(share) {
  if (!share.of) return "–";
  if (share.unknown) return el("span", {class: "unknown", title: `${share.count} of ${share.of} certainly; ${share.unknown} not measured`},
    share.count ? `≥ ${percent(share.count, share.of)}` : NOT_MEASURED);
  return percent(share.count, share.of);
}

const limitsText = limits => limits ? `${(100 * limits.low).toFixed(1)} – ${(100 * limits.high).toFixed(1)}` : "";

const seriesChoices = () => [["model", "Model"], ["language", "Language"], ["pack", "Knowledge pack"], ["problem", "Problem"], ["run", "Run"],
  ...(state.data.pools.length ? [["pool", "Pool"]] : [])];

function largestSpeedup() {
  const {data} = state;
  if (data.largest === undefined) data.largest = data.speedup.reduce((most, value) => value > most ? value : most, 0);
  return data.largest;
}

// ---------------------------------------------------------------------------------------------------------- key figures

function drawKey(section) {
  const {data, selected} = state, turns = turnsOf(selected), correct = fast(selected, 0, false);
  const all = within(selected, Infinity), faster = fast(selected, 1, false), target = fast(selected, 0, true);
  let best = -1;
  for (const i of selected) for (let c = data.correctFirst[i]; c < data.correctFirst[i + 1]; c++) {
    const k = data.correct[c];
    if (data.speedup[k] > (best < 0 ? 0 : data.speedup[best])) best = k;
  }
  const owner = best < 0 ? -1 : selected.find(i => best >= data.first[i] && best < data.first[i + 1]);
  const card = (value, name, detail) => el("div", {class: "card"}, el("p", {class: "value"}, value), el("p", {class: "name"}, name),
    el("p", {class: "detail"}, detail));
  replace(section,
    card(thousands(correct.count), "correct turns", turns ? `${percent(correct.count, turns)} % of ${thousands(turns)} turns` : "no turns"),
    card(thousands(all.correct.count), "trajectories that got there", `${percent(all.correct.count, all.correct.of)} % of ${thousands(all.correct.of)} trajectories`),
    target.unknown ? card(notMeasured(), "correct, target instruction executed", `${thousands(target.count)} certainly, ${thousands(target.unknown)} unknown`)
      : card(thousands(target.count), "correct, target instruction executed", `${percent(target.count, turns)} % of turns`),
    best < 0 ? card(correct.count ? notMeasured() : "–", "largest speed-up", correct.count ? "no correct turn was timed" : "no correct turn")
      : card(speed(data.speedup[best]), "largest speed-up", `${nameOf("model", data.of.model[owner])}, ${nameOf("problem", data.of.problem[owner])}, ${nameOf("arch", data.of.arch[owner])}`),
    faster.unknown ? card(notMeasured(), "turns faster than the library", `${thousands(faster.unknown)} correct turns not timed`)
      : card(thousands(faster.count), "turns faster than the library", `${percent(faster.count, turns)} % of turns (Fast_p at p = 1)`));
}

// -------------------------------------------------------------------------------------------------------------- Fast_p

function drawFast(body) {
  const {data} = state;
  const most = lastThreshold();
  if (!body.firstChild) {
    const slider = el("input", {type: "range", min: 0, max: most, step: 0.01, value: state.p, id: "threshold-slider",
      oninput: () => setThreshold(Number(slider.value))});
    const number = el("input", {type: "number", min: 0, step: 0.05, value: state.p, id: "threshold-number", "aria-label": "Threshold p, as a number",
      onchange: () => { const p = Number(number.value); if (p >= 0 && Number.isFinite(p)) setThreshold(p); }});
    const controls = el("div", {class: "controls"},
      choice("Series", seriesChoices(), state.series, value => { state.series = value; view.focus = null; refresh(["fast", "multiples", "reasoning"]); }),
      el("label", {class: "choice wide"}, el("span", {}, "Threshold p"), slider), number,
      el("label", {class: "check"}, el("input", {type: "checkbox", id: "target-variant", checked: state.target,
        onchange: event => { state.target = event.target.checked; refresh(["fast"]); }}), "target instruction required"),
      el("label", {class: "check"}, el("input", {type: "checkbox", checked: state.bands,
        onchange: event => { state.bands = event.target.checked; refresh(["fast"]); }}), "95 % bands"));
    body.append(controls, el("div", {class: "legends"}), el("div", {class: "panels"}), el("div", {class: "readout"}));
    body.slider = slider;
    body.number = number;
    body.most = most;
  }
  const series = groups(state.selected, [state.series]);
  replace(body.querySelector(".legends"), legend(series, view.focus, key => { view.focus = key; refresh(["fast", "multiples", "reasoning"]); }));
  const archs = [...new Set(state.selected.map(i => data.of.arch[i]))].sort((a, b) => a - b);
  const panels = body.querySelector(".panels");
  panels.dataset.archs = archs.join(",");
  if (!body.figures) {
    body.figures = data.names.arch.map((_, arch) => {
      const one = figure(nameOf("arch", arch), 320, `Fast_p against p on ${nameOf("arch", arch)}`);
      one.element.append(el("p", {class: "note untimed"}), el("div", {class: "behind"}));
      panels.append(one.element);
      return one;
    });
  }
  body.figures.forEach((one, arch) => {
    one.element.hidden = !archs.includes(arch);
    dataTable(one.element.querySelector(".behind"), `Fast_p on ${nameOf("arch", arch)}, percent of turns`, () => fastTable(arch));
  });
  for (const arch of archs) drawFastPanel(body.figures[arch], arch, series, body.most);
  const readout = body.querySelector(".readout");
  if (timings.ready) drawReadout(readout, archs); else later(() => drawReadout(readout, panels.dataset.archs.split(",").filter(Boolean).map(Number))); // nobody sees it at first
}

const GRID = Array.from({length: 24}, (_, i) => i * 0.05);

const steps = {most: NaN, x: []};

/** Thresholds from 0 to `most`, at hundredths, so that what a chart says is exact; the same array for the same `most`. */
function stepsTo(most) {
  const hundredths = Math.ceil(most / 4); // at most some 400 of them
  if (steps.most !== most) Object.assign(steps, {most, x: Array.from({length: Math.floor(100 * most / hundredths + 1e-6) + 1}, (_, s) => s * hundredths / 100)});
  return steps.x;
}

/** Where axes of thresholds end: behind the largest speed-up, at a tenth. */
const lastThreshold = () => Math.max(1.1, Math.ceil(largestSpeedup() * 10 + 0.5) / 10);

/** Fast_p in percent at many thresholds at once, {x, y}: only at 0 where correct turns were not timed, null where that is not known. */
function curve(trajectories, most, target) {
  const {data} = state, values = [];
  let turns = 0, base = 0, untimed = false;
  for (const i of trajectories) {
    turns += data.first[i + 1] - data.first[i];
    for (let c = data.correctFirst[i]; c < data.correctFirst[i + 1]; c++) {
      const k = data.correct[c], known = exceeds(data, k, 0, target);
      if (known === UNKNOWN) return null;
      if (known === NO) continue;
      base++;
      if (Number.isNaN(data.speedup[k])) untimed = true; else values.push(data.speedup[k]);
    }
  }
  if (!turns) return null;
  if (untimed) return {x: [0], y: [100 * base / turns]};
  values.sort((a, b) => a - b);
  const x = stepsTo(most);
  let at = 0;
  return {x, y: x.map(p => { while (at < values.length && values[at] <= p) at++; return 100 * (values.length - at) / turns; })};
}

function drawFastPanel(figure, arch, series, most) {
  const {data} = state, lines = [];
  let highest = 0;
  for (const one of series) {
    const trajectories = one.trajectories.filter(i => data.of.arch[i] === arch);
    const points = trajectories.length ? curve(trajectories, most, state.target) : null;
    if (!points) continue;
    const color = seriesColor(one.color), faded = view.focus !== null && view.focus !== one.key;
    highest = Math.max(highest, points.y[0]);
    lines.push({name: one.name, ...points, color: faded ? fade(color, 0.18) : color, solid: color, width: faded ? 1.5 : 2, dash: seriesDash(one.color), point: points.x.length === 1 ? 8 : 0, faded, trajectories});
  }
  lines.sort((a, b) => b.faded - a.faded);
  const spec = {
    series: lines, threshold: state.p,
    x: {min: 0, max: most, title: "p (speed-up over the library)"},
    y: {min: 0, max: Math.max(5, Math.ceil((highest + 2) / 10) * 10), title: "percent of turns"},
    tip: {title: p => `p = ${p.toFixed(2)}`, line: (one, y) => `${one.name}: ${y.toFixed(2)} %`},
    pick: p => setThreshold(Math.round(100 * Math.max(0, Math.min(most, p))) / 100),
  };
  draw(figure.box, spec);
  const points = lines.filter(one => one.x.length === 1).map(one => one.name);
  replace(figure.element.querySelector(".untimed"), points.length ? `Correct turns of ${points.join(", ")} were not all timed: only p = 0 is known.` : "");
  const stamp = figure.stamp = {}, banded = lines.filter(one => !one.faded && one.x.length > 1);
  if (!state.bands || banded.length > 6) return;
  later(() => {
    if (figure.stamp !== stamp) return;
    const bands = [];
    for (const one of banded) {
      const x = GRID.filter(p => p <= most), limits = fastLimits(one.trajectories, x, state.target);
      if (limits.some(limit => !limit)) continue;
      bands.push({name: one.name, x, y: limits.map(limit => 100 * limit.high), low: limits.map(limit => 100 * limit.low), color: one.color, fill: fade(one.color, 0.16)});
    }
    draw(figure.box, {...spec, threshold: state.p, series: [...bands, ...lines]});
  });
}

function fastTable(arch) {
  const thresholds = Array.from({length: 13}, (_, i) => i / 10);
  const series = groups(state.selected.filter(i => state.data.of.arch[i] === arch), [state.series]);
  return {header: [DIMENSION_NAMES[state.series], ...thresholds.map(p => `p = ${p.toFixed(1)}`)],
    rows: series.map(one => [one.name, ...thresholds.map(p => shareText(fast(one.trajectories, p, state.target)))])};
}

function setThreshold(p) {
  state.p = p;
  const body = document.querySelector("#fast .body");
  body.slider.value = p;
  body.number.value = p;
  for (const one of body.figures) {
    if (!one.element.hidden) moveThreshold(one.box, p);
  }
  drawReadout(body.querySelector(".readout"), body.querySelector(".panels").dataset.archs.split(",").filter(Boolean).map(Number));
  if (view.pair.metric === "fast") refresh(["pair"]);
}

function drawReadout(place, archs) {
  const {data} = state, cells = [];
  const series = groups(state.selected, [state.series]);
  const rows = [];
  for (const arch of archs) {
    for (const one of series) {
      const trajectories = one.trajectories.filter(i => data.of.arch[i] === arch);
      if (!trajectories.length) continue;
      const share = fast(trajectories, state.p, state.target), limits = el("td", {class: "limits"});
      cells.push([trajectories, limits]);
      rows.push({share, row: el("tr", {}, el("th", {scope: "row"}, el("span", {class: "swatch dash" + Math.floor(one.color / PALETTE.light.length) % DASHES.length, color: seriesColor(one.color), "aria-hidden": "true"}), one.name),
        el("td", {}, nameOf("arch", arch)), el("td", {}, thousands(share.of)), el("td", {}, thousands(share.count) + (share.unknown ? ` + ${thousands(share.unknown)} ?` : "")),
        el("td", {class: "strong"}, shareText(share)), limits)});
    }
  }
  rows.sort((a, b) => b.share.count / b.share.of - a.share.count / a.share.of);
  replace(place, el("div", {class: "scroll tall", tabIndex: 0, role: "region", "aria-label": "Fast_p at the threshold"},
    el("table", {id: "readout"}, el("caption", {}, `Fast at p = ${state.p.toFixed(2)}${state.target ? ", target instruction executed" : ""}, percent of evaluated turns`),
      el("thead", {}, el("tr", {}, [DIMENSION_NAMES[state.series], "Architecture", "Turns", "Count", "%", "95 % limits"].map(text => el("th", {scope: "col"}, text)))),
      el("tbody", {}, rows.map(one => one.row)))));
  const stamp = place.stamp = {};
  const fill = () => {
    if (place.stamp !== stamp) return;
    const started = performance.now();
    while (cells.length && performance.now() - started < 12) {
      const [trajectories, cell] = cells.shift();
      cell.textContent = limitsText(fastLimits(trajectories, [state.p], state.target)[0]);
    }
    if (cells.length) later(fill);
  };
  later(fill);
}

// --------------------------------------------------------------------------------------------------------- leaderboard

const BOARD_BY = ["model", "arch", "problem", "language", "pack", "run", "pool"];

function drawBoard(body) {
  const {data} = state, by = view.board.by, limits = data.turn_limits, thresholds = data.thresholds;
  if (!body.firstChild) {
    body.append(el("div", {class: "controls", role: "group", "aria-label": "One row for each"}, el("span", {}, "One row for each"),
      BOARD_BY.filter(d => d !== "pool" || data.pools.length).map(d => el("label", {class: "check"}, el("input", {type: "checkbox", checked: by.includes(d), onchange: event => {
        view.board.by = BOARD_BY.filter(other => other === d ? event.target.checked : view.board.by.includes(other));
        if (!view.board.by.length) { view.board.by = [d]; event.target.checked = true; }
        view.board.sort = null;
        refresh(["board"]);
      }}), DIMENSION_NAMES[d]))),
      el("div", {class: "place"}), el("p", {class: "note"}, "Fast_p and target: percent of evaluated turns. Correct and target within T turns: trajectories, of those in the column Traj. Limits: 95 %, from resampled trajectories. Press a heading to sort."));
  }
  const rows = groups(state.selected, by).map(group => {
    const at = limits.map(limit => within(group.trajectories, limit)), all = within(group.trajectories, Infinity);
    const shares = thresholds.map(p => fast(group.trajectories, p, false)), target = fast(group.trajectories, 0, true);
    return {group, at, all, shares, target, traj: group.trajectories.length, turns: turnsOf(group.trajectories)};
  });
  const value = share => share.unknown || !share.of ? -1 : share.count / share.of;
  const count = share => share.unknown ? el("span", {class: "unknown", title: "some were not measured"}, `${share.count}–${share.count + share.unknown}`) : String(share.count);
  const columns = [
    ...by.map((d, k) => ({name: DIMENSION_NAMES[d], text: row => row.group.names[k], key: row => row.group.names[k], head: true})),
    {name: "Traj.", text: row => thousands(row.traj), key: row => row.traj},
    {name: "Turns", text: row => thousands(row.turns), key: row => row.turns},
    ...thresholds.map((p, k) => ({name: p === 0 ? "Correct %" : `Fast ${p}`, key: row => value(row.shares[k]), bar: k === 0, share: row => row.shares[k], text: row => shareText(row.shares[k])})),
    {name: "Best", text: row => Number.isNaN(row.all.best) ? (row.all.untimed ? notMeasured() : "–") : row.all.best.toFixed(3), key: row => Number.isNaN(row.all.best) ? -1 : row.all.best},
    {name: "Target %", text: row => shareText(row.target), key: row => value(row.target)},
    ...[["Corr", "correct"], ["Tgt", "target"]].map(([name, of]) => ({name: `${name}@${limits.join("/")}`,
      text: row => row.at.map((at, k) => [k ? " / " : "", count(at[of])]), key: row => row.at.length && !row.at[row.at.length - 1][of].unknown ? row.at[row.at.length - 1][of].count : -1})),
  ];
  const sort = view.board.sort === null ? by.length + 2 : view.board.sort, key = columns[sort].key;
  rows.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (view.board.down ? -1 : 1));
  const bars = [];
  const head = columns.map((column, k) => el("th", {scope: "col", class: column.head ? "head" : "", "aria-sort": k === sort ? (view.board.down ? "descending" : "ascending") : "none"},
    el("button", {type: "button", class: "sort", onclick: () => {
      view.board.down = k === sort ? !view.board.down : !column.head;
      view.board.sort = k;
      refresh(["board"]);
      document.querySelectorAll("#board .sort")[k].focus();
    }}, column.name, k === sort ? el("span", {"aria-hidden": "true"}, view.board.down ? " ▾" : " ▴") : "")));
  const shown = rows.slice(0, 300);
  replace(body.querySelector(".place"), el("div", {class: "scroll tall", tabIndex: 0, role: "region", "aria-label": "Leaderboard"},
    el("table", {id: "leaderboard"}, el("caption", {class: "hidden"}, "Leaderboard of what is selected"), el("thead", {}, el("tr", {}, head)),
      el("tbody", {}, shown.map(row => el("tr", {}, columns.map(column => {
        if (column.head) return el("th", {scope: "row"}, column.text(row));
        if (!column.bar) return el("td", {}, column.text(row));
        const share = column.share(row), wide = value(share) < 0 ? 0 : 100 * value(share);
        const whisker = el("span", {class: "whisker"}), limits = el("span", {class: "limits"});
        bars.push([row.group.trajectories, whisker, limits]);
        return el("td", {class: "barred"}, el("span", {class: "bar", "aria-hidden": "true"}, el("span", {class: "fill", width: wide + "%"}), whisker), el("span", {class: "strong"}, column.text(row)), limits);
      })))))), rows.length > shown.length ? el("p", {class: "note"}, `The first 300 of ${thousands(rows.length)} rows; filter to see the others.`) : null);
  const stamp = body.stamp = {};
  const fill = () => {
    if (body.stamp !== stamp) return;
    const started = performance.now();
    while (bars.length && performance.now() - started < 12) {
      const [trajectories, whisker, text] = bars.shift(), limit = fastLimits(trajectories, [0], false)[0];
      if (!limit) continue;
      whisker.style.left = 100 * limit.low + "%";
      whisker.style.width = 100 * (limit.high - limit.low) + "%";
      text.textContent = limitsText(limit);
    }
    if (bars.length) later(fill);
  };
  later(fill);
}

// ----------------------------------------------------------------------------------------------------- small multiples

const MULTIPLE_METRICS = [["correct", "Correct within T turns, % of trajectories"], ["target", "Target instruction within T turns, % of trajectories"],
  ["best", "Best speed-up within T turns"], ["turn", "Correct at turn T, % of turns"], ["fast", "Fast_p, % of turns"]];

/** {x, y} of a series in a small chart, or null where it is not known. */
function multiplePoints(trajectories, metric, most) {
  const {data} = state;
  if (metric === "fast") return curve(trajectories, most, false);
  const x = [], y = [], last = Math.min(data.maxTurns, 32);
  for (let t = 1; t <= last; t++) {
    if (metric === "turn") {
      let count = 0, of = 0;
      for (const i of trajectories) for (let k = data.first[i]; k < data.first[i + 1]; k++) if (data.number[k] === t - 1) { of++; if (data.label[k] === CORRECT) count++; }
      if (!of) continue;
      y.push(100 * count / of);
    } else {
      const at = within(trajectories, t), share = at[metric];
      if (metric === "best" ? at.untimed : share.unknown) return null;
      y.push(metric === "best" ? (Number.isNaN(at.best) ? 0 : at.best) : 100 * share.count / share.of);
    }
    x.push(t);
  }
  return {x, y};
}

function drawMultiples(body) {
  const {data} = state, chosen = view.multiples;
  if (!body.firstChild) {
    body.append(el("div", {class: "controls"}, choice("Show", MULTIPLE_METRICS, chosen.metric, value => { chosen.metric = value; refresh(["multiples"]); }),
      choice("A row for each", [["arch", "Architecture"], ["language", "Language"], ["pack", "Knowledge pack"]], chosen.rows, value => { chosen.rows = value; refresh(["multiples"]); }),
      choice("Series", seriesChoices(), state.series, value => { state.series = value; view.focus = null; document.querySelector("#fast select").value = value; refresh(["fast", "multiples", "reasoning"]); })),
      el("div", {class: "legends"}), el("div", {class: "place"}), el("div", {class: "behind"}), el("div", {class: "more"}));
  }
  const series = groups(state.selected, [state.series]);
  replace(body.querySelector(".legends"), legend(series, view.focus, key => { view.focus = key; refresh(["fast", "multiples", "reasoning"]); }));
  const rows = groups(state.selected, [chosen.rows]).sort((a, b) => a.values[0] - b.values[0]);
  // Most shared problems first: those with few series say little side by side.
  const columns = groups(state.selected, ["problem"]).map(one => ({...one, models: new Set(one.trajectories.map(i => data.of.model[i])).size}));
  columns.sort((a, b) => (b.models > 2) - (a.models > 2));
  const shown = chosen.all ? columns : columns.slice(0, 5);
  const place = body.querySelector(".place"), wanted = JSON.stringify([rows.map(r => r.key), shown.map(c => c.key)]);
  const others = place.dataset.wanted !== wanted;
  if (others) {
    place.dataset.wanted = wanted;
    body.cells = [];
    body.known = body.known || new Map(); // charts that were drawn before
    replace(place, rows.map(row => el("div", {class: "facets"}, el("h3", {}, row.name), el("div", {class: "facet-row"}, shown.map(column => {
      const both = row.trajectories.some(i => data.of.problem[i] === column.values[0]);
      if (!both) return el("div", {class: "facet empty"}, el("p", {class: "facet-title"}, column.name), el("p", {class: "unknown"}, "no runs"));
      const key = `${chosen.rows} ${row.key} ${column.key}`;
      let one = body.known.get(key);
      if (!one) {
        one = figure(null, 150, `${column.name}, ${row.name}`);
        one.element.className = "facet";
        one.element.prepend(el("figcaption", {class: "facet-title"}, column.name));
        one.column = column.values[0];
        one.row = row.values[0];
        body.known.set(key, one);
      }
      body.cells.push(one);
      return one.element;
    })))));
  }
  replace(body.querySelector(".more"), columns.length > 5 ? el("button", {type: "button", class: "quiet", onclick: () => { chosen.all = !chosen.all; refresh(["multiples"]); }},
    chosen.all ? "Show five problems" : `Show all ${columns.length} problems`) : null);
  dataTable(body.querySelector(".behind"), "Small multiples", () => multiplesTable());
  const most = lastThreshold(), isFast = chosen.metric === "fast";
  let highest = 0;
  const made = body.cells.map(cell => {
    const lines = [];
    for (const one of series) {
      const trajectories = one.trajectories.filter(i => data.of.problem[i] === cell.column && data.of[chosen.rows][i] === cell.row);
      const points = trajectories.length ? multiplePoints(trajectories, chosen.metric, most) : null;
      if (!points) continue;
      for (const y of points.y) highest = Math.max(highest, y);
      const color = seriesColor(one.color), faded = view.focus !== null && view.focus !== one.key;
      lines.push({name: one.name, ...points, color: faded ? fade(color, 0.18) : color, solid: color, width: faded ? 1 : 1.8, dash: seriesDash(one.color), point: points.x.length === 1 ? 6 : isFast || faded ? 0 : 3.5, faded});
    }
    return [cell, lines.sort((a, b) => b.faded - a.faded)];
  });
  const top = chosen.metric === "best" ? Math.max(1, Math.ceil(highest * 10) / 10) : Math.min(100, Math.max(10, Math.ceil(highest / 10) * 10));
  for (const [cell, lines] of made) {
    // Those that have just been put in place again are not known to be in sight.
    (others ? drawNow : draw)(cell.box, {series: lines, x: {min: isFast ? 0 : 1, max: isFast ? most : Math.min(data.maxTurns, 32), small: true, whole: !isFast}, y: {min: 0, max: top},
      tip: {title: x => isFast ? `p = ${x.toFixed(2)}` : `T = ${x}`, line: (one, y) => `${one.name}: ${y.toFixed(chosen.metric === "best" ? 3 : 1)}`}});
  }
}

function multiplesTable() {
  const chosen = view.multiples, last = Math.min(state.data.maxTurns, 32), most = lastThreshold();
  const steps = chosen.metric === "fast" ? [0, 0.25, 0.5, 0.75, 1] : Array.from({length: last}, (_, i) => i + 1);
  const rows = groups(state.selected, [chosen.rows, "problem", state.series]);
  return {header: [DIMENSION_NAMES[chosen.rows], "Problem", DIMENSION_NAMES[state.series], ...steps.map(s => (chosen.metric === "fast" ? "p = " : "T = ") + s)],
    rows: rows.map(row => {
      const points = chosen.metric === "fast" ? null : multiplePoints(row.trajectories, chosen.metric, most);
      return [...row.names, ...steps.map(step => {
        if (chosen.metric === "fast") return shareText(fast(row.trajectories, step, false));
        if (!points) return notMeasured();
        const at = points.x.indexOf(step);
        return at < 0 ? "–" : points.y[at].toFixed(chosen.metric === "best" ? 3 : 2);
      })];
    })};
}

// ---------------------------------------------------------------------------------------------------------------- pair

const PAIR_METRICS = [["fast", "Fast_p at the threshold, % of turns"], ["correct", "Correct turns, % of turns"], ["target", "Correct with target instruction, % of turns"],
  ["within", "Trajectories with a correct turn, %"]];

function pairMeasure(metric) {
  if (metric === "within") return i => within([i], Infinity).correct;
  const p = metric === "fast" ? state.p : 0;
  return i => fast([i], p, metric === "target");
}

function drawPair(body) {
  const {data} = state, chosen = view.pair;
  const series = groups(state.selected, [chosen.by]);
  const has = number => series.some(one => one.values[0] === number);
  if (!has(chosen.a) || !has(chosen.b) || chosen.a === chosen.b) {
    // A model and what was made of it, if the names say so; of several the one that is right most often.
    const rate = one => { const share = fast(one.trajectories, 0, false); return share.of ? share.count / share.of : 0; };
    let before = series[0], after = series[1] || null;
    for (const one of series) {
      const made = series.filter(other => other !== one && other.name.startsWith(one.name)).sort((a, b) => rate(b) - rate(a));
      if (made.length) { before = one; after = made[0]; break; }
    }
    chosen.a = before ? before.values[0] : null;
    chosen.b = after ? after.values[0] : null;
  }
  const options = series.map(one => [String(one.values[0]), one.name]);
  if (!body.firstChild) body.append(el("div", {class: "controls"}), el("div", {class: "place"}));
  offer(body.firstChild, [chosen, options], () => [choice("Compare", seriesChoices().filter(([key]) => key !== "problem"), chosen.by, value => { chosen.by = value; chosen.a = chosen.b = null; refresh(["pair"]); }),
    choice("Before (A)", options, String(chosen.a), value => { chosen.a = Number(value); refresh(["pair"]); }),
    choice("After (B)", options, String(chosen.b), value => { chosen.b = Number(value); refresh(["pair"]); }),
    choice("In", PAIR_METRICS, chosen.metric, value => { chosen.metric = value; refresh(["pair"]); })]);
  const place = body.querySelector(".place");
  const before = series.find(one => one.values[0] === chosen.a), after = series.find(one => one.values[0] === chosen.b);
  const empty = text => { forget(place); place.dataset.count = ""; replace(place, el("p", {class: "note"}, text)); };
  if (!before || !after || before === after) return empty("Only one is selected: there is nothing to compare.");
  const keys = ["arch", "problem", ...(chosen.by === "language" ? [] : ["language"])];
  const a = new Map(groups(before.trajectories, keys).map(one => [one.key, one])), b = new Map(groups(after.trajectories, keys).map(one => [one.key, one]));
  const common = [...a.keys()].filter(key => b.has(key));
  if (!common.length) return empty("These two have no problem in common.");
  const measure = pairMeasure(chosen.metric);
  const share = trajectories => trajectories.map(measure).reduce((sum, one) => ({count: sum.count + one.count, of: sum.of + one.of, unknown: sum.unknown + one.unknown}), {count: 0, of: 0, unknown: 0});
  const rows = common.map(key => ({name: a.get(key).names.slice(0, 2).join(" · ") + (keys.length > 2 && data.names.language.length > 1 ? " · " + a.get(key).names[2] : ""), a: share(a.get(key).trajectories), b: share(b.get(key).trajectories), pair: [a.get(key).trajectories, b.get(key).trajectories]}));
  if (place.dataset.count !== String(rows.length)) {
    forget(place);
    place.dataset.count = String(rows.length);
    body.figure = figure(null, 60 + 34 * rows.length, "Before and after, problem by problem");
    replace(place, el("div", {class: "legends"}), body.figure.element, el("div", {class: "pair-table"}));
  }
  const number = one => one.unknown ? null : 100 * one.count / one.of;
  const colors = [fade(isDark() ? "#b8b8b8" : "#8a8a8a", 1), seriesColor(after.color)];
  const sides = [{name: "A: " + before.name, y: rows.map(row => number(row.a)), color: colors[0]}, {name: "B: " + after.name, y: rows.map(row => number(row.b)), color: colors[1]}];
  replace(place.querySelector(".legends"), marks(sides.map(({name, color}) => ({text: name, color}))));
  draw(body.figure.box, {series: sides, bars: "grouped", lying: true, x: {names: rows.map(row => row.name)},
    y: {min: 0, max: roundUp(Math.max(...sides.flatMap(one => one.y))), title: "percent"}, tip: {line: (one, y) => `${one.name}: ${y.toFixed(2)} %`}});
  const cells = [], known = rows.every(row => !row.a.unknown && !row.b.unknown);
  const difference = row => row.a.unknown || row.b.unknown ? notMeasured() : signed(100 * (row.b.count / row.b.of - row.a.count / row.a.of));
  const lines = rows.map(row => { const cell = el("span", {}); cells.push([[row.pair], cell, !row.a.unknown && !row.b.unknown]); return [row.name, shareText(row.a), shareText(row.b), difference(row), cell]; });
  const mean = side => rows.reduce((sum, row) => sum + row[side].count / row[side].of, 0) / rows.length;
  const overall = el("span", {});
  cells.unshift([rows.map(row => row.pair), overall, known]);
  lines.push(["Mean of the problems", known ? (100 * mean("a")).toFixed(2) : notMeasured(), known ? (100 * mean("b")).toFixed(2) : notMeasured(), known ? signed(100 * (mean("b") - mean("a"))) : notMeasured(), overall]);
  replace(place.querySelector(".pair-table"), table(`B against A, paired by problem: ${PAIR_METRICS.find(one => one[0] === chosen.metric)[1]}${chosen.metric === "fast" ? `, p = ${state.p}` : ""}`,
    ["Problem", "A", "B", "B − A", "95 % limits"], lines, {shown: true}), el("p", {class: "note"}, "Limits by resampling trajectories on both sides. ", el("code", {}, "ptxbench report --compare A B"), " adds a permutation test."));
  const stamp = body.stamp = {};
  const fill = () => {
    if (body.stamp !== stamp) return;
    const [pairs, cell, sure] = cells.shift();
    if (sure) { const [low, high] = differenceLimits(pairs, measure); cell.textContent = low < high ? `${signed(100 * low)} … ${signed(100 * high)}` : "–"; }
    if (cells.length) later(fill);
  };
  later(fill);
}

/** The end of an axis from 0: a round number not below `value`. */
function roundUp(value) {
  if (!(value > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find(step => step * unit >= value * (1 - 1e-9)) * unit;
}

const signed = value => (value >= 0.005 ? "+" : value <= -0.005 ? "−" : "") + Math.abs(value).toFixed(2);

// ------------------------------------------------------------------------------------------------------------- classes

function drawClasses(body) {
  const {data} = state, by = view.classesBy;
  if (!body.firstChild) {
    body.append(el("div", {class: "controls"}, choice("By", [["turn", "Turn"], ["model", "Model"], ["arch", "Architecture"], ["problem", "Problem"], ["language", "Language"], ["pack", "Knowledge pack"]], by,
      value => { view.classesBy = value; refresh(["classes"]); })), el("div", {class: "legends"}), el("div", {class: "place"}));
    body.figure = figure(null, 340, "Failure classes");
    body.querySelector(".place").append(body.figure.element, el("div", {class: "behind"}));
  }
  const labels = data.names.label.length, totals = new Float64Array(labels), columns = [];
  const column = name => { const one = {name, counts: new Float64Array(labels), turns: 0}; columns.push(one); return one; };
  const countIn = (one, k) => { one.counts[data.label[k]]++; one.turns++; totals[data.label[k]]++; };
  if (by === "turn") {
    const list = Array.from({length: Math.min(data.maxTurns, 64)}, (_, t) => column(`turn ${t}`));
    for (const i of state.selected) for (let k = data.first[i]; k < data.first[i + 1]; k++) if (data.number[k] < list.length) countIn(list[data.number[k]], k);
  } else {
    for (const group of groups(state.selected, [by])) {
      const one = column(group.name);
      for (const i of group.trajectories) for (let k = data.first[i]; k < data.first[i + 1]; k++) countIn(one, k);
    }
    columns.sort((a, b) => b.counts[CORRECT] / b.turns - a.counts[CORRECT] / a.turns);
  }
  body.columns = columns;
  body.order = orderedLabels(totals);
  const {box} = body.figure, turn = by === "turn";
  const height = (turn ? 340 : Math.max(160, 70 + 28 * columns.length)) + "px";
  if (box.style.height !== height) { forgetBox(box); box.style.height = height; }
  draw(box, {bars: "stacked", lying: !turn, series: body.order.map(label => ({name: data.names.label[label], label, color: classColor(label), y: columns.map(one => one.turns ? 100 * one.counts[label] / one.turns : null)})),
    x: {names: columns.map(one => one.name)}, y: {min: 0, max: 100, title: "percent of turns"},
    tip: {line: (one, _, k) => { const {counts, turns} = body.columns[k]; return `${one.name}: ${thousands(counts[one.label])} (${percent(counts[one.label], turns)} %)`; }, foot: k => plural(body.columns[k].turns, "turn")}});
  dataTable(body.querySelector(".behind"), "Failure classes, turns", () => classTable(body));
  const all = turnsOf(state.selected);
  replace(body.querySelector(".legends"), marks(body.order.map(label => ({color: classColor(label), text: data.names.label[label], detail: `${thousands(totals[label])} (${percent(totals[label], all)} %)`}))));
}

function classTable(body) {
  return {header: [view.classesBy === "turn" ? "Turn (from 0)" : DIMENSION_NAMES[view.classesBy], "Turns", ...body.order.map(label => state.data.names.label[label])],
    rows: body.columns.map(one => [one.name, thousands(one.turns), ...body.order.map(label => `${thousands(one.counts[label])} (${percent(one.counts[label], one.turns)} %)`)])};
}

// --------------------------------------------------------------------------------------------------------- transitions

function drawNext(body) {
  const {data} = state, labels = data.names.label.length;
  const next = new Float64Array(labels * labels), totals = new Float64Array(labels), followed = new Float64Array(labels);
  for (const i of state.selected) {
    for (let k = data.first[i]; k < data.first[i + 1]; k++) {
      totals[data.label[k]]++;
      if (k === data.first[i] || data.number[k - 1] + 1 !== data.number[k]) continue;
      next[data.label[k - 1] * labels + data.label[k]]++;
      followed[data.label[k - 1]]++;
    }
  }
  const order = orderedLabels(totals), rows = order.filter(label => followed[label] > 0);
  if (!rows.length) return replace(body, el("p", {class: "note"}, "No trajectory has two turns in a row."));
  const color = isDark() ? [77, 163, 224] : [0, 114, 178];
  replace(body, el("p", {class: "lead"}, "Of the turns that follow a turn of the row's class, the percentage that fall into each column's class. The diagonal is what repeats."),
    el("div", {class: "scroll", tabIndex: 0, role: "region", "aria-label": "Transitions"}, el("table", {class: "heat", id: "transitions"}, el("caption", {class: "hidden"}, "Class of the following turn, percent"),
      el("thead", {}, el("tr", {}, el("th", {scope: "col"}, "After"), el("th", {scope: "col"}, "Followed"), order.map(label => el("th", {scope: "col"}, data.names.label[label])))),
      el("tbody", {}, rows.map(from => el("tr", {}, el("th", {scope: "row"}, el("span", {class: "swatch", color: classColor(from), "aria-hidden": "true"}), data.names.label[from]), el("td", {}, thousands(followed[from])),
        order.map(to => {
          const count = next[from * labels + to], share = count / followed[from];
          const cell = el("td", {class: from === to ? "same" : "", title: `${thousands(count)} of ${thousands(followed[from])}`}, count ? (100 * share).toFixed(1) : "·");
          if (count) { cell.style.backgroundColor = `rgba(${color}, ${(0.06 + 0.8 * share).toFixed(3)})`; if (share > 0.72) cell.classList.add("deep"); }
          return cell;
        })))))));
}

// ------------------------------------------------------------------------------------------------------------ findings

function drawFindings(body) {
  const {data} = state, counts = new Float64Array(data.names.rule.length);
  for (const i of state.selected) for (let k = data.first[i]; k < data.first[i + 1]; k++) for (const rule of data.rules.get(k) || []) counts[rule]++;
  const order = [...counts.keys()].filter(rule => counts[rule] > 0).sort((a, b) => counts[b] - counts[a]);
  if (!order.length) {
    forget(body);
    return replace(body, el("p", {class: "note"}, data.names.rule.length ? "The selected turns have no findings." : "Published results and the public benchmark's runs hold no findings: only this program's own evaluations name causes."));
  }
  const shown = order.slice(0, 25), turns = turnsOf(state.selected);
  forget(body);
  const one = figure(null, 50 + 24 * shown.length, "Turns with each finding");
  replace(body, el("p", {class: "lead"}, "Rules of errors and warnings that the evaluator named, by the number of turns that have one."), one.element,
    body.querySelector(".behind") || el("div", {class: "behind"}));
  dataTable(body.querySelector(".behind"), "Findings by rule", () => ({header: ["Rule", "Turns", "% of turns"], rows: order.map(rule => [data.names.rule[rule], thousands(counts[rule]), percent(counts[rule], turns)])}));
  draw(one.box, {bars: "grouped", lying: true, series: [{name: "turns", color: PALETTE[mode()][0], y: shown.map(rule => counts[rule])}], x: {names: shown.map(rule => data.names.rule[rule])},
    y: {min: 0, max: roundUp(counts[shown[0]]), title: "turns", whole: true}, tip: {line: (_, count) => plural(count, "turn")}});
}

// ----------------------------------------------------------------------------------------------------------- reasoning

const BINS = [0, 1e3, 2e3, 4e3, 8e3, 16e3, 32e3, 64e3, Infinity];
const binName = b => BINS[b + 1] === Infinity ? `≥ ${BINS[b] / 1e3} k` : `${BINS[b] / 1e3}–${BINS[b + 1] / 1e3} k`;
const LEAST_IN_BIN = 20;

function drawReasoning(body) {
  const {data} = state;
  if (!isMeasured("reasoning_tokens")) return replace(body, el("p", {class: "note"}, "Reasoning tokens: not measured in these runs."));
  if (!body.figure) {
    body.figure = figure("Correct turns by the reasoning tokens spent on them", 320, "Share of correct turns by reasoning tokens");
    body.append(body.figure.element, el("div", {class: "behind"}), el("p", {class: "note"}, `Bins with fewer than ${LEAST_IN_BIN} turns of a series are left out of the chart; the table has them. Turns that do not tell their tokens count nowhere here.`));
  }
  const all = column("reasoning_tokens");
  body.series = groups(state.selected, [state.series]).map(one => {
    const bins = BINS.slice(1).map(() => ({count: 0, of: 0}));
    for (const i of one.trajectories) for (let k = data.first[i]; k < data.first[i + 1]; k++) {
      const tokens = all[k];
      if (Number.isNaN(tokens)) continue;
      const bin = bins[BINS.findIndex((_, b) => tokens < BINS[b + 1])];
      bin.of++;
      if (data.label[k] === CORRECT) bin.count++;
    }
    return {...one, bins};
  });
  dataTable(body.querySelector(".behind"), "Correct turns by reasoning tokens", () => reasoningTable(body));
  const lines = body.series.map(one => {
    const color = seriesColor(one.color), faded = view.focus !== null && view.focus !== one.key;
    return {name: one.name, x: BINS.slice(1).map((_, b) => b), y: one.bins.map(bin => bin.of >= LEAST_IN_BIN ? 100 * bin.count / bin.of : null), color: faded ? fade(color, 0.18) : color, solid: color, dash: seriesDash(one.color), point: 7, width: faded ? 1.5 : 2, faded, bins: one.bins};
  }).sort((a, b) => b.faded - a.faded);
  draw(body.figure.box, {series: lines, x: {names: BINS.slice(1).map((_, b) => binName(b)), title: "reasoning tokens of the turn"}, y: {min: 0, max: roundUp(Math.max(...lines.flatMap(one => one.y))), title: "percent correct"},
    tip: {line: (one, _, b) => { const bin = one.bins[b]; return `${one.name}: ${percent(bin.count, bin.of)} % of ${thousands(bin.of)} turns`; }}});
}

function reasoningTable(body) {
  return {header: [DIMENSION_NAMES[state.series], "Median tokens", ...BINS.slice(1).map((_, b) => binName(b))],
    rows: body.series.map(one => { const middle = median(one.trajectories, "reasoning_tokens");
      return [one.name, Number.isNaN(middle) ? notMeasured() : thousands(Math.round(middle)), ...one.bins.map(bin => bin.of ? `${percent(bin.count, bin.of)} % of ${thousands(bin.of)}` : "–")]; })};
}

// --------------------------------------------------------------------------------------------------------------- costs

function drawCosts(body) {
  const {data} = state;
  const columns = [["reasoning_tokens", "Reasoning tokens / correct turn", true], ["tokens", "Tokens / correct turn", true], ["cost", "$ / correct turn", true], ["model_seconds", "Model s / correct turn", true],
    ["judge_seconds", "Judging s / turn", false], ["host_seconds", "Evaluator host s / turn", false], ["cpu_seconds", "Evaluator CPU s / turn", false], ["gpu_seconds", "GPU s / turn", false]];
  const known = columns.filter(([key]) => isMeasured(key)), missing = columns.filter(([key]) => !isMeasured(key));
  if (!body.firstChild) body.append(el("div", {class: "controls"}, choice("A row for each", [["model", "Model"], ["arch", "Architecture"], ["problem", "Problem"], ["language", "Language"], ["pack", "Knowledge pack"], ["run", "Run"]], view.costsBy, value => { view.costsBy = value; refresh(["costs"]); })), el("div", {class: "place"}));
  const rows = groups(state.selected, [view.costsBy]).map(group => {
    const correct = fast(group.trajectories, 0, false).count, turns = turnsOf(group.trajectories), middle = median(group.trajectories, "reasoning_tokens");
    return [group.name, thousands(turns), thousands(correct), Number.isNaN(middle) ? notMeasured() : amount(middle), ...known.map(([key, , perCorrect]) => {
      const sum = total(group.trajectories, key), of = perCorrect ? correct : turns;
      if (!sum.whole) return el("span", {class: "unknown", title: `${thousands(sum.known)} turns tell, ${thousands(sum.unknown)} do not`}, NOT_MEASURED);
      return of ? amount(sum.sum / of) : "– (no correct turn)";
    })];
  });
  replace(body.querySelector(".place"), table("Cost per correct turn", [DIMENSION_NAMES[view.costsBy], "Turns", "Correct", "Median reasoning tokens", ...known.map(([, name]) => name)], rows),
    el("p", {class: "note"}, "Per correct turn: everything that all turns of the row took, divided by the correct ones. Seconds are by the clock; the evaluator's host works with several threads.",
      missing.length ? " Not measured in these runs: " + missing.map(([, name]) => name.split(" / ")[0].toLowerCase().replace("gpu", "GPU")).join(", ") + "." : ""));
}

// -------------------------------------------------------------------------------------------------------- trajectories

const PAGE = 40;

function drawList(body) {
  const {data} = state, chosen = view.list;
  if (!body.firstChild) {
    body.append(el("p", {class: "lead"}, "Each row is a trajectory, each cell a turn coloured by what became of it. Press a row's name to read it."), el("div", {class: "controls"}), el("div", {class: "place"}));
  }
  const runs = [...new Set(state.selected.map(i => data.of.run[i]))];
  if (chosen.run !== "" && !runs.includes(Number(chosen.run))) chosen.run = "";
  offer(body.querySelector(".controls"), runs, () => {
    const counts = new Float64Array(data.names.label.length);
    for (let k = 0; k < data.turnCount; k++) counts[data.label[k]]++;
    return [choice("Run", [["", `all ${runs.length} runs`], ...runs.map(run => [String(run), data.names.run[run]])], chosen.run, value => { chosen.run = value; chosen.page = 0; refresh(["list"]); }),
      choice("With a turn that is", [["", "anything"], ...orderedLabels(counts).map(label => [String(label), data.names.label[label]])], chosen.label, value => { chosen.label = value; chosen.page = 0; refresh(["list"]); })];
  });
  const rows = state.selected.filter(i => {
    if (chosen.run !== "" && data.of.run[i] !== Number(chosen.run)) return false;
    if (chosen.label === "") return true;
    for (let k = data.first[i]; k < data.first[i + 1]; k++) if (data.label[k] === Number(chosen.label)) return true;
    return false;
  });
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  chosen.page = Math.min(chosen.page, pages - 1);
  const shown = rows.slice(chosen.page * PAGE, (chosen.page + 1) * PAGE);
  const turnTitle = k => `turn ${data.number[k]}: ${data.names.label[data.label[k]]}${Number.isNaN(data.speedup[k]) ? "" : ", " + speed(data.speedup[k])}`;
  replace(body.querySelector(".place"), el("div", {class: "scroll", tabIndex: 0, role: "region", "aria-label": "Trajectories"}, el("table", {id: "trajectories", class: "list"}, el("caption", {class: "hidden"}, "Trajectories"),
    el("thead", {}, el("tr", {}, ["Trajectory", "Model", "Problem", "Turns", "Correct", "Best speed-up"].map((name, k) => el("th", {scope: "col", class: k < 4 ? "left" : ""}, name)))),
    el("tbody", {}, shown.map(i => {
      let correct = 0, best = NaN, untimed = 0;
      const cells = [];
      for (let k = data.first[i]; k < data.first[i + 1]; k++) {
        if (data.label[k] === CORRECT) { correct++; if (Number.isNaN(data.speedup[k])) untimed++; else if (!(best >= data.speedup[k])) best = data.speedup[k]; }
        if (cells.length < 64) cells.push(el("span", {class: "cell" + (data.label[k] === CORRECT ? " good" : ""), color: classColor(data.label[k]), title: turnTitle(k)}));
      }
      return el("tr", {}, el("th", {scope: "row"}, el("button", {type: "button", class: "link", onclick: () => openTrajectory(i)}, details().trajectories[i]),
        el("span", {class: "soft"}, " " + data.names.run[data.of.run[i]]), data.state[i] === 1 ? el("span", {class: "tag"}, "running") : data.state[i] === 2 ? el("span", {class: "tag bad"}, "stopped by an error") : null),
      el("td", {class: "left"}, nameOf("model", data.of.model[i])), el("td", {class: "left"}, nameOf("problem", data.of.problem[i]), el("span", {class: "soft"}, " " + nameOf("arch", data.of.arch[i]))),
      el("td", {class: "left"}, el("span", {class: "cells", role: "img", "aria-label": Array.from({length: cells.length}, (_, c) => turnTitle(data.first[i] + c)).join("; ")}, cells)),
      el("td", {}, String(correct)), el("td", {}, Number.isNaN(best) ? (untimed ? notMeasured() : "–") : best.toFixed(3)));
    })))), el("div", {class: "pager"}, el("button", {type: "button", class: "quiet", disabled: chosen.page === 0, onclick: () => { chosen.page--; refresh(["list"]); }}, "Previous"),
    el("span", {}, rows.length ? `${chosen.page * PAGE + 1}–${chosen.page * PAGE + shown.length} of ${thousands(rows.length)}` : "none"),
    el("button", {type: "button", class: "quiet", disabled: chosen.page + 1 >= pages, onclick: () => { chosen.page++; refresh(["list"]); }}, "Next")));
}

// --------------------------------------------------------------------------------------------------------------- about

function drawAbout(body) {
  const {data} = state, {texts} = data, {notes} = details();
  const define = (name, text) => [el("dt", {}, name), el("dd", {}, text)];
  replace(body,
    notes.length ? el("div", {class: "notes"}, el("h3", {}, "Notes on these data"), el("ul", {id: "notes"}, notes.map(note => el("li", {}, note)))) : null,
    texts.possible > texts.present && !state.live ? el("p", {class: "note", id: "left-out"}, `Kernels and feedback of ${thousands(texts.present)} of ${thousands(texts.possible)} trajectories are in this page; the others were left out to keep it small (ptxbench report --page-texts sets the limit). Figures count all of them.`) : null,
    el("dl", {},
      define("Turn", "One answer of a model and its evaluation, numbered from 0. Answers without code count. Failures of machine or endpoint are no turns."),
      define("Fast_p", "100 × turns with a correct kernel and a speed-up > p, divided by all evaluated turns; strictly greater. At p = 0: correct turns, timed or not. Denominator: turns."),
      define("Correct", "The numbers are right (label “Correct” of the public benchmark), whatever else was required."),
      define("Target instruction", "Also, a target instruction executed in that turn: wgmma or a tensor copy on Hopper, tcgen05 on Blackwell. In the published data it is their correct_with_arch column, an older tag; executed machine code per turn was not published."),
      define("Corr@T, Tgt@T", "Trajectories with such a turn among their first T. Denominator: trajectories; one that ended early stays in it, one without a turn is in none."),
      define("Speed-up", "Library time divided by the kernel's, the smallest over a turn's workloads."),
      define("95 % limits", `Percentiles of ${data.replicates} bootstrap samples. Whole trajectories are resampled, within each run and problem; where one of these has a single trajectory, all together. Where all trajectories agree: exact limits of Clopper and Pearson with trajectories as trials. A largest value has no limits.`),
      define("Not measured", "Never counted as zero or as clean. “≥” is what is certain.")));
}

const SECTIONS = {fast: drawFast, board: drawBoard, multiples: drawMultiples, pair: drawPair, classes: drawClasses, next: drawNext, findings: drawFindings,
  reasoning: drawReasoning, costs: drawCosts, list: drawList, about: drawAbout};
/** Those that need what stands at the end of a file. */
const NEEDS_DETAILS = new Set(["reasoning", "costs", "list", "about"]);
