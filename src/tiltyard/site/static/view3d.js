// A viewer of 3D answers: one camera for all views of a page, one light, shadows, and nothing that moves by itself for long.
// `mount(view, tools)` fills one view; the triangles come from mesher.js. Drawn by WebGL 2, or without it on a plain canvas.

const HOME = { yaw: 0.62, pitch: 0.42, zoom: 1, x: 0, y: 0 };
const SUN = normalized([0.55, 0.95, 0.4]);
const FIELD = 0.5; // radians from top to bottom
const SHADOW_SIZE = 1024;
const SLOW_MS = 40; // where a frame takes longer than this, what is turned is drawn with fewer pixels and larger blocks
const MOST_FLAT_TRIANGLES = 120_000;

const camera = { ...HOME };
const scenes = new Set();
let wanted = 0, turning = 0, quality = 1, still = false, studio = null;

export async function mount(view, { bytes, label, ready }) {
  const mesh = await meshed(view.dataset.mesher, view.dataset.kind, bytes);
  if (!view.isConnected) return;
  const canvas = document.createElement("canvas");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-label", `${label} in 3D${view.closest(".answers") ? ", turned together with the other" : ""}. Arrow keys turn, plus and minus zoom, 0 resets.`);
  const box = view.querySelector(".screen");
  box.replaceChildren(canvas);
  const scene = new Scene(canvas, mesh);
  await scene.prepare();
  scenes.add(scene);
  for (const old of scenes) if (!old.canvas.isConnected) old.end();
  new ResizeObserver(() => redraw()).observe(canvas);
  steer(canvas);
  view.querySelector(".tools")?.addEventListener("click", (event) => {
    const act = event.target.closest("button")?.dataset.do;
    if (act === "nearer") zoom(1 / 1.25);
    if (act === "farther") zoom(1.25);
    if (act === "reset") reset();
  });
  scene.draw(1);
  ready();
  if (scenes.size === 1) arrive(); // the first of a page or of a new pair
}

function meshed(address, kind, bytes) {
  return new Promise((resolve, reject) => {
    const worker = new Worker(address);
    const give = (act, value) => { worker.terminate(); act(value); };
    worker.onmessage = ({ data }) => (data.mesh ? give(resolve, data.mesh) : give(reject, new Error(data.problem)));
    worker.onerror = () => give(reject, new Error("The viewer could not be started."));
    worker.postMessage({ kind, bytes }, [bytes]);
  });
}

// ---- The camera that all views share

// A short turn on arrival shows that these can be turned; not for those who asked for less motion.
function arrive() {
  Object.assign(camera, HOME);
  redraw();
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const start = performance.now(), from = HOME.yaw - 0.9;
  const step = (now) => {
    const t = Math.min(1, (now - start) / 1400);
    camera.yaw = from + 0.9 * (1 - (1 - t) ** 3);
    redraw(true);
    turning = t < 1 ? requestAnimationFrame(step) : 0;
    if (!turning) redraw();
  };
  turning = requestAnimationFrame(step);
}

function hold() {
  cancelAnimationFrame(turning);
  turning = 0;
}

function turn(dx, dy) {
  hold();
  camera.yaw -= dx;
  camera.pitch = Math.min(1.53, Math.max(-0.5, camera.pitch + dy));
}

function shift(dx, dy) {
  hold();
  camera.x = Math.min(1.5, Math.max(-1.5, camera.x - dx));
  camera.y = Math.min(1.5, Math.max(-1.5, camera.y + dy));
}

function zoom(factor) {
  hold();
  camera.zoom = Math.min(3, Math.max(0.12, camera.zoom * factor));
  redraw();
}

function reset() {
  hold();
  Object.assign(camera, HOME);
  redraw();
}

// While something moves a frame may be rough; one that was asked for at rest is drawn in full, whatever else was asked for it.
function redraw(moving = false) {
  if (!moving) still = true;
  if (wanted) return;
  wanted = requestAnimationFrame((began) => {
    const rough = !still;
    wanted = 0;
    still = false;
    for (const scene of scenes) scene.canvas.isConnected ? scene.draw(rough ? quality : 1) : scene.end();
    if (rough) requestAnimationFrame((next) => { if (next - began > SLOW_MS) quality = Math.max(0.5, quality - 0.25); });
  });
}

