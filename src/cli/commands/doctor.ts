/** `orchd doctor DIR`: reports what is intact and what is damaged in a data folder; --salvage copies what is intact. */
import { resolve } from 'node:path';
import { singlePositional } from '../arguments.ts';
import { type Command, EXIT } from '../command.ts';
import { folderAt } from '../settings.ts';
import { jsonLine, salvageText, showJson, showText } from '../text/doctor-text.ts';

const USAGE = `orchd doctor DIR [--json] [--salvage NEWDIR]

Checks a data folder and lists what is damaged. It only reads the folder, and may be run while a brain uses it.

  --json             print one JSON object per line: every finding, then a summary
  --salvage NEWDIR   write what is intact to a new folder

Exit code: 0 healthy, 1 problems found, 2 wrong command line or not a data folder.

Examples:
  orchd doctor data/orchestrator
  orchd doctor data/orchestrator --salvage data/saved`;

export const doctor: Command = {
  usage: USAGE,
  options: { json: { type: 'boolean' }, salvage: { type: 'string' } },
  async run({ values, positionals }, terminal) {
    const folder = singlePositional(positionals, 'data folder');
    const target = values['salvage'] as string | undefined;
    const { RealDisk } = await import('../../kit/env/real-disk.ts');
    const { examine, salvage } = await import('../../stores/journal/doctor/doctor.ts');
    const { isHeld } = await import('../lock-probe.ts');
    const disk = new RealDisk();
    const diagnosis = await examine(disk, await folderAt(resolve(folder)), { isHeld });
    if (values['json']) showJson(diagnosis, terminal);
    else showText(diagnosis, target === undefined, terminal);
    if (!diagnosis.isDataFolder) return EXIT.unusable;
    if (target !== undefined) {
      const plan = await salvage(disk, resolve(folder), resolve(target), { isHeld });
      if (values['json'])
        terminal.printData(jsonLine({ type: 'salvaged', folder: resolve(target), ...plan }));
      else
        terminal.print(
          `\nWrote ${target}: ${salvageText(plan)}\nTo continue with it: orchd up --data ${target}`,
        );
    }
    return diagnosis.verdict === 'bad' ? EXIT.problems : EXIT.ok;
  },
};
