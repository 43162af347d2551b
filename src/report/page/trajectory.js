// One trajectory, turn by turn: what was judged, what was found and where, what changed in the kernel, what the model was told.

const MARKS = {passed: "✓", failed: "✗", unknown: "?", skipped: "–"};
// `data` are those of when it was opened: numbers of trajectories may have changed since.
const viewer = {data: null, version: 0, index: -1, texts: null, turn: 0, mode: "source"};

async function textsOf(index) {
  if (state.live) {
    const reply = await fetch(`texts?trajectory=${index}&version=${viewer.version}`);
    if (!reply.ok) throw new Error(await reply.text());
    return unzip(await reply.arrayBuffer());
  }
  // They stand at the page's end.
  if (document.readyState === "loading") await new Promise(done => document.addEventListener("DOMContentLoaded", done));
  const block = byId("texts-" + index);
  return block ? unzip(decode(block.textContent)) : null;
}

async function openTrajectory(index) {
  const dialog = byId("view");
  viewer.data = state.data;
  viewer.version = state.version;
  viewer.index = index;
  viewer.turn = 0;
  viewer.texts = null;
  viewer.problem = "";
  const {data} = viewer;
  let texts = null, problem = "";
  try {
    texts = await textsOf(index);
  } catch (error) {
    problem = String(error.message || error);
  }
  if (viewer.index !== index || viewer.data !== data) return; // another one has been asked for meanwhile
  viewer.texts = texts;
  viewer.problem = problem;
  const turns = data.first[index + 1] - data.first[index];
  viewer.turn = Math.max(0, Math.min(turns - 1, viewer.turn));
  drawViewer();
  if (!dialog.open) dialog.showModal();
  dialog.querySelector("[role=tab][aria-selected=true]").focus();
}

function drawViewer() {
  const {data} = viewer, i = viewer.index, first = data.first[i], dialog = byId("view");
  const tabs = [];
  for (let k = first; k < data.first[i + 1]; k++) {
    const turn = k - first, label = data.names.label[data.label[k]];
    tabs.push(el("button", {type: "button", role: "tab", id: "tab-" + turn, "aria-selected": String(turn === viewer.turn), "aria-controls": "turn-panel", tabIndex: turn === viewer.turn ? 0 : -1,
      onclick: () => showTurn(turn), onkeydown: event => {
        const last = data.first[i + 1] - first - 1, step = {ArrowRight: turn + 1, ArrowLeft: turn - 1, Home: 0, End: last}[event.key];
        if (step === undefined) return;
        event.preventDefault();
        showTurn(Math.max(0, Math.min(last, step)));
        byId("tab-" + viewer.turn).focus();
      }}, el("span", {class: "swatch", color: classColor(data.label[k], data), "aria-hidden": "true"}), `Turn ${data.number[k]}`, el("span", {class: "soft"}, label)));
  }
  const facts = [nameOf("model", data.of.model[i], data), nameOf("problem", data.of.problem[i], data), nameOf("arch", data.of.arch[i], data), nameOf("language", data.of.language[i], data),
    data.names.workload[data.of.workload[i]], "pack: " + nameOf("pack", data.of.pack[i], data)];
  const texts = viewer.texts;
  const end = texts ? (texts.exit_status ? `${texts.exit_status} (${texts.stop_reason})` : texts.pending ? "running: an answer is being judged" : "running") : "";
  replace(dialog, el("div", {class: "view-head"}, el("h2", {id: "view-title"}, `${details(data).trajectories[i]} `, el("span", {class: "soft"}, data.names.run[data.of.run[i]])),
    el("button", {type: "button", class: "quiet", onclick: () => dialog.close()}, "Close")),
  el("p", {class: "soft"}, facts.join(" · "), end ? ` · ${end}` : "", texts && texts.error ? `: ${texts.error}` : ""),
  el("div", {role: "tablist", class: "tabs", "aria-label": "Turns"}, tabs), el("div", {id: "turn-panel", role: "tabpanel", tabIndex: 0}));
  drawTurn();
}

