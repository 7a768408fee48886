"use strict";
// Reads a column file of battles and fits Bradley–Terry to it, as `tiltyard rate` does: Newton's method on pair counts,
// each step solved by conjugate gradients. Runs in a worker; knows nothing of the page.

const TYPES = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, i32: Int32Array, f64: Float64Array };
const MAGIC = "TYCOLS1\n";
const POINTS = 400 / Math.LN10;
const NO_DAY = -2147483648;
const FAR = 600;
const A = 0, B = 1, TIE = 2, BOTH_BAD = 3;

class Unrated extends Error {}

// ---- the file

function readColumns(buffer) {
  const bytes = new Uint8Array(buffer);
  if (bytes.length < 12 || String.fromCharCode(...bytes.subarray(0, 8)) !== MAGIC) {
    throw new Unrated("this is not a column file of battles");
  }
  const length = new DataView(buffer).getUint32(8, true);
  const start = 12 + length;
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(12, start)));
  const columns = {};
  for (const entry of header.columns) {
    columns[entry.name] = { values: new TYPES[entry.type](buffer, start + entry.at, header.rows), labels: entry.labels };
  }
  return { rows: header.rows, models: header.models, columns };
}

// ---- which battles

// A byte per row: 1 where it passes every filter. Texts are compared by code, days by number, ends included.
function chosenRows(data, filter) {
  const chosen = new Uint8Array(data.rows).fill(1);
  for (const [name, label] of Object.entries(filter.texts || {})) {
    const column = data.columns[name];
    const code = column ? column.labels.indexOf(label) + (name === "source" ? 0 : 1) : -1;
    for (let row = 0; row < data.rows; row++) if (!column || column.values[row] !== code) chosen[row] = 0;
  }
  const day = data.columns.day;
  for (const [end, sign] of [["from", 1], ["until", -1]]) {
    if (filter[end] == null) continue;
    for (let row = 0; row < data.rows; row++) {
      if (!day || day.values[row] === NO_DAY || sign * (day.values[row] - filter[end]) < 0) chosen[row] = 0;
    }
  }
  if (data.columns.weight) {
    const weight = data.columns.weight.values;
    for (let row = 0; row < data.rows; row++) if (weight[row] === 0) chosen[row] = 0;
  }
  return chosen;
}

// Battles by model and by pair. A cell is one pair with one kind of decider: [won, lost, tied] of the lower code.
function count(data, rules, filter) {
  const chosen = chosenRows(data, filter);
  const { model_a, model_b, winner, source, inconsistent } = data.columns;
  const a = model_a.values, b = model_b.values, won = winner.values, by = source.values, n = data.models.length;
  const weight = data.columns.weight ? data.columns.weight.values : null;
  const soft = data.columns.score_a ? data.columns.score_a.values : null;
  const flipped = rules.inconsistent === "drop" && inconsistent ? inconsistent.values : null;
  const of = (row) => (weight ? weight[row] : 1);
  const result = (row) => (won[row] === BOTH_BAD && rules.both_bad === "half" ? TIE : won[row]);
  for (let row = 0; row < data.rows; row++) {
    if (flipped && flipped[row]) chosen[row] = 0;
    if (won[row] === BOTH_BAD && rules.both_bad === "drop") chosen[row] = 0;
  }
  if (rules.min_battles > 0) {
    const met = new Float64Array(n);
    for (let row = 0; row < data.rows; row++) if (chosen[row]) { met[a[row]] += of(row); met[b[row]] += of(row); }
    for (let row = 0; row < data.rows; row++) {
      if (met[a[row]] < rules.min_battles || met[b[row]] < rules.min_battles) chosen[row] = 0;
    }
  }
  let isSoft = false, people = false, judges = false;
  for (let row = 0; row < data.rows; row++) {
    if (!chosen[row]) continue;
    if (result(row) === BOTH_BAD || (rules.ties === "drop" && result(row) === TIE)) {
      chosen[row] = 0;
      continue;
    }
    if (soft && soft[row] === soft[row]) isSoft = true;
    if (by[row]) people = true; else judges = true;
  }
  const ties = rules.ties === "drop" || rules.ties === "half" || isSoft ? "half" : rules.ties;
  const groups = ties !== "half" && people && judges ? 2 : 1;
  const cells = { models: n, groups, first: [], second: [], group: [], won: [], lost: [], tied: [] };
  const places = new Map();
  for (let row = 0; row < data.rows; row++) {
    if (!chosen[row]) continue;
    const group = groups === 2 ? by[row] : 0, what = result(row), size = of(row);
    const forward = a[row] < b[row], low = forward ? a[row] : b[row], high = forward ? b[row] : a[row];
    const key = (low * n + high) * groups + group;
    let at = places.get(key);
    if (at === undefined) {
      places.set(key, at = places.size);
      cells.first.push(low); cells.second.push(high); cells.group.push(group);
      cells.won.push(0); cells.lost.push(0); cells.tied.push(0);
    }
    if (soft && soft[row] === soft[row]) {
      const share = forward ? soft[row] : 1 - soft[row];
      cells.won[at] += size * share;
      cells.lost[at] += size * (1 - share);
    } else {
      cells[what === TIE ? "tied" : (what === A) === forward ? "won" : "lost"][at] += size;
    }
  }
  return { cells, ties, isSoft };
}

