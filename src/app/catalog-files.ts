/** The catalog files of a folder, which are imported at start: YAML or JSON, a model or a list of them each. */
import { join } from 'node:path';
import { parse } from 'yaml';
import { checker } from '../kit/check.ts';
import { diskErrorCode, type Env } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import { pause } from '../kit/pause.ts';
import { Service } from '../kit/service.ts';
import { readWholeFile } from '../kit/whole-file.ts';
import { OrchdError } from '../model/errors.ts';
import { RegisterModel } from '../model/http/catalog.ts';
import { registrationOf } from '../runtime/model-registration.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';

/** Import of a model whose pool is not known yet is retried this many times, at this interval. */
const TRIES = 30;
const PAUSE_MS = 2000;
const MAX_FILE_BYTES = 16 * 2 ** 20;

const checkRegister = checker(RegisterModel);

export interface CatalogFilesParts {
  readonly env: Env;
  readonly logger: Logger;
  readonly folder: string;
  readonly orchestrator: Orchestrator;
}

/** Imports beside everything else: a file that cannot be read must not keep the brain from starting. */
export class CatalogFiles extends Service {
  readonly #parts: CatalogFilesParts;
  #importing: Promise<void> | undefined;

  constructor(parts: CatalogFilesParts) {
    super();
    this.#parts = parts;
  }

  protected async onStart(): Promise<void> {
    this.#importing = this.#import().catch((error: Error) =>
      this.#parts.logger.warn('cannot import the catalog files', { reason: error.message }),
    );
  }

  protected async onStop(): Promise<void> {
    await this.#importing;
  }

  async #import(): Promise<void> {
    let left = await readAll(this.#parts);
    for (let tries = 0; left.length > 0 && tries < TRIES && !this.stopSignal.aborted; tries++) {
      if (tries > 0) await pause(this.#parts.env.timers, PAUSE_MS, this.stopSignal);
      left = await this.#importOnce(left, tries === TRIES - 1);
    }
  }

  /** Returns the models to be tried again. */
  async #importOnce(models: readonly unknown[], isLast: boolean): Promise<unknown[]> {
    const { logger, orchestrator } = this.#parts;
    const left: unknown[] = [];
    for (const model of models) {
      if (this.stopSignal.aborted || !orchestrator.running) return [];
      try {
        const request = checkRegister(model);
        await orchestrator.catalog.register(await registrationOf(request, orchestrator.managers));
      } catch (error) {
        const code = error instanceof OrchdError ? error.code : 'INTERNAL';
        if (code === 'MODEL_NOT_FOUND' && !isLast) left.push(model);
        else logger.warn('a model of the catalog files is left out', { reason: code });
      }
    }
    return left;
  }
}

async function readAll({ env, logger, folder }: CatalogFilesParts): Promise<unknown[]> {
  const models: unknown[] = [];
  for (const name of await namesIn(env, folder)) {
    if (!/\.(ya?ml|json)$/.test(name)) continue;
    try {
      const bytes = await readWholeFile(env.disk, join(folder, name), MAX_FILE_BYTES);
      const content: unknown = parse(bytes?.toString('utf8') ?? '');
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
