// The data block: columns of turns and trajectories, and what is chosen of them.

const DIMENSIONS = ["model", "arch", "problem", "workload", "language", "pack", "run"];
const DIMENSION_NAMES = {model: "Model", arch: "Architecture", problem: "Problem", workload: "Workload", language: "Language",
  pack: "Knowledge pack", run: "Run", pool: "Pool"};
const ARCH_NAMES = {hopper: "Hopper", blackwell: "Blackwell"};
const NO = 0, YES = 1, UNKNOWN = 2;
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
  const t = json.trajectories, n = t.name.length;
  data.count = n;
  data.first = new Uint32Array(n + 1);
  for (let i = 0; i < n; i++) data.first[i + 1] = data.first[i] + t.turns[i];
  const turns = data.first[n];
  data.turnCount = turns;
  const numbers = values => {
    const out = new Float64Array(turns).fill(NaN);
    if (values) for (let i = 0; i < turns; i++) if (values[i] !== null) out[i] = values[i];
    return out;
  };
  const flags = text => {
    const out = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i) - 48;
    return out;
  };
  const source = json.turns;
  data.label = new Uint16Array(source.label);
  data.passed = flags(source.passed);
  data.target = flags(source.target);
  data.speedup = new Float64Array(turns).fill(NaN);
  source.speedup_at.forEach((at, i) => { data.speedup[at] = source.speedup[i]; });
  data.rules = new Map();
  source.rules_at.forEach((at, i) => data.rules.set(at, source.rules[i]));
  data.number = new Uint32Array(turns);
  data.maxTurns = 1;
  for (let i = 0; i < n; i++) {
    const first = data.first[i], end = data.first[i + 1];
    for (let k = first; k < end; k++) {
      const number = source.number ? source.number[k] : k - first;
      data.number[k] = number;
      if (number >= data.maxTurns) data.maxTurns = number + 1;
    }
  }
  data.measured = {};
  for (const key of ["reasoning_tokens", "tokens", "cost", "model_seconds", "judge_seconds", "host_seconds", "cpu_seconds", "gpu_seconds"]) {
    data.measured[key] = source[key] !== null;
    data[key] = numbers(source[key]);
  }
  data.of = {};
  for (const dimension of DIMENSIONS) data.of[dimension] = new Uint32Array(t[dimension]);
  data.stratum = new Uint32Array(t.stratum);
  return data;
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

function nameOf(dimension, number) {
  const text = state.data.names[dimension][number];
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
