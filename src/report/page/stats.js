// The same figures as `ptxbench report` prints, by the same rules (src/report/metrics.cpp).

/** xoshiro128**: the same numbers as in the program, so that limits agree to the last digit. */
class Random {
  constructor(seed) {
    this.s = new Uint32Array(4);
    for (let i = 0; i < 4; i++) {
      seed = (seed + 0x9E3779B9) >>> 0;
      let z = seed;
      z = Math.imul(z ^ (z >>> 16), 0x85EBCA6B);
      z = Math.imul(z ^ (z >>> 13), 0xC2B2AE35);
      this.s[i] = z ^ (z >>> 16);
    }
  }
  next() {
    const s = this.s, rotate = (x, by) => (x << by) | (x >>> (32 - by));
    const result = Math.imul(rotate(Math.imul(s[1], 5), 7), 9) >>> 0, shifted = s[1] << 9;
    s[2] ^= s[0]; s[3] ^= s[1]; s[1] ^= s[2]; s[0] ^= s[3]; s[2] ^= shifted; s[3] = rotate(s[3], 11);
    return result;
  }
  below(n) { return Math.floor(this.next() * n / 4294967296); }
}

/** Whether a correct turn counts for Fast_p. */
function exceeds({speedup, target}, turn, p, required) {
  const value = speedup[turn], fast = p > 0 ? (value > p ? YES : value <= p ? NO : UNKNOWN) : YES;
  if (!required) return fast;
  if (fast === NO || target[turn] === NO) return NO;
  return fast === YES && target[turn] === YES ? YES : UNKNOWN;
}

/** Fast_p of some trajectories: {count, of, unknown}. */
function fast(trajectories, p, target) {
  const {data} = state, {first, correct, correctFirst} = data;
  let count = 0, of = 0, unknown = 0;
  for (const i of trajectories) {
    of += first[i + 1] - first[i];
    for (let c = correctFirst[i], end = correctFirst[i + 1]; c < end; c++) {
      const known = exceeds(data, correct[c], p, target);
      if (known === YES) count++; else if (known === UNKNOWN) unknown++;
    }
  }
  return {count, of, unknown};
}

/** Within the first `limit` turns of each trajectory. */
function within(trajectories, limit) {
  const {data} = state, {number, speedup, correctFirst} = data;
  const out = {correct: {count: 0, of: 0, unknown: 0}, target: {count: 0, of: 0, unknown: 0}, best: NaN, untimed: 0};
  for (const i of trajectories) {
    let correct = NO, target = NO;
    for (let c = correctFirst[i], end = correctFirst[i + 1]; c < end; c++) {
      const k = data.correct[c];
      if (number[k] >= limit) continue;
      correct = YES;
      if (target !== YES && data.target[k] !== NO) target = data.target[k];
      if (Number.isNaN(speedup[k])) out.untimed++;
      else if (!(out.best >= speedup[k])) out.best = speedup[k];
    }
    if (correct === YES) out.correct.count++;
    if (target === YES) out.target.count++; else if (target === UNKNOWN) out.target.unknown++;
  }
  out.correct.of = out.target.of = trajectories.length;
  return out;
}

/** Sum of a column, only if it is known for every turn. */
function total(trajectories, key) {
  const {data} = state, values = column(key);
  let sum = 0, unknown = 0, known = 0;
  for (const i of trajectories) {
    for (let k = data.first[i]; k < data.first[i + 1]; k++) {
      if (Number.isNaN(values[k])) unknown++; else { sum += values[k]; known++; }
    }
  }
  return {sum, unknown, known, whole: known > 0 && unknown === 0};
}

