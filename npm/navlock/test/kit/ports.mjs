// Ports for servers that are started as programs of their own.

import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

/**
 * A port that is free, and that the system gives to nobody who asks for any: to listen at 0 and let go again would find
 * one that the next outgoing connection may be given. Others may still find the same: who starts a server there starts
 * it anew, at another port, if that ended by itself.
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

/** What the system chooses from. */
function ephemeral() {
  try {
    return readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').trim().split(/\s+/).map(Number);
  } catch {
    return [32768, 65535];
  }
}

/** The port, if one can listen there. */
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
