/** Files that other programs may have put something else in the place of. */
import fs from 'node:fs';

/** Opens a file for reading, and nothing else: the open of a pipe would wait, and a link may lead anywhere. */
export function openRegular(path: string): number {
  const { O_RDONLY, O_NONBLOCK, O_NOFOLLOW } = fs.constants;
  const fd = fs.openSync(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  if (fs.fstatSync(fd).isFile()) return fd;
  fs.closeSync(fd);
  throw Object.assign(new Error('it is no file'), { code: 'EINVAL' });
}