function median(trajectories, key) {
  const {data} = state, all = column(key), known = [];
  for (const i of trajectories) {
    for (let k = data.first[i]; k < data.first[i + 1]; k++) if (!Number.isNaN(all[k])) known.push(all[k]);
  }
  if (!known.length) return NaN;
  const values = Float64Array.from(known).sort();
  const middle = values.length >> 1;
  return values.length % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

const turnsOf = trajectories => trajectories.reduce((sum, i) => sum + state.data.first[i + 1] - state.data.first[i], 0);

/** What is resampled apart: runs and problems, or everything together where one of these has a single trajectory. */
function strataOf(trajectories) {
  const {data} = state, known = new Map();
  trajectories.forEach((trajectory, unit) => {
    const key = data.stratum[trajectory];
    if (!known.has(key)) known.set(key, []);
    known.get(key).push(unit);
  });
  const strata = [...known.values()];
  return strata.some(one => one.length < 2) ? [trajectories.map((_, unit) => unit)] : strata;
}

/**
 * 95 % limits by resampling whole trajectories. `counts` and `sizes` have one number per trajectory and quantity.
 * Returns [low, high] per quantity.
 */
function bootstrap(trajectories, counts, sizes, quantities) {
  const replicates = state.data.replicates, strata = strataOf(trajectories), random = new Random(1);
  const shares = Array.from({length: quantities}, () => new Float64Array(replicates));
  const count = new Float64Array(quantities), size = new Float64Array(quantities);
  for (let r = 0; r < replicates; r++) {
    count.fill(0); size.fill(0);
    for (const stratum of strata) {
      for (let draw = 0; draw < stratum.length; draw++) {
        const at = stratum[random.below(stratum.length)] * quantities;
        for (let q = 0; q < quantities; q++) { count[q] += counts[at + q]; size[q] += sizes[at + q]; }
      }
    }
    for (let q = 0; q < quantities; q++) shares[q][r] = size[q] ? count[q] / size[q] : 0;
  }
  const low = Math.floor(0.025 * (replicates - 1)), high = Math.ceil((1 - 0.025) * (replicates - 1));
  return shares.map(values => { values.sort(); return [values[low], values[high]]; });
}

/** Limits of Fast_p at each of some thresholds; null where nothing can be said. */
function fastLimits(trajectories, thresholds, target) {
  const {data} = state, n = trajectories.length, q = thresholds.length;
  if (n < 2 || !data.replicates) return thresholds.map(() => null);
  const counts = new Float64Array(n * q), sizes = new Float64Array(n * q), unknown = new Uint8Array(q);
  trajectories.forEach((i, unit) => {
    sizes.fill(data.first[i + 1] - data.first[i], unit * q, unit * q + q);
    for (let c = data.correctFirst[i]; c < data.correctFirst[i + 1]; c++) {
      for (let t = 0; t < q; t++) {
        const known = exceeds(data, data.correct[c], thresholds[t], target);
        if (known === YES) counts[unit * q + t]++; else if (known === UNKNOWN) unknown[t] = 1;
      }
    }
  });
  return bootstrap(trajectories, counts, sizes, q).map(([low, high], t) => {
    if (unknown[t]) return null;
    if (low < high) return {low, high};
    // All alike: the exact limits as if each trajectory were one trial.
    if (low === 0) return {low: 0, high: 1 - Math.pow(0.025, 1 / n), exact: true};
    if (high === 1) return {low: Math.pow(0.025, 1 / n), high: 1, exact: true};
    return null;
  });
}

/** Limits of the difference between two sets, each resampled within its strata, as mean over problems. */
function differenceLimits(pairs, measure) {
  const replicates = 1000, random = new Random(2), values = new Float64Array(replicates);
  const sides = pairs.map(pair => pair.map(trajectories => trajectories.map(measure)));
  for (let r = 0; r < replicates; r++) {
    let sum = 0;
    for (const [a, b] of sides) {
      const share = samples => {
        let count = 0, of = 0;
        for (let i = 0; i < samples.length; i++) {
          const one = samples[random.below(samples.length)];
          count += one.count; of += one.of;
        }
        return of ? count / of : 0;
      };
      const before = share(a);
      sum += share(b) - before;
    }
    values[r] = sum / sides.length;
  }
  values.sort();
  return [values[Math.floor(0.025 * (replicates - 1))], values[Math.ceil(0.975 * (replicates - 1))]];
}
