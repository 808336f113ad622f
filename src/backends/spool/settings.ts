/** The spools of a server, from the list `backends.spools` of the configuration to checked settings. */
import type { SpoolConfig } from '../../config/backends.ts';
import { OrchdError } from '../../model/errors.ts';
import type { SpoolSourceOptions } from './spool-source.ts';

/** `taken`: names that other backends have. Throws CONFIG_INVALID where two backends would have one name. */
export function spoolSettings(
  configured: readonly SpoolConfig[],
  taken: readonly string[],
): readonly Omit<SpoolSourceOptions, 'env' | 'logger'>[] {
  const names = new Set(taken);
  return configured.map(({ keep_output_sec, ...same }, at) => {
    if (names.has(same.name))
      throw new OrchdError(
        'CONFIG_INVALID',
        `two backends would be called "${same.name}": give the spool ${same.folder} another name`,
        { field: `backends.spools[${at}].name` },
      );
    names.add(same.name);
    return { ...same, keepAckedMs: keep_output_sec === undefined ? undefined : keep_output_sec * 1000 };
  });
}
