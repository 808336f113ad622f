import { Type } from 'typebox';

/** A part of the configuration with keys of its own; any other key in it is refused. */
export const section = <P extends Parameters<typeof Type.Object>[0]>(properties: P) =>
  Type.Object(properties, { additionalProperties: false });
