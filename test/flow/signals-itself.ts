/** Preloaded: the process gets a SIGTERM when it makes a folder whose path has the text in SIGNAL_AT, once. */
import fs from 'node:fs';

const text = process.env['SIGNAL_AT'] ?? '';
const { mkdir } = fs;
let isDue = text !== '';

const signallingMkdir = (path: string, options: fs.MakeDirectoryOptions, done: fs.NoParamCallback): void => {
  if (isDue && path.includes(text)) {
    isDue = false;
    process.kill(process.pid, 'SIGTERM');
  }
  mkdir(path, options, done as (error: NodeJS.ErrnoException | null) => void);
};
Object.assign(fs, { mkdir: signallingMkdir });
