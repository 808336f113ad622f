/** The result of a call as a text for the model. */
import { cutText } from '../../kit/cut-text.ts';
import type { ToolResult } from '../../model/run-jobs.ts';

interface Block {
  readonly type?: unknown;
  readonly text?: unknown;
  readonly data?: unknown;
  readonly mimeType?: unknown;
  readonly uri?: unknown;
  readonly name?: unknown;
  readonly resource?: Block & { readonly blob?: unknown };
}

interface CallResult {
  readonly content?: unknown;
  readonly structuredContent?: unknown;
  readonly isError?: unknown;
}

/** The blocks of an answer that are looked at. */
const MAX_BLOCKS = 1000;
const MAX_NAME_CHARS = 500;

/** What the server says is data: the run marks it as such before a model reads it. */
export function resultOf(result: unknown, maxBytes: number): ToolResult {
  const { content, structuredContent, isError } = (result ?? {}) as CallResult;
  const blocks = Array.isArray(content) ? (content as readonly unknown[]) : [];
  const texts = blocks.slice(0, MAX_BLOCKS).map((block) => blockText((block ?? {}) as Block));
  if (blocks.length > MAX_BLOCKS) texts.push(`[${blocks.length - MAX_BLOCKS} more parts are not shown]`);
  // Servers repeat the structured content as text for clients that do not know it.
  const hasText = blocks.some((block) => (block as Block | null)?.type === 'text');
  if (structuredContent !== undefined && !hasText) texts.push(JSON.stringify(structuredContent));
  const text = cutText(texts.join('\n'), maxBytes);
  return isError === true ? { ok: false, text, why: 'failed', started: true } : { ok: true, text };
}

function blockText(block: Block): string {
  switch (block.type) {
    case 'text':
      return typeof block.text === 'string' ? block.text : '';
    case 'image':
    case 'audio':
      return `[${block.type} ${said(block.mimeType)}, ${size(block.data)}: not shown]`;
    case 'resource':
      return resourceText(block.resource ?? {});
    case 'resource_link':
      return `[resource ${said(block.uri)} ${said(block.name)}]`;
    default:
      return `[a part of type ${said(block.type)}: not shown]`;
  }
}

function resourceText(resource: NonNullable<Block['resource']>): string {
  const { uri, text, mimeType, blob } = resource;
  if (typeof text === 'string') return `[resource ${said(uri)}]\n${text}`;
  return `[resource ${said(uri)} ${said(mimeType)}, ${size(blob)}: not shown]`;
}

const said = (value: unknown): string =>
  typeof value === 'string' ? value.slice(0, MAX_NAME_CHARS).replace(/\s+/g, ' ') : '(unnamed)';

/** The size of data in base64. */
const size = (data: unknown): string =>
  typeof data === 'string' ? `${Math.floor((data.length * 3) / 4)} bytes` : 'without data';
