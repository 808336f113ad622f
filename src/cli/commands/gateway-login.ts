/** `orchd gateway login SEAT` */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { SeatSettings } from '../../adapters/gateway/settings.ts';
import type { ResolvedConfig } from '../../config/resolve.ts';
import type { LoginEnd } from '../../daemons/gateway/drivers/browser/login.ts';
import { realEnv } from '../../kit/env/real.ts';
import { EXIT, type Terminal, UsageError } from '../command.ts';
import { Interrupt } from '../interrupt.ts';

export interface GatewayLogin {
  readonly seat: string;
  readonly seats: readonly SeatSettings[];
  /** The folder of the gateway. */
  readonly folder: string;
  readonly terminal: Terminal;
}

/** The folder of the gateway that `orchd up` runs, if there is one already; else that of one that runs alone. */
export async function usedGatewayFolder(config: ResolvedConfig, alone: string): Promise<string> {
  const ofBrain = join(config.state.checkpointDir, 'gateway');
  const found = await stat(ofBrain).catch(() => undefined);
  return found?.isDirectory() === true ? ofBrain : alone;
}

/** Opens a window for a person to log in; returns the exit code. */
export async function gatewayLogin({ seat: name, seats, folder, terminal }: GatewayLogin): Promise<number> {
  const seat = seats.find((each) => each.name === name);
  const names = seats.filter(({ page }) => page).map((each) => each.name);
  if (!seat?.page) {
    const hint =
      names.length > 0 ? `choose ${names.join(' or ')}` : 'gateway.seats of the configuration has none';
    throw new UsageError(`there is no seat "${name}" with the driver browser: ${hint}.`);
  }
  const { logIn } = await import('../../daemons/gateway/drivers/browser/login.ts');
  const { Profile, profileFolder } = await import('../../daemons/gateway/drivers/browser/profile.ts');
  const env = realEnv();
  const profile = new Profile(env, profileFolder(folder, name, seat.page.profile));
  const interrupt = new Interrupt();
  const end = await logIn({
    env,
    profile,
    url: seat.url,
    page: { ...seat.page, headless: false },
    path: process.env['PATH'] ?? '',
    signal: interrupt.signal,
    onOpen: () =>
      terminal.complain(
        `log in to ${new URL(seat.url).origin} in the window; the profile is ${profile.folder}`,
      ),
  }).finally(() => interrupt.remove());
  return report(end, name, terminal);
}

function report(end: LoginEnd, name: string, terminal: Terminal): number {
  if (end === 'logged in') {
    terminal.print(`logged in: the seat ${name} can be used`);
    return EXIT.ok;
  }
  terminal.complain(
    `orchd gateway: the window was closed before the page showed its input; ${name} still needs a login`,
  );
  return EXIT.problems;
}
