// The data block: columns of turns and trajectories, and what is chosen of them.

const DIMENSIONS = ["model", "arch", "problem", "workload", "language", "pack", "run"];
const DIMENSION_NAMES = {model: "Model", arch: "Architecture", problem: "Problem", workload: "Workload", language: "Language",
  pack: "Knowledge pack", run: "Run", pool: "Pool"};
const ARCH_NAMES = {hopper: "Hopper", blackwell: "Blackwell"};
const NO = 48, YES = 49, UNKNOWN = 50; // the characters "0", "1", "2", as they come
const CORRECT = 0; // label 0

async function unzip(bytes) {
  if (typeof DecompressionStream === "undefined")
    throw new Error("this browser is too old to open what is compressed; Chrome 80, Firefox 113 and Safari 16.4 are new enough");
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function decode(text) {
  const raw = atob(text.trim()), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

/** The columns as typed arrays; NaN is what was not measured. */
function prepare(json) {
  const data = {...json};
  const t = json.trajectories, n = t.turns.length;
  data.count = n;
  data.first = new Uint32Array(n + 1);
  for (let i = 0; i < n; i++) data.first[i + 1] = data.first[i] + t.turns[i];
  const turns = data.first[n];
  data.turnCount = turns;
  const source = json.turns;
  data.label = new Uint16Array(source.label);
  // The correct turns of trajectory i are correct[correctFirst[i]] to before correct[correctFirst[i + 1]]. Most figures need only these.
  data.correct = new Uint32Array(turns);
  data.correctFirst = new Uint32Array(n + 1);
  let correct = 0;
  for (let i = 0, k = data.label.indexOf(CORRECT); i < n; i++) {
    for (; k >= 0 && k < data.first[i + 1]; k = data.label.indexOf(CORRECT, k + 1)) data.correct[correct++] = k;
    data.correctFirst[i + 1] = correct;
  }
  data.target = new TextEncoder().encode(source.target);
  data.speedup = new Float64Array(turns).fill(NaN);
  source.speedup_at.forEach((at, i) => { data.speedup[at] = source.speedup[i]; });
  data.rules = new Map();
  source.rules_at.forEach((at, i) => data.rules.set(at, source.rules[i]));
  // Numbers of turns, where the block has none: 0, 1, 2, ... in each trajectory.
  if (source.number) {
    data.number = new Uint32Array(source.number);
    data.maxTurns = data.number.reduce((most, number) => Math.max(most, number + 1), 1);
  } else {
    data.number = new Uint32Array(turns);
    data.maxTurns = t.turns.reduce((most, count) => Math.max(most, count), 1);
    const numbers = Uint32Array.from({length: data.maxTurns}, (_, number) => number);
    for (let i = 0; i < n; i++) data.number.set(numbers.subarray(0, t.turns[i]), data.first[i]);
  }
  data.of = {};
  // A number instead of a column: the same for all.
  const column = values => Array.isArray(values) ? new Uint32Array(values) : new Uint32Array(n).fill(values);
  for (const key of DIMENSIONS) data.of[key] = column(t[key]);
  for (const key of ["stratum", "state"]) data[key] = column(t[key]);
  return data;
}

/** What the first screen does not need; in a file it stands at the end. {notes, runs, trajectories: names, turns: columns} */
function details(data = state.data) {
  if (!data.details) data.details = JSON.parse(byId("details").textContent);
  return data.details;
}

const isMeasured = (key, data = state.data) => details(data).turns[key] !== null;

/** A number for each turn; NaN is what was not measured. */
function column(key, data = state.data) {
  const known = data.columns || (data.columns = {});
  if (!known[key]) {
    const values = details(data).turns[key], out = known[key] = new Float64Array(data.turnCount).fill(NaN);
    if (values) for (let k = 0; k < out.length; k++) if (values[k] !== null) out[k] = values[k];
  }
  return known[key];
}

const state = {
  data: null, version: 0, live: false,
  filters: {},          // dimension -> Set of numbers, or absent: all
  pool: -1,
  p: 0.5, target: false, series: "model", bands: false,
  selected: [],         // trajectories
};

/** The trajectories that all filters keep. */
function select() {
  const {data, filters} = state, out = [];
  const tests = Object.entries(filters).map(([dimension, set]) => [data.of[dimension], set]);
  const pool = state.pool >= 0 ? new Set(data.pools[state.pool].runs) : null;
  for (let i = 0; i < data.count; i++) {
    if (pool && !pool.has(data.of.run[i])) continue;
    if (tests.every(([column, set]) => set.has(column[i]))) out.push(i);
  }
  state.selected = out;
}

function nameOf(dimension, number, data = state.data) {
  const text = data.names[dimension][number];
  return dimension === "arch" ? ARCH_NAMES[text] || text : text;
}

/** Trajectories apart by dimensions, in the order of their first appearance. `pool` may be one of the dimensions. */
function groups(trajectories, dimensions) {
  const {data} = state, known = new Map();
  const put = (i, pool) => {
    const values = dimensions.map(d => d === "pool" ? pool : data.of[d][i]);
    const key = values.join(",");
    let group = known.get(key);
    if (!group) known.set(key, group = {key, values, trajectories: []});
    group.trajectories.push(i);
  };
  if (dimensions.includes("pool")) {
    data.pools.forEach((pool, number) => {
      const runs = new Set(pool.runs);
      for (const i of trajectories) if (runs.has(data.of.run[i])) put(i, number);
    });
  } else {
    for (const i of trajectories) put(i, 0);
  }
  const out = [...known.values()];
  for (const group of out) {
    group.names = dimensions.map((d, k) => d === "pool" ? data.pools[group.values[k]].name : nameOf(d, group.values[k]));
    group.name = group.names.join(" · ");
    group.color = group.values[0]; // stable whatever is chosen
  }
  return out;
}
