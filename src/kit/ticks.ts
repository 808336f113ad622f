/**
 * The instants at which something is due again and again: those of a cron expression in a time zone, or every so many
 * milliseconds since 1970, so that they are the same for whoever computes them.
 *
 * A local time that daylight saving leaves out is due at the first instant after the gap; one that it repeats is due the
 * first time only. An expression with `*` or steps in its minutes or hours goes on through both hours, and what it names
 * of an hour that is left out is not due.
 */
import { Cron } from 'croner';
import { LocalTimes } from './local-times.ts';
import { isTimeZone } from './window.ts';

export interface TickPattern {
  /** Five fields, six with seconds first, or a nickname such as `@daily`. */
  readonly cron?: string | undefined;
  readonly everyMs?: number | undefined;
  /** The IANA name of the time zone in which the expression is read. */
  readonly timeZone: string;
}

/** The smallest distance of ticks. */
export const MIN_EVERY_MS = 1000;

const RUNS_AT_ONCE = 8;

export class Ticks {
  readonly #pattern: TickPattern;
  readonly #cron: Cron | undefined;
  /** Of an expression that names its times: they are looked for on the clock of the zone, and translated. */
  readonly #local: LocalTimes | undefined;
  readonly #everyMs: number;

  /** Throws for a pattern that has a problem, see tickProblem. */
  constructor({ cron, everyMs = 0, timeZone }: TickPattern) {
    this.#pattern = { cron, everyMs, timeZone };
    this.#local = cron !== undefined && namesItsTimes(cron) ? new LocalTimes(timeZone) : undefined;
    const zone = this.#local ? 'UTC' : timeZone;
    this.#cron = cron === undefined ? undefined : new Cron(cron, { timezone: zone, mode: '5-or-6-parts' });
    this.#everyMs = everyMs;
  }

  isOf({ cron, everyMs = 0, timeZone }: TickPattern): boolean {
    const own = this.#pattern;
    return own.cron === cron && own.everyMs === everyMs && own.timeZone === timeZone;
  }

  /** The first tick after an instant; undefined where there is none any more. */
  after(instant: number): number | undefined {
    const cron = this.#cron;
    const local = this.#local;
    if (!cron) return (Math.floor(instant / this.#everyMs) + 1) * this.#everyMs;
    if (!local) return cron.nextRun(new Date(instant))?.getTime();
    for (let shown = cron.nextRun(new Date(local.shownAt(instant))); shown; shown = cron.nextRun(shown)) {
      const tick = local.instantOf(shown.getTime());
      // In an hour that is repeated, the clock shows times again that were due the first time.
      if (tick > instant) return tick;
    }
    return undefined;
  }

  /** The last ticks that are after `from` and not after `to`, `atMost` of them, the earliest first. */
  latest(from: number, to: number, atMost: number): number[] {
    const found = this.#cron ? this.#previous(this.#cron, from, to, atMost) : this.#multiples(to, atMost);
    return found.filter((tick) => tick > from && tick <= to).reverse();
  }

  /** Looks back no further than to `from`: each run takes some time to be found. */
  #previous(cron: Cron, from: number, to: number, atMost: number): number[] {
    const found: number[] = [];
    const local = this.#local;
    const shown = local ? local.latestBy(to) : to;
    // Runs of the second of the reference are left out: the first one is the second after it.
    let before = new Date(Math.floor(shown / 1000) * 1000 + 1000);
    for (let last = to; last > from && found.length < atMost; ) {
      const runs = cron.previousRuns(Math.min(RUNS_AT_ONCE, atMost - found.length), before);
      if (runs.length === 0) break;
      for (const run of runs) {
        last = local ? local.instantOf(run.getTime()) : run.getTime();
        // Of an hour that is left out, all runs are due at the same instant.
        if (last !== found.at(-1)) found.push(last);
      }
      before = runs.at(-1) as Date;
    }
    return found;
  }

  #multiples(to: number, atMost: number): number[] {
    const last = Math.floor(to / this.#everyMs) * this.#everyMs;
    return Array.from({ length: atMost }, (_, at) => last - at * this.#everyMs);
  }
}

/** Whether the expression has neither `*` nor a step in its minutes and hours. */
function namesItsTimes(cron: string): boolean {
  const fields = cron.trim().split(/\s+/);
  const [nickname = ''] = fields;
  if (fields.length < 5) return nickname.startsWith('@') && !/^@hourly$/i.test(nickname);
  return !/[*?/]/.test(fields.slice(-5, -3).join());
}

/** What is wrong with a pattern, as a sentence for the field that it names; undefined where nothing is. */
export function tickProblem(
  { cron, everyMs, timeZone }: TickPattern,
  now: number,
): { readonly field: 'cron' | 'every_sec' | 'time_zone'; readonly message: string } | undefined {
  if ((cron === undefined) === (everyMs === undefined))
    return { field: 'cron', message: 'one of `cron` and `every_sec` is needed, and not both' };
  if (!isTimeZone(timeZone))
    return { field: 'time_zone', message: `"${timeZone}" is not a time zone, such as Europe/Berlin` };
  if (cron === undefined) return undefined;
  try {
    if (new Ticks({ cron, timeZone }).after(now) !== undefined) return undefined;
  } catch (error) {
    return { field: 'cron', message: `"${cron}" is no cron expression: ${reasonOf(error)}` };
  }
  return { field: 'cron', message: `"${cron}" is never due after now` };
}

/** The message of the cron library without the name of its class. */
const reasonOf = (error: unknown): string =>
  String((error as { message?: unknown } | undefined)?.message ?? error).replace(/^Cron\w*: /, '');