// ---- who can be compared

// Only the largest group of models that battles join, with codes of its own.
function largestIsland(cells) {
  const seen = new Set([...cells.first, ...cells.second]);
  if (!seen.size) throw new Unrated("no battle is left to rate");
  const { label, labels } = components(cells.models, [...cells.first, ...cells.second], [...cells.second, ...cells.first]);
  const sizes = new Int32Array(labels);
  for (const model of seen) sizes[label[model]]++;
  const best = sizes.indexOf(sizes.reduce((most, size) => Math.max(most, size), 0));
  const inside = [], code = new Int32Array(cells.models).fill(-1), outside = [];
  for (let i = 0; i < cells.models; i++) {
    if (!seen.has(i)) continue;
    if (label[i] === best) { code[i] = inside.length; inside.push(i); } else outside.push(i);
  }
  const kept = { models: inside.length, groups: cells.groups, first: [], second: [], group: [], won: [], lost: [], tied: [] };
  cells.first.forEach((one, i) => {
    if (code[one] < 0) return;
    kept.first.push(code[one]); kept.second.push(code[cells.second[i]]);
    for (const name of ["group", "won", "lost", "tied"]) kept[name].push(cells[name][i]);
  });
  return { cells: kept, inside, outside };
}

// The strongly connected components of a graph (Tarjan 1972), without recursion.
function components(n, from, to) {
  const start = new Int32Array(n + 1), target = new Int32Array(from.length);
  for (const node of from) start[node + 1]++;
  for (let i = 0; i < n; i++) start[i + 1] += start[i];
  const fill = start.slice();
  from.forEach((node, i) => { target[fill[node]++] = to[i]; });
  const index = new Int32Array(n).fill(-1), low = new Int32Array(n), label = new Int32Array(n).fill(-1);
  const next = start.slice(0, n), stack = [], path = [];
  let time = 0, labels = 0;
  for (let begin = 0; begin < n; begin++) {
    if (index[begin] >= 0) continue;
    path.push(begin);
    while (path.length) {
      const node = path[path.length - 1];
      if (index[node] < 0) { index[node] = low[node] = time++; stack.push(node); }
      if (next[node] < start[node + 1]) {
        const other = target[next[node]++];
        if (index[other] < 0) path.push(other);
        else if (label[other] < 0) low[node] = Math.min(low[node], index[other]);
        continue;
      }
      path.pop();
      if (path.length) { const above = path[path.length - 1]; low[above] = Math.min(low[above], low[node]); }
      if (low[node] !== index[node]) continue;
      let other;
      do { other = stack.pop(); label[other] = labels; } while (other !== node);
      labels++;
    }
  }
  return { label, labels };
}

// The pairs (winner, loser), a tie being a step both ways where asked.
function edges(cells, withTies, group = -1) {
  const from = [], to = [];
  for (let i = 0; i < cells.first.length; i++) {
    if (group >= 0 && cells.group[i] !== group) continue;
    if (cells.won[i] || (withTies && cells.tied[i])) { from.push(cells.first[i]); to.push(cells.second[i]); }
    if (cells.lost[i] || (withTies && cells.tied[i])) { from.push(cells.second[i]); to.push(cells.first[i]); }
  }
  return { from, to };
}

