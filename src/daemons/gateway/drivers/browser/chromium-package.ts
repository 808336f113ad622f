/** Loads the optional package playwright-core, and finds the Chromium that it drives. */
import { delimiter, join } from 'node:path';
import type { BrowserContext } from 'playwright-core';
import type { Disk } from '../../../../kit/env/env.ts';
import { plainEnvironment } from '../../../../kit/process/environment.ts';
import { OrchdError } from '../../../../model/errors.ts';
import { DISPLAY_VARIABLES } from '../../layout.ts';

type Package = typeof import('playwright-core');

export interface LaunchOptions {
  /** The folder of the profile. */
  readonly profile: string;
  /** The path of Chromium. */
  readonly executable: string;
  readonly headless: boolean;
  /** Further flags of Chromium. */
  readonly args: readonly string[];
  readonly timeoutMs: number;
}

/** The names under which distributions and Google install it, in the order in which they are tried. */
const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'] as const;

/** Chromium makes no requests of its own, asks nothing, and keeps cookies in the profile without a keyring. */
const FLAGS = [
  '--no-first-run',
  '--no-default-browser-check',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--password-store=basic',
];

const missing = (cause: unknown): OrchdError =>
  new OrchdError(
    'CONFIG_INVALID',
    'the driver "browser" needs the package "playwright-core": npm install playwright-core',
    {},
    { cause },
  );

/** Throws CONFIG_INVALID if the package is not installed. It is not loaded: only a request needs it. */
export function checkPackage(): void {
  try {
    import.meta.resolve('playwright-core');
  } catch (error) {
    throw missing(error);
  }
}

async function loadPackage(): Promise<Package> {
  try {
    return await import('playwright-core');
  } catch (error) {
    throw missing(error);
  }
}

/** The path of Chromium: the one that the seat names, or the first that is on the PATH. */
export async function findChromium(
  disk: Pick<Disk, 'stat'>,
  given: string | undefined,
  path: string,
): Promise<string> {
  if (given !== undefined) {
    if (await isFile(disk, given)) return given;
    throw new OrchdError('WORKER_START_FAILED', `"executable" of the seat: there is no file ${given}`);
  }
  const folders = path.split(delimiter).filter((folder) => folder !== '');
  for (const name of NAMES)
    for (const folder of folders) {
      const file = join(folder, name);
      if (await isFile(disk, file)) return file;
    }
  throw new OrchdError(
    'WORKER_START_FAILED',
    'Chromium is not on the PATH: install chromium or google-chrome, or name its path with "executable" of the seat',
  );
}

async function isFile(disk: Pick<Disk, 'stat'>, path: string): Promise<boolean> {
  const found = await disk.stat(path);
  return found !== undefined && !found.isFolder;
}

/** Without the variables of the gateway: its token is a secret, and its launch marks the processes that are a gateway. */
function environment(): Record<string, string> {
  const passed = plainEnvironment();
  for (const name of DISPLAY_VARIABLES) {
    const value = process.env[name];
    if (value !== undefined) passed[name] = value;
  }
  return passed;
}

/** Starts Chromium with a profile. Throws WORKER_START_FAILED; what Chromium has said is not repeated, it may name pages. */
export async function launchChromium(options: LaunchOptions): Promise<BrowserContext> {
  const { profile, executable, headless, args, timeoutMs } = options;
  const { chromium } = await loadPackage();
  try {
    return await chromium.launchPersistentContext(profile, {
      executablePath: executable,
      headless,
      args: [...FLAGS, ...args],
      env: environment(),
      acceptDownloads: false,
      // The gateway decides when Chromium ends: a signal to the gateway lets running requests end first.
      handleSIGINT: false,
      handleSIGTERM: false,
      handleSIGHUP: false,
      timeout: timeoutMs,
      ...(!headless && { viewport: null }),
    });
  } catch (error) {
    throw new OrchdError(
      'WORKER_START_FAILED',
      headless
        ? `Chromium (${executable}) did not start; as root it needs args: [--no-sandbox]`
        : `Chromium (${executable}) did not start with a window: it needs a display, and as root args: [--no-sandbox]`,
      { retriable: true, isUncharged: true },
      { cause: error },
    );
  }
}
