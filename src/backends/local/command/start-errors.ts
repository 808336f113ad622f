/** Errors of starting a program that may pass, so that a retry can help. */
const TRANSIENT_ERRNOS = [
  'EAGAIN',
  'ENOMEM',
  'EMFILE',
  'ENFILE',
  'ENOSPC',
  'EDQUOT',
  'EIO',
  'EROFS',
  'EFBIG',
  'ETXTBSY',
];

export const isTransientStart = (errno: string | undefined): boolean =>
  TRANSIENT_ERRNOS.includes(errno ?? '');
