/** A spool in a temporary folder of the real disk, with what it has logged. */
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { realHost } from '../../src/kit/process/host.ts';
import { makeSpool, type Spool, type SpoolOptions, spoolAt } from '../../src/spool/spool.ts';

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly job_id?: string;
  readonly reason?: string;
  readonly event?: { readonly type: string; readonly from: string; readonly to: string };
  readonly [field: string]: unknown;
}

export interface SpoolKit {
  readonly folder: string;
  readonly spool: Spool;
  readonly lines: LogLine[];
  /** A path in the spool. */
  path(...parts: string[]): string;
  /** The names in a folder of the spool, sorted. */
  names(...parts: string[]): string[];
  /** Puts a folder with these files into the spool, as a shell would. */
  put(folder: string, files: Readonly<Record<string, string | Buffer>>): void;
}

export async function makeSpoolKit(t: TestContext, options: Partial<SpoolOptions> = {}): Promise<SpoolKit> {
  const parent = fs.mkdtempSync(join(tmpdir(), 'orchd-spool-'));
  t.after(() => fs.rmSync(parent, { recursive: true, force: true }));
  const folder = options.folder ?? join(parent, 'spool');
  const env = options.env ?? realEnv();
  const lines: LogLine[] = [];
  const logger = createLogger({
    write: (line) => void lines.push(JSON.parse(line) as LogLine),
    now: () => env.clock.now(),
  });
  const host = realHost(() => env.clock.now());
  const spool = spoolAt({ host, logger, ...options, env, folder });
  await makeSpool(spool);
  const path = (...parts: string[]): string => join(folder, ...parts);
  return {
    folder,
    spool,
    lines,
    path,
    names: (...parts) => fs.readdirSync(path(...parts)).sort(),
    put(name, files) {
      fs.mkdirSync(path(name), { recursive: true });
      for (const [file, content] of Object.entries(files)) fs.writeFileSync(path(name, file), content);
    },
  };
}

/** The `owner.json` of a process that is gone: no pid is as large. */
export function deadOwner({ spool }: SpoolKit, actor: string): string {
  const { hostname, self } = spool.host;
  return JSON.stringify({ hostname, ...self, pid: 4_194_304, nonce: actor, actor });
}
