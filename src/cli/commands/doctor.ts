/** `orchd doctor DIR`: what is intact in a data folder, what is not, and what can be saved. */
import { resolve } from 'node:path';
import { type Command, EXIT, UsageError } from '../command.ts';
import { folderAt } from '../settings.ts';
import { jsonLine, saved, showJson, showText } from '../text/doctor-text.ts';

const USAGE = `orchd doctor DIR [--json] [--salvage NEWDIR]

Reads a data folder and never writes to it; a running brain is not disturbed.

  --json             one JSON object per line: every finding, then a summary
  --salvage NEWDIR   write what is intact to a new folder

Exit code: 0 healthy, 1 problems found, 2 wrong use or nothing there to read.

Examples:
  orchd doctor data/orchestrator
  orchd doctor data/orchestrator --salvage data/saved`;

export const doctor: Command = {
  usage: USAGE,
  options: { json: { type: 'boolean' }, salvage: { type: 'string' } },
  async run({ values, positionals }, terminal) {
    const [folder, more] = positionals;
    if (folder === undefined) throw new UsageError('which folder? Name the data folder.');
    if (more !== undefined) throw new UsageError(`one folder at a time; "${more}" is one too many.`);
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
      terminal.print(
        values['json']
          ? jsonLine({ type: 'salvaged', folder: resolve(target), ...plan })
          : `\nWrote ${target}: ${saved(plan)}\nTo go on with it: orchd up --data ${target}`,
      );
    }
    return diagnosis.verdict === 'bad' ? EXIT.problems : EXIT.ok;
  },
};