function steer(canvas) {
  const fingers = new Map();
  let settle = 0;
  const moved = () => {
    redraw(true);
    clearTimeout(settle);
    settle = setTimeout(() => redraw(), 160);
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, event);
    canvas.focus({ preventScroll: true });
  });
  const lift = (event) => {
    fingers.delete(event.pointerId);
    redraw();
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const dx = event.clientX - before.clientX, dy = event.clientY - before.clientY;
    const other = [...fingers.values()].find((finger) => finger.pointerId !== event.pointerId);
    fingers.set(event.pointerId, event);
    if (other) {
      const apart = (finger) => Math.hypot(finger.clientX - other.clientX, finger.clientY - other.clientY) || 1;
      camera.zoom = Math.min(3, Math.max(0.12, (camera.zoom * apart(before)) / apart(event)));
      shift(dx / canvas.clientHeight, dy / canvas.clientHeight);
    } else if (event.shiftKey || event.buttons === 2 || event.buttons === 4) shift((2 * dx) / canvas.clientHeight, (2 * dy) / canvas.clientHeight);
    else turn(dx * 0.009, dy * 0.009);
    moved();
  });
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("dblclick", reset);
  canvas.addEventListener("wheel", (event) => {
    if (document.activeElement !== canvas && !event.ctrlKey) return; // the page scrolls on until a view is chosen
    event.preventDefault();
    camera.zoom = Math.min(3, Math.max(0.12, camera.zoom * Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.003)));
    hold();
    moved();
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = 0.14, move = event.shiftKey ? (x, y) => shift(x, -y) : (x, y) => turn(x, -y);
    const acts = {
      ArrowLeft: () => move(step, 0), ArrowRight: () => move(-step, 0), ArrowUp: () => move(0, -step), ArrowDown: () => move(0, step),
      "+": () => zoom(1 / 1.15), "=": () => zoom(1 / 1.15), "-": () => zoom(1.15), "0": reset,
    };
    if (!(event.key in acts)) return;
    event.preventDefault();
    acts[event.key]();
    moved();
  });
}

// ---- Matrices, column by column

function normalized(v) {
  const length = Math.hypot(...v) || 1;
  return v.map((value) => value / length);
}

function cross(a, b) {
  return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
}

