/** Reads the parts of a message's content, in the form of OpenAI's chat, for dialects that spell them differently. */
import { unsupported } from './as-chat.ts';
import { fieldsOf, listOf, textOr } from './json.ts';

/** `data` is base64. */
export type Source = { readonly url: string } | { readonly mediaType: string; readonly data: string };

export type ContentPart =
  | { readonly is: 'text'; readonly text: string }
  | {
      readonly is: 'image';
      readonly url: string;
      readonly source: Source;
      readonly detail: string | undefined;
    }
  | {
      readonly is: 'file';
      /** The data URL, or the provider's id of the file. */
      readonly given: { readonly data: string } | { readonly id: string };
      readonly source: Source | undefined;
      readonly name: string | undefined;
    };

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)(?:;[\w=.-]+)*;base64,([A-Za-z0-9+/=\s]*)$/;

/** The parts of a content that is a text, a list of parts, or absent. Empty texts are left out. */
export function partsOf(content: unknown, field: string): readonly ContentPart[] {
  if (typeof content === 'string') return content === '' ? [] : [{ is: 'text', text: content }];
  return listOf(content).flatMap((part) => partOf(part, field));
}

function partOf(part: unknown, field: string): readonly ContentPart[] {
  const { type, text, image_url: image, file } = fieldsOf(part);
  if (type === 'text') return textOr(text) === '' ? [] : [{ is: 'text', text: textOr(text) }];
  if (type === 'image_url') {
    const { url, detail } = typeof image === 'string' ? { url: image, detail: undefined } : fieldsOf(image);
    const source = sourceOf(textOr(url));
    if (!source) throw unsupported('an image that is neither a URL nor base64', field);
    return [{ is: 'image', url: textOr(url), source, detail: textOr(detail) || undefined }];
  }
  if (type === 'file') {
    const { file_data: data, file_id: id, filename } = fieldsOf(file);
    const name = textOr(filename) || undefined;
    if (typeof data === 'string') return [{ is: 'file', given: { data }, source: sourceOf(data), name }];
    if (typeof id === 'string') return [{ is: 'file', given: { id }, source: undefined, name }];
  }
  throw unsupported(`parts of the type "${textOr(type).slice(0, 40)}"`, field);
}

function sourceOf(url: string): Source | undefined {
  if (/^https?:\/\//i.test(url)) return { url };
  const [, mediaType, data] = DATA_URL.exec(url) ?? [];
  return mediaType === undefined || data === undefined
    ? undefined
    : { mediaType: mediaType.toLowerCase(), data };
}