// Half a win and half a loss for every model outside the largest group that is bounded from both sides.
function bounded(cells) {
  const { from, to } = edges(cells, true);
  const { label, labels } = components(cells.models, from, to);
  if (labels === 1) return { cells, loose: [] };
  const size = new Float64Array(labels), busy = new Float64Array(labels), met = new Float64Array(cells.models);
  for (const one of label) size[one]++;
  for (let i = 0; i < cells.first.length; i++) {
    const n = cells.won[i] + cells.lost[i] + cells.tied[i];
    busy[label[cells.first[i]]] += n; busy[label[cells.second[i]]] += n;
    met[cells.first[i]] += n; met[cells.second[i]] += n;
  }
  let core = 0;
  for (let i = 1; i < labels; i++) if (size[i] > size[core] || (size[i] === size[core] && busy[i] > busy[core])) core = i;
  const more = { ...cells };
  for (const name of ["first", "second", "group", "won", "lost", "tied"]) more[name] = cells[name].slice();
  for (let i = 0; i < cells.first.length; i++) {
    const n = cells.won[i] + cells.lost[i] + cells.tied[i];
    for (const [model, other] of [[cells.first[i], cells.second[i]], [cells.second[i], cells.first[i]]]) {
      if (label[model] === core) continue;
      const half = (0.5 * n) / met[model];
      more.first.push(model); more.second.push(other); more.group.push(0);
      more.won.push(half); more.lost.push(half); more.tied.push(0);
    }
  }
  return { cells: more, loose: Array.from(label.keys()).filter((model) => label[model] !== core) };
}

// Whether some cycle of wins bounds the tie parameter of every group that has ties.
function tiesBounded(cells) {
  for (let group = 0; group < cells.groups; group++) {
    if (!cells.tied.some((tied, i) => tied && cells.group[i] === group)) continue;
    const { from, to } = edges(cells, false, group);
    if (components(cells.models, from, to).labels === cells.models) return false;
  }
  return true;
}

// ---- the fit

// Value, slopes and curvatures of the log-likelihood, cell by cell.
function evaluate(cells, ties, x, out) {
  const n = cells.models;
  let value = 0;
  for (let i = 0; i < cells.first.length; i++) {
    const won = cells.won[i], lost = cells.lost[i], tied = cells.tied[i], all = won + lost + tied;
    const delta = x[cells.first[i]] - x[cells.second[i]];
    if (ties === "half") {
      const size = Math.abs(delta), advantage = Math.tanh(0.5 * delta);
      value += 0.5 * (won - lost) * delta - all * (Math.log1p(Math.exp(-size)) + 0.5 * size);
      out.slope[i] = 0.5 * (won - lost - all * advantage);
      out.tie[i] = 0;
      out.bend[i] = 0.25 * all * (1 - advantage * advantage);
      out.cross[i] = out.tieBend[i] = 0;
    } else if (ties === "davidson") {
      const tie = x[n + cells.group[i]];
      const up = Math.exp(Math.min(Math.max(0.5 * delta, -0.5 * FAR), 0.5 * FAR)), down = 1 / up, nu = Math.exp(tie);
      const total = up + down + nu, net = (up - down) / total, share = nu / total, expected = all * share;
      value += 0.5 * (won - lost) * delta + (tied ? tied * tie : 0) - all * Math.log(total);
      out.slope[i] = 0.5 * (won - lost - all * net);
      out.tie[i] = tied - expected;
      out.bend[i] = 0.25 * (all - expected - all * net * net);
      out.cross[i] = -0.5 * expected * net;
      out.tieBend[i] = expected - expected * share;
    } else {
      const tie = x[n + cells.group[i]], first = won + tied, second = lost + tied;
      const sigma = (z) => 0.5 * (1 + Math.tanh(0.5 * z));
      const logSigma = (z) => Math.min(z, 0) - Math.log1p(Math.exp(-Math.abs(z)));
      const p = sigma(delta - tie), q = sigma(-delta - tie), up = first * (1 - p), down = second * (1 - q);
      const excess = tie > 0 ? 2 / -Math.expm1(-2 * tie) : 0;
      value += first * logSigma(delta - tie) + second * logSigma(-delta - tie) + (tied ? tied * Math.log(Math.expm1(2 * tie)) : 0);
      out.slope[i] = up - down;
      out.tie[i] = tied * excess - up - down;
      out.bend[i] = up * p + down * q;
      out.cross[i] = down * q - up * p;
      out.tieBend[i] = up * p + down * q + tied * excess * (excess - 2);
    }
  }
  return value;
}

