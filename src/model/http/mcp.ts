/** Schemas of the HTTP requests and answers of the Model Context Protocol (/mcp). */
import { Type } from 'typebox';
import { AnyObject, answerObject, orNull } from './shape.ts';

const RpcId = Type.Union([Type.String(), Type.Integer()]);

/** The handler checks it, and answers what is wrong in the form of the protocol. */
export const McpMessage = Type.Object(
  {
    jsonrpc: Type.Literal('2.0'),
    id: Type.Optional(RpcId),
    method: Type.String(),
    params: Type.Optional(AnyObject),
  },
  { title: 'McpMessage', additionalProperties: true },
);

export const McpResult = answerObject('McpResult', {
  jsonrpc: Type.Literal('2.0'),
  id: RpcId,
  result: AnyObject,
});

export const McpFailure = answerObject('McpFailure', {
  jsonrpc: Type.Literal('2.0'),
  id: orNull(RpcId),
  error: Type.Object({
    code: Type.Integer({ description: 'A code of JSON-RPC or of the protocol' }),
    message: Type.String(),
    data: Type.Optional(Type.Unknown()),
  }),
});
