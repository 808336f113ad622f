/** A backend that answers without any model, so that a first job can be seen to run. */
import { fileURLToPath } from 'node:url';
import type { CommandBackendOptions } from './options.ts';

export function demoBackendOptions(folder: string): CommandBackendOptions {
  // The published build has .js files beside each other just as the source has .ts files.
  const script = import.meta.url.endsWith('.ts') ? './demo-main.ts' : './demo-main.js';
  const argv = [process.execPath, fileURLToPath(new URL(script, import.meta.url))];
  return {
    name: 'demo',
    folder,
    slots: 4,
    types: { inference: { argv, split: 'space' } },
    models: ['demo'],
  };
}
