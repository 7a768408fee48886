// Solves the puzzle of the start page in a thread of its own: the first number whose SHA-256 of "text:number" begins
// with enough zero bits. Written out here because browsers offer SHA-256 only to pages that came by https.

const ROUND = new Uint32Array(64);
const START = new Uint32Array(8);
fillConstants();

onmessage = (event) => {
  const { text, bits } = event.data;
  for (let number = 0; ; number += 1) {
    if (zeroBits(`${text}:${number}`) >= bits) {
      postMessage(String(number));
      return;
    }
  }
};

// The fractional parts of the square roots (start) and cube roots (rounds) of the first primes, as the standard says.
function fillConstants() {
  for (let candidate = 2, found = 0; found < 64; candidate += 1) {
    let prime = true;
    for (let divisor = 2; divisor * divisor <= candidate; divisor += 1) if (candidate % divisor === 0) prime = false;
    if (!prime) continue;
    if (found < 8) START[found] = fraction(Math.sqrt(candidate));
    ROUND[found] = fraction(Math.cbrt(candidate));
    found += 1;
  }
}

function fraction(root) {
  return ((root - Math.floor(root)) * 4294967296) | 0;
}

function zeroBits(text) {
  const hash = sha256(text);
  let bits = 0;
  for (const word of hash) {
    const zeros = Math.clz32(word);
    bits += zeros;
    if (zeros < 32) break;
  }
  return bits;
}

function sha256(text) {
  const length = text.length;
  const blocks = (length + 72) >> 6;
  const words = new Uint32Array(blocks * 16);
  for (let place = 0; place < length; place += 1) words[place >> 2] |= text.charCodeAt(place) << (24 - 8 * (place & 3));
  words[length >> 2] |= 0x80 << (24 - 8 * (length & 3));
  words[blocks * 16 - 1] = length * 8;
  const hash = START.slice();
  const w = new Uint32Array(64);
  for (let block = 0; block < blocks; block += 1) {
    for (let i = 0; i < 16; i += 1) w[i] = words[block * 16 + i];
    for (let i = 16; i < 64; i += 1) {
      const x = w[i - 15];
      const y = w[i - 2];
      const s0 = turn(x, 7) ^ turn(x, 18) ^ (x >>> 3);
      const s1 = turn(y, 17) ^ turn(y, 19) ^ (y >>> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    let [a, b, c, d, e, f, g, h] = hash;
    for (let i = 0; i < 64; i += 1) {
      const t1 = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUND[i] + w[i]) | 0;
      const t2 = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + t1) | 0;
      d = c;
      c = b;
      b = a;
      a = (t1 + t2) | 0;
    }
    const done = [a, b, c, d, e, f, g, h];
    for (let i = 0; i < 8; i += 1) hash[i] += done[i];
  }
  return hash;
}

function turn(word, places) {
  return (word >>> places) | (word << (32 - places));
}
