/** Preloaded: the process gets a SIGTERM when it makes a folder whose path has the text in SIGNAL_AT, once. */
import fs from 'node:fs';

const text = process.env['SIGNAL_AT'] ?? '';
const { mkdirSync } = fs;
let isDue = text !== '';

const signallingMkdir = (path: string, options: fs.MakeDirectoryOptions): string | undefined => {
  if (isDue && path.includes(text)) {
    isDue = false;
    process.kill(process.pid, 'SIGTERM');
  }
  return mkdirSync(path, options);
};
Object.assign(fs, { mkdirSync: signallingMkdir });
