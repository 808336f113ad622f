/** Files of a prompt as parts of a message in OpenAI's form, as `wire/dialects/content.ts` reads them. */
import type { LanguageModelV4FilePart } from '@ai-sdk/provider';
import { UnsupportedFunctionalityError } from 'ai';
import { NAMESPACE, type Warnings } from './warnings.ts';

type FileData = LanguageModelV4FilePart['data'];

export interface GivenFile {
  readonly data: FileData;
  readonly mediaType: string;
  readonly filename?: string | undefined;
}

/** The first bytes of files whose media type is given without its second half, in base64. */
const BEGINNINGS: readonly (readonly [mediaType: string, beginning: RegExp])[] = [
  ['image/png', /^iVBORw/],
  ['image/jpeg', /^\/9j\//],
  ['image/gif', /^R0lGOD/],
  ['image/webp', /^UklGR/],
  ['application/pdf', /^JVBER/],
];

/** The formats of sound that OpenAI's chat has. */
const SOUNDS: ReadonlyMap<string, string> = new Map([
  ['audio/wav', 'wav'],
  ['audio/mpeg', 'mp3'],
  ['audio/mp3', 'mp3'],
]);

/** `fields` are added to the part, such as `detail` of an image. */
export function filePart(given: GivenFile, fields: object, warnings: Warnings): object {
  const part = partOf(given, fields);
  if (given.filename !== undefined && !('file' in part))
    warnings.unsupported('names of files that are images, sounds or texts', 'they are left out');
  return part;
}

function partOf({ data, mediaType, filename }: GivenFile, fields: object): object {
  if (data.type === 'text') return { type: 'text', text: data.text, ...fields };
  if (data.type === 'reference') {
    const id = data.reference[NAMESPACE];
    if (id === undefined) throw unsupported(`files that are not stored under "${NAMESPACE}"`);
    return { type: 'file', file: { file_id: id, ...named(filename) }, ...fields };
  }
  const base64 = data.type === 'data' ? base64Of(data.data) : undefined;
  const type = fullType(mediaType, base64);
  const url = data.type === 'url' ? (data.originalUrl ?? data.url.href) : `data:${type};base64,${base64}`;
  if (type.startsWith('image/') || type === 'image')
    return { type: 'image_url', image_url: { url, ...fields } };
  if (base64 !== undefined && type.startsWith('text/'))
    return { type: 'text', text: Buffer.from(base64, 'base64').toString(), ...fields };
  const format = SOUNDS.get(type);
  if (format !== undefined && base64 !== undefined)
    return { type: 'input_audio', input_audio: { data: base64, format }, ...fields };
  if (!type.includes('/')) throw unsupported(`files of the type "${mediaType}" whose format is unknown`);
  return { type: 'file', file: { file_data: url, ...named(filename) }, ...fields };
}

const named = (filename: string | undefined): object => (filename === undefined ? {} : { filename });

const base64Of = (data: Uint8Array | string): string =>
  typeof data === 'string'
    ? data
    : Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64');

/** `image` and `image/*` become what the bytes say. */
function fullType(mediaType: string, base64: string | undefined): string {
  const [type = '', subtype = '*'] = mediaType.toLowerCase().split('/');
  if (subtype !== '*') return `${type}/${subtype}`;
  const found = BEGINNINGS.find(([, beginning]) => base64 !== undefined && beginning.test(base64));
  return found?.[0] ?? type;
}

const unsupported = (what: string): UnsupportedFunctionalityError =>
  new UnsupportedFunctionalityError({ functionality: what, message: `orchd does not support ${what}` });
