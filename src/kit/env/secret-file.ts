/** Reads a secret from a file that a person or a secret store has written. */
import fs from 'node:fs';

const OF_OTHERS = 0o077;
/** No secret is this long: what is longer is another file. */
const MAX_BYTES = 64 * 1024;

export interface SecretFile {
  readonly text: string;
  /** Other users of the machine may read it, as far as its mode says. */
  readonly isOpenToOthers: boolean;
}

/** Throws the error of the file system, or one with the code `EFBIG`. */
export function readSecretFile(path: string): SecretFile {
  const fd = fs.openSync(path, 'r');
  try {
    const { mode, size } = fs.fstatSync(fd);
    if (size > MAX_BYTES) throw Object.assign(new Error('too large'), { code: 'EFBIG' });
    return { text: fs.readFileSync(fd, 'utf8').trim(), isOpenToOthers: (mode & OF_OTHERS) !== 0 };
  } finally {
    fs.closeSync(fd);
  }
}
