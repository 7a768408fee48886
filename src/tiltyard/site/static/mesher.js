// Turns the file of a 3D answer into triangles, off the page's thread. In: {kind, bytes}. Out: {mesh} or {problem}.
// A mesh: positions, normals (with occlusion as fourth), colors, uvs, indices, parts to draw, images, and its box.

class Problem extends Error {}

self.addEventListener("message", async ({ data }) => {
  try {
    const mesh = data.kind === "voxel" ? voxelMesh(data.bytes) : await modelMesh(data.bytes);
    const arrays = [mesh.positions, mesh.normals, mesh.colors, mesh.uvs, mesh.indices].filter(Boolean);
    self.postMessage({ mesh }, [...arrays.map((array) => array.buffer), ...mesh.images]);
  } catch (error) {
    const known = error instanceof Problem;
    self.postMessage({ problem: known ? error.message : "The file cannot be read as a 3D answer." });
  }
});

function parsed(bytes) {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new Problem("The file is damaged: its JSON cannot be read.");
  }
}

// ---- Voxels: {"palette": ["#rrggbb", …], "blocks": [[x, y, z, color], …], "boxes": [[x1, y1, z1, x2, y2, z2, color], …]}

const WIDEST = 1000;
const MOST_BLOCKS = 1_000_000;
const ROUGH_FROM = 60_000; // faces; a build with more also gets a rougher shape of fewer faces, for turning it on slow machines
const ROUGH_FACES = 15_000;
const X = 1, Y = 1024, Z = 1024 * 1024; // the key of a place is x + 1024 y + 1024² z, each from 1 on, so that neighbors never wrap

function voxelMesh(bytes) {
  const file = parsed(bytes);
  const palette = Array.isArray(file?.palette) ? file.palette.map(color) : [];
  if (!palette.length) throw new Problem("The voxel file has no palette.");
  const cells = placed(file, palette.length);
  const quads = facesOf(cells, palette), rough = [];
  for (let scale = 2; quads.length > ROUGH_FROM && !rough.length; scale *= 2) {
    const faces = facesOf(cells.coarser(scale), palette);
    if (faces.length < ROUGH_FACES || scale > 32) rough.push({ faces, scale });
  }
  return quadMesh(quads, rough[0] ?? { faces: [], scale: 1 }, cells, palette);
}

function color(text) {
  const found = /^#(?:([0-9a-f])([0-9a-f])([0-9a-f])|([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})?)$/i.exec(text);
  if (!found) throw new Problem("The voxel file has a color that is not #rrggbb.");
  const [, r, g, b, red, green, blue, alpha = "ff"] = found;
  return (r ? [r + r, g + g, b + b, "ff"] : [red, green, blue, alpha]).map((digits) => parseInt(digits, 16));
}

function placed(file, colors) {
  const blocks = file.blocks ?? [], boxes = file.boxes ?? [];
  const low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity];
  let count = blocks.length;
  for (const row of blocks) for (let axis = 0; axis < 3; axis++) grow(low, high, axis, row[axis]);
  for (const row of boxes) {
    let inside = 1;
    for (let axis = 0; axis < 3; axis++) {
      grow(low, high, axis, row[axis]);
      grow(low, high, axis, row[axis + 3]);
      inside *= Math.abs(row[axis + 3] - row[axis]) + 1;
    }
    count += inside;
  }
  if (!count) throw new Problem("The voxel file has no blocks.");
  if (!(count <= MOST_BLOCKS)) throw new Problem("The build has more blocks than can be shown.");
  if (!low.every((value, axis) => high[axis] - value < WIDEST)) throw new Problem("The build is too wide to be shown.");
  const cells = new Cells(count, low, high);
  const put = (x, y, z, index) => {
    if (!(Number.isInteger(index) && index >= 0 && index < colors)) throw new Problem("A block has a color outside the palette.");
    cells.put(x - low[0] + 1 + (y - low[1] + 1) * Y + (z - low[2] + 1) * Z, index);
  };
  for (const [x1, y1, z1, x2, y2, z2, index] of boxes)
    for (let z = Math.min(z1, z2); z <= Math.max(z1, z2); z++)
      for (let y = Math.min(y1, y2); y <= Math.max(y1, y2); y++)
        for (let x = Math.min(x1, x2); x <= Math.max(x1, x2); x++) put(x, y, z, index);
  for (const [x, y, z, index] of blocks) put(x, y, z, index);
  return cells;
}

