/** The modules of a server: from the configuration to checked settings with the commands that are run. */
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MODULE_DEFAULTS } from '../../config/modules.ts';
import type { ResolvedConfig } from '../../config/resolve.ts';
import { refused } from '../executors/key.ts';

/** The program that runs a file module; the published build has .js files where the source has .ts files. */
const HOST = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? './host-main.ts' : './host-main.js', import.meta.url),
);

/** The memory of a module beside its heap, for buffers and native libraries. */
const BESIDE_HEAP_MB = 1024;

/**
 * The part of the limit that our host program takes before it loads a module. The limit counts reserved memory, too: 512
 * of these MiB are the range in which V8 places compiled code.
 */
const RESERVED_BY_HOST_MB = 640;

/**
 * Limits the data of the process too: buffers and memory of native libraries are not in the heap. What the module starts
 * has the same limit.
 */
const LIMITED = ['/bin/sh', '-c', 'ulimit -d "$1" 2>/dev/null; shift; exec "$@"', 'sh'];

export interface ModuleSettings {
  readonly name: string;
  /** A file is run by our host program, which speaks over descriptor 3; a command speaks over its standard output. */
  readonly kind: 'file' | 'command';
  readonly scanArgv: readonly string[];
  /** Undefined: ends of jobs are not handled. The host of a file says itself whether the file handles them. */
  readonly handleArgv: readonly string[] | undefined;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly intervalMs: number;
  /** The most time that a scan, or the handling of one job, may take. */
  readonly timeoutMs: number;
  /** The most new jobs of one scan. */
  readonly maxProposals: number;
}

/** Throws CONFIG_INVALID about the first one that cannot be used; its `field` is the key in the configuration. */
export function moduleSettings(configured: ResolvedConfig['modules']): readonly ModuleSettings[] {
  const found = new Map<string, ModuleSettings>();
  for (const [at, config] of configured.entries()) {
    const field = `modules[${at}]`;
    if (found.has(config.name)) throw refused(field, `two modules are called "${config.name}"`);
    found.set(config.name, settingsOf(config, field));
  }
  return [...found.values()];
}

function settingsOf(config: ResolvedConfig['modules'][number], field: string): ModuleSettings {
  const { name, file, argv, handle_argv: handleArgv, cwd, env = {} } = config;
  const { interval_sec, timeout_sec, memory_mb, max_proposals } = { ...MODULE_DEFAULTS, ...config };
  if ((file === undefined) === (argv === undefined))
    throw refused(field, `the module "${name}" needs either "file" or "argv"`);
  if (file !== undefined && handleArgv !== undefined)
    throw refused(field, `"handle_argv" of "${name}" is for commands: a file exports handle() instead`);
  if (argv !== undefined && config.memory_mb !== undefined)
    throw refused(field, `"memory_mb" of "${name}" is for files: a command limits itself`);
  const common = {
    name,
    env,
    intervalMs: Math.round(interval_sec * 1000),
    timeoutMs: Math.round(timeout_sec * 1000),
    maxProposals: max_proposals,
  };
  if (file === undefined)
    return { ...common, kind: 'command', scanArgv: argv ?? [], handleArgv, cwd: resolve(cwd ?? '.') };
  const path = resolve(file);
  const limitKb = String((memory_mb + BESIDE_HEAP_MB + RESERVED_BY_HOST_MB) * 1024);
  const host = [...LIMITED, limitKb, process.execPath, `--max-old-space-size=${memory_mb}`, HOST];
  return {
    ...common,
    kind: 'file',
    scanArgv: [...host, 'scan', path],
    handleArgv: [...host, 'handle', path],
    cwd: resolve(cwd ?? dirname(path)),
  };
}
