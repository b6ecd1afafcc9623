// An etcd of a test's own.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import path from 'node:path';

/** @returns {Promise<import('node:child_process').ChildProcess & { endpoint: string }>} once it answers */
export async function startEtcd(folder) {
  const [client, peer] = await Promise.all([freePort(), freePort()]);
  const [endpoint, peers] = [client, peer].map((port) => `http://127.0.0.1:${port}`);
  const etcd = spawn('etcd', [
    '--data-dir', path.join(folder, 'etcd'), '--listen-client-urls', endpoint, '--advertise-client-urls', endpoint,
    '--listen-peer-urls', peers, '--initial-advertise-peer-urls', peers, '--initial-cluster', `default=${peers}`,
  ], { stdio: 'ignore' });
  etcd.endpoint = endpoint.replace('http://', '');
  while (!(await fetch(`${endpoint}/health`).then(({ ok }) => ok, () => false))) {
    if (etcd.exitCode !== null) throw new Error('etcd has ended');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return etcd;
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}
