/**
 * Fastify with one route that validates the body with orchd's submit schema and sends an answer of the same size. It is
 * the baseline: what orchd costs beyond it is orchd's own work.
 */
import type { AddressInfo } from 'node:net';
import Fastify from 'fastify';
import { Type } from 'typebox';
import { SubmitRequest } from '../../src/model/submit.ts';
import { ANSWER } from '../load/http.ts';

/** Starts the server and returns its port. */
export async function start(): Promise<number> {
  const fastify = Fastify({ bodyLimit: 2 ** 24 });
  const body = Type.Union([SubmitRequest, Type.Array(SubmitRequest)]);
  fastify.post('/v2/tasks', { schema: { body } }, async (request, reply) => {
    if (Array.isArray(request.body))
      return { answers: request.body.map(() => ({ http_status: 202, ...ANSWER })) };
    reply.code(202);
    return ANSWER;
  });
  await fastify.listen({ host: '127.0.0.1', port: 0 });
  return (fastify.server.address() as AddressInfo).port;
}