function startOf(cells, ties) {
  const x = new Float64Array(cells.models + cells.groups), free = new Uint8Array(cells.groups);
  for (let group = 0; group < cells.groups; group++) {
    let tied = 0, all = 0;
    for (let i = 0; i < cells.first.length; i++) {
      if (cells.group[i] !== group) continue;
      tied += cells.tied[i];
      all += cells.won[i] + cells.lost[i] + cells.tied[i];
    }
    if (ties === "half") continue;
    if (all && tied === all) throw new Unrated("all battles of one kind of decider are ties");
    free[group] = tied > 0 ? 1 : 0;
    const share = tied / (all || 1);
    x[cells.models + group] = ties === "davidson"
      ? (tied ? Math.log((2 * share) / (1 - share)) : -Infinity)
      : Math.log((1 + share) / (1 - share));
  }
  return { x, free };
}

// Solves (minus Hessian) · step = gradient by conjugate gradients, with strengths measured from their mean.
function newtonStep(cells, found, free) {
  const n = cells.models, size = n + cells.groups, m = cells.first.length;
  const residual = new Float64Array(size);
  for (let i = 0; i < m; i++) {
    residual[cells.first[i]] += found.slope[i];
    residual[cells.second[i]] -= found.slope[i];
    residual[n + cells.group[i]] += found.tie[i];
  }
  const diagonal = new Float64Array(size);
  for (let i = 0; i < m; i++) {
    diagonal[cells.first[i]] += found.bend[i]; diagonal[cells.second[i]] += found.bend[i];
    diagonal[n + cells.group[i]] += found.tieBend[i];
  }
  const centred = (v) => {
    let mean = 0;
    for (let i = 0; i < n; i++) mean += v[i] / n;
    for (let i = 0; i < n; i++) v[i] -= mean;
    for (let group = 0; group < cells.groups; group++) if (!free[group]) v[n + group] = 0;
  };
  const times = (v, out) => {
    out.fill(0);
    for (let i = 0; i < m; i++) {
      const one = cells.first[i], two = cells.second[i], tie = n + cells.group[i];
      const d = v[one] - v[two], t = v[tie], u = found.bend[i] * d + found.cross[i] * t;
      out[one] += u; out[two] -= u; out[tie] += found.cross[i] * d + found.tieBend[i] * t;
    }
    centred(out);
  };
  const step = new Float64Array(size), scaled = new Float64Array(size), image = new Float64Array(size);
  const scale = () => {
    for (let i = 0; i < size; i++) scaled[i] = diagonal[i] > 0 ? residual[i] / diagonal[i] : 0;
    centred(scaled);
  };
  const dot = (p, q) => { let sum = 0; for (let i = 0; i < size; i++) sum += p[i] * q[i]; return sum; };
  centred(residual);
  scale();
  const direction = scaled.slice();
  let now = dot(residual, scaled);
  const enough = Math.max(now * 1e-20, 1e-28);
  for (let round = 0; round < 10 * size && now > enough; round++) {
    times(direction, image);
    const along = dot(direction, image);
    if (!(along > 0)) break;
    const length = now / along;
    for (let i = 0; i < size; i++) { step[i] += length * direction[i]; residual[i] -= length * image[i]; }
    scale();
    const then = dot(residual, scaled), keep = then / now;
    now = then;
    for (let i = 0; i < size; i++) direction[i] = scaled[i] + keep * direction[i];
  }
  return step;
}

