/** The options of the built-in demo backend, which answers without a model, so that a first job can run at once. */
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
