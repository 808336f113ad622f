/** A stopped data folder as it lies there: who is in it, and whether everything it names can be read. */

import fs from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { JobBundle } from '../../src/core/ports/store.ts';
import type { State } from '../../src/core/state/state.ts';
import { stableHash } from '../../src/kit/hash.ts';
import type { Body } from '../../src/model/body.ts';
import type { JobRecord } from '../../src/model/records.ts';
import type { FileRef } from '../../src/stores/journal/blobs.ts';
import { SqliteHistory } from '../../src/stores/journal/history/sqlite.ts';
import { blobName, paths } from '../../src/stores/journal/layout.ts';
import type { Life, Replayed } from './replay.ts';

/** Reads a body without the store's own reader; undefined where its file is gone. */
export function readBody(data: string, body: Body): string | undefined {
  if (typeof body === 'string') return body;
  const { file, offset, bytes: length, crc } = body as FileRef;
  const path = join(paths(data).blobs, blobName(file));
  if (!fs.existsSync(path)) return undefined;
  const bytes = fs.readFileSync(path).subarray(offset, offset + length);
  return bytes.length === length && crc32(bytes) === crc ? bytes.toString('utf8') : undefined;
}

export function resultReader(data: string): (life: Life) => unknown {
  return ({ job }) => {
    const text = job.result === undefined ? undefined : readBody(data, job.result);
    return text === undefined ? undefined : JSON.parse(text);
  };
}

/** Each job is where it belongs, as the log says it is: in what recovery reads, in the history, or purged. */
export function checkStorage(data: string, state: State, replayed: Replayed, historyMs: number): string[] {
  const problems: string[] = [];
  const history = new SqliteHistory(paths(data).history, 'read');
  history.open();
  try {
    for (const lives of replayed.lives.values()) {
      const life = lives.at(-1) as Life;
      const live = state.jobs.get(life.uid);
      const past = history.get(life.uid);
      problems.push(...checkCopies(life, live?.job, past));
      const mayBeGone = (life.job.endedAt ?? Number.POSITIVE_INFINITY) < replayed.lastAt - historyMs;
      if (!live && !past && !mayBeGone) problems.push(`${life.uid} is neither in memory nor in the history`);
      if (live || past) problems.push(...checkBodies(data, life));
    }
    const stray = [...state.jobs.keys()].filter((uid) => !replayed.lives.has(uid));
    if (stray.length > 0) problems.push(`jobs that the log does not know: ${stray.join(', ')}`);
  } finally {
    history.close();
  }
  return problems;
}

function checkCopies(life: Life, live: JobRecord | undefined, past: JobBundle | undefined): string[] {
  const problems: string[] = [];
  const wanted = stableHash(life.job);
  if (live && stableHash(live) !== wanted)
    problems.push(`${life.uid}: the recovered record is not the last one`);
  // A redriven job keeps its old row in the history until it ends again.
  if (past && !live && stableHash(past.job) !== wanted)
    problems.push(`${life.uid}: the history has ${past.job.state}, the log ${life.job.state}`);
  return problems;
}

function checkBodies(data: string, { uid, ask, job }: Life): string[] {
  const bodies = [ask.payload, ...(job.result === undefined ? [] : [job.result])];
  return bodies.some((body) => readBody(data, body) === undefined) ? [`${uid}: a body cannot be read`] : [];
}

const KNOWN_FILES =
  /^(lock|folder\.(id|json)|checkpoint(\.previous)?\.json|history\.sqlite(-wal|-shm)?|log\/(spare|\d{16}\.log)|blobs\/\d{8}\.blob|checkpoints\/\d{16}-\d+\.part)$/;

/** Nothing is left lying around that no checkpoint, log or job needs. */
export function checkFiles(data: string): string[] {
  const named = new Set<string>();
  for (const path of [paths(data).manifest, paths(data).previousManifest]) {
    if (!fs.existsSync(path)) continue;
    const { manifest } = JSON.parse(fs.readFileSync(path, 'utf8')) as {
      manifest: { parts: { name: string }[] };
    };
    for (const { name } of manifest.parts) named.add(`checkpoints/${name}`);
  }
  const files = fs.globSync('**/*', { cwd: data }).filter((path) => fs.statSync(join(data, path)).isFile());
  return files
    .filter((path) => !KNOWN_FILES.test(path) || (path.startsWith('checkpoints/') && !named.has(path)))
    .map((path) => `${path} is left over`);
}
