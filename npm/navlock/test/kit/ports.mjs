// Ports for servers that are started as programs of their own.

import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

/**
 * A free port outside of the range from which the system chooses ports. (A port from that range, found by listening at
 * port 0, may be given to the next outgoing connection.) Another process may still take the same port: if the server ends
 * by itself, start it again at another port.
 */
export async function freePort() {
  const [first, last] = ephemeral();
  const outside = Array.from({ length: 65536 - 10000 }, (_, nth) => nth + 10000).filter((port) => port < first || port > last);
  for (;;) {
    const port = outside.length > 0 ? outside[Math.floor(Math.random() * outside.length)] : 0;
    const found = await listened(port);
    if (found !== undefined) return found;
  }
}

/** The range from which the system chooses ports. */
function ephemeral() {
  try {
    return readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').trim().split(/\s+/).map(Number);
  } catch {
    return [32768, 65535];
  }
}

/** The port, if it is free to listen at. */
function listened(port) {
  return new Promise((resolve) => {
    const server = createServer();
    server.on('error', () => resolve(undefined));
    server.listen(port, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
