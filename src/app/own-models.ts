/** The models of `orchd up --model`: their names, and a check that their files are there before anything is started. */
import { basename, dirname, resolve, sep } from 'node:path';
import { readGguf } from '../daemons/pool-manager/gguf.ts';
import { fileInside, type PlainFile } from '../daemons/pool-manager/links.ts';
import type { Env } from '../kit/env/env.ts';
import { readWholeFile } from '../kit/whole-file.ts';
import { OrchdError } from '../model/errors.ts';
import { type ModelRef, parseModelRef } from '../model/model-ref.ts';

export interface OwnModel {
  /** The name that jobs give as their model. */
  readonly name: string;
  readonly ref: string;
  /** The folder of a `file:` model, links followed; undefined for `hf:` and `demo:` models. */
  readonly folder: string | undefined;
}

/** The field that errors about these models name. */
export const OWN_MODEL_FIELD = 'model';

const MAX_NAME_CHARS = 128;
/** The part of a GGUF file that is read: its architecture stands within these first bytes. */
const HEADER_BYTES = 4 * 2 ** 20;

/** Throws INVALID_PARAMS about the first model that cannot be run. */
export async function ownModels(env: Env, given: readonly string[]): Promise<readonly OwnModel[]> {
  const models: OwnModel[] = [];
  for (const text of new Set(given)) {
    const model = await ownModel(env, text);
    const other = models.find(({ name }) => name === model.name);
    if (other) throw refusedModel(`"${other.ref}" and "${model.ref}" would both be called "${model.name}"`);
    models.push(model);
  }
  return models;
}

async function ownModel(env: Env, text: string): Promise<OwnModel> {
  // Without a scheme it is a path.
  const ref = /^(hf|file|demo|openai):/.test(text) ? text : `file:${resolve(text)}`;
  const parsed = parseModelRef(ref);
  if (parsed.kind === 'engine' && parsed.scheme === 'openai')
    throw refusedModel(`"${text}" is answered by another server: start \`orchd pool\` with "engines" for it`);
  const folder = parsed.kind === 'file' ? dirname(await checkedFile(env, parsed.path, text)) : undefined;
  return { name: nameOf(parsed), ref, folder };
}

async function checkedFile(env: Env, path: string, text: string): Promise<string> {
  const file = await fileInside(path, [sep]);
  if (!file) {
    const hint = /^[\w.-]+\/[\w.-]+$/.test(text) ? `; a model of the hub is hf:${text}` : '';
    throw refusedModel(`there is no file "${text}"${hint}`);
  }
  if (!/\.gguf$/i.test(path) || !(await isModel(env, file)))
    throw refusedModel(`"${text}" is not a model in the format GGUF`);
  return file.path;
}

async function isModel({ disk }: Env, { path }: PlainFile): Promise<boolean> {
  const header = await readWholeFile(disk, path, HEADER_BYTES);
  return header !== undefined && readGguf(header)?.architecture !== undefined;
}

/** The name of the file, else of the repository, else after the scheme. Characters that no model name may have are left out of file names. */
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

/** The error for a model of `orchd up --model` that cannot be run. */
export const refusedModel = (message: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', message, { field: OWN_MODEL_FIELD });