function dot(a, b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

function product(a, b) {
  const made = new Float32Array(16);
  for (let column = 0; column < 4; column++)
    for (let row = 0; row < 4; row++)
      for (let k = 0; k < 4; k++) made[column * 4 + row] += a[k * 4 + row] * b[column * 4 + k];
  return made;
}

function looking(eye, at, up) {
  const back = normalized(eye.map((value, i) => value - at[i])), right = normalized(cross(up, back)), over = cross(back, right);
  return [right[0], over[0], back[0], 0, right[1], over[1], back[1], 0, right[2], over[2], back[2], 0, -dot(right, eye), -dot(over, eye), -dot(back, eye), 1];
}

function perspective(aspect, near, far) {
  const f = 1 / Math.tan(FIELD / 2);
  return [f / aspect, 0, 0, 0, 0, f, 0, 0, 0, 0, (far + near) / (near - far), -1, 0, 0, (2 * far * near) / (near - far), 0];
}

function orthographic(size, depth) {
  return [1 / size, 0, 0, 0, 0, 1 / size, 0, 0, 0, 0, -1 / depth, 0, 0, 0, 0, 1];
}

// ---- One view

class Scene {
  constructor(canvas, mesh) {
    this.canvas = canvas;
    this.mesh = mesh;
    this.center = mesh.low.map((value, i) => (value + mesh.high[i]) / 2);
    this.radius = Math.hypot(...mesh.low.map((value, i) => mesh.high[i] - value)) / 2 || 1;
    this.wide = Math.hypot(mesh.high[0] - mesh.low[0], mesh.high[2] - mesh.low[2]) / 2 || this.radius;
    this.half = (mesh.high[1] - mesh.low[1]) / 2;
  }

  async prepare() {
    studio ??= openStudio();
    const tools = await studio;
    this.painter = tools ? new Painter(tools, this) : new FlatPainter(this);
  }

  // Where the camera is: the same angles and distance for every view, in units of its own size.
  view(aspect) {
    const { yaw, pitch } = camera;
    const tall = this.half * Math.cos(HOME.pitch) + this.wide * Math.sin(HOME.pitch);
    const distance = ((1.08 * Math.max(tall, this.wide / aspect)) / Math.tan(FIELD / 2) + 0.5 * this.wide) * camera.zoom;
    const away = [Math.sin(yaw) * Math.cos(pitch), Math.sin(pitch), Math.cos(yaw) * Math.cos(pitch)];
    const right = [Math.cos(yaw), 0, -Math.sin(yaw)], over = cross(away, right);
    const at = this.center.map((value, i) => value + this.radius * (camera.x * right[i] + camera.y * over[i]));
    const eye = at.map((value, i) => value + distance * away[i]);
    const near = Math.max(distance - 3.2 * this.radius, distance * 0.02), far = distance + 5 * this.radius;
    return { eye, matrix: product(perspective(aspect, near, far), looking(eye, at, [0, 1, 0])) };
  }

  draw(quality) {
    const { canvas } = this;
    if (!canvas.clientWidth) return;
    const pixels = Math.min(2, devicePixelRatio || 1) * quality;
    const width = Math.max(1, Math.round(canvas.clientWidth * pixels)), height = Math.max(1, Math.round(canvas.clientHeight * pixels));
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const view = this.view(width / height), rough = quality < 1 && this.mesh.rough.length > 0;
    this.painter.draw(view, dark(), (rough ? this.mesh.rough : this.mesh.parts).filter((part) => this.faces(part.side, view.eye)), rough);
  }

  // Whether any face of one of the six directions of blocks can be seen: x, −x, y, −y, z, −z.
  faces(side, eye) {
    if (side === undefined) return true;
    const axis = side >> 1;
    return side % 2 ? eye[axis] < this.mesh.high[axis] : eye[axis] > this.mesh.low[axis];
  }

  end() {
    scenes.delete(this);
    this.painter.end?.();
  }
}

function dark() {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());

const LIT = `#version 300 es
precision highp float;
layout(location=0) in vec3 place; layout(location=1) in vec4 normal; layout(location=2) in vec4 color; layout(location=3) in vec2 uv;
uniform mat4 camera, sun;
out vec3 at; out vec4 facing; out vec4 paint; out vec2 spot; out vec4 lit;
void main() {
  at = place; facing = normal; paint = color; spot = uv;
  lit = sun * vec4(place, 1.0);
  gl_Position = camera * vec4(place, 1.0);
}`;
const LIGHT = `#version 300 es
precision highp float; precision highp sampler2DShadow;
in vec3 at; in vec4 facing; in vec4 paint; in vec2 spot; in vec4 lit;
uniform sampler2DShadow shade; uniform sampler2D image; uniform vec3 toSun, plate; uniform vec4 ground; uniform float textured, cut, bias, night, blocky;
out vec4 shown;
float shadow(float slant) {
  vec3 p = lit.xyz * 0.5 + 0.5;
  if (any(lessThan(p, vec3(0.0))) || any(greaterThan(p, vec3(1.0)))) return 1.0;
  p.z -= bias * (1.0 + 2.0 * slant);
  float sum = 0.0;
  for (int i = 0; i < 4; i++) sum += texture(shade, p + vec3(vec2(float(i & 1) - 0.5, float(i >> 1) - 0.5) * 1.6 / ${SHADOW_SIZE}.0, 0.0));
  return sum / 4.0;
}
void main() {
#ifndef SOLID
  if (ground.w > 0.0) {
    float r = length(at.xz - ground.xz) / ground.w;
    float edge = 1.0 - smoothstep(0.55, 1.0, r);
    if (edge <= 0.0) discard;
    float dim = (1.0 - shadow(0.0)) * mix(0.42, 0.55, night);
    shown = vec4(plate * (1.0 - dim) * edge, edge);
    return;
  }
#endif
  vec3 n = normalize(facing.xyz);
  if (!gl_FrontFacing) n = -n;
  vec4 base = vec4(pow(paint.rgb, vec3(2.2)), paint.a);
  if (textured > 0.5) base *= texture(image, spot);
#ifndef SOLID
  if (base.a < cut) discard;
#endif
  if (blocky > 0.5) {
    vec3 edge = abs(fract(at) - 0.5) * (1.0 - abs(n)), wide = fwidth(at);
    float thick = max(wide.x, max(wide.y, wide.z));
    float line = smoothstep(0.5 - 1.5 * thick, 0.5, max(edge.x, max(edge.y, edge.z)));
    base.rgb *= 1.0 - 0.16 * line * (1.0 - smoothstep(0.12, 0.4, thick));
  }
  float facingSun = dot(n, toSun);
  float sunlight = max(facingSun, 0.0);
  if (sunlight > 0.0) sunlight *= shadow(1.0 - facingSun);
  vec3 sky = mix(vec3(0.30, 0.28, 0.27), vec3(0.62, 0.68, 0.78), n.y * 0.5 + 0.5);
  float fill = 0.10 * max(dot(n, normalize(vec3(-toSun.x, 0.15, -toSun.z))), 0.0);
  vec3 light = base.rgb * (sky * facing.w * 0.85 + fill + sunlight * vec3(1.06, 0.99, 0.88) * mix(1.0, facing.w, 0.35));
  light = light * (1.0 + light * 0.06) / (1.0 + light * 0.22);
  shown = vec4(pow(light, vec3(1.0 / 2.2)) * base.a, base.a);
}`;
// Without anything that discards, a processor that draws tests depth first and lights only what is seen.
const SOLID = LIGHT.replace("es\n", "es\n#define SOLID\n");
const CAST = `#version 300 es
layout(location=0) in vec3 place; uniform mat4 sun;
void main() { gl_Position = sun * vec4(place, 1.0); }`;
const NOTHING = `#version 300 es
precision mediump float; out vec4 none; void main() { none = vec4(1.0); }`;

// One WebGL context draws all views, one after the other, and each is shown as a picture: phones allow few contexts, programs
// are made once, and where something lies over a canvas that WebGL draws on, chromium without a graphics card cuts it at the
// wrong edge.
async function openStudio() {
  const easel = document.createElement("canvas");
  const options = { alpha: true, antialias: true, premultipliedAlpha: true, failIfMajorPerformanceCaveat: true };
  let gl = easel.getContext("webgl2", options);
  if (!gl) {
    gl = easel.getContext("webgl2", { ...options, antialias: false, failIfMajorPerformanceCaveat: false });
    quality = 0.75; // drawn by the processor
  }
  if (!gl) return null;
  const tools = { gl, easel, ...(await programs(gl)) };
  easel.addEventListener("webglcontextlost", (event) => event.preventDefault());
  easel.addEventListener("webglcontextrestored", async () => {
    Object.assign(tools, await programs(gl));
    for (const scene of scenes) scene.painter = new Painter(tools, scene);
    redraw();
  });
  return tools;
}

// Waits until the browser has made them, so that the page does not stand still meanwhile.
async function programs(gl) {
  const lit = program(gl, LIT, LIGHT), solid = program(gl, LIT, SOLID), cast = program(gl, CAST, NOTHING);
  const side = gl.getExtension("KHR_parallel_shader_compile");
  const busy = ({ made }) => side && !gl.isContextLost() && !gl.getProgramParameter(made, side.COMPLETION_STATUS_KHR);
  while (busy(lit) || busy(solid) || busy(cast)) await new Promise((resolve) => setTimeout(resolve, 15));
  for (const { made } of [lit, solid, cast])
    if (!gl.getProgramParameter(made, gl.LINK_STATUS) && !gl.isContextLost()) throw new Error("This browser cannot draw the answer.");
  return { lit, solid, cast };
}

class Painter {
  constructor(tools, scene) {
    Object.assign(this, tools, { scene, pen: scene.canvas.getContext("2d"), buffers: [] });
    this.upload(scene.mesh);
    this.castShadows();
  }

  upload(mesh) {
    const { gl } = this;
    this.shape = gl.createVertexArray();
    gl.bindVertexArray(this.shape);
    const kind = mesh.positions instanceof Int16Array ? gl.SHORT : gl.FLOAT;
    this.attribute(0, mesh.positions, 3, kind, false, mesh.stride * mesh.positions.BYTES_PER_ELEMENT);
    this.attribute(1, mesh.normals, 4, gl.BYTE, true, 0);
    this.attribute(2, mesh.colors, 4, gl.UNSIGNED_BYTE, true, 0);
    if (mesh.uvs) this.attribute(3, mesh.uvs, 2, gl.FLOAT, false, 0);
    this.buffer(gl.ELEMENT_ARRAY_BUFFER, mesh.indices);
    this.images = mesh.images.map((image) => picture(gl, image));
    const { center, radius } = this.scene, reach = radius * 2.1, floor = mesh.low[1] - radius * 0.004;
    this.ground = [center[0], floor, center[2], reach];
    this.floor = gl.createVertexArray();
    gl.bindVertexArray(this.floor);
    const [x, z] = [center[0], center[2]];
    const corners = [x - reach, floor, z - reach, x - reach, floor, z + reach, x + reach, floor, z - reach, x + reach, floor, z + reach];
    this.attribute(0, new Float32Array(corners), 3, gl.FLOAT, false, 0);
    gl.bindVertexArray(null);
  }

  attribute(index, data, size, kind, scaled, stride) {
    const { gl } = this;
    this.buffer(gl.ARRAY_BUFFER, data);
    gl.enableVertexAttribArray(index);
    gl.vertexAttribPointer(index, size, kind, scaled, stride, 0);
  }

  buffer(use, data) {
    const { gl } = this, made = gl.createBuffer();
    gl.bindBuffer(use, made);
    gl.bufferData(use, data, gl.STATIC_DRAW);
    this.buffers.push(made);
  }

  // Light and build stand still, so the shadows are found once.
  castShadows() {
    const { gl, scene } = this;
    const eye = scene.center.map((value, i) => value + SUN[i] * scene.radius * 2);
    this.sun = product(orthographic(scene.radius * 1.02, scene.radius * 3.2), looking(eye, scene.center, [0, 1, 0]));
    this.shade = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, this.shade);
    gl.texStorage2D(gl.TEXTURE_2D, 1, gl.DEPTH_COMPONENT24, SHADOW_SIZE, SHADOW_SIZE);
    for (const [name, value] of [["MIN_FILTER", "LINEAR"], ["MAG_FILTER", "LINEAR"], ["WRAP_S", "CLAMP_TO_EDGE"], ["WRAP_T", "CLAMP_TO_EDGE"], ["COMPARE_MODE", "COMPARE_REF_TO_TEXTURE"], ["COMPARE_FUNC", "LEQUAL"]])
      gl.texParameteri(gl.TEXTURE_2D, gl[`TEXTURE_${name}`], gl[value]);
    const frame = gl.createFramebuffer();
    gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.TEXTURE_2D, this.shade, 0);
    gl.viewport(0, 0, SHADOW_SIZE, SHADOW_SIZE);
    gl.clear(gl.DEPTH_BUFFER_BIT);
    gl.enable(gl.DEPTH_TEST);
    gl.useProgram(this.cast.made);
    gl.uniformMatrix4fv(this.cast.at("sun"), false, this.sun);
    gl.bindVertexArray(this.shape);
    for (const part of scene.mesh.parts) if (!part.blend) gl.drawElements(gl.TRIANGLES, part.count, gl.UNSIGNED_INT, part.start * 4);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.deleteFramebuffer(frame);
  }

  draw({ eye, matrix }, night, parts, rough) {
    const { gl, scene, easel } = this, { width, height } = scene.canvas, lit = scene.mesh.closed ? this.solid : this.lit;
    if (gl.isContextLost()) return;
    if (easel.width < width || easel.height < height) Object.assign(easel, { width: Math.max(easel.width, width), height: Math.max(easel.height, height) });
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.enable(gl.DEPTH_TEST);
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_2D, this.shade);
    this.use(lit, matrix, night);
    gl.uniform1f(lit.at("blocky"), scene.mesh.closed && !rough ? 1 : 0);
    gl.bindVertexArray(this.shape);
    gl.disable(gl.BLEND);
    if (scene.mesh.closed) gl.enable(gl.CULL_FACE);
    this.parts(lit, parts.filter((part) => !part.blend));
    gl.disable(gl.CULL_FACE);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    if (eye[1] > this.ground[1]) {
      this.use(this.lit, matrix, night);
      gl.uniform4fv(this.lit.at("ground"), this.ground);
      gl.bindVertexArray(this.floor);
      gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
      gl.uniform4f(this.lit.at("ground"), 0, 0, 0, 0);
      gl.bindVertexArray(this.shape);
      gl.useProgram(lit.made);
    }
    gl.depthMask(false);
    this.parts(lit, parts.filter((part) => part.blend));
    gl.depthMask(true);
    this.pen.clearRect(0, 0, width, height);
    this.pen.drawImage(easel, 0, easel.height - height, width, height, 0, 0, width, height);
  }

  use(lit, matrix, night) {
    const { gl } = this;
    gl.useProgram(lit.made);
    gl.uniform1i(lit.at("shade"), 0);
    gl.uniform1i(lit.at("image"), 1);
    gl.uniformMatrix4fv(lit.at("camera"), false, matrix);
    gl.uniformMatrix4fv(lit.at("sun"), false, this.sun);
    gl.uniform3fv(lit.at("toSun"), SUN);
    gl.uniform1f(lit.at("bias"), 0.0026);
    gl.uniform1f(lit.at("night"), night ? 1 : 0);
    gl.uniform3fv(lit.at("plate"), night ? [0.205, 0.225, 0.255] : [0.905, 0.886, 0.843]);
    gl.uniform4f(lit.at("ground"), 0, 0, 0, 0);
  }

  parts(lit, parts) {
    const { gl } = this;
    for (const part of parts) {
      gl.uniform1f(lit.at("textured"), part.image >= 0 ? 1 : 0);
      gl.uniform1f(lit.at("cut"), part.cut || 0);
      gl.activeTexture(gl.TEXTURE1);
      gl.bindTexture(gl.TEXTURE_2D, this.images[part.image] ?? null);
      gl.drawElements(gl.TRIANGLES, part.count, gl.UNSIGNED_INT, part.start * 4);
    }
  }

  end() {
    const { gl } = this;
    for (const shape of [this.shape, this.floor]) gl.deleteVertexArray(shape);
    for (const image of [this.shade, ...this.images]) gl.deleteTexture(image);
    for (const buffer of this.buffers) gl.deleteBuffer(buffer);
  }
}