function grow(low, high, axis, value) {
  if (!Number.isInteger(value)) throw new Problem("A block is not at whole numbers.");
  if (value < low[axis]) low[axis] = value;
  if (value > high[axis]) high[axis] = value;
}

// Which color is where: a hash table with open addressing, so that far apart blocks cost nothing.
class Cells {
  constructor(count, low, high) {
    this.low = low;
    this.high = high;
    this.size = 1 << Math.max(4, Math.ceil(Math.log2(count * 2)));
    this.keys = new Int32Array(this.size);
    this.colors = new Uint16Array(this.size);
  }

  slot(key) {
    let at = (Math.imul(key, 0x9e3779b1) >>> 7) & (this.size - 1);
    while (this.keys[at] && this.keys[at] !== key) at = (at + 1) & (this.size - 1);
    return at;
  }

  put(key, index) {
    const at = this.slot(key);
    this.keys[at] = key;
    this.colors[at] = index + 1;
  }

  at(key) {
    return this.colors[this.slot(key)];
  }

  // The same build in larger blocks.
  coarser(scale) {
    const made = new Cells(this.keys.length / 2, this.low, this.high);
    const down = (place) => Math.floor((place - 1) / scale) + 1;
    for (let at = 0; at < this.size; at++) {
      const key = this.keys[at];
      if (key) made.put(down(key & 1023) + down((key >> 10) & 1023) * Y + down(key >> 20) * Z, this.colors[at] - 1);
    }
    return made;
  }
}

// Each direction: the step outwards, and the two steps along the face (u, v), turned so that u × v points outwards.
const DIRECTIONS = [
  [X, Y, Z], [-X, Z, Y], [Y, Z, X], [-Y, X, Z], [Z, X, Y], [-Z, Y, X],
];
const SHADES = [0.5, 0.68, 0.84, 1]; // by how many of the three blocks at a corner stand in the light's way

// Visible faces, merged into rectangles of one color and one shading, first along u, then along v.
function facesOf(cells, palette) {
  const clear = Uint8Array.from([0, ...palette.map((color) => (color[3] < 255 ? 1 : 0))]);
  const full = (key) => { const found = cells.at(key); return found && !clear[found] ? 1 : 0; };
  const keys = cells.keys.filter((key) => key);
  const made = [];
  for (let d = 0; d < 6; d++) {
    const [out, u, v] = DIRECTIONS[d];
    const open = new Map();
    const sorted = ordered(keys, out, u, v);
    let last = null;
    for (const key of sorted) {
      const own = cells.at(key), over = cells.at(key + out);
      if (over && (!clear[over] || over === own)) continue;
      const front = key + out;
      const west = full(front - u), east = full(front + u), south = full(front - v), north = full(front + v);
      const corner = (a, b, c) => (a && b ? 0 : 3 - a - b - c);
      const shade = corner(west, south, full(front - u - v)) | (corner(east, south, full(front + u - v)) << 2)
        | (corner(east, north, full(front + u + v)) << 4) | (corner(west, north, full(front - u + v)) << 6);
      const look = own * 256 + shade;
      const even = shade === 0 || shade === 85 || shade === 170 || shade === 255;
      if (last && last.look === look && even && last.key + last.wide * u === key) {
        last.wide++;
        continue;
      }
      if (last) closeRun(last, open, v, made);
      last = { key, look, even, wide: 1, tall: 1, d };
    }
    if (last) closeRun(last, open, v, made);
    for (const quad of open.values()) made.push(quad);
  }
  return made;
}

// A run is done: it continues the rectangle below it, or begins one.
function closeRun(run, open, v, made) {
  if (!run.even) {
    made.push(run);
    return;
  }
  const below = open.get(run.key - v);
  if (below && below.look === run.look && below.wide === run.wide) {
    open.delete(run.key - v);
    below.tall++;
    open.set(run.key, below);
    return;
  }
  open.set(run.key, run);
}

