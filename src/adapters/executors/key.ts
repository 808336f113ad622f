/** Keys of providers, as they are found in variables and files. */
import { diskErrorCode } from '../../kit/env/env.ts';
import { Secret } from '../../kit/secret.ts';
import { OrchdError } from '../../model/errors.ts';

export const refused = (field: string, message: string): OrchdError =>
  new OrchdError('CONFIG_INVALID', message, { field });

export const unwritable = (field: string, folder: string, error: unknown): OrchdError =>
  new OrchdError(
    'CONFIG_INVALID',
    `its files cannot be written to ${folder} (${diskErrorCode(error) ?? 'for an unknown reason'})`,
    { field },
    { cause: error },
  );

/** The key in a text that was found at `place`. Throws CONFIG_INVALID about `field`, without the text. */
export function keyOf(text: string | undefined, place: string, url: string, field: string): Secret {
  const value = text?.trim() ?? '';
  if (value === '')
    throw refused(
      field,
      `${place} is ${text === undefined ? 'not set' : 'empty'}: it should hold the key for ${url}`,
    );
  // Other characters cannot stand in a header.
  if (!/^[\x21-\x7e]{1,8192}$/.test(value)) throw refused(field, `${place} does not hold a key`);
  return new Secret(value);
}