function showTurn(turn) {
  viewer.turn = turn;
  document.querySelectorAll("#view [role=tab]").forEach((tab, k) => { tab.setAttribute("aria-selected", String(k === turn)); tab.tabIndex = k === turn ? 0 : -1; });
  drawTurn();
  byId("view").scrollTop = 0;
}

function drawTurn() {
  const {data} = viewer, k = data.first[viewer.index] + viewer.turn, panel = byId("turn-panel");
  panel.setAttribute("aria-labelledby", "tab-" + viewer.turn);
  const known = [["Class", data.names.label[data.label[k]]], ["Speed-up", Number.isNaN(data.speedup[k]) ? (data.label[k] === CORRECT ? NOT_MEASURED : "–") : speed(data.speedup[k])],
    ["Target instruction", ["no", "yes", "unknown"][data.target[k] - NO]]];
  for (const [key, name] of [["reasoning_tokens", "Reasoning tokens"], ["tokens", "Tokens"], ["cost", "Cost, $"], ["model_seconds", "Model, s"], ["judge_seconds", "Judging, s"], ["host_seconds", "Evaluator host, s"], ["cpu_seconds", "Evaluator CPU, s"], ["gpu_seconds", "GPU, s"]]) {
    if (!isMeasured(key, data)) continue;
    const value = column(key, data)[k];
    known.push([name, Number.isNaN(value) ? NOT_MEASURED : key.endsWith("tokens") ? thousands(value) : amount(value)]);
  }
  const facts = el("dl", {class: "facts"}, known.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
  const turn = viewer.texts && viewer.texts.turns[viewer.turn];
  if (!turn) {
    const published = details(data).runs[data.of.run[viewer.index]].kind === "published";
    return replace(panel, facts, el("p", {class: "note"}, viewer.problem || (published ? "Published results hold no kernels, findings or feedback: there is no more to show of this turn."
      : "The texts of this trajectory were left out of the page to keep it small; ptxbench report --page-texts sets the limit.")));
  }
  const evaluation = turn.evaluation || {};
  replace(panel, facts, stagesOf(evaluation), verdictOf(evaluation), timelineOf(turn), tracesOf(evaluation), findingsOf(evaluation, turn), sourceOf(turn, evaluation), censusOf(evaluation), performanceOf(evaluation), kernelsOf(evaluation),
    el("h3", {}, "What the model is told"), el("pre", {class: "feedback", tabIndex: 0}, turn.feedback || "(nothing)"));
}

function stagesOf(evaluation) {
  if (!evaluation.stages || !evaluation.stages.length) return null;
  return el("ol", {class: "stages", "aria-label": "Stages"}, evaluation.stages.map(stage => el("li", {class: "stage " + (stage.status in MARKS ? stage.status : "unknown")},
    el("span", {class: "mark", "aria-hidden": "true"}, MARKS[stage.status] || "?"), el("b", {}, stage.name), " ", el("span", {}, stage.status), stage.decisive ? null : el("span", {class: "soft"}, " (does not decide)"),
    stage.reason ? el("span", {class: "reason"}, stage.reason) : null)));
}

function verdictOf(evaluation) {
  const verdict = evaluation.verdict;
  if (!verdict || !verdict.summary) return null;
  const backend = evaluation.backend && evaluation.backend.name;
  return el("p", {class: "verdict " + verdict.status}, `Verdict: ${verdict.summary}`, verdict.sampled ? ` (a sample; ${(100 * verdict.coverage).toFixed(1)} % of the output was checked)` : "", backend ? el("span", {class: "soft"}, ` on the ${backend === "gpu" ? "GPU" : backend}`) : "");
}

/** The emulated run as a file for a trace viewer. */
function timelineOf(turn) {
  if (!turn.timeline) return null;
  const what = " of the emulated run: warps, copies, tensor cores and mbarriers, to be opened in Perfetto (ui.perfetto.dev) or chrome://tracing. Its times are a model's.";
  if (!turn.timeline.file) return el("p", {class: "timeline soft"}, "The timeline", what, ` ${turn.timeline.why}: `, el("code", {}, turn.timeline.path));
  const name = `${details(viewer.data).trajectories[viewer.index]}_turn_${turn.number}.json.gz`;
  const save = () => {
    const address = URL.createObjectURL(new Blob([decode(turn.timeline.file)], {type: "application/gzip"}));
    el("a", {href: address, download: name}).click();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
  };
  return el("p", {class: "timeline"}, el("button", {type: "button", class: "quiet", onclick: save}, "Save the timeline"), el("span", {class: "soft"}, what));
}

function tracesOf(evaluation) {
  if (!evaluation.traces || !evaluation.traces.length) return null;
  return table("Traces", ["Workload", "Status", "Speed-up"], evaluation.traces.map((trace, k) => [String(k + 1), trace.status || NOT_MEASURED,
    trace.performance && Number.isFinite(trace.performance.speedup_factor) ? speed(trace.performance.speedup_factor) : "–"]), {shown: true});
}

const WAIT = /^\s*CTA \((\d+),(\d+),(\d+)\) warp (\S+) lanes (0x[0-9a-f]+) waits (.*?) at (\S+:\d+|PTX line \d+)(.*)$/;

/** Who waits for what, out of the message of a deadlock. */
function waitsOf(message) {
  const rows = [], rest = [];
  for (const line of message.split("\n")) {
    const found = WAIT.exec(line);
    if (!found) { rest.push(line); continue; }
    const tail = /^((?:, called from [^,(]+)*)\s*(?:\((.*)\))?$/.exec(found[8]) || [null, found[8], ""];
    const places = [found[7], ...tail[1].split(", called from ").filter(Boolean)];
    rows.push([el("span", {class: "keep"}, `(${found[1]}, ${found[2]}, ${found[3]})`), el("span", {class: "keep"}, found[4]), el("code", {class: "keep"}, found[5]), found[6],
      [el("span", {class: "keep"}, places[0].trim()), places.slice(1).map(place => [el("br"), el("span", {class: "soft keep"}, "from " + place.trim())])], el("code", {}, tail[2] || "")]);
  }
  return {rows, rest: rest.join("\n")};
}

function placeText(place) {
  if (!place) return "";
  const parts = [];
  if (place.file) parts.push(place.line ? `${place.file}:${place.line}` : place.file);
  if (place.output) parts.push(`output ${place.output}`);
  if (place.host_call) parts.push(place.host_call);
  return parts.join(", ");
}

// What reports call the candidate itself, in CUDA and in Triton.
function isCandidate(file) {
  return file === "kernel.cu" || file === "kernel.py";
}

function findingsOf(evaluation, turn) {
  const findings = evaluation.findings || [];
  if (!findings.length) return null;
  return el("div", {class: "findings"}, el("h3", {}, plural(findings.length, "finding")), findings.map(finding => {
    const waits = waitsOf(finding.message || ""), place = finding.place || {}, line = isCandidate(place.file) && turn.source !== null ? place.line : 0;
    return el("article", {class: "finding " + (["error", "warning", "note"].includes(finding.severity) ? finding.severity : "note")},
      el("p", {}, el("span", {class: "severity"}, finding.severity), " ", el("code", {}, finding.rule), " ",
        line ? el("button", {type: "button", class: "link", onclick: () => goToLine(line)}, placeText(place)) : el("span", {class: "soft"}, placeText(place)), place.kernel ? el("span", {class: "soft wrap-any"}, ` in ${place.kernel}`) : null),
      place.instruction ? el("pre", {class: "ptx"}, (place.ptx_line ? `PTX line ${place.ptx_line}: ` : "") + place.instruction) : null,
      el("pre", {class: "message"}, waits.rest.trim()),
      waits.rows.length ? table("Who waits for what", ["CTA", "Warps", "Lanes", "Waits", "At", "Instruction"], waits.rows, {shown: true, class: "waits"}) : null,
      finding.remedy ? el("p", {class: "remedy"}, el("b", {}, "Remedy: "), finding.remedy) : null);
  }), evaluation.findings_left_out ? el("p", {class: "note"}, `${evaluation.findings_left_out} more findings are in the record.`) : null);
}

function goToLine(line) {
  if (viewer.mode !== "source") { viewer.mode = "source"; drawTurn(); }
  const row = byId("line-" + line);
  if (!row) return;
  row.scrollIntoView({block: "center"});
  row.classList.add("flash");
  row.focus({preventScroll: true});
  setTimeout(() => row.classList.remove("flash"), 1600);
}

// ---- source and differences

const MOST_LINES = 6000;

function sourceOf(turn, evaluation) {
  const {texts} = viewer;
  if (turn.source === null) return el("p", {class: "note"}, "There was no kernel in this answer.");
  const text = texts.sources[turn.source];
  let before = viewer.turn - 1;
  while (before >= 0 && texts.turns[before].source === null) before--;
  const earlier = before >= 0 ? texts.sources[texts.turns[before].source] : null;
  if (earlier === null && viewer.mode === "diff") viewer.mode = "source";
  const button = (mode, name, enabled) => el("button", {type: "button", class: "quiet", "aria-pressed": String(viewer.mode === mode), disabled: !enabled, onclick: () => { viewer.mode = mode; drawTurn(); byId("mode-" + mode).focus(); }, id: "mode-" + mode}, name);
  const changes = earlier === null ? null : difference(earlier.split("\n"), text.split("\n"));
  const added = changes ? changes.filter(one => one.kind === "+").length : 0, removed = changes ? changes.filter(one => one.kind === "-").length : 0;
  return el("div", {class: "kernel"}, el("div", {class: "controls"}, el("h3", {}, "Kernel"), button("source", "Source", true),
    button("diff", earlier === null ? "Changes" : `Changes since turn ${texts.turns[before].number} (+${added} −${removed})`, earlier !== null)),
  viewer.mode === "diff" && changes ? diffView(changes) : sourceView(text, evaluation));
}

function sourceView(text, evaluation) {
  const notes = new Map();
  for (const finding of evaluation.findings || []) {
    const place = finding.place || {};
    if (isCandidate(place.file) && place.line > 0) {
      if (!notes.has(place.line)) notes.set(place.line, []);
      notes.get(place.line).push(finding);
    }
  }
  const lines = text.split("\n"), rows = [], highlight = highlighter();
  for (let n = 1; n <= Math.min(lines.length, MOST_LINES); n++) {
    const here = notes.get(n);
    rows.push(el("div", {class: "line" + (here ? " marked " + here[0].severity : ""), id: "line-" + n, tabIndex: here ? -1 : undefined}, el("span", {class: "number", "aria-hidden": "true"}, String(n)), el("span", {class: "code"}, highlight(lines[n - 1]))));
    for (const finding of here || []) {
      rows.push(el("div", {class: "inline " + finding.severity}, el("b", {}, `${finding.severity}: ${finding.rule}`), " ", waitsOf(finding.message || "").rest.split("\n")[0], finding.remedy ? el("span", {class: "remedy"}, ` → ${finding.remedy}`) : null));
    }
  }
  if (lines.length > MOST_LINES) rows.push(el("p", {class: "note"}, `The first ${MOST_LINES} of ${lines.length} lines.`));
  return el("div", {class: "source", tabIndex: 0, role: "region", "aria-label": "Source of the kernel"}, rows);
}

function diffView(changes) {
  const rows = [], near = new Uint8Array(changes.length);
  changes.forEach((one, i) => { if (one.kind !== " ") for (let k = Math.max(0, i - 3); k <= Math.min(changes.length - 1, i + 3); k++) near[k] = 1; });
  const highlight = highlighter();
  let hidden = 0, shown = 0;
  const flush = () => { if (hidden) rows.push(el("div", {class: "gap"}, `… ${plural(hidden, "unchanged line")} …`)); hidden = 0; };
  for (let i = 0; i < changes.length && shown < MOST_LINES; i++) {
    const code = highlight(changes[i].text);
    if (!near[i]) { hidden++; continue; }
    flush();
    shown++;
    const {kind, before, after} = changes[i];
    rows.push(el("div", {class: "line " + (kind === "+" ? "added" : kind === "-" ? "removed" : "")}, el("span", {class: "number", "aria-hidden": "true"}, before || ""), el("span", {class: "number", "aria-hidden": "true"}, after || ""),
      el("span", {class: "sign"}, kind === "-" ? "−" : kind), el("span", {class: "code"}, code)));
  }
  flush();
  if (!changes.some(one => one.kind !== " ")) return el("p", {class: "note"}, "The same kernel as before.");
  return el("div", {class: "source", tabIndex: 0, role: "region", "aria-label": "Changes of the kernel"}, rows);
}

/** Lines kept, added and removed: Myers' greedy algorithm between the common start and end, with a bound on its work. */
function difference(a, b) {
  const out = [];
  let start = 0, endA = a.length, endB = b.length;
  while (start < endA && start < endB && a[start] === b[start]) start++;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) { endA--; endB--; }
  const keep = (i, j) => out.push({kind: " ", text: b[j], before: i + 1, after: j + 1});
  for (let i = 0; i < start; i++) keep(i, i);
  const n = endA - start, m = endB - start, most = Math.min(n + m, 3000), trace = [];
  const v = new Int32Array(2 * most + 3), middle = most + 1;
  let found = -1;
  for (let d = 0; d <= most && found < 0; d++) {
    trace.push(v.slice(middle - d, middle + d + 1)); // only these were written so far
    for (let k = -d; k <= d; k += 2) {
      let x = k === -d || (k !== d && v[middle + k - 1] < v[middle + k + 1]) ? v[middle + k + 1] : v[middle + k - 1] + 1;
      while (x < n && x - k < m && a[start + x] === b[start + x - k]) x++;
      v[middle + k] = x;
      if (x >= n && x - k >= m) { found = d; break; }
    }
  }
  const middlePart = [];
  if (found < 0) {
    // Nothing in common that is worth the search.
    for (let i = 0; i < n; i++) middlePart.push({kind: "-", text: a[start + i], before: start + i + 1});
    for (let j = 0; j < m; j++) middlePart.push({kind: "+", text: b[start + j], after: start + j + 1});
  } else {
    let x = n, y = m;
    for (let d = found; d > 0; d--) {
      const row = trace[d], at = k => row[k + d], k = x - y;
      const down = k === -d || (k !== d && at(k - 1) < at(k + 1)), previous = down ? k + 1 : k - 1;
      const fromX = at(previous), fromY = fromX - previous;
      while (x > fromX && y > fromY && x > 0 && y > 0 && (down ? y - 1 > fromY || x > fromX : x - 1 > fromX || y > fromY)) {
        if (a[start + x - 1] !== b[start + y - 1]) break;
        x--; y--;
        middlePart.push({kind: " ", text: b[start + y], before: start + x + 1, after: start + y + 1});
      }
      if (down) { y--; middlePart.push({kind: "+", text: b[start + y], after: start + y + 1}); } else { x--; middlePart.push({kind: "-", text: a[start + x], before: start + x + 1}); }
    }
    while (x > 0 && y > 0) { x--; y--; middlePart.push({kind: " ", text: b[start + y], before: start + x + 1, after: start + y + 1}); }
    middlePart.reverse();
  }
  out.push(...middlePart);
  for (let i = 0; endA + i < a.length; i++) keep(endA + i, endB + i);
  return out;
}

const TOKEN = /(\/\/.*$)|(\/\*.*?\*\/)|(\/\*.*$)|("(?:[^"\\]|\\.)*")|\b(alignas|auto|bool|break|case|class|const|constexpr|continue|default|do|else|enum|extern|float|double|for|if|inline|int|namespace|return|short|signed|sizeof|static|static_cast|reinterpret_cast|struct|switch|template|typename|uint8_t|uint16_t|uint32_t|uint64_t|int32_t|int64_t|unsigned|using|void|volatile|while|asm|__global__|__device__|__shared__|__host__|__forceinline__|__launch_bounds__|__grid_constant__|__restrict__)\b|(^\s*#\s*\w+)|\b(0x[0-9a-fA-F]+|\d+(?:\.\d+)?[uUlLfF]*)\b/g;