// Keys sorted by plane, then v, then u: neighbors along u follow each other, and each row follows the one below.
function ordered(keys, out, u, v) {
  const place = (key, step) => (step === X ? key & 1023 : step === Y ? (key >> 10) & 1023 : key >> 20);
  const plane = Math.abs(out);
  const sorting = new Int32Array(keys.length);
  for (let i = 0; i < keys.length; i++)
    sorting[i] = (place(keys[i], plane) << 20) | (place(keys[i], v) << 10) | place(keys[i], u);
  sorting.sort();
  for (let i = 0; i < sorting.length; i++) {
    const value = sorting[i];
    sorting[i] = (value >> 20) * plane + ((value >> 10) & 1023) * v + (value & 1023) * u;
  }
  return sorting;
}

// Parts by direction, so that the viewer leaves out those which face away; in each, what is likely in front comes first.
function quadMesh(quads, rough, cells, palette) {
  const isClear = (quad) => palette[(quad.look >> 8) - 1][3] < 255;
  const all = [...sides(quads, isClear, 1), ...sides(rough.faces, isClear, rough.scale)];
  const total = all.reduce((sum, side) => sum + side.quads.length, 0);
  const positions = new Int16Array(total * 16), normals = new Int8Array(total * 16), colors = new Uint8Array(total * 16), indices = new Uint32Array(total * 6);
  const fine = [], coarse = [];
  let i = 0;
  for (const { quads: group, blend, d, scale } of all) {
    (scale === 1 ? fine : coarse).push({ start: i * 6, count: group.length * 6, image: -1, blend, side: d });
    for (const quad of group) writeQuad(quad, i++, scale, palette, { positions, normals, colors, indices });
  }
  const high = cells.high.map((value, axis) => value - cells.low[axis] + 2);
  return { positions, stride: 4, normals, colors, uvs: null, indices, images: [], closed: true, low: [1, 1, 1], high, parts: fine, rough: coarse };
}

function sides(quads, isClear, scale) {
  const planes = Array.from({ length: 12 }, () => []); // of each direction, solid and clear: quads by plane
  for (const quad of quads) {
    const side = axisOf(DIRECTIONS[quad.d][0]);
    const plane = side === 0 ? quad.key & 1023 : side === 1 ? (quad.key >> 10) & 1023 : quad.key >> 20;
    const blend = isClear(quad) ? 1 : 0;
    (planes[quad.d * 2 + blend][plane] ??= []).push(quad);
  }
  const made = planes.map((group, n) => {
    const filled = group.filter(Boolean), d = n >> 1;
    return { quads: (d % 2 ? filled : filled.reverse()).flat(), blend: n % 2 === 1, d, scale };
  });
  return [...made.filter((side) => !side.blend), ...made.filter((side) => side.blend)].filter((side) => side.quads.length);
}

function writeQuad(quad, i, scale, palette, { positions, normals, colors, indices }) {
  const [out, u, v] = DIRECTIONS[quad.d], along = axisOf(u), up = axisOf(v), side = axisOf(out);
  const paint = palette[(quad.look >> 8) - 1];
  const x = quad.key & 1023, y = (quad.key >> 10) & 1023, z = quad.key >> 20;
  const shade = (corner) => (quad.look >> (2 * corner)) & 3;
  for (let corner = 0; corner < 4; corner++) {
    const to = i * 16 + corner * 4;
    positions[to] = x;
    positions[to + 1] = y;
    positions[to + 2] = z;
    if (out > 0) positions[to + side] += 1;
    if (corner === 1 || corner === 2) positions[to + along] += quad.wide;
    if (corner >= 2) positions[to + up] += quad.tall;
    for (let axis = 0; axis < 3; axis++) positions[to + axis] = (positions[to + axis] - 1) * scale + 1;
    normals[to + side] = out > 0 ? 127 : -127;
    normals[to + 3] = Math.round(127 * SHADES[shade(corner)]);
    colors.set(paint, to);
  }
  const turned = shade(0) + shade(2) < shade(1) + shade(3) ? 1 : 0; // cut along the darker diagonal, or shading looks torn
  const corners = turned ? [1, 2, 3, 1, 3, 0] : [0, 1, 2, 0, 2, 3];
  for (let k = 0; k < 6; k++) indices[i * 6 + k] = i * 4 + corners[k];
}

