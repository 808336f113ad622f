/** Work that consumers ask for. */
import type { PlantedBug } from './catchers.ts';

export const CONSUMERS_BUGS: readonly PlantedBug[] = [
  {
    name: 'the holder of an attempt is not compared with who reports its end',
    file: 'src/core/attempts/claims.ts',
    find: '  if (entry?.open && isHolder(entry.open, consumer)) {\n    if (outcome',
    replace: '  if (entry?.open) {\n    if (outcome',
    catcher: 'longSimulation',
    says: /was answered with the result of body -1/,
  },
  {
    name: 'a claim is answered before its commit',
    file: 'src/runtime/loop.ts',
    find: '    const { clock } = this.#env;\n    this.#watermark.after(',
    replace:
      "    const { clock } = this.#env;\n    for (const [at, { event, resolve }] of batch.entries())\n      if (event.type === 'claim') resolve?.(steps.replies[at] as never);\n    this.#watermark.after(",
    catcher: 'longSimulation',
    says: /ran once|while .* still ran|after .* had succeeded/,
  },
  {
    name: 'what a silent consumer holds is never given up',
    file: 'src/core/attempts/presence.ts',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a line of code
    find: '    giveUpHeld(turn, id, `the consumer "${id}" has fallen silent`);\n',
    replace: '',
    catcher: 'longSimulation',
    says: /everything ends once faults stop/,
  },
];