/** Colours one line after the other; remembers an open comment. */
function highlighter() {
  let inside = false;
  return line => {
    const out = [];
    let at = 0;
    if (inside) {
      const end = line.indexOf("*/");
      if (end < 0) return el("span", {class: "comment"}, line);
      inside = false;
      at = end + 2;
      out.push(el("span", {class: "comment"}, line.slice(0, at)));
    }
    if (line.length > 2000) return [...out, line.slice(at)];
    TOKEN.lastIndex = at;
    for (let found = TOKEN.exec(line); found; found = TOKEN.exec(line)) {
      if (found.index > at) out.push(line.slice(at, found.index));
      const kind = found[1] || found[2] || found[3] ? "comment" : found[4] ? "string" : found[5] ? "keyword" : found[6] ? "directive" : "literal";
      out.push(el("span", {class: kind}, found[0]));
      at = found.index + found[0].length;
      if (found[3]) inside = true;
      if (found[0] === "") TOKEN.lastIndex++;
    }
    if (at < line.length) out.push(line.slice(at));
    return out;
  };
}

// ---- counts

function censusOf(evaluation) {
  const counts = evaluation.instructions;
  if (!counts || typeof counts !== "object") return null;
  const families = Object.entries(counts.families || {}).sort((a, b) => b[1].warps - a[1].warps);
  const sum = families.reduce((all, [, one]) => all + one.warps, 0);
  const share = value => typeof value === "number" ? (100 * value).toFixed(1) + " %" : "not known";
  return el("div", {}, el("h3", {}, "Instructions that executed"),
    el("p", {}, "Multiply-adds on the requested tensor cores: ", el("b", {}, share(counts.mac_share)), counts.threshold ? ` (at least ${share(counts.threshold.mac_share_at_least)} needed: ${counts.threshold.status})` : "",
      " · wgmma ", counts.wgmma_executed ? "yes" : "no", " · TMA ", counts.tma_executed ? "yes" : "no", el("span", {class: "soft"}, ` · counted ${counts.source === "ptx" ? "on the emulator" : "in machine code"}`)),
    families.length ? table("Instruction census", ["Family", "Warp instructions", "% of warps'", "Lane operations"], families.map(([name, one]) => [el("code", {}, name), thousands(one.warps), percent(one.warps, sum), thousands(one.lanes)])) : null);
}