function axisOf(step) {
  const size = Math.abs(step);
  return size === X ? 0 : size === Y ? 1 : 2;
}

// ---- glTF 2.0, binary: triangles with normals, colors, base color and its texture, as its scene places them

const MOST_VERTICES = 4_000_000;
const UNDERSTOOD = new Set(["KHR_materials_unlit", "KHR_mesh_quantization", "KHR_materials_specular", "KHR_materials_ior", "KHR_materials_emissive_strength"]);
const ARRAYS = { 5120: Int8Array, 5121: Uint8Array, 5122: Int16Array, 5123: Uint16Array, 5125: Uint32Array, 5126: Float32Array };
const WIDTHS = { SCALAR: 1, VEC2: 2, VEC3: 3, VEC4: 4, MAT4: 16 };
const FULL_SCALE = { 5120: 127, 5121: 255, 5122: 32767, 5123: 65535 };

async function modelMesh(bytes) {
  const { file, body } = chunks(bytes);
  const needed = (file.extensionsRequired ?? []).filter((name) => !UNDERSTOOD.has(name));
  if (needed.length) throw new Problem(`The model needs ${needed.join(", ")}, which this viewer does not read.`);
  const pieces = [];
  const scene = file.scenes?.[file.scene ?? 0];
  const identity = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1];
  for (const root of scene?.nodes ?? file.nodes?.map((_, i) => i) ?? []) walk(file, body, root, identity, pieces, 0);
  if (!pieces.length) throw new Problem("The model has no triangles.");
  return merged(file, pieces, await pictures(file, body));
}

function chunks(bytes) {
  const view = new DataView(bytes);
  if (bytes.byteLength < 20 || view.getUint32(0, true) !== 0x46546c67 || view.getUint32(4, true) !== 2)
    throw new Problem("The file is not a binary glTF 2.0 model.");
  const first = view.getUint32(12, true);
  const file = parsed(new Uint8Array(bytes, 20, first));
  const second = 20 + first;
  const body = second + 8 <= bytes.byteLength ? new Uint8Array(bytes, second + 8, view.getUint32(second, true)) : new Uint8Array(0);
  return { file, body };
}

function walk(file, body, index, above, pieces, depth) {
  if (depth > 64) throw new Problem("The model's nodes are nested too deeply.");
  const node = file.nodes[index];
  const matrix = product(above, node.matrix ?? composed(node));
  if (node.mesh !== undefined)
    for (const primitive of file.meshes[node.mesh].primitives) {
      const piece = pieceOf(file, body, primitive, matrix);
      if (piece) pieces.push(piece);
    }
  for (const child of node.children ?? []) walk(file, body, child, matrix, pieces, depth + 1);
}

function composed({ translation: [x, y, z] = [0, 0, 0], rotation: [i, j, k, w] = [0, 0, 0, 1], scale: [a, b, c] = [1, 1, 1] }) {
  return [
    a * (1 - 2 * (j * j + k * k)), a * 2 * (i * j + k * w), a * 2 * (i * k - j * w), 0,
    b * 2 * (i * j - k * w), b * (1 - 2 * (i * i + k * k)), b * 2 * (j * k + i * w), 0,
    c * 2 * (i * k + j * w), c * 2 * (j * k - i * w), c * (1 - 2 * (i * i + j * j)), 0,
    x, y, z, 1,
  ];
}

function product(a, b) {
  const made = new Array(16).fill(0);
  for (let column = 0; column < 4; column++)
    for (let row = 0; row < 4; row++)
      for (let k = 0; k < 4; k++) made[column * 4 + row] += a[k * 4 + row] * b[column * 4 + k];
  return made;
}

