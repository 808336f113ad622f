/** Compares declarations of backends: a backend is presented again only if something in its declaration has changed. */
import type { BackendInfo } from '../../core/ports/backend.ts';

const textOf = (info: BackendInfo): string =>
  JSON.stringify({ ...info, contextLengths: [...(info.contextLengths ?? [])] });

export const isChanged = (before: BackendInfo | undefined, after: BackendInfo | undefined): boolean =>
  !before || !after || textOf(before) !== textOf(after);
