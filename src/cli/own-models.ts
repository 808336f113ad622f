/** The models of `orchd up --model`: what they are called, and that they are there before anything is started. */
import { basename, dirname, resolve, sep } from 'node:path';
import { readGguf } from '../daemons/pool-manager/gguf.ts';
import { fileInside, type PlainFile } from '../daemons/pool-manager/links.ts';
import type { Env } from '../kit/env/env.ts';
import { readWholeFile } from '../kit/whole-file.ts';
import { type ModelRef, parseModelRef } from '../model/model-ref.ts';
import { UsageError } from './command.ts';

export interface OwnModel {
  /** What people call it. */
  readonly name: string;
  readonly ref: string;
  /** Where its file really lies; undefined where it has none of ours, or lies in the cache of the hub. */
  readonly folder: string | undefined;
}

const MAX_NAME_CHARS = 128;
/** What a model is comes first in its file. */
const HEADER_BYTES = 4 * 2 ** 20;

/** Throws with a sentence about the first one that cannot be. */
export async function ownModels(env: Env, given: readonly string[]): Promise<readonly OwnModel[]> {
  const models: OwnModel[] = [];
  for (const text of new Set(given)) {
    const model = await ownModel(env, text);
    const other = models.find(({ name }) => name === model.name);
    if (other) throw refused(`"${other.ref}" and "${model.ref}" would both be called "${model.name}"`);
    models.push(model);
  }
  return models;
}

async function ownModel(env: Env, text: string): Promise<OwnModel> {
  // What is named like a file is one.
  const ref = /^(hf|file|demo|openai):/.test(text) ? text : `file:${resolve(text)}`;
  const parsed = parseModelRef(ref);
  if (parsed.kind === 'engine' && parsed.scheme === 'openai')
    throw refused(`"${text}" is answered by another server: start \`orchd pool\` with "engines" for it`);
  const folder = parsed.kind === 'file' ? dirname(await checkedFile(env, parsed.path, text)) : undefined;
  return { name: nameOf(parsed), ref, folder };
}

async function checkedFile(env: Env, path: string, text: string): Promise<string> {
  const file = await fileInside(path, [sep]);
  if (!file) {
    const hint = /^[\w.-]+\/[\w.-]+$/.test(text) ? `; a model of the hub is hf:${text}` : '';
    throw refused(`there is no file "${text}"${hint}`);
  }
  if (!/\.gguf$/i.test(path) || !(await isModel(env, file)))
    throw refused(`"${text}" is not a model in the format GGUF`);
  return file.path;
}

async function isModel({ disk }: Env, { path }: PlainFile): Promise<boolean> {
  const header = await readWholeFile(disk, path, HEADER_BYTES);
  return header !== undefined && readGguf(header)?.architecture !== undefined;
}

/** The name of its file, or of its repository, with what no name may hold left out. */
function nameOf(ref: ModelRef): string {
  if (ref.kind === 'hf') return ref.file === undefined ? ref.repo : stem(ref.file);
  return ref.kind === 'file' ? stem(ref.path) : ref.name;
}

function stem(path: string): string {
  const name = basename(path)
    .replace(/\.gguf$/i, '')
    .replace(/[^A-Za-z0-9._:@-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '');
  return name.slice(0, MAX_NAME_CHARS) || 'model';
}

const refused = (message: string): UsageError => new UsageError(`--model: ${message}.`);