function performanceOf(evaluation) {
  const rows = (evaluation.performance || []).filter(one => one && one.axes);
  if (!rows.length) return null;
  const axes = one => Object.entries(one.axes).map(([key, value]) => `${key}=${value}`).join(" ");
  const milliseconds = one => one && Number.isFinite(one.value) ? `${one.value.toFixed(4)} ms` : NOT_MEASURED;
  return el("div", {}, el("h3", {}, "Times"), table("Times", ["Workload", "Kernel", "Library", "Speed-up"], rows.map(one => [axes(one), milliseconds(one.latency_ms),
    one.baseline ? `${milliseconds(one.baseline.latency_ms)} (${one.baseline.name} ${one.baseline.version || ""})` : one.baseline_missing || NOT_MEASURED,
    one.speedup && Number.isFinite(one.speedup.value) ? `${speed(one.speedup.value)} (${one.speedup.low ? one.speedup.low.toFixed(3) : "?"}–${one.speedup.high ? one.speedup.high.toFixed(3) : "?"})` : NOT_MEASURED])));
}

function kernelsOf(evaluation) {
  const kernels = evaluation.kernels || [];
  if (!kernels.length) return null;
  return el("div", {}, el("h3", {}, "Compiled kernels"), table("Compiled kernels", ["Kernel", "Registers", "Shared, B", "Stack, B", "Spills, B"], kernels.map(one => [el("code", {class: "wrap-any"}, one.demangled || "?"), String(one.registers), String(one.static_shared_bytes), String(one.stack_bytes),
    String((one.spill_store_bytes || 0) + (one.spill_load_bytes || 0))])));
}
