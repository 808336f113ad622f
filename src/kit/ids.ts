/** Job ids that sort by the time they were made: 48 bits of milliseconds, 80 bits of chance. */
import type { Random } from './env/env.ts';

export function newId(now: number, random: Random): string {
  return Math.floor(now).toString(16).padStart(12, '0') + random.hex(10);
}
