// An etcd for one test.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, openSync, closeSync, readFileSync } from 'node:fs';
import path from 'node:path';

import { freePort } from './ports.mjs';

/** @returns {Promise<import('node:child_process').ChildProcess & { endpoint: string }>} once it answers */
export async function startEtcd(folder) {
  for (const deadline = Date.now() + 30_000; ; ) {
    const data = mkdtempSync(path.join(folder, 'etcd-'));
    const { etcd, said } = await startOnce(data, deadline);
    if (etcd) return etcd;
    if (!/address already in use/i.test(said) || Date.now() > deadline) throw new Error(`etcd does not serve: ${said}`);
  }
}

/** Starts an etcd. Returns it once it answers, or what it has printed if it does not. */
async function startOnce(data, deadline) {
  const [client, peer] = [await freePort(), await freePort()];
  const [endpoint, peers] = [client, peer].map((port) => `http://127.0.0.1:${port}`);
  const log = path.join(data, 'said');
  const stderr = openSync(log, 'w');
  const etcd = spawn('etcd', [
    '--log-level=error', '--data-dir', path.join(data, 'data'),
    '--listen-client-urls', endpoint, '--advertise-client-urls', endpoint,
    '--listen-peer-urls', peers, '--initial-advertise-peer-urls', peers, '--initial-cluster', `default=${peers}`,
  ], { stdio: ['ignore', 'ignore', stderr] });
  closeSync(stderr);
  etcd.endpoint = endpoint.replace('http://', '');
  const exited = once(etcd, 'exit');
  for (;;) {
    const isHealthy = await fetch(`${endpoint}/health`).then(({ ok }) => ok, () => false);
    // Another etcd may answer, which has the port, so that this one could not listen.
    if (etcd.exitCode !== null) return { said: readFileSync(log, 'utf8').trim() };
    if (isHealthy) return { etcd };
    if (Date.now() > deadline) {
      etcd.kill('SIGKILL');
      await exited;
      return { said: `it does not answer at ${endpoint}` };
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