function fit(cells, ties) {
  const m = cells.first.length, make = () => new Float64Array(m);
  const found = { slope: make(), tie: make(), bend: make(), cross: make(), tieBend: make() };
  let { x, free } = startOf(cells, ties);
  let value = evaluate(cells, ties, x, found);
  for (let steps = 1; steps <= 60; steps++) {
    const step = newtonStep(cells, found, free);
    const largest = step.reduce((most, move) => Math.max(most, Math.abs(move)), 0);
    let moved = false;
    for (let size = 1; size > 1e-15 && !moved; size /= 2) {
      const trial = x.map((at, i) => at + size * step[i]);
      const ties_ok = ties !== "rao-kupper" || free.every((is, group) => !is || trial[cells.models + group] > 0);
      const there = ties_ok ? evaluate(cells, ties, trial, found) : -Infinity;
      if (there >= value - 1e-12 * (1 + Math.abs(value))) { x = trial; value = there; moved = true; }
    }
    if (!moved) evaluate(cells, ties, x, found);
    if (largest < 1e-9 || !moved) return { x, steps };
  }
  throw new Unrated("the fit did not converge");
}

// A board: for every model its rating (NaN where it is not rated) and its counts.
function rate(data, rules, filter) {
  const counted = count(data, rules, filter);
  const { cells: joined, inside, outside } = largestIsland(counted.cells);
  const { cells, loose } = bounded(joined);
  let ties = counted.ties;
  const remarks = [];
  if (!joined.won.some((won, i) => won || joined.lost[i])) throw new Unrated("every battle is a tie");
  if (ties !== "half" && !tiesBounded(joined) && !tiesBounded(cells)) {
    throw new Unrated("too few battles contradict each other to say how likely a tie is; `tiltyard rate` can rate them");
  }
  const { x, steps } = fit(cells, ties);
  const strength = x.subarray(0, joined.models);
  let zero = 0;
  strength.forEach((at) => { zero += at / joined.models; });
  let offset = rules.centre - POINTS * zero;
  if (rules.anchor) {
    const anchor = inside.indexOf(data.models.indexOf(rules.anchor[0]));
    if (anchor < 0) remarks.push(`${rules.anchor[0]} is in none of these battles, so the mean is ${rules.anchor[1]}`);
    offset = rules.anchor[1] - POINTS * (anchor < 0 ? zero : strength[anchor]);
  }
  const n = data.models.length;
  const found = {
    rating: new Float64Array(n).fill(NaN), won: new Float64Array(n), lost: new Float64Array(n), tied: new Float64Array(n),
  };
  inside.forEach((model, i) => { found.rating[model] = offset + POINTS * strength[i]; });
  let battles = 0;
  joined.first.forEach((one, i) => {
    const [a, b] = [inside[one], inside[joined.second[i]]];
    found.won[a] += joined.won[i]; found.lost[a] += joined.lost[i]; found.tied[a] += joined.tied[i];
    found.won[b] += joined.lost[i]; found.lost[b] += joined.won[i]; found.tied[b] += joined.tied[i];
    battles += joined.won[i] + joined.lost[i] + joined.tied[i];
  });
  return { ...found, battles, steps, remarks, ties, outside, loose: loose.map((i) => inside[i]) };
}

// ---- talking to the page

let data = null;
if (typeof self !== "undefined") {
  self.onmessage = ({ data: asked }) => {
    try {
      const began = performance.now();
      if (asked.kind === "load") {
        data = readColumns(asked.buffer);
        const columns = Object.entries(data.columns).filter(([, column]) => column.labels).map(([name, column]) => {
          const used = new Set(column.values), first = name === "source" || name === "winner" ? 0 : 1;
          return [name, column.labels.filter((_, place) => used.has(place + first))];
        });
        let from = Infinity, until = -Infinity;
        for (const day of data.columns.day ? data.columns.day.values : []) {
          if (day !== NO_DAY) { from = Math.min(from, day); until = Math.max(until, day); }
        }
        self.postMessage({
          id: asked.id, rows: data.rows, models: data.models, columns, days: from <= until ? [from, until] : null,
          seconds: (performance.now() - began) / 1000,
        });
      } else {
        const found = rate(data, asked.rules, asked.filter);
        self.postMessage({ id: asked.id, ...found, seconds: (performance.now() - began) / 1000 });
      }
    } catch (error) {
      self.postMessage({ id: asked.id, failed: error instanceof Unrated ? error.message : `it cannot be read (${error.message})` });
    }
  };
}
