/** Parts that the schemas of requests and answers are made of. */
import { type Static, type TProperties, type TSchema, Type } from 'typebox';

/** The type of a value that a schema describes, for values that are only read. */
export type Shape<S extends TSchema> = Immutable<Static<S>>;

type Immutable<T> = T extends readonly (infer Item)[]
  ? readonly Immutable<Item>[]
  : T extends object
    ? { readonly [K in keyof T]: Immutable<T[K]> }
    : T;

/** An object with any fields. A record with a pattern for any name would have each of its names checked. */
export const AnyObject = Type.Unsafe<Record<string, unknown>>(
  Type.Object({}, { additionalProperties: true }),
);

/** An object of a request: a field that is not in its schema is a mistake of the caller, and refused. */
export const requestObject = <P extends TProperties>(properties: P, options: { title?: string } = {}) =>
  Type.Object(properties, { ...options, additionalProperties: false });

/** An object of an answer. Under its title it is a component of the OpenAPI page; later versions may add fields. */
export const answerObject = <P extends TProperties>(title: string, properties: P) =>
  Type.Object(properties, { title });

export const orNull = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()]);

export const Instant = Type.Integer({ description: 'Milliseconds since 1970' });

/** An Instant with a description, for a field whose name does not say enough. */
export const instant = (description: string) =>
  Type.Integer({ description: `${description}, in milliseconds since 1970` });