function values(file, body, index) {
  const accessor = file.accessors[index];
  if (accessor.sparse) throw new Problem("The model has sparse accessors, which this viewer does not read.");
  const width = WIDTHS[accessor.type], kind = ARRAYS[accessor.componentType];
  const made = new Float32Array(accessor.count * width);
  if (accessor.bufferView === undefined) return { made, width };
  const view = file.bufferViews[accessor.bufferView];
  const start = body.byteOffset + (view.byteOffset ?? 0) + (accessor.byteOffset ?? 0);
  const each = kind.BYTES_PER_ELEMENT * width, stride = view.byteStride ?? each;
  if (start + stride * (accessor.count - 1) + each > body.byteOffset + body.byteLength) throw new Problem("The model is cut off.");
  const tight = new Uint8Array(accessor.count * each);
  const from = new Uint8Array(body.buffer, start);
  if (stride === each) tight.set(from.subarray(0, tight.length));
  else for (let i = 0; i < accessor.count; i++) tight.set(from.subarray(i * stride, i * stride + each), i * each);
  const read = new kind(tight.buffer);
  if (kind === Uint32Array) return { made: read, width };
  const scale = accessor.normalized ? 1 / FULL_SCALE[accessor.componentType] : 1;
  for (let i = 0; i < read.length; i++) made[i] = Math.max(accessor.normalized ? -1 : -Infinity, read[i] * scale);
  return { made, width };
}

function pieceOf(file, body, primitive, matrix) {
  const mode = primitive.mode ?? 4;
  if (mode < 4 || primitive.attributes?.POSITION === undefined) return null; // points and lines
  const positions = values(file, body, primitive.attributes.POSITION).made;
  const count = positions.length / 3;
  const indices = trianglesOf(mode, primitive.indices === undefined ? Uint32Array.from({ length: count }, (_, i) => i) : values(file, body, primitive.indices).made);
  const material = file.materials?.[primitive.material] ?? {};
  const base = material.pbrMetallicRoughness ?? {};
  const texture = base.baseColorTexture;
  const optional = (name) => (primitive.attributes[name] === undefined ? null : values(file, body, primitive.attributes[name]));
  return {
    matrix, positions, indices, count,
    normals: optional("NORMAL")?.made ?? null,
    colors: optional("COLOR_0"),
    uvs: texture ? optional(`TEXCOORD_${texture.texCoord ?? 0}`)?.made ?? null : null,
    factor: base.baseColorFactor ?? [1, 1, 1, 1],
    glow: material.emissiveFactor ?? [0, 0, 0],
    image: texture ? file.textures?.[texture.index]?.source ?? -1 : -1,
    blend: material.alphaMode === "BLEND",
    cut: material.alphaMode === "MASK" ? material.alphaCutoff ?? 0.5 : 0,
  };
}

function trianglesOf(mode, order) {
  if (mode === 4) return Uint32Array.from(order);
  const made = [];
  for (let i = 2; i < order.length; i++)
    if (mode === 6) made.push(order[0], order[i - 1], order[i]);
    else made.push(...(i % 2 ? [order[i - 1], order[i - 2], order[i]] : [order[i - 2], order[i - 1], order[i]]));
  return Uint32Array.from(made);
}

function merged(file, pieces, images) {
  pieces.sort((a, b) => a.blend - b.blend);
  const total = pieces.reduce((sum, piece) => sum + piece.count, 0);
  if (total > MOST_VERTICES) throw new Problem("The model has more vertices than can be shown.");
  const positions = new Float32Array(total * 3), normals = new Int8Array(total * 4), colors = new Uint8Array(total * 4), uvs = new Float32Array(total * 2);
  const indices = new Uint32Array(pieces.reduce((sum, piece) => sum + piece.indices.length, 0));
  const low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity], parts = [];
  let vertex = 0, at = 0;
  for (const piece of pieces) {
    const m = piece.matrix, flipped = determinant(m) < 0;
    for (let i = 0; i < piece.count; i++) {
      const [x, y, z] = piece.positions.subarray(i * 3, i * 3 + 3);
      for (let axis = 0; axis < 3; axis++) {
        const value = m[axis] * x + m[4 + axis] * y + m[8 + axis] * z + m[12 + axis];
        if (!Number.isFinite(value)) throw new Problem("The model has a place that is not a number.");
        positions[(vertex + i) * 3 + axis] = value;
        low[axis] = Math.min(low[axis], value);
        high[axis] = Math.max(high[axis], value);
      }
      colors.set(painted(piece, i), (vertex + i) * 4);
      if (piece.uvs) uvs.set(piece.uvs.subarray(i * 2, i * 2 + 2), (vertex + i) * 2);
    }
    for (let i = 0; i < piece.indices.length; i += 3)
      for (let k = 0; k < 3; k++) {
        const chosen = piece.indices[i + (flipped && k ? 3 - k : k)];
        if (!(chosen < piece.count)) throw new Problem("The model has a triangle without a corner.");
        indices[at + i + k] = vertex + chosen;
      }
    if (piece.normals) turnNormals(piece, normals, vertex);
    else flatNormals(positions, indices, at, piece.indices.length, normals);
    parts.push({ start: at, count: piece.indices.length, image: images.has(piece.image) ? piece.image : -1, blend: piece.blend, cut: piece.cut });
    vertex += piece.count;
    at += piece.indices.length;
  }
  const numbers = [...images.keys()];
  for (const part of parts) part.image = numbers.indexOf(part.image);
  return { positions, stride: 3, normals, colors, uvs, indices, images: [...images.values()], parts, rough: [], low, high, closed: false };
}

