/**
 * A module: each file NAME.question of the folder QUESTIONS becomes a job, and its answer is written to NAME.answer.
 * See docs/modules.md for the configuration.
 */
import { readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';

const ENDING = '.question';
const folder = resolve(process.env['QUESTIONS'] ?? 'questions');

interface Proposal {
  readonly key: string;
  readonly prompt: string;
  readonly max_tokens: number;
}

interface EndedJob {
  readonly key: string;
  readonly state: 'succeeded' | 'cancelled' | 'dead';
  readonly result?: unknown;
  readonly error?: { readonly message: string };
}

export async function* scan(): AsyncGenerator<Proposal> {
  const names = new Set(await readdir(folder));
  for (const name of names) {
    // One that is answered need not be proposed again, though it would do no harm.
    if (!name.endsWith(ENDING) || names.has(answerTo(name))) continue;
    yield { key: name, prompt: await readFile(join(folder, name), 'utf8'), max_tokens: 1000 };
  }
}

/** May be called twice for one job: it writes the same file again, whole. */
export async function handle({ key, state, result, error }: EndedJob): Promise<void> {
  // Whoever may submit jobs may give one the tag of this module, with any key.
  if (basename(key) !== key || !key.endsWith(ENDING)) return;
  const text = state === 'succeeded' ? textOf(result) : `no answer: ${error?.message ?? state}`;
  const path = join(folder, answerTo(key));
  await writeFile(`${path}.part`, `${text}\n`);
  await rename(`${path}.part`, path);
}

const answerTo = (name: string): string => `${name.slice(0, -ENDING.length)}.answer`;

/** Models answer with an object that has `text`; other backends with what they like. */
function textOf(result: unknown): string {
  const { text } = (result ?? {}) as { text?: unknown };
  return typeof text === 'string' ? text : JSON.stringify(result);
}
