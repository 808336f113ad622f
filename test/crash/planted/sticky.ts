/** Conversations that stay on their backends. */
import type { PlantedBug } from './catchers.ts';

export const STICKY_BUGS: readonly PlantedBug[] = [
  {
    name: 'the hash of a thread is taken over what was sent instead of what was heard',
    file: 'src/daemons/gateway/calls.ts',
    find: '  return { ...result, heard: heard(asked, [answerOf(text)]) };\n',
    replace: '  return { ...result, heard: text === "" ? heard(asked, [answerOf(text)]) : asked };\n',
    catcher: 'threads',
    says: /what https:\S+ has heard of c\d+|AssertionError.*: c\d+\.\d+$/m,
  },
  {
    name: 'a parked sticky job is never woken when its seat goes away',
    file: 'src/core/queue/sticky.ts',
    find: '    return this.#lost.size > 0;\n',
    replace: '    return this.#lost.size > 1e9;\n',
    catcher: 'affinity',
    says: /✖ is not lost with the seat/,
  },
  {
    name: 'a sticky turn is not looked at again when its conversation has moved',
    file: 'src/core/queue/queue.ts',
    find: '    if (!wait && !laneOf(entry)) return;\n',
    replace: '    if (!wait || now >= 0) return;\n',
    catcher: 'affinity',
    says: /✖ goes on where the conversation has moved to/,
  },
];