function determinant(m) {
  return m[0] * (m[5] * m[10] - m[6] * m[9]) - m[4] * (m[1] * m[10] - m[2] * m[9]) + m[8] * (m[1] * m[6] - m[2] * m[5]);
}

// Base color times the vertex's own, as sRGB bytes; glTF's are linear.
function painted(piece, i) {
  const own = piece.colors;
  const made = [0, 1, 2].map((k) => {
    const linear = piece.factor[k] * (own ? own.made[i * own.width + k] : 1) + piece.glow[k];
    return Math.round(255 * Math.min(1, Math.max(0, linear)) ** (1 / 2.2));
  });
  const alpha = piece.factor[3] * (own && own.width === 4 ? own.made[i * 4 + 3] : 1);
  return [...made, piece.blend || piece.cut ? Math.round(255 * Math.min(1, Math.max(0, alpha))) : 255];
}

// By the cofactors of the matrix, which keeps normals upright under uneven scales.
function turnNormals(piece, normals, vertex) {
  const m = piece.matrix;
  const rows = [[5, 10, 6, 9], [6, 8, 4, 10], [4, 9, 5, 8], [9, 2, 1, 10], [0, 10, 8, 2], [8, 1, 0, 9], [1, 6, 5, 2], [4, 2, 0, 6], [0, 5, 4, 1]];
  const c = rows.map(([a, b, d, e]) => m[a] * m[b] - m[d] * m[e]);
  const sign = determinant(m) < 0 ? -1 : 1;
  for (let i = 0; i < piece.count; i++) {
    const [x, y, z] = piece.normals.subarray(i * 3, i * 3 + 3);
    const turned = [0, 1, 2].map((axis) => sign * (c[axis] * x + c[3 + axis] * y + c[6 + axis] * z));
    const length = Math.hypot(...turned) || 1;
    normals.set([...turned.map((value) => Math.round((127 * value) / length)), 127], (vertex + i) * 4);
  }
}

function flatNormals(positions, indices, start, count, normals) {
  for (let i = start; i < start + count; i += 3) {
    const [a, b, c] = [0, 1, 2].map((k) => positions.subarray(indices[i + k] * 3, indices[i + k] * 3 + 3));
    const u = [0, 1, 2].map((k) => b[k] - a[k]), v = [0, 1, 2].map((k) => c[k] - a[k]);
    const normal = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
    const length = Math.hypot(...normal) || 1;
    for (let k = 0; k < 3; k++) normals.set([...normal.map((value) => Math.round((127 * value) / length)), 127], indices[i + k] * 4);
  }
}

async function pictures(file, body) {
  const found = new Map();
  for (const [index, image] of (file.images ?? []).entries()) {
    const view = file.bufferViews?.[image.bufferView];
    if (!view) continue;
    const part = body.slice(view.byteOffset ?? 0, (view.byteOffset ?? 0) + view.byteLength);
    try {
      found.set(index, await createImageBitmap(new Blob([part], { type: image.mimeType }), { resizeQuality: "high", colorSpaceConversion: "none" }));
    } catch {
      throw new Problem("A texture of the model cannot be read.");
    }
  }
  return found;
}