function program(gl, vertex, fragment) {
  const made = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  const places = new Map();
  const at = (name) => places.get(name) ?? places.set(name, gl.getUniformLocation(made, name)).get(name);
  return { made, at };
}

function picture(gl, image) {
  const made = gl.createTexture();
  gl.bindTexture(gl.TEXTURE_2D, made);
  gl.texImage2D(gl.TEXTURE_2D, 0, gl.SRGB8_ALPHA8, gl.RGBA, gl.UNSIGNED_BYTE, image);
  gl.generateMipmap(gl.TEXTURE_2D);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.LINEAR_MIPMAP_LINEAR);
  return made;
}

// Without WebGL: the triangles from back to front on a plain canvas, with the same camera and sun but no shadows.
class FlatPainter {
  constructor(scene) {
    const { canvas } = scene;
    this.canvas = canvas;
    this.scene = scene;
    if (scene.mesh.indices.length / 3 > MOST_FLAT_TRIANGLES) throw new Error("This browser has no WebGL, and the answer is too large to be drawn without it.");
    this.pen = canvas.getContext("2d");
    canvas.dataset.flat = "true";
  }

  draw({ eye, matrix }) {
    const { pen, canvas, scene: { mesh } } = this;
    const { positions, normals, colors, indices, stride } = mesh;
    const count = indices.length / 3, depths = new Float32Array(count), order = Uint32Array.from({ length: count }, (_, i) => i);
    const shown = new Float32Array((positions.length / stride) * 3);
    for (let i = 0; i < shown.length / 3; i++) {
      const [x, y, z] = [positions[i * stride], positions[i * stride + 1], positions[i * stride + 2]];
      const row = (r) => matrix[r] * x + matrix[4 + r] * y + matrix[8 + r] * z + matrix[12 + r];
      const w = row(3);
      shown.set([((row(0) / w + 1) * canvas.width) / 2, ((1 - row(1) / w) * canvas.height) / 2, w], i * 3);
    }
    for (let i = 0; i < count; i++) depths[i] = shown[indices[i * 3] * 3 + 2] + shown[indices[i * 3 + 1] * 3 + 2] + shown[indices[i * 3 + 2] * 3 + 2];
    order.sort((a, b) => depths[b] - depths[a]);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.lineWidth = 1;
    for (const i of order) {
      const [a, b, c] = [indices[i * 3], indices[i * 3 + 1], indices[i * 3 + 2]];
      const normal = [normals[a * 4], normals[a * 4 + 1], normals[a * 4 + 2]].map((value) => value / 127);
      if (dot(normal, eye.map((value, axis) => value - positions[a * stride + axis])) < 0 && mesh.closed) continue;
      const light = Math.min(1.15, 0.55 + 0.15 * normal[1] + 0.5 * Math.max(0, dot(normal, SUN)));
      const ink = [0, 1, 2].map((k) => Math.min(255, Math.round(colors[a * 4 + k] * light)));
      pen.fillStyle = pen.strokeStyle = `rgb(${ink} / ${colors[a * 4 + 3] / 255})`;
      pen.beginPath();
      for (const corner of [a, b, c]) pen.lineTo(shown[corner * 3], shown[corner * 3 + 1]);
      pen.closePath();
      pen.fill();
      pen.stroke();
    }
  }
}
