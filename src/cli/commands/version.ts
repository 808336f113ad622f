/** `orchd version` */

import { noPositionals } from '../arguments.ts';
import { type Command, EXIT } from '../command.ts';
import { packageVersion } from '../package-version.ts';

export const version: Command = {
  usage: 'orchd version [--json]\n\n  --json   print one JSON object\n\nExamples:\n  orchd version --json',
  options: { json: { type: 'boolean' } },
  async run({ values, positionals }, terminal) {
    noPositionals(positionals);
    const versions = { orchd: packageVersion(), node: process.versions.node };
    if (values['json']) terminal.printData(JSON.stringify(versions));
    else terminal.print(`orchd ${versions.orchd} (Node ${versions.node})`);
    return EXIT.ok;
  },
};
