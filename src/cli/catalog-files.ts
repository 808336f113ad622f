/** The catalog files of a folder, which are imported at start: YAML or JSON, a model or a list of them each. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { diskErrorCode, type Env } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import { pause } from '../kit/pause.ts';
import { poll } from '../kit/poll.ts';
import { OrchdError } from '../model/errors.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { checkRegister, registrationOf } from '../runtime/registration.ts';

const TRIES = 30;
const PAUSE_MS = 2000;
/** For a brain that has just been made to recover. */
const RECOVERY = { everyMs: 100, atMostMs: 600_000 };

export interface CatalogFiles {
  readonly env: Env;
  readonly logger: Logger;
  readonly folder: string;
}

/** A model whose pool has not been heard of yet is tried again for a while; what is wrong is said and left out. */
export async function importCatalog(files: CatalogFiles, orchestrator: Orchestrator): Promise<void> {
  const { env } = files;
  let left = await readAll(files);
  if (left.length > 0) await poll(env, RECOVERY, () => orchestrator.running || undefined);
  for (let tries = 0; left.length > 0 && tries < TRIES && orchestrator.running; tries++) {
    if (tries > 0) await pause(env.timers, PAUSE_MS);
    left = await importOnce(files, orchestrator, left, tries === TRIES - 1);
  }
}

async function importOnce(
  { logger }: CatalogFiles,
  orchestrator: Orchestrator,
  models: readonly unknown[],
  isLast: boolean,
): Promise<unknown[]> {
  const left: unknown[] = [];
  for (const model of models) {
    try {
      const asked = checkRegister(model);
      await orchestrator.catalog.register(await registrationOf(asked, orchestrator.managers));
    } catch (error) {
      const code = error instanceof OrchdError ? error.code : 'INTERNAL';
      if (code === 'MODEL_NOT_FOUND' && !isLast) left.push(model);
      else logger.warn('a model of the catalog files is left out', { reason: code });
    }
  }
  return left;
}

async function readAll({ env, logger, folder }: CatalogFiles): Promise<unknown[]> {
  const models: unknown[] = [];
  for (const name of await namesIn(env, folder)) {
    if (!/\.(ya?ml|json)$/.test(name)) continue;
    try {
      const content: unknown = parse(await readFile(join(folder, name), 'utf8'));
      models.push(...(Array.isArray(content) ? content : [content]));
    } catch {
      logger.warn('a catalog file cannot be read', { reason: name });
    }
  }
  return models;
}

async function namesIn(env: Env, folder: string): Promise<string[]> {
  try {
    return (await env.disk.list(folder)).sort();
  } catch (error) {
    if (diskErrorCode(error) === 'ENOENT') return [];
    throw error;
  }
}
