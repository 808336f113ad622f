/** Reads the JSON of providers, which may be anything. */
import { protocolError } from './protocol-error.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Parses a text that must be a JSON object. */
export function objectOf(text: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw protocolError('sent something that is not JSON');
  }
  if (isObject(value)) return value;
  throw protocolError('sent something that is not an object');
}

/** An object where one is expected; an empty one in place of anything else. */
export const fieldsOf = (value: unknown): JsonObject => (isObject(value) ? value : {});

export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

export const textOr = (value: unknown): string => (typeof value === 'string' ? value : '');

export const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;
