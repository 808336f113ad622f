/** Bugs of modules and schedules. */
import type { PlantedBug } from './catchers.ts';

export const MODULES_BUGS: readonly PlantedBug[] = [
  {
    name: "a module's mark before its handling",
    file: 'src/adapters/modules/handling.ts',
    find: '    const outcome = await this.#call(jobId).catch(',
    replace: '    await mark.add(n);\n    const outcome = await this.#call(jobId).catch(',
    catcher: 'moduleMark',
    says: /nothing is marked while handle still runs/,
  },
  {
    name: 'a tick kept only in memory',
    file: 'src/core/admission/schedules.ts',
    find: '  put(withLast(moved, last));',
    replace: '  turn.state.tables.schedule.set(id, withLast(moved, last));',
    catcher: 'scheduleTicks',
    says: /ticks that were decided stay decided/,
  },
];
